"""Charts of loads in flight: Little's law, and the registers that hold the loaded values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from adokernels.charts.canvas import FADED, MEMORY, Canvas, entry
from adokernels.text import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from matplotlib.axes import Axes

    from adokernels.course.loads_in_flight import InnerLoop
    from adokernels.records.sweep import Sweep

_COLOURS, _MARKERS = ("#0072B2", "#D55E00"), ("o", "s")
_UNUSED = "#F0E442"
#: Lines of constant latency in the chart, in seconds.
_LATENCIES = (250e-9, 500e-9, 1e-6, 2e-6)


def in_flight_chart(
    loops: Mapping[str, Iterable[InnerLoop]], roof: float, *, ax: Axes | None = None
) -> Axes:
    """Draw bytes per second over bytes in flight, with lines of constant latency.

    Parameters
    ----------
    loops
        The inner loops by the name of their group, for example the element type.
    roof
        The bandwidth of the device in bytes per second.
    ax
        The axes to draw on; by default those of a new figure.
    """
    if ax is None:
        ax = plt.figure(figsize=(10.0, 5.6), layout="constrained").add_subplot()
    canvas = Canvas(ax, annotate=True)
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
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: quantity(x, "B")))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: quantity(y, "B/s")))
    ax.set_xlabel("Bytes in flight: resident threads x bytes per wait", fontsize=canvas.font + 1)
    ax.set_ylabel("Compulsory bytes per second", fontsize=canvas.font + 1)
    ax.tick_params(labelsize=canvas.font)
    ax.spines[["top", "right"]].set_visible(False)
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


def register_chart(sweep: Sweep, in_flight: Mapping[str, float], *, ax: Axes | None = None) -> Axes:
    """Draw the registers per thread of each variant, and the registers left unused.

    The text beside a bar gives the resident threads per multiprocessor, and their bytes in flight.

    Parameters
    ----------
    sweep
        The measured ladder.
    in_flight
        Bytes in flight per thread, by variant, where they are known.
    ax
        The axes to draw on; by default those of a new figure.
    """
    rows = sweep.variants
    if ax is None:
        figure = plt.figure(figsize=(10.0, 1.5 + 0.24 * len(rows)), layout="constrained")
        ax = figure.add_subplot()
    canvas = Canvas(ax, annotate=True)
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
    ax.set_xlabel("Registers per thread", fontsize=canvas.font + 1)
    ax.tick_params(labelsize=canvas.font)
    ax.spines[["top", "right"]].set_visible(False)
    canvas.legend_below(
        [
            entry("used", marker="s", color=_COLOURS[0]),
            entry("left unused: no fewer blocks with them", marker="s", color=_UNUSED),
        ]
    )
    canvas.title(f"{unused} of {len(rows)} variants leave registers unused", sweep.title)
    return ax
