"""Ceilings and points of a roofline that a user states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from matplotlib.artist import Artist

from adokernels import _core
from adokernels.charts.canvas import Canvas, Point, entry, level_style
from adokernels.measuring.sampling import require_finite
from adokernels.records.machine import LEVELS, Ceiling, Machine
from adokernels.text import quantity, require

#: The name of a machine with ceilings that a user states.
STATED = "stated ceilings"
#: Precisions of compute ceilings that a user can state.
_PRECISIONS = ("FP64", "FP32", "FP16", "INT8")
_TENSOR = tuple(f"{name} tensor" for name in ("FP64", "TF32", "BF16", "FP16", "FP8", "INT8"))
#: Numbers beyond these limits probably have another unit, or are swapped.
_LOWEST_BANDWIDTH, _HIGHEST_INTENSITY = 1e9, 1e6


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
            f"ceilings must have DRAM and one of {', '.join(_PRECISIONS)}, for example "
            "{'DRAM': 3.3e12, 'FP64': 34e12}, "
            f"got {', '.join(ceilings) or 'none'}"
        )
    low = [n for n, rate in ceilings.items() if n in LEVELS and rate < _LOWEST_BANDWIDTH]
    if low:
        raise ValueError(
            f"ceilings of memory levels must be in B/s, at least {_LOWEST_BANDWIDTH:g}, got "
            f"{ceilings[low[0]]:g} for {low[0]}; write 3.3 TB/s as 3.3e12"
        )
    return Machine(device="cuda", name=STATED, threads=0, ceilings=tuple(found))


class StatedPoint(NamedTuple):
    """The performance of a code in FLOPs per second, and its FLOPs per byte of DRAM."""

    label: str
    rate: float
    intensity: float

    @property
    def place(self) -> Point:
        """The position in a roofline."""
        return self.intensity, self.rate

    @property
    def words(self) -> str:
        """The label with the performance."""
        return f"{self.label}, {quantity(self.rate, 'FLOP/s')}"


def checked_points(points: Iterable[tuple[str, float, float]]) -> list[StatedPoint]:
    """Check labels with two numbers."""
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
        if intensity > _HIGHEST_INTENSITY:
            raise ValueError(
                "points must be (label, FLOP/s, FLOP/B) in this order, with at most "
                f"{_HIGHEST_INTENSITY:g} FLOP/B, got {point!r}"
            )
        found.append(StatedPoint(label, float(rate), float(intensity)))
    return found


@dataclass(frozen=True)
class StatedPoints:
    """Points that are not measured, and the words that describe them."""

    points: Sequence[StatedPoint] = ()
    subject: str = ""  # the last part of the title
    key: str = "DRAM bytes, stated"  # the legend entry
    finding: str = ""  # the title of a chart without other points; by default, two of the points

    def draw(self, canvas: Canvas) -> list[Artist]:
        """Draw the points; return their legend entries."""
        colour = level_style("DRAM")[0]
        style: dict[str, Any] = {"mfc": canvas.paper, "mec": colour, "marker": "D"}
        for point in self.points:
            canvas.mark(*point.place, ms=6.0, mew=1.2, **style)
        return [entry(self.key, **style)] if self.points else []
