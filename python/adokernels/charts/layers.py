"""Roofs and points of a roofline: one layer per machine, one track of points per measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.text import Text

from adokernels.charts.canvas import (
    CHARACTER,
    COMPASS,
    FADED,
    Canvas,
    Point,
    entry,
    largest_first,
    level_entries,
    level_style,
)
from adokernels.charts.series import Host, Series
from adokernels.records.machine import Ceiling
from adokernels.records.measurement import Measurement
from adokernels.text import NO_LIMIT, number, prefix, quantity

#: Ceilings of L1 and shared memory that differ by less than this factor share one line.
_SAME_LINE = 1.03
#: Minimum visible length of a roof, relative to its label; shorter roofs are in the legend.
_ROOM = 0.9
#: Positions of the label of a roof, the preferred one first: fractions of its visible length if it
#: is a diagonal, fractions of the width from the right if it is horizontal.
_ALONG_DIAGONAL = (*np.linspace(0.5, 0.12, 6), *np.linspace(0.58, 0.88, 5))
_FROM_RIGHT = (0.01, *np.arange(0.08, 0.95, 0.04))
#: Level name of a point whose bytes come from the formula of the variant, not from counters.
REQUESTED = "requested"
#: Size of the markers of variants without a label, in points.
_SMALL = 3.5
#: Distance in typographic points below which labels have the vertical order of their markers.
_NEAR = 40.0


@dataclass(frozen=True)
class Roof:
    """A roof with `value` at intensity 1, proportional to it (slope 1) or constant (slope 0)."""

    name: str
    value: float
    unit: str
    colour: str
    slope: int = 0
    theoretical: float | None = None
    levels: tuple[str, ...] = ()  # the memory levels that it limits; none if it is constant
    host: str = ""  # the name of its machine, if the chart has several
    tensor: bool = False  # the limit of tensor cores, not of ordinary instructions
    style: Mapping[str, Any] = field(default_factory=lambda: {"lw": 1.5})

    @property
    def words(self) -> str:
        """The label: name, measured and theoretical value."""
        factor, unit = prefix(self.value, self.unit)
        theory = f" (theory {number(self.theoretical / factor)})" if self.theoretical else ""
        name = f"{self.host} {self.name}" if self.host else self.name
        return f"{name} {number(self.value / factor)} {unit}{theory}"

    @property
    def values(self) -> list[float]:
        """The measured and the theoretical value, if known."""
        return [v for v in (self.value, self.theoretical) if v]


def roof_of(c: Ceiling, name: str, unit: str, colour: str, per: float = 1.0, **more: Any) -> Roof:
    """Make the roof of a ceiling, by default a constant one, for work in units of `per` bytes."""
    theoretical = c.theoretical / per if c.theoretical else None
    return Roof(name, c.measured / per, unit, colour, theoretical=theoretical, **more)


def bandwidth_roofs(ceilings: Sequence[Ceiling], unit: str, per: float = 1.0) -> list[Roof]:
    """Make the roofs of the memory levels, for traffic in units of `per` bytes.

    L1 and shared memory have the same data path. If their ceilings agree, they share one roof.
    """
    ours = {c.level: c for c in ceilings}
    levels: dict[str, tuple[str, ...]] = {level: (level,) for level in ours}
    both = sorted((ours[n] for n in ("L1", "shared") if n in ours), key=lambda c: c.measured)
    if len(both) == 2 and both[1].measured < _SAME_LINE * both[0].measured:
        # Use the higher ceiling, so that no point is above its roof.
        ours["L1"], levels["L1"] = both[1], ("L1", "shared")
        del ours["shared"]
    roofs = []
    for level, c in ours.items():
        name, colour = f"{'/'.join(levels[level])} {c.operation}", level_style(level)[0]
        roofs.append(roof_of(c, name, unit, colour, per, slope=1, levels=levels[level]))
    return roofs


@dataclass(frozen=True, kw_only=True)
class Track:
    """The points of one measurement: one height, and one intensity per memory level."""

    m: Measurement
    series: Series
    amount: float  # work per call, for example in FLOPs
    intensities: Mapping[str, float]
    compulsory: float | None = None  # highest possible DRAM intensity, if bytes were not counted
    own: tuple[Roof, ...] = ()  # roofs only for this measurement: of its mix
    extra: tuple[tuple[float, float, Mapping[str, Any]], ...] = ()  # further points with style

    @property
    def words(self) -> str:
        """The label: name and time."""
        sweep = f"{self.series.name}: " if self.series.name else ""
        return f"{sweep}{self.m.shown_as}, {quantity(self.m.seconds, 's')}"

    @property
    def peer(self) -> bool:
        """Whether this is a measurement of code of another library."""
        return self.m in self.series.sweep.peers

    @property
    def highlighted(self) -> bool:
        """Whether this is a variant in colour."""
        return self.m.variant in self.series.highlight

    @property
    def chosen(self) -> bool:
        """Whether the points are large and have a label."""
        return self.highlighted or self.peer

    @property
    def height(self) -> float:
        """Work per second."""
        return self.amount / self.m.seconds

    @property
    def last(self) -> Point:
        """The rightmost point."""
        return max(self.intensities.values()), self.height

    def nearest(self, roofs: Iterable[Roof]) -> tuple[float, Roof] | None:
        """The nearest roof: the largest share that this measurement reaches, and its roof.

        Code that exceeds the roof of ordinary instructions is compared with tensor cores. Code is
        compared with the flat roofs of other precisions only if its own precision has none.
        """
        shares = []
        compared = (*roofs, *self.own)
        has_tensor = any(roof.tensor for roof in compared)
        flat = {roof.name.split()[0] for roof in compared if not roof.slope and not roof.tensor}
        precision = self.m.problem.precision
        for roof in compared:
            if precision in flat and roof.name.split()[0] in flat - {precision}:
                continue
            exceeded = not roof.slope and self.height > NO_LIMIT * roof.value
            if has_tensor and exceeded and not roof.tensor:
                continue
            xs = [x for level, x in self.intensities.items() if level in roof.levels]
            xs += [self.compulsory] if self.compulsory and "DRAM" in roof.levels else []
            if not roof.slope:
                shares.append((self.height / roof.value, roof))
            shares += [(self.height / (x * roof.value), roof) for x in xs]
        return max(shares, key=lambda pair: pair[0], default=None)


@dataclass(frozen=True)
class Layer:
    """The roofs of a machine, and the points below them."""

    host: Host
    roofs: Sequence[Roof]  # drawn
    limits: Sequence[Roof]  # compared with the points
    tracks: Sequence[Track]


def draw_roofs(canvas: Canvas, roofs: Sequence[Roof]) -> list[Roof]:
    """Draw the roofs and their ridge points; return the roofs with space for a label."""
    (left, right), (bottom, top) = canvas.ax.get_xlim(), canvas.ax.get_ylim()
    decades = np.log10([right / left, top / bottom])
    peak = max((v for r in roofs if not r.slope for v in r.values), default=top)
    fastest = max((v for r in roofs if r.slope for v in r.values), default=1.0)
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
                run = math.log10(end / start) / decades * (1, roof.slope)
                length = float(np.hypot(*(run * (canvas.width, canvas.height))))
                label = CHARACTER * canvas.font * len(roof.words)
                seen = seen or (not dashed and length > _ROOM * label)
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


def label_roofs(canvas: Canvas, roofs: Sequence[Roof]) -> None:
    """Label the roofs above or below their lines: diagonal ones first, rotated to their slope."""
    left, right = np.log10(canvas.ax.get_xlim())
    bottom, top = np.log10(canvas.ax.get_ylim())
    peak = math.log10(max((r.value for r in roofs if not r.slope), default=10.0**top))
    # Roofs are straight lines in these coordinates, whose units are decades.
    decades = canvas.ax.transLimits + canvas.ax.transAxes
    for roof in sorted(roofs, key=lambda r: -r.slope):
        values = np.log10(roof.values)
        v = values[0]
        if roof.slope:
            start, end = np.array([max(left, bottom - v), min(right, top - v, peak - v)])
            xs = [start + share * (end - start) for share in _ALONG_DIAGONAL]
        else:
            xs = [right - share * (right - left) for share in _FROM_RIGHT]
        places = [
            {
                "position": (x, roof.slope * x + value),
                "va": va,
                "transform": decades + canvas.shift(0, rise),
            }
            for x in xs
            for va, value, rise in (("bottom", values.max(), 1.5), ("top", values.min(), -1.5))
        ]
        style = {"ha": "center" if roof.slope else "right", "color": roof.colour}
        text = canvas.text(roof.words, rotation_mode="anchor", **style)

        def follow(text: Text = text, slope: int = roof.slope) -> None:
            """Rotate the label to the slope; the angle depends on the current size of the chart."""
            start, end = decades.transform([(0, 0), (1, slope)])
            text.set_rotation(math.degrees(math.atan2(end[1] - start[1], end[0] - start[0])))

        canvas.labels.add(text, places, fit=follow)


def draw_tracks(canvas: Canvas, tracks: Sequence[Track]) -> None:
    """Draw the points: highlighted ones in colour and connected, the others small."""
    for t in sorted(tracks, key=lambda t: t.highlighted):
        requested = "P" if t.peer else "o"
        gid, colour, xs = canvas.gid, t.series.colour, list(t.intensities.values())
        if not t.chosen:
            for level, x in largest_first(t.intensities):
                marker = requested if level == REQUESTED else level_style(level)[1]
                style: dict[str, Any] = {"mec": canvas.paper, "mew": 0.3, "ms": _SMALL}
                style |= {"mfc": colour or FADED, "marker": marker, "alpha": 0.6}
                canvas.ax.plot([x], [t.height], zorder=2.5, gid=gid(t.m), **style)
            continue
        if len(xs) > 1:
            style = {"color": colour} if colour else {}
            canvas.line([min(xs), max(xs)], [t.height] * 2, lw=1.0, zorder=3, **style)
        canvas.error_bar(*t.last, ends=(t.amount / s for s in reversed(t.m.interval)), along="y")
        for level, x in largest_first(t.intensities):
            style = {"gid": gid(t.m)}
            if level == REQUESTED:
                ink = FADED if t.m.ceiling else colour or canvas.ink
                style |= {"marker": requested, "mfc": canvas.paper, "mec": ink, "mew": 1.2}
            elif colour:
                style["color"] = colour
            canvas.mark_level(x, t.height, level, **style)
        for x, y, own in t.extra:
            ink = colour or canvas.ink
            canvas.mark(x, y, gid=gid(t.m), mec=ink, mfc=canvas.paper, **own)


def name_tracks(canvas: Canvas, tracks: Sequence[Track]) -> None:
    """Label the highlighted measurements with name and time."""
    chosen = [t for t in tracks if t.chosen]
    ends = np.log10([t.last for t in chosen]).reshape(-1, 2)
    limits = np.log10([canvas.ax.get_xlim(), canvas.ax.get_ylim()])
    spots = ends / np.diff(limits)[:, 0] * (canvas.width, canvas.height)
    for t, spot in zip(chosen, spots, strict=True):
        # Labels of adjacent points have the vertical order of the points.
        close = spots[(np.abs(spots - spot) < _NEAR).all(axis=1)]
        lowest, highest = spot[1] <= close[:, 1].min(), spot[1] >= close[:, 1].max()
        compass = [way for way in COMPASS if (way[1] >= 0 or lowest) and (way[1] <= 0 or highest)]
        style = {"fontweight": "normal" if t.peer else "bold", "gid": canvas.gid(t.m)}
        style |= {"color": t.series.colour} if t.series.colour else {}
        canvas.callout(t.words, t.last, (8, 14, 22, 32, 45), compass, **style)
    for t in tracks:
        if t.highlighted:
            # Points at the same position share one label.
            for x, y in dict.fromkeys((round(x, 6), y) for x, y, _ in t.extra):
                canvas.callout(t.m.variant, (x, y), (7, 12, 20, 30), color=FADED)


def track_entries(
    series: Sequence[Series], tracks: Sequence[Track], words: str
) -> list[Artist | str]:
    """Make the legend entries of the sweeps, of the small points, and `words` per memory level."""
    levels = {level for t in tracks if t.chosen for level in t.intensities} - {REQUESTED}
    several = any(s.colour for s in series)
    key: list[Artist | str] = []
    key += [entry(s.name, marker="o", ms=6, color=s.colour) for s in series if s.colour]
    key += [f"{s.name}: {s.details}" for s in series if s.name]
    key += level_entries(levels, words, colour=FADED if several else None)
    if small := len({t.m for t in tracks if not t.chosen}):
        words = f"{small} other variant{'s' if small > 1 else ''}"
        key.append(entry(words, marker="o", color=FADED, ms=_SMALL))
    return key
