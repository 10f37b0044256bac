"""Charts of loads in flight: Little's law, and the registers that hold the loaded values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from adobook.axes import label_axis, new_canvas
from adokernels.charts.canvas import FADED, MEMORY, Canvas, entry
from adokernels.tables.numbers import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from matplotlib.axes import Axes

    from adobook.loads_in_flight import InnerLoop
    from adokernels.measuring.records import Sweep

_COLOURS, _MARKERS = ("#0072B2", "#D55E00"), ("o", "s")
_UNUSED = "#F0E442"
#: Lines of constant latency in the chart, in seconds.
_LATENCIES = (250e-9, 500e-9, 1e-6, 2e-6)


def in_flight_chart(loops: Mapping[str, Iterable[InnerLoop]], roof: float) -> Axes:
    """Draw bytes per second over bytes in flight, with lines of constant latency.

    `loops` are the inner loops by the name of their group, for example the element type, and `roof`
    is the bandwidth of the device in bytes per second.
    """
    canvas = new_canvas(5.6)
    ax = canvas.ax
    groups = {name: list(group) for name, group in loops.items()}
    every = [found for group in groups.values() for found in group]
    low = min(found.bytes_in_flight for found in every) / 1.5
    high = max(found.bytes_in_flight for found in every) * 1.5
    ax.set(xscale="log", yscale="log", xlim=(low, high))
    ax.set_ylim(min(f.measurement.bytes_per_second for f in every) / 1.6, roof * 2)
    for latency in _LATENCIES:
        canvas.line([low, high], [low / latency, high / latency], color=FADED, lw=0.7, ls=":")
    canvas.line([low, high], [roof, roof], color=MEMORY, lw=1.2, ls="--")
    _name_latencies(canvas, roof)
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
    canvas.legend_below(
        [
            *legend,
            entry("one latency", color=FADED, ls=":"),
            entry("the read alone", color=MEMORY, ls="--"),
        ]
    )
    spread = [f.bytes_in_flight / f.measurement.bytes_per_second for f in every]
    canvas.title(
        f"Bytes in flight over bandwidth: {quantity(min(spread), 's')} to "
        f"{quantity(max(spread), 's')} for all variants",
        "Little's law",
    )
    return ax


def _name_latencies(canvas: Canvas, roof: float) -> None:
    """Name the lines of constant latency, all at the same height between the groups of points."""
    bottom = canvas.ax.get_ylim()[0]
    y = math.sqrt(bottom * roof) * 4
    for latency in _LATENCIES:
        canvas.ax.annotate(
            quantity(latency, "s"),
            (y * latency, y),
            color=FADED,
            fontsize=canvas.font,
            ha="right",
            va="bottom",
        )


def register_chart(sweep: Sweep, in_flight: Mapping[str, float]) -> Axes:
    """Draw the registers per thread of each variant, and the registers left unused.

    The text beside a bar gives the resident threads per multiprocessor and their bytes in flight.
    `in_flight` contains the bytes in flight per thread, by variant, where they are known.
    """
    rows = sweep.variants
    canvas = new_canvas(1.5 + 0.24 * len(rows))
    ax = canvas.ax
    longest, unused = 1, 0
    for row, m in enumerate(rows):
        kernel = m.kernels[0]
        most = kernel.most_registers or kernel.registers
        ax.barh(row, kernel.registers, height=0.7, color=_COLOURS[0])
        ax.barh(row, most - kernel.registers, left=kernel.registers, height=0.7, color=_UNUSED)
        multiprocessors = int(m.context["cuda"]["multiprocessors"])
        launched = math.ceil(math.prod(kernel.grid) / multiprocessors)
        blocks = min(launched, *kernel.limits.values())
        threads = blocks * math.prod(kernel.block)
        words = f"{threads} threads"
        if m.variant in in_flight:
            words += f", {in_flight[m.variant] * threads / 1024:.3g} KiB in flight"
        ax.text(most + 1, row, words, va="center", fontsize=canvas.font, color=canvas.ink)
        longest, unused = max(longest, most), unused + (most > kernel.registers)
    ax.set_xlim(0, longest * 1.5)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    canvas.row_names([m.variant for m in rows])
    label_axis(ax.xaxis, "Registers per thread", font=canvas.font)
    ax.tick_params(axis="y", labelsize=canvas.font)
    canvas.legend_below(
        [
            entry("used", marker="s", color=_COLOURS[0]),
            entry("left unused: no fewer blocks with them", marker="s", color=_UNUSED),
        ]
    )
    canvas.title(f"{unused} of {len(rows)} variants leave registers unused", sweep.title)
    return ax
