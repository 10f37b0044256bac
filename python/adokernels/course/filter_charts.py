"""Charts of the image filters: timeline, utilisation plane, speed-ups of two devices, hotspots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, PercentFormatter

from adokernels.charts.canvas import COMPUTE, FADED, MEMORY, Canvas
from adokernels.text import quantity, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

    from adokernels.course.published.figure import Published
    from adokernels.records.measurement import Measurement
    from adokernels.records.sweep import Sweep

_COLOURS, _HATCHES = ("#999999", "#E69F00", "#0072B2"), ("", "///", "")


def timeline(rows: Mapping[str, Sequence[Measurement]], order: Sequence[str]) -> Axes:
    """Draw the steps of an application as bars on a time axis, one after another.

    Parameters
    ----------
    rows
        The steps of each row of the chart, for example copies and kernels.
    order
        The names of all steps, in the order in which they run.
    """
    ax = _axes(len(rows) * 0.8 + 1.2)
    canvas = Canvas(ax, annotate=True)
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
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, "s", 3)))
    ax.set_xlabel("time of the host")
    _open(ax)
    return ax


def utilisation_plane(measurements: Iterable[Measurement], threshold: float) -> Axes:
    """Draw variants in the plane of memory and compute throughput, with the limiter's regions.

    Parameters
    ----------
    measurements
        Variants with counters.
    threshold
        The share of the peak below which a throughput does not limit the kernel.
    """
    ax = _axes(5.2, 7.0)
    canvas = Canvas(ax, annotate=True)
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
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    ax.set_xlabel("memory throughput, of peak")
    ax.set_ylabel("compute throughput, of peak")
    _open(ax)
    return ax


def speedups_of_devices(sweep: Sweep, published: Iterable[Published]) -> Axes:
    """Draw the speed-up of each variant over the first one, beside the document's on its device.

    Parameters
    ----------
    sweep
        The ladder.
    published
        The figures of a document, among them its times.
    """
    ax = _axes(5.0)
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
    _open(ax)
    return ax


def times_of_application(variants: Sequence[Measurement], others: Sequence[Measurement]) -> Axes:
    """Draw the time of an application as stacked bars, one bar per variant of one of its kernels.

    Parameters
    ----------
    variants
        The variants of the kernel that changes.
    others
        The kernels that do not change.
    """
    ax = _axes(4.0)
    names = [m.variant for m in variants]
    parts = [(f"{m.routine}[{m.variant}]", [m.seconds] * len(names)) for m in others]
    parts.append((f"{variants[0].routine}, each variant", [m.seconds for m in variants]))
    floor = np.zeros(len(names))
    for (label, seconds), colour, hatch in zip(parts, _COLOURS, _HATCHES, strict=True):
        style: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white"}
        ax.bar(names, seconds, bottom=floor, label=label, **style)
        floor += seconds
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, "s", 3)))
    ax.set_ylabel("time of the kernels")
    ax.legend(reverse=True, frameon=False)
    _open(ax)
    return ax


def _axes(height: float, width: float = 10.0) -> Axes:
    return plt.figure(figsize=(width, height), layout="constrained").add_subplot()


def _open(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
