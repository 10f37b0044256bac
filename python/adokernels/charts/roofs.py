"""The roofs of a roofline chart, and its logarithmic axes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from adokernels.charts.canvas import FADED, Canvas, entry, level_style
from adokernels.text import number, prefix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.artist import Artist

    from adokernels.charts.labels import Point
    from adokernels.charts.series import Host, Series
    from adokernels.charts.tracks import Below, Track
    from adokernels.records.machine import Ceiling

#: Size of the markers of variants without a label, in points.
SMALL = 3.5
#: Ratio of the frame to the range of the points.
_MARGIN = 1.8
#: Ceilings of L1 and shared memory that differ by less than this factor share one line.
_SAME_LINE = 1.03
#: Minimum visible length of a roof, relative to its label; shorter roofs are in the legend.
_ROOM = 0.9
_DECADES_WITH_STEPS = 2.5  # shorter axes also have labels at 2 and 5


@dataclass(frozen=True, kw_only=True)
class Roof:
    """A roof with `value` at intensity 1: proportional to the intensity (slope 1) or constant (0).

    `levels` are the memory levels that the roof limits; empty for a constant roof. `host` is the
    name of its machine, if the chart has several.
    """

    name: str
    value: float
    slope: int
    unit: str
    colour: str
    theoretical: float | None = None
    levels: tuple[str, ...] = ()
    host: str = ""
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


def roof_entries(canvas: Canvas, layers: Sequence[Below], visible: Sequence[Roof]) -> list[Artist]:
    """Make the legend entries of the roofs, and a note of those outside the frame."""
    roofs = [r for below in layers for r in below.roofs]
    hosts = [below.host for below in layers if not below.host.alone]
    key: list[Artist] = [
        entry(f"ceilings of {host.machine.title}", color=canvas.ink, ls=host.line, lw=1.3)
        for host in hosts
    ]
    if not hosts:
        key.append(entry("measured ceiling", color=canvas.ink, ls="-", lw=1.3))
    if any(r.theoretical for r in visible):
        key.append(entry("theoretical", color=canvas.ink, ls="--", lw=0.9))
    if hidden := [r for r in roofs if r not in visible]:
        key.append(entry("off scale or at the edge: " + ", ".join(r.words for r in hidden)))
    return key


def roofs_of(
    canvas: Canvas, roofs: Sequence[Roof], host: Host, series: Sequence[Series]
) -> list[Roof]:
    """Adapt roofs to a chart of several sweeps, whose points do not have the colours of the roofs.

    Each roof has the line style of its machine. Theoretical roofs are omitted.
    """
    if len(series) == 1:
        return list(roofs)
    return [
        dataclasses.replace(
            r,
            colour=canvas.ink,
            host=host.name,
            theoretical=None,
            style={**r.style, "ls": host.line},
        )
        for r in roofs
    ]


def slower(roof: Roof, share: float, name: str) -> Roof:
    """Make a roof at a fraction of the height of another roof."""
    return dataclasses.replace(
        roof, name=name, value=share * roof.value, theoretical=None, style={"lw": 1.0, "ls": ":"}
    )
