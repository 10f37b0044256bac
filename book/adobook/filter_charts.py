"""Charts of the image filters: timeline, utilisation plane, speed-ups of two devices, hotspots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from adobook.axes import label_axis, new_canvas
from adobook.published import Published
from adokernels.charts.canvas import COMPUTE, FADED, MEMORY
from adokernels.records.measurement import Measurement
from adokernels.records.sweep import Sweep
from adokernels.text import quantity, ratio

_COLOURS, _HATCHES = ("#999999", "#E69F00", "#0072B2"), ("", "///", "")


def timeline(rows: Mapping[str, Sequence[Measurement]], order: Sequence[str]) -> Axes:
    """Draw the steps of an application as bars on a time axis, in the order in which they run.

    `rows` are the steps of each row of the chart, for example copies and kernels.
    """
    canvas = new_canvas(len(rows) * 0.8 + 1.2)
    ax = canvas.ax
    found = {m.variant: (row, m) for row, name in enumerate(rows) for m in rows[name]}
    start = 0.0
    for name in order:
        row, m = found[name]
        colour = COMPUTE if row else MEMORY
        ax.barh(row, m.seconds, left=start, height=0.5, color=colour, edgecolor="white")
        canvas.callout(
            f"{name}, {quantity(m.seconds, 's')}",
            (start + m.seconds / 2, row + 0.25),
            (10, 22, 34),
            ((0, 1), (1, 1), (-1, 1)),
        )
        start += m.seconds
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(-0.5, len(rows) - 0.1)
    label_axis(ax.xaxis, "time of the host", "s")
    return ax


def utilisation_plane(measurements: Iterable[Measurement], threshold: float) -> Axes:
    """Draw variants in the plane of memory and compute throughput, with the limiter's regions.

    `threshold` is the share of the peak below which a throughput does not limit the kernel.
    """
    canvas = new_canvas(5.2, 7.0)
    ax = canvas.ax
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    for line in (ax.axvline, ax.axhline):
        line(threshold, color=FADED, lw=1.0, ls="--", zorder=1)
    low, high = 0.02, 0.98
    corners = {
        "latency-bound": (low, low, "left", "bottom"),
        "memory-bound": (high, low, "right", "bottom"),
        "compute-bound": (low, high, "left", "top"),
        "compute and memory": (high, high, "right", "top"),
    }
    for words, (x, y, ha, va) in corners.items():
        canvas.text(words, x=x, y=y, ha=ha, va=va, color=FADED, fontweight="bold")
    for m in measurements:
        if m.profile:
            point = (m.profile["memory_sol"], m.profile["compute_sol"])
            canvas.mark(*point, marker="o", color=MEMORY, ms=6, ls="")
            canvas.callout(m.variant, point, (8, 16, 26, 38, 50))
    label_axis(ax.xaxis, "memory throughput, of peak", "%")
    label_axis(ax.yaxis, "compute throughput, of peak", "%")
    return ax


def speedups_of_devices(sweep: Sweep, published: Iterable[Published]) -> Axes:
    """Draw the speed-up of each variant over the first one, beside the document's on its device."""
    ax = new_canvas(5.0).ax
    first = sweep.variants[0]
    names = [m.variant for m in sweep.variants]
    times = {p.variant: p for p in published if p.quantity == "seconds"}
    start = times[first.variant]
    theirs = {name: float(start.value) / float(p.value) for name, p in times.items()}
    ours = {m.variant: first.seconds / m.seconds for m in sweep.variants}
    here = sweep.machine.name if sweep.machine else first.device
    for label, colour, marker, totals in (
        (f"{start.document}, {start.device}", COMPUTE, "s", theirs),
        (here, MEMORY, "o", ours),
    ):
        places = [names.index(name) for name in totals]
        ax.plot(places, list(totals.values()), color=colour, marker=marker, ms=6, label=label)
        last = list(totals)[-1]
        ax.annotate(
            ratio(totals[last]), (names.index(last), totals[last]), (0, 7),
            textcoords="offset points", ha="center", color=colour,
        )  # fmt: skip
    roof = [first.seconds / m.seconds for m in sweep if m.ceiling]
    if roof:
        label = f"copy of the image, {here}: {ratio(max(roof))}"
        ax.axhline(max(roof), color=MEMORY, lw=1, ls="--", label=label)
    ax.set_yscale("log", base=2)
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"\N{MULTIPLICATION SIGN}{value:g}")
    )
    ax.set_ylim(0.85, 1.5 * max(*roof, *ours.values(), *theirs.values()))
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_ylabel(f"speed-up over {first.variant} on the same device")
    ax.legend(frameon=False, loc="lower right")
    return ax


def times_of_application(variants: Sequence[Measurement], others: Sequence[Measurement]) -> Axes:
    """Draw the time of an application as stacked bars, one bar per variant of one of its kernels.

    `others` are the kernels that do not change.
    """
    ax = new_canvas(4.0).ax
    names = [m.variant for m in variants]
    parts = [(f"{m.routine}[{m.variant}]", [m.seconds] * len(names)) for m in others]
    parts.append((f"{variants[0].routine}, each variant", [m.seconds for m in variants]))
    floor = np.zeros(len(names))
    for (label, seconds), colour, hatch in zip(parts, _COLOURS, _HATCHES, strict=True):
        style: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white"}
        ax.bar(names, seconds, bottom=floor, label=label, **style)
        floor += seconds
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    label_axis(ax.yaxis, "time of the kernels", "s")
    ax.legend(reverse=True, frameon=False)
    return ax
