"""Published points of a roofline: a layer with the ceilings of their machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.artist import Artist

from adokernels.charts.bandwidth import level_bandwidths
from adokernels.charts.canvas import FADED, Canvas, entry, level_size, level_style
from adokernels.charts.labels import Point
from adokernels.charts.roofs import Roof, bandwidth_roofs
from adokernels.records.machine import Machine
from adokernels.text import quantity

_LINE: Mapping[str, Any] = {"lw": 1.0, "ls": "-."}


@dataclass(frozen=True, kw_only=True)
class PublishedPoint:
    """The performance of a code, and its FLOPs per byte at memory levels; either may be unknown.

    Attributes
    ----------
    label
        The name in the chart.
    flops_per_second
        The performance; None if it was not published.
    intensities
        FLOPs per byte by memory level, for example ``{"DRAM": 7.4}``.
    """

    label: str
    flops_per_second: float | None = None
    intensities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PublishedPoints:
    """Points that were published for one machine, and the ceilings of this machine."""

    machine: Machine
    points: tuple[PublishedPoint, ...]


@dataclass(frozen=True, kw_only=True)
class PublishedLayer:
    """The points and roofs of :class:`PublishedPoints` that a chart shows.

    Attributes
    ----------
    name
        The machine.
    points
        Points with at least one known coordinate.
    roofs
        The ceilings of the machine; empty if the chart already shows them.
    reach
        The roofs up to which the lines of points with one known coordinate extend.
    """

    name: str
    points: tuple[PublishedPoint, ...]
    roofs: tuple[Roof, ...]
    reach: tuple[Roof, ...]

    @property
    def places(self) -> list[Point]:
        """Positions that the frame must contain: points, and one end of each line."""
        found = []
        for point in self.points:
            y = point.flops_per_second
            found += [(x, y or self._roof_at(x)) for x in point.intensities.values()]
            if y and not point.intensities:
                found.append((self._start_of(y), y))
        return found

    @property
    def words(self) -> str:
        """The ceilings, for the title of the chart."""
        named = ", ".join(roof.words for roof in self.roofs)
        return f"published points of {self.name}" + (f" ({named})" if named else "")

    def draw(self, canvas: Canvas) -> None:
        """Draw the roofs, the points, and a line for each point with one known coordinate."""
        left, right = canvas.ax.get_xlim()
        bottom, top = canvas.ax.get_ylim()
        peak = max((r.value for r in self.roofs if not r.slope), default=top)
        fastest = max((r.value for r in self.roofs if r.slope), default=1.0)
        for roof in self.roofs:
            start = max(left, bottom / roof.value if roof.slope else roof.value / fastest)
            end = min(right, peak / roof.value) if roof.slope else right
            ys = [roof.value * x**roof.slope for x in (start, end)]
            canvas.line([start, end], ys, color=roof.colour, **_LINE)
        for point in self.points:
            self._draw_point(canvas, point, bottom, right)

    def _draw_point(
        self, canvas: Canvas, point: PublishedPoint, bottom: float, right: float
    ) -> None:
        y, xs = point.flops_per_second, point.intensities
        style: dict[str, Any] = {"color": FADED, "lw": 0.9, "ls": "--"}
        if y is None:
            for x in xs.values():
                canvas.line([x, x], [bottom, self._roof_at(x)], **style)
            return
        if not xs:
            canvas.line([self._start_of(y), right], [y, y], **style)
            return
        canvas.line([min(xs.values()), max(xs.values())], [y, y], lw=0.8, color=FADED)
        for level, x in sorted(xs.items(), key=lambda item: -level_size(item[0])):
            colour, _ = level_style(level)
            canvas.mark(x, y, marker="D", ms=6.0, mfc=canvas.paper, mec=colour, mew=1.2)

    def label(self, canvas: Canvas) -> None:
        """Label the points, and the lines at their ends."""
        bottom, right = canvas.ax.get_ylim()[0], canvas.ax.get_xlim()[1]
        for point in self.points:
            y, xs = point.flops_per_second, point.intensities
            if y is None:
                for x in xs.values():
                    top = self._roof_at(x)
                    places = [
                        {
                            "position": (x, bottom * (top / bottom) ** up),
                            "ha": ha,
                            "transform": canvas.ax.transData + canvas.shift(away),
                        }
                        for up in (0.03, 0.12, 0.25, 0.4, 0.6)
                        for ha, away in (("right", -2), ("left", 2))
                    ]
                    style: dict[str, Any] = {"va": "bottom", "color": FADED, "bbox": None}
                    canvas.label(point.label, places, rotation=90, **style)
            elif not xs:
                start = self._start_of(y)
                places = [
                    {"position": (right * (start / right) ** back, y), "va": va}
                    for back in (0.01, 0.2, 0.4, 0.6)
                    for va in ("bottom", "top")
                ]
                words = f"{point.label}: {quantity(y, 'FLOP/s')}"
                canvas.label(words, places, ha="right", color=FADED, bbox=None)
            else:
                words = f"{point.label}, {quantity(y, 'FLOP/s')}"
                canvas.callout(words, (max(xs.values()), y), (8, 14, 22, 32, 45))

    def key(self, canvas: Canvas) -> list[Artist]:
        """Make the legend entries."""
        hollow = {"mfc": canvas.paper, "mec": canvas.ink, "marker": "D"}
        entries: list[Artist] = [entry(f"published, {self.name}", **hollow)]
        if self.roofs:
            entries.append(entry(f"ceilings of {self.name}", color=canvas.ink, **_LINE))
        if any(p.flops_per_second is None or not p.intensities for p in self.points):
            words = "published, one coordinate only"
            entries.append(entry(words, color=FADED, ls="--", lw=0.9))
        return entries

    def _roof_at(self, x: float) -> float:
        return min(r.value * x**r.slope for r in self.reach)

    def _start_of(self, y: float) -> float:
        return y / min(r.value for r in self.reach if r.slope)


def published_layer(
    published: PublishedPoints,
    shown: Sequence[Machine],
    levels: Collection[str],
    precisions: Iterable[str],
) -> PublishedLayer:
    """Make the layer of a chart: points of these memory levels, and the ceilings for them.

    Parameters
    ----------
    published
        The points with their machine.
    shown
        The machines whose ceilings the chart shows. If the points belong to one of them, the layer
        has no roofs.
    levels
        The memory levels that the chart shows.
    precisions
        The precisions whose FMA ceilings the chart shows; all of them if empty.
    """
    machine, wanted = published.machine, set(precisions)
    roofs = [
        r
        for r in bandwidth_roofs(level_bandwidths(machine), 1.0, "B/s")
        if any(level in levels for level in r.levels)
    ]
    for c in machine.of_kind("compute"):
        if c.operation == "fma" and (c.level in wanted or not wanted):
            name = f"{c.level} FMA"
            colour = FADED
            roofs.append(Roof(name=name, value=c.measured, slope=0, unit="FLOP/s", colour=colour))
    points = [
        dataclasses.replace(
            p, intensities={level: x for level, x in p.intensities.items() if level in levels}
        )
        for p in published.points
    ]
    return PublishedLayer(
        name=machine.name,
        points=tuple(p for p in points if p.intensities or p.flops_per_second),
        roofs=() if any(machine is m for m in shown) else tuple(roofs),
        reach=tuple(roofs),
    )


def points_of(layer: PublishedLayer | None) -> Sequence[Point]:
    """The positions of a layer, if there is one."""
    return layer.places if layer else ()
