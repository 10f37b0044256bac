"""Common functions of the roofline charts: points and roofs in logarithmic axes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from adokernels.charts.canvas import COMPASS, FADED, Canvas, entry, level_size, level_style
from adokernels.measuring.records import steps
from adokernels.tables.numbers import NO_LIMIT, number, percent, prefix, quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.artist import Artist

    from adokernels.charts.labels import Point
    from adokernels.measuring.records import Ceiling, Measurement, Sweep

#: Level name of a point whose bytes are from the formula of the variant, not from counters.
REQUESTED = "requested"
_SMALL = 3.5
#: Ratio of the frame to the range of the points.
_MARGIN = 1.8
#: Ceilings of L1 and shared memory that differ by less than this factor share one line.
_SAME_LINE = 1.03
#: Up to this number of variants, all are shown in colour.
_FEW = 3
#: Distance in typographic points below which the labels of markers keep the markers' order.
_NEAR = 40.0
#: Minimum visible length of a roof, relative to its label; shorter roofs are in the legend.
_ROOM = 0.9
_DECADES_WITH_STEPS = 2.5  # shorter axes also have labels at 2 and 5


@dataclass(frozen=True, kw_only=True)
class Roof:
    """A roof with `value` at intensity 1: proportional to the intensity (slope 1) or constant (0).

    `levels` are the memory levels that the roof limits; empty for a constant roof.
    """

    name: str
    value: float
    slope: int
    unit: str
    colour: str
    theoretical: float | None = None
    levels: tuple[str, ...] = ()
    style: Mapping[str, Any] = field(default_factory=lambda: {"lw": 1.5})

    @property
    def words(self) -> str:
        """The label: name, measured and theoretical value."""
        factor, unit = prefix(self.value, self.unit)
        theory = f" (theory {number(self.theoretical / factor)})" if self.theoretical else ""
        return f"{self.name} {number(self.value / factor)} {unit}{theory}"

    @property
    def values(self) -> list[float]:
        """The measured and the theoretical value, if known."""
        return [v for v in (self.value, self.theoretical) if v]


@dataclass(frozen=True, kw_only=True)
class Track:
    """The points of one measurement: one height, and one intensity per memory level.

    `amount` is the work per call, for example in FLOPs. `compulsory` is the highest possible DRAM
    intensity, if the DRAM bytes were not counted. `own` are roofs only for this measurement, such
    as that of its instruction mix. `extra` are further points with their style. `precision` is the
    precision of the work, if the FLOPs of each precision have their own points.
    """

    m: Measurement
    amount: float
    intensities: Mapping[str, float]
    peer: bool = False
    compulsory: float | None = None
    own: tuple[Roof, ...] = ()
    extra: tuple[tuple[float, float, Mapping[str, Any]], ...] = ()
    precision: str = ""

    @property
    def words(self) -> str:
        """The label: name and time, or name and precision."""
        if self.precision:
            return f"{self.m.shown_as}, {self.precision}"
        return f"{self.m.shown_as}, {quantity(self.m.seconds, 's')}"

    @property
    def height(self) -> float:
        """Work per second."""
        return self.amount / self.m.seconds

    def nearest(self, roofs: Iterable[Roof]) -> tuple[float, Roof] | None:
        """The roof with the largest share reached by this measurement, and that share."""
        shares = []
        for roof in (*roofs, *self.own):
            xs = [x for level, x in self.intensities.items() if level in roof.levels]
            xs += [self.compulsory] if self.compulsory and "DRAM" in roof.levels else []
            if not roof.slope:
                shares.append((self.height / roof.value, roof))
            shares += [(self.height / (x * roof.value), roof) for x in xs]
        return max(shares, key=lambda pair: pair[0], default=None)


@dataclass(frozen=True, kw_only=True)
class Wall:
    """A vertical line with its label."""

    x: float
    words: str


def bandwidth_roofs(ceilings: Sequence[Ceiling], per: float, unit: str) -> list[Roof]:
    """Make the roofs of the memory levels, for traffic in units of `per` bytes.

    L1 and shared memory have the same data path. If their ceilings agree, they share one roof.
    """
    ours = {c.level: c for c in ceilings}
    first, second = ours.get("L1"), ours.get("shared")
    joined: dict[str, tuple[str, ...]] = {}
    if first and second:
        high, low = (f(first.measured, second.measured) for f in (max, min))
        if high < _SAME_LINE * low:
            # Use the higher ceiling, so that no point is above its roof.
            ours["L1"] = max(first, second, key=lambda c: c.measured)
            del ours["shared"]
            joined["L1"] = ("L1", "shared")
    return [
        Roof(
            name=f"{'/'.join(joined.get(level, (level,)))} {c.operation}",
            value=c.measured / per,
            theoretical=c.theoretical / per if c.theoretical else None,
            slope=1,
            unit=unit,
            colour=level_style(level)[0],
            levels=joined.get(level, (level,)),
        )
        for level, c in ours.items()
    ]


def to_highlight(sweep: Sweep, names: Iterable[str] | None) -> set[str]:
    """Select the variants in colour; by default the first, the fastest and the largest step.

    Raises
    ------
    ValueError
        If a name was not measured.
    """
    everything = [m.variant for m in (*sweep, *sweep.peers)]
    if names is not None:
        asked = {names} if isinstance(names, str) else set(names)
        if unknown := asked - set(everything):
            raise ValueError(
                f"highlight must name measured variants ({', '.join(everything)}),"
                f" got {', '.join(sorted(unknown))}"
            )
        return asked
    variants = sweep.variants
    if len(variants) <= _FEW:
        return {m.variant for m in variants}
    gains = {m: before.seconds / m.seconds for m, before in steps(variants).items()}
    largest = max(gains, key=lambda m: gains[m], default=variants[0])
    return {variants[0].variant, sweep.fastest.variant, largest.variant}


def draw_frame(
    canvas: Canvas,
    tracks: Sequence[Track],
    roofs: Sequence[Roof],
    *,
    walls: Sequence[Wall] = (),
    full: Sequence[Roof] = (),
    more: Sequence[Point] = (),
) -> None:
    """Set the logarithmic limits: around points and roofs, or whole decades for the machine.

    `more` are further points that must be within the limits.
    `full` contains all roofs of the machine, or is empty. If it is given, the limits depend only on
    these roofs, unless points are outside. All charts of a machine then have the same axes.
    """
    places = [(x, t.height) for t in tracks for x in t.intensities.values()]
    places += [(x, y) for t in tracks for x, y, _ in t.extra]
    places += more
    points = np.log10(places).reshape(-1, 2)
    speeds = [v for r in full or roofs if r.slope for v in r.values]
    peaks = [v for r in full or roofs if not r.slope for v in r.values]
    if full or not places:
        left = math.floor(math.log10(min(peaks) / max(speeds))) - 1
        right = math.ceil(math.log10(max(peaks) / min(speeds))) + 1
        bottom = math.floor(left + math.log10(min(speeds)))
        top = math.ceil(math.log10(max(peaks)) + 0.15)  # space for the label of the highest roof
        low = np.floor(np.vstack([points, [[left, bottom]]]).min(axis=0))
        high = np.ceil(np.vstack([points, [[right, top]]]).max(axis=0))
    else:
        margin = math.log10(_MARGIN)
        low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
        if walls:
            ends = np.log10([wall.x for wall in walls])
            low[0], high[0] = min(low[0], ends.min() - 0.15), max(high[0], ends.max() + 0.15)
        attainable = [
            min(_roof_at(x, level, speeds, roofs), max(peaks))
            for t in tracks
            for level, x in t.intensities.items()
        ]
        attainable += [y for _, y in more]
        # Space for a label above the highest roof.
        room = 1 + 2.5 * canvas.font / canvas.height
        high[1] = max(high[1], low[1] + room * (math.log10(max(attainable)) - low[1]))
        middle, half = (low + high) / 2, np.maximum((high - low) / 2, 0.5)  # at least one decade
        low, high = middle - half, middle + half
    ax = canvas.ax
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(10.0 ** low[0], 10.0 ** high[0])
    ax.set_ylim(10.0 ** low[1], 10.0 ** high[1])
    for axis, length in zip((ax.xaxis, ax.yaxis), high - low, strict=True):
        axis.set_minor_formatter(NullFormatter())
        if length < _DECADES_WITH_STEPS:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.yaxis.set_major_formatter(EngFormatter(sep=" "))
    ax.tick_params(labelsize=canvas.font)


def _roof_at(x: float, level: str, speeds: Sequence[float], roofs: Sequence[Roof]) -> float:
    return x * max((r.value for r in roofs if level in r.levels), default=max(speeds))


def draw_roofs(canvas: Canvas, roofs: Sequence[Roof]) -> list[Roof]:
    """Draw the roofs and the ridge points at which they meet.

    Returns
    -------
    list of Roof
        The roofs with enough visible length for a label.
    """
    left, right = canvas.ax.get_xlim()
    bottom, top = canvas.ax.get_ylim()
    peak = max(v for r in roofs if not r.slope for v in r.values)
    fastest = max(v for r in roofs if r.slope for v in r.values)
    visible = []
    for roof in roofs:
        seen = False
        for value, dashed in zip(roof.values, (False, True), strict=False):
            style = {**roof.style, **({"lw": 0.9, "ls": "--"} if dashed else {})}
            if roof.slope:
                start, end = max(left, bottom / value), min(right, top / value, peak / value)
            else:
                start, end = max(left, value / fastest), right
            if start < end and (roof.slope or bottom < value < top):
                ys = [value * x**roof.slope for x in (start, end)]
                canvas.line([start, end], ys, color=roof.colour, **style)
                seen = seen or (not dashed and _length(canvas, start, end, roof) > _ROOM)
        if seen:
            visible.append(roof)
    flat = max(r.value for r in roofs if not r.slope)
    for roof in roofs:
        # Labels avoid the lines, so they need not avoid these markers.
        x = flat / roof.value
        if roof.slope and left < x < right and bottom < flat < top:
            style = {"marker": "o", "ms": 3.5, "color": roof.colour, "mec": canvas.ink, "mew": 0.5}
            canvas.ax.plot([x], [flat], zorder=4, **style)
    return visible


def _length(canvas: Canvas, start: float, end: float, roof: Roof) -> float:
    """Length of a roof on the chart, relative to that of its label."""
    limits = np.log10([canvas.ax.get_xlim(), canvas.ax.get_ylim()])
    run = math.log10(end / start) / np.diff(limits)[:, 0] * (1, roof.slope)
    length = float(np.hypot(*(run * (canvas.width, canvas.height))))
    return length / (0.56 * canvas.font * len(roof.words))


def draw_tracks(canvas: Canvas, tracks: Sequence[Track], highlight: set[str]) -> None:
    """Draw the points: highlighted ones in colour and connected, the others small and grey."""
    ordered = sorted(tracks, key=lambda t: t.m.variant in highlight)
    for t in ordered:
        chosen = t.m.variant in highlight or t.peer
        xs = list(t.intensities.values())
        if chosen and len(xs) > 1:
            canvas.line([min(xs), max(xs)], [t.height] * 2, lw=1.0, zorder=3)
        if chosen:
            low, high = (t.amount / s for s in reversed(t.m.interval))
            canvas.error_bar(max(xs), t.height, yerr=[[t.height - low], [high - t.height]])
        for level, x in sorted(t.intensities.items(), key=lambda item: -level_size(item[0])):
            colour, marker = level_style(level)
            size = level_size(level)
            style: dict[str, Any] = {"marker": marker, "color": colour, "mec": canvas.paper}
            if level == REQUESTED:
                style = {"marker": "P" if t.peer else "o", "mfc": canvas.paper, "mew": 1.2}
                style["mec"] = FADED if t.m.ceiling else canvas.ink
            if not chosen:
                grey: dict[str, Any] = {"mfc": FADED, "mec": canvas.paper, "mew": 0.3, "alpha": 0.6}
                grey |= {"marker": style["marker"], "ms": _SMALL, "gid": canvas.gid(t.m)}
                canvas.ax.plot([x], [t.height], zorder=2.5, **grey)
                continue
            canvas.mark(x, t.height, gid=canvas.gid(t.m), **{"mew": 0.5, "ms": size, **style})
        for x, y, shape in t.extra if chosen else ():
            canvas.mark(x, y, gid=canvas.gid(t.m), mec=canvas.ink, mfc=canvas.paper, **shape)


def name_tracks(canvas: Canvas, tracks: Sequence[Track], highlight: set[str]) -> None:
    """Label the highlighted measurements with name and time."""
    chosen = [t for t in tracks if t.m.variant in highlight or t.peer]
    ends = np.log10([(max(t.intensities.values()), t.height) for t in chosen]).reshape(-1, 2)
    limits = np.log10([canvas.ax.get_xlim(), canvas.ax.get_ylim()])
    spots = ends / np.diff(limits)[:, 0] * (canvas.width, canvas.height)
    for t, spot in zip(chosen, spots, strict=True):
        # Labels of adjacent points are in the order of the points.
        close = spots[(np.abs(spots - spot) < _NEAR).all(axis=1)]
        lowest, highest = spot[1] <= close[:, 1].min(), spot[1] >= close[:, 1].max()
        compass = [
            (east, north)
            for east, north in COMPASS
            if (north >= 0 or lowest) and (north <= 0 or highest)
        ]
        place = (max(t.intensities.values()), t.height)
        weight = "normal" if t.peer else "bold"
        style = {"fontweight": weight, "gid": canvas.gid(t.m)}
        canvas.callout(t.words, place, (8, 14, 22, 32, 45), compass, **style)
    for t in tracks:
        if t.m.variant in highlight:
            # Points at the same position share one label.
            for x, y in dict.fromkeys((round(x, 6), y) for x, y, _ in t.extra):
                canvas.callout(t.m.variant, (x, y), (7, 12, 20, 30), color=FADED)


def label_roofs(canvas: Canvas, roofs: Sequence[Roof]) -> None:
    """Label the roofs: along diagonal lines, and at the right end of horizontal lines."""
    left, right = np.log10(canvas.ax.get_xlim())
    bottom, top = np.log10(canvas.ax.get_ylim())
    peak = math.log10(max((r.value for r in roofs if not r.slope), default=10.0**top))
    for roof in sorted(roofs, key=lambda r: -r.slope):
        height = math.log10(roof.value)
        if roof.slope:
            start, end = max(left, bottom - height), min(right, top - height, peak - height)
            spots = [start + share * (end - start) for share in np.linspace(0.5, 0.12, 6)]
            spots += [start + share * (end - start) for share in np.linspace(0.58, 0.88, 5)]
        else:
            spots = [right - s * (right - left) for s in (0.01, *np.arange(0.08, 0.95, 0.04))]
        _along(canvas, roof, spots)


def _along(canvas: Canvas, roof: Roof, spots: Sequence[float]) -> None:
    """Label a roof above or below its line, rotated to its slope, at one of `spots` in decades."""
    decades = (
        canvas.ax.transLimits + canvas.ax.transAxes
    )  # roofs are straight lines in these coordinates
    values = np.log10(roof.values)
    style = {"ha": "center" if roof.slope else "right", "color": roof.colour}
    text = canvas.text(roof.words, rotation_mode="anchor", **style)

    def put(x: float, va: str, value: float, rise: float) -> None:
        # The angle in pixels depends on the current size of the chart.
        start, end = decades.transform([(0, 0), (1, roof.slope)])
        angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
        transform = decades + canvas.shift(0, rise)
        position = (x, roof.slope * x + value)
        text.set(position=position, va=va, transform=transform, rotation=angle)

    places = [
        partial(put, x, va, value, rise)
        for x in spots
        for va, value, rise in (("bottom", values.max(), 1.5), ("top", values.min(), -1.5))
    ]
    canvas.labels.add(text, places)


def draw_walls(canvas: Canvas, walls: Sequence[Wall]) -> None:
    """Draw vertical lines with labels at their lower ends."""
    bottom, top = canvas.ax.get_ylim()
    left, right = canvas.ax.get_xlim()
    shifts = {"right": canvas.shift(-2), "left": canvas.shift(2)}
    for wall in walls:
        if not left < wall.x < right:
            continue
        canvas.line([wall.x, wall.x], [bottom, top], ls=":", color=FADED)
        places = [
            {
                "y": bottom * (top / bottom) ** up,
                "ha": ha,
                "transform": canvas.ax.transData + shift,
            }
            for up in (0.02, 0.1, 0.2, 0.3, 0.4, 0.5)
            for ha, shift in shifts.items()
        ]
        style: dict[str, Any] = {"va": "bottom", "rotation": 90, "color": FADED}
        if canvas.annotate:
            canvas.label(wall.words, places, x=wall.x, **style)


def chosen_levels(tracks: Sequence[Track], highlight: set[str]) -> set[str]:
    """The memory levels of the points in colour."""
    chosen = (t for t in tracks if t.m.variant in highlight or t.peer)
    return {level for t in chosen for level in t.intensities} - {REQUESTED}


def common_key(
    canvas: Canvas, roofs: Sequence[Roof], visible: Sequence[Roof], others: int
) -> list[Artist]:
    """Make the legend entries for lines, grey points, and roofs outside the frame."""
    key: list[Artist] = [entry("measured ceiling", color=canvas.ink, ls="-", lw=1.3)]
    if any(r.theoretical for r in visible):
        key.append(entry("theoretical", color=canvas.ink, ls="--", lw=0.9))
    if others:
        words = f"{others} other variant{'s' if others > 1 else ''}"
        key.append(entry(words, marker="o", color=FADED, ms=_SMALL))
    if hidden := [r for r in roofs if r not in visible]:
        key.append(entry("off scale or at the edge: " + ", ".join(r.words for r in hidden)))
    return key


def mark_wrong(canvas: Canvas, tracks: Sequence[Track], wrong: Sequence[Measurement]) -> None:
    """Mark the measurements above a roof, at their rightmost points."""
    canvas.badge([(t.m, (max(t.intensities.values()), t.height)) for t in tracks if t.m in wrong])


def finding(tracks: Sequence[Track], roofs: Sequence[Roof], sweep: Sweep) -> str:
    """Format the nearest roof of the first and of the fastest variant, with its share."""
    by = {t.m: t for t in tracks}
    fastest = [sweep.fastest] if sweep.variants else []
    shown = dict.fromkeys(m for m in (*sweep.variants[:1], *fastest) if m in by)
    parts = []
    for m in shown:
        if near := by[m].nearest(roofs):
            share, roof = near
            words = (
                f"{percent(share)} of {roof.name}" if share <= NO_LIMIT else f"above {roof.name}"
            )
            parts.append(f"{m.variant}: {words}")
    return "; ".join(parts)


def slower(roof: Roof, share: float, name: str) -> Roof:
    """Make a roof at a fraction of the height of another roof."""
    return dataclasses.replace(
        roof, name=name, value=share * roof.value, theoretical=None, style={"lw": 1.0, "ls": ":"}
    )
