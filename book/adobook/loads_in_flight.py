"""Loads in flight of max_plus: registers, waits in the machine code, and Little's law."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from adobook.charts import label_axis, new_canvas
from adobook.published import Published
from adobook.text import Text, table
from adokernels.charts.canvas import FADED, MEMORY, entry
from adokernels.records.loading import load
from adokernels.records.loops import Loop
from adokernels.records.measurement import Measurement
from adokernels.records.sass import KernelSass, Sass
from adokernels.records.sweep import Sweep
from adokernels.text import number, quantity, ratio

#: Terms per iteration of the unrolled inner loops, as in cuda/max_plus/one_block.cuh.
UNROLLED_TERMS = 8
_COLOURS, _MARKERS = ("#0072B2", "#D55E00", "#009E73"), ("o", "s", "^")
#: Lines of constant latency in the chart, in seconds.
_LATENCIES = (250e-9, 500e-9, 1e-6, 2e-6)
#: An axis whose ends have this ratio or a larger one has labels only at powers of 10.
_WIDE = 100


@dataclass(frozen=True)
class InFlight(ABC):
    """A measurement whose threads have a known number of bytes in flight when they wait."""

    measurement: Measurement

    @property
    @abstractmethod
    def bytes_per_wait(self) -> float:
        """Bytes that a thread has in flight when it waits."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element of `big`."""
        return np.dtype(self.measurement.problem.operands[0].dtype).itemsize

    @property
    def bytes_in_flight(self) -> float:
        """Bytes that all resident threads of the device have in flight."""
        return resident_threads(self.measurement) * self.bytes_per_wait

    @property
    def latency(self) -> float:
        """The latency in seconds by Little's law: bytes in flight / bandwidth."""
        return self.bytes_in_flight / self.measurement.bytes_per_second


@dataclass(frozen=True)
class FixedLoads(InFlight):
    """A kernel that issues a number of loads per thread before it waits for the first."""

    loads: int

    @property
    def bytes_per_wait(self) -> float:
        """Bytes of `big` that a thread loads before it waits."""
        return self.loads * self.itemsize


@dataclass(frozen=True)
class InnerLoop(InFlight):
    """The inner loop of a variant of max_plus: a measurement and the machine code.

    A wait is the first use of loads that overlap each other. At a wait, the thread has the bytes of
    these loads in flight: the bytes per wait.
    """

    kernel: KernelSass

    @property
    def loop(self) -> Loop:
        """The inner loop."""
        loop = self.kernel.main_loop
        if loop is None:
            raise ValueError(f"{self.kernel.name} must have a loop that loads from global memory")
        return loop

    @property
    def points(self) -> int:
        """Points per thread: all loaded bytes are of `big`, except one element per term."""
        return self.loop.loaded_bytes // (UNROLLED_TERMS * self.itemsize) - 1

    @property
    def waits_per_point(self) -> float:
        """Waits for loads per point and iteration."""
        return self.loop.load_waits / self.points

    @property
    def bytes_per_wait(self) -> float:
        """Bytes of `big` that a thread has in flight when it waits."""
        of_big = self.loop.loaded_bytes * self.points / (self.points + 1)
        return of_big / self.loop.load_waits


def inner_loops(sweep: Sweep, stored: Path, names: Iterable[str]) -> dict[str, InnerLoop]:
    """The inner loops of variants, by name.

    `stored` is the start of the paths of the stored machine code, for example ``max_plus-float64``.
    """
    found = {}
    for name in names:
        sass = load(stored.with_name(f"{stored.name}-{name}-sass.json.xz"))
        if not isinstance(sass, Sass):
            raise TypeError(f"{stored.name}-{name}-sass.json.xz must contain machine code")
        found[name] = InnerLoop(sweep[name], sass[0])
    return found


def resident_threads(m: Measurement) -> int:
    """The number of threads that are resident on the device at the same time."""
    kernel = m.kernels[0]
    most = int(m.context["cuda"]["multiprocessors"]) * min(kernel.limits.values())
    return min(math.prod(kernel.grid), most) * math.prod(kernel.block)


def inner_loop_table(
    loops: Mapping[str, InnerLoop], *, published: Iterable[Published] = ()
) -> Text:
    """Show registers, loads, waits and the speed-up over the first inner loop.

    Published quantities can be ``registers``, ``unused_registers``, ``exposed_latencies`` and
    ``speedup``.
    """
    given = [p for p in published if p.variant in loops]
    first = next(iter(loops.values())).measurement
    columns: dict[str, list[str]] = {"variant": list(loops)}

    def add(title: str, ours: Callable[[InnerLoop], str], key: str = "") -> None:
        theirs = {p.variant: p.text for p in given if p.quantity == key}
        source = next((p.device for p in given if p.quantity == key), "")
        if source:
            columns[f"{title}, {source}"] = [theirs.get(name, "") for name in loops]
        columns[f"{title}, here" if source else title] = list(map(ours, loops.values()))

    def loads(found: InnerLoop) -> str:
        return ", ".join(f"{count} x {bits} bit" for bits, count in found.loop.loads.items())

    add("registers", lambda found: str(found.kernel.registers), "registers")
    add("left unused", lambda found: str(found.kernel.registers_unused), "unused_registers")
    add("loads per iteration", loads)
    add("points per thread", lambda found: str(found.points))
    add("waits per iteration", lambda found: str(found.loop.load_waits), "exposed_latencies")
    add("waits per point", lambda found: number(found.waits_per_point))
    add("in flight per thread", lambda found: quantity(found.bytes_per_wait, "B"))
    add("speed-up", lambda found: ratio(found.measurement.compare(first)[1]), "speedup")
    return table(list(columns), zip(*columns.values(), strict=True))


def in_flight_chart(
    points: Mapping[str, Iterable[InFlight]], roof: float, *, title: str = "Little's law"
) -> Axes:
    """Draw bytes per second over bytes in flight, with lines of constant latency.

    `points` belong to named groups, for example an element type, and `roof` is the bandwidth of the
    device in bytes per second.
    """
    canvas = new_canvas(5.6)
    ax = canvas.ax
    groups = {name: list(group) for name, group in points.items()}
    every = [found for group in groups.values() for found in group]
    low = min(found.bytes_in_flight for found in every) / 1.5
    high = max(found.bytes_in_flight for found in every) * 1.5
    ax.set(xscale="log", yscale="log", xlim=(low, high))
    ax.set_ylim(min(f.measurement.bytes_per_second for f in every) / 1.6, roof * 2)
    for latency in _LATENCIES:
        canvas.line([low, high], [low / latency, high / latency], color=FADED, lw=0.7, ls=":")
    canvas.line([low, high], [roof, roof], color=MEMORY, lw=1.2, ls="--")
    y = 4 * math.sqrt(ax.get_ylim()[0] * roof)  # a height between the groups of points
    for latency in _LATENCIES:
        style: dict[str, Any] = {"color": FADED, "fontsize": canvas.font, "ha": "right"}
        ax.annotate(quantity(latency, "s"), (y * latency, y), va="bottom", **style)
    legend = []
    for (name, group), colour, marker in zip(groups.items(), _COLOURS, _MARKERS, strict=False):
        style = {"color": colour, "marker": marker}
        for found in group:
            x, y = found.bytes_in_flight, found.measurement.bytes_per_second
            canvas.mark(x, y, ls="none", ms=6, **style)
            canvas.callout(found.measurement.variant, (x, y), (8, 18, 30, 44), color=colour)
        legend.append(entry(name, **style))
    label_axis(
        ax.xaxis, "Bytes in flight: resident threads x bytes per wait", "B", font=canvas.font
    )
    label_axis(ax.yaxis, "Compulsory bytes per second", "B/s", font=canvas.font)
    for axis in (ax.xaxis, ax.yaxis):
        first, last = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if last / first < _WIDE else (1,)))
        axis.set_minor_formatter(NullFormatter())
    legend.append(entry("one latency", color=FADED, ls=":"))
    legend.append(entry(f"the read alone, {quantity(roof, 'B/s')}", color=MEMORY, ls="--"))
    canvas.legend_below(legend)
    latencies = [found.latency for found in every]
    ends = " to ".join(quantity(end, "s") for end in (min(latencies), max(latencies)))
    canvas.title(f"Bytes in flight over bandwidth: {ends} for all variants", title)
    return ax
