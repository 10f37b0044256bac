"""Charts of sweeps on the emulator: sectors per variant, and intensities below data-sheet roofs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from adokernels.charts.canvas import FADED, MEMORY, Canvas, log_ticks
from adokernels.measuring.machine import LANES
from adokernels.records.counted import CountedSweep, CountedVariant
from adokernels.records.metrics import SECTOR
from adokernels.text import count, number, prefix, quantity

_MARGIN = 1.25
_ROW, _REST = 0.24, 1.7


def counted_steps(sweep: CountedSweep, ax: Axes | None, *, annotate: bool) -> Axes:
    """Draw the sectors of each variant on a logarithmic axis, with the ideal as a line."""
    rows = _rows(sweep)
    canvas = Canvas(ax, annotate=annotate, size=(10.0, _REST + _ROW * len(rows)))
    canvas.row_names([f"{v.variant} (ceiling)" if v.ceiling else v.variant for v in rows])
    canvas.settle()
    ideal = rows[0].bytes / SECTOR
    low, high = min([v.sectors for v in rows] + [ideal]) / _MARGIN, max(v.sectors for v in rows)
    canvas.ax.set_xscale("log")
    canvas.ax.set_xlim(low, high * _MARGIN)
    canvas.ax.set_ylim(len(rows) - 0.5, -1.5 if annotate else -0.5)
    factor, unit = prefix(math.sqrt(low * high), "")
    canvas.ax.xaxis.set_major_locator(FixedLocator(log_ticks(low, high * _MARGIN)))
    canvas.ax.xaxis.set_minor_locator(NullLocator())
    canvas.ax.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: f"{float(f'{x / factor:.3g}'):g}")
    )
    canvas.frame(f"Sectors of global memory [{unit or 'sectors'}], logarithmic")
    before = None
    for row, v in enumerate(rows):
        if before is not None and not v.ceiling:
            canvas.line([before.sectors, v.sectors], [row, row], lw=1.4)
        style = {"marker": "D", **canvas.hollow} if v.ceiling else {"marker": "o", "color": MEMORY}
        canvas.mark(v.sectors, row, **style)
        canvas.callout(count(v.sectors), (v.sectors, row), (8,), ((1, 0), (-1, 0)))
        before = before if v.ceiling else v
    canvas.line([ideal, ideal], [-0.5, len(rows) - 0.5], lw=1.2, color=MEMORY)
    canvas.label(
        "compulsory bytes",
        [{"ha": ha} for ha in ("center", "left", "right")],
        position=(ideal, -1),
        va="center",
        color=MEMORY,
    )
    variants = [v for v in rows if not v.ceiling] or rows
    fewest = min(variants, key=lambda v: v.sectors)
    times = number(variants[0].sectors / fewest.sectors)
    equal = sum(v.sectors == fewest.sectors for v in variants)
    finding = f"{fewest.variant} accesses the fewest sectors"
    if equal > 1:
        finding = f"{equal} of {len(variants)} variants access the fewest sectors"
    if fewest is not variants[0]:
        finding += f": {times} times fewer than {variants[0].variant}"
    canvas.title(finding, f"{sweep.title}; emulated, not timed")
    return canvas.ax


def counted_roofline(sweep: CountedSweep, ax: Axes | None, *, annotate: bool) -> Axes:
    """Draw the intensity of each variant as a line below the data-sheet roofs of the emulated GPU.

    The emulator measures no time, so a variant has an intensity and an attainable performance, but
    no performance.
    """
    rows = [v for v in _rows(sweep) if v.intensity > 0]
    if not rows:
        raise ValueError("sweep must contain variants with FLOPs, got none")
    gpu = sweep.context["cuda"]
    precision = sweep.problem.precision or "FP32"
    lanes = dict(zip(("FP32", "FP64"), LANES[gpu["compute"]], strict=True))[precision]
    peak = 2 * lanes * gpu["multiprocessors"] * gpu["core_hertz"]
    bandwidth = gpu["memory_bandwidth"]
    canvas = Canvas(ax, annotate=annotate)
    knee = peak / bandwidth
    low = min(knee, *(v.intensity for v in rows)) / 4
    high = max(knee, *(v.intensity for v in rows)) * 4
    bottom = low * bandwidth
    canvas.ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, peak * 3))
    canvas.frame("Executed FLOP per byte of L1 sectors", "FLOP/s")
    canvas.line([low, knee, high], [low * bandwidth, peak, peak], lw=1.6)
    canvas.label(
        f"DRAM, {quantity(bandwidth, 'B/s')} (data sheet)",
        [{"position": (low * 1.1, bottom * height)} for height in (2, 3, 4, 6)],
    )
    canvas.label(
        f"{precision} peak, {quantity(peak, 'FLOP/s')} (data sheet)", position=(knee, peak * 1.2)
    )
    for v in rows:
        attainable = min(peak, v.intensity * bandwidth)
        canvas.line([v.intensity] * 2, [bottom, attainable], lw=0.8, ls=":", color=FADED)
        canvas.mark(v.intensity, attainable, marker="o", **canvas.hollow)
        canvas.callout(v.variant, (v.intensity, attainable), (8, 20))
    bound = sum(v.intensity < knee for v in rows)
    finding = f"{bound} of {len(rows)} variants are memory-bound if no cache serves their accesses"
    canvas.title(finding, f"{sweep.title}; emulated, not timed: attainable performance")
    return canvas.ax


def _rows(sweep: CountedSweep) -> Sequence[CountedVariant]:
    rows = [v for v in sweep if v.sectors]
    if not rows:
        raise ValueError("sweep must contain at least one variant with counts, got none")
    return rows
