"""Points of a roofline that were published or stated: a layer with the ceilings of a machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from matplotlib.artist import Artist

from adokernels import _core
from adokernels.charts.bandwidth import level_bandwidths
from adokernels.charts.canvas import FADED, Canvas, Point, entry, largest_first, level_style
from adokernels.charts.layers import Layer, Roof, Track, bandwidth_roofs, draw_roofs
from adokernels.measuring.sampling import require_finite
from adokernels.records.machine import LEVELS, Ceiling, Machine
from adokernels.text import quantity, require

#: Lines of the roofs, and of points with one known coordinate.
_LINE: Mapping[str, Any] = {"lw": 1.0, "ls": "-."}
_PARTIAL: Mapping[str, Any] = {"lw": 0.9, "ls": "--", "color": FADED}


@dataclass(frozen=True, kw_only=True)
class PublishedPoint:
    """The performance of a code, and its FLOPs per byte at memory levels; either may be unknown.

    Attributes
    ----------
    label
        The name in the chart.
    flops_per_second
        The performance, or None if it was not published.
    intensities
        FLOPs per byte by memory level, for example ``{"DRAM": 7.4}``.
    """

    label: str
    flops_per_second: float | None = None
    intensities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PublishedPoints:
    """Points that were published for one machine, and the ceilings of this machine.

    `origin` tells in the chart where the points are from.
    """

    machine: Machine
    points: tuple[PublishedPoint, ...]
    origin: str = "published"


#: The name of a machine with ceilings that a user states.
STATED = "stated ceilings"
#: Precisions of compute ceilings that a user can state.
_PRECISIONS = ("FP64", "FP32", "FP16", "INT8")
_TENSOR = tuple(f"{name} tensor" for name in ("FP64", "TF32", "BF16", "FP16", "FP8", "INT8"))


def stated_machine(ceilings: Mapping[str, float]) -> Machine:
    """A machine from ceilings by memory level, in B/s, and by precision, in FLOP/s."""
    require(Mapping, "a mapping from levels and precisions to rates", ceilings=ceilings)
    found = []
    for name, rate in ceilings.items():
        if name not in (*LEVELS, *_PRECISIONS, *_TENSOR):
            hint = _core.suggest(str(name), [*LEVELS, *_PRECISIONS, *_TENSOR])
            raise ValueError(f"ceilings have no level or precision {name!r}{hint}")
        require(Real, "numbers", ceilings=rate)
        require_finite(ceilings=rate)
        kind: Any = "bandwidth" if name in LEVELS else "tensor" if name in _TENSOR else "compute"
        operation = {"bandwidth": "read", "compute": "fma", "tensor": "mma"}[kind]
        operation = "copy" if name == "DRAM" else operation
        found.append(Ceiling(kind=kind, level=name, operation=operation, measured=float(rate)))
    if "DRAM" not in ceilings or not any(c.kind == "compute" for c in found):
        raise ValueError(
            "ceilings must have DRAM and a precision, for example {'DRAM': 3.3e12, 'FP64': 34e12}, "
            f"got {', '.join(ceilings) or 'none'}"
        )
    return Machine(device="cuda", name=STATED, threads=0, ceilings=tuple(found))


def stated_points(points: Iterable[tuple[str, float, float]], machine: Machine) -> PublishedPoints:
    """Points with a label, FLOPs per second, and FLOPs per byte of DRAM."""
    require(Iterable, "tuples of a label, FLOP/s and FLOP/B", points=points)
    found = []
    for point in points:
        require(tuple, "tuples of a label, FLOP/s and FLOP/B", points=point)
        if len(point) != 3:
            raise ValueError(f"points must be (label, FLOP/s, FLOP/B), got {point!r}")
        label, rate, intensity = point
        require(str, "labels", points=label)
        require_finite(**{"FLOP/s": rate, "FLOP/B": intensity})
        if not min(rate, intensity) > 0:
            raise ValueError(f"points must have positive FLOP/s and FLOP/B, got {point!r}")
        at = {"DRAM": float(intensity)}
        found.append(PublishedPoint(label=label, flops_per_second=float(rate), intensities=at))
    return PublishedPoints(machine=machine, points=tuple(found), origin="stated")


@dataclass(frozen=True)
class PublishedLayer:
    """The points and roofs of :class:`PublishedPoints` that a chart shows."""

    name: str  # name of the machine
    points: tuple[PublishedPoint, ...]  # with at least one known coordinate
    roofs: tuple[Roof, ...]  # the ceilings of the machine; none if the chart already shows them
    reach: tuple[Roof, ...]  # where the lines of points with one known coordinate end
    origin: str = "published"

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
        return f"{self.origin} points of {self.name}" + (f" ({named})" if named else "")

    def draw(self, canvas: Canvas) -> None:
        """Draw the roofs, the points, and a line for each point with one known coordinate."""
        measured: dict[str, Any] = {"theoretical": None, "style": _LINE}
        draw_roofs(canvas, [dataclasses.replace(r, **measured) for r in self.roofs], ridges=False)
        bottom, right = canvas.ax.get_ylim()[0], canvas.ax.get_xlim()[1]
        for point in self.points:
            y, xs = point.flops_per_second, point.intensities
            if y is None:
                for x in xs.values():
                    canvas.line([x, x], [bottom, self._roof_at(x)], **_PARTIAL)
            elif not xs:
                canvas.line([self._start_of(y), right], [y, y], **_PARTIAL)
            else:
                canvas.line([min(xs.values()), max(xs.values())], [y, y], lw=0.8, color=FADED)
                for level, x in largest_first(xs):
                    hollow = {"mfc": canvas.paper, "mec": level_style(level)[0], "mew": 1.2}
                    canvas.mark(x, y, marker="D", ms=6.0, **hollow)

    def label(self, canvas: Canvas) -> None:
        """Label the points, and the lines at their ends."""
        bottom, right = canvas.ax.get_ylim()[0], canvas.ax.get_xlim()[1]
        for point in self.points:
            y, xs = point.flops_per_second, point.intensities
            if y is None:
                for x in xs.values():
                    shares = (0.03, 0.12, 0.25, 0.4, 0.6)
                    canvas.label_wall(point.label, x, bottom, self._roof_at(x), shares, bbox=None)
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

    @property
    def finding(self) -> str:
        """The first and the last point, as the title of a chart that has no other points."""
        ends = [p for p in self.points if p in (self.points[0], self.points[-1])]
        rates = [p.flops_per_second for p in ends]
        words = [f": {quantity(rate, 'FLOP/s')}" if rate else "" for rate in rates]
        return "; ".join(p.label + rate for p, rate in zip(ends, words, strict=True))

    def key(self, canvas: Canvas, tracks: Sequence[Track]) -> list[Artist]:
        """Make the legend entries: one per memory level if the chart has no other points."""
        hollow = {"mfc": canvas.paper, "mec": canvas.ink, "marker": "D"}
        own = () if tracks else self.points
        levels = largest_first({k: x for p in own for k, x in p.intensities.items()})
        entries: list[Artist] = [
            entry(f"{level} bytes, {self.origin}", **{**hollow, "mec": level_style(level)[0]})
            for level, _ in levels
        ]
        if not entries:
            entries.append(entry(f"{self.origin}, {self.name}", **hollow))
        if self.roofs:
            entries.append(entry(f"ceilings of {self.name}", color=canvas.ink, **_LINE))
        if any(p.flops_per_second is None or not p.intensities for p in self.points):
            entries.append(entry(f"{self.origin}, one coordinate only", **_PARTIAL))
        return entries

    def _roof_at(self, x: float) -> float:
        return min(r.value * x**r.slope for r in self.reach)

    def _start_of(self, y: float) -> float:
        return y / min(r.value for r in self.reach if r.slope)


def published_layer(published: PublishedPoints, layers: Sequence[Layer]) -> PublishedLayer:
    """Make the layer of points and ceilings for the memory levels and precisions of a chart.

    Without roofs of a precision, it contains all FMA ceilings. It has no roofs if the chart already
    shows the ceilings of this machine.
    """
    machine, ours = published.machine, [r for layer in layers for r in layer.roofs]
    levels = {level for r in ours for level in r.levels}
    wanted = {r.name.split()[0] for r in ours if not r.slope}
    roofs = bandwidth_roofs(level_bandwidths(machine), "B/s")
    roofs = [r for r in roofs if not levels.isdisjoint(r.levels)]
    for c in machine.of_kind("compute"):
        if c.operation == "fma" and (c.level in wanted or not wanted):
            roofs.append(Roof(f"{c.level} FMA", c.measured, "FLOP/s", FADED))
    points = []
    for p in published.points:
        xs = {level: x for level, x in p.intensities.items() if level in levels}
        if xs or p.flops_per_second:
            points.append(dataclasses.replace(p, intensities=xs))
    drawn = () if any(machine is layer.host.machine for layer in layers) else tuple(roofs)
    reach = tuple(roofs)
    return PublishedLayer(machine.name, tuple(points), drawn, reach, published.origin)
