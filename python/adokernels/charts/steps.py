"""The chart of a ladder's steps: the time of each variant as a dot, with a table beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from adokernels.charts.canvas import Canvas, entry, log_ticks
from adokernels.charts.columns import (
    Columns,
    draw_columns,
    fitting,
    new_columns,
    share_of_plot,
)
from adokernels.charts.emulated import counted_steps
from adokernels.charts.series import title_of
from adokernels.charts.verdicts import beside_peers, line_of, text_of, verdict_entries
from adokernels.records.counted import CountedSweep
from adokernels.records.measurement import Measurement
from adokernels.records.sweep import Sweep
from adokernels.text import number, percent, prefix, quantity, ratio, require, share_of_limit

_VARIANT, _PEER = "#0072B2", "#E69F00"
_DOT: dict[str, Any] = {"marker": "o", "color": _VARIANT}
#: Columns of the table: time, ratio of times of the step, its verdict. The last column is the
#: share of the limit that is nearest for the fastest variant: "of roof" or "of FMA peak".
_TIME, _STEP, _VERDICT = "time", "step", "step is"
#: Columns that a narrow chart omits, in this order: the lines also show the steps.
_OMITTED = (_VERDICT, _STEP)
#: Height of a row, and of title, axis and legend together, in inches.
_ROW, _REST = 0.24, 1.7
#: Space on either side of the dots, as a factor of the time.
_MARGIN = 1.25


def steps(sweep: Sweep | CountedSweep, *, ax: Axes | None = None, annotate: bool = True) -> Axes:
    """Draw the time of each variant on a logarithmic axis, with a table beside it.

    A row has a dot at the median time, with its 95 % confidence interval. A line leads from the
    time of the previous variant to the dot: black if the step is faster, orange if it is slower,
    grey if the times are the same, dashed if the verdict is unclear. The table has the time, the
    ratio of times of the step, its verdict, and the share of the roof, or of the FMA peak if the
    fastest variant is nearer to it; a narrow chart omits the columns of the step. The vertical line
    is the time of the roof: the fastest ceiling of the ladder, or the compulsory bytes at the copy
    bandwidth of the machine.

    Parameters
    ----------
    sweep
        The measured ladder. Peers follow the variants. For a sweep on the emulator, a row has a dot
        at the number of sectors of global memory, and the line is the compulsory bytes.
    ax
        The axes to draw on; by default, new axes of a new figure.
    annotate
        Whether to add the table and a legend.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If the sweep has no measurements.
    """
    require((Sweep, CountedSweep), "a sweep", sweep=sweep)
    if isinstance(sweep, CountedSweep):
        return counted_steps(sweep, ax, annotate=annotate)
    rows = (*sweep.measurements, *sweep.peers)
    if not rows:
        raise ValueError("sweep must contain at least one measurement, got none")
    canvas = Canvas(ax, annotate=annotate, size=(10.0, _REST + _ROW * len(rows)))
    canvas.identify([rows])
    limit = _time_of_roof(sweep)
    canvas.row_names([f"{m.shown_as} (ceiling)" if m.ceiling else m.shown_as for m in rows])
    canvas.settle()
    table = _table(canvas, sweep, rows) if annotate else {}
    ends = [end for m in rows for end in m.interval]
    _frame(canvas, ends + ([limit] if limit else []), len(rows), table)
    if limit:
        canvas.line([limit, limit], [-0.5, len(rows) - 0.5], lw=1.2, color=_VARIANT)
    before = sweep.step_pairs()
    for row, m in enumerate(rows):
        if m in before:
            style = line_of(m.compare(before[m]).verdict, canvas.ink)
            canvas.line([before[m].seconds, m.seconds], [row, row], lw=1.4, **style)
        canvas.error_bar(m.seconds, row, ends=m.interval)
        canvas.mark(m.seconds, row, gid=canvas.gid(m), **_dot(canvas, sweep, m))
    draw_columns(canvas, table)
    if limit:
        sides = [{"ha": ha} for ha in ("center", "left", "right")]
        style = {"position": (limit, -1), "va": "center", "color": _VARIANT}
        canvas.label(f"roof, {quantity(limit, 's')}", sides, **style)
    canvas.legend_below(_key(canvas, sweep, table))
    canvas.title(_finding(sweep), title_of(sweep))
    return canvas.ax


def _time_of_roof(sweep: Sweep) -> float | None:
    """The time of the compulsory bytes at the roof, or None if the FMA peak is the nearer limit."""
    variants = sweep.variants
    if not sweep.roof or not variants or not variants[0].bytes or sweep.limit != "roof":
        return None
    return sweep.variants[0].bytes / sweep.roof


def _frame(canvas: Canvas, times: Sequence[float], rows: int, table: Columns) -> None:
    """Set up a logarithmic time axis in the left part of the axes."""
    ax = canvas.ax
    low, high = min(times) / _MARGIN, max(times) * _MARGIN
    plot = share_of_plot(canvas, table)
    ax.set_xscale("log")
    ax.set_xlim(low, low * (high / low) ** (1 / plot))
    ax.set_ylim(rows - 0.5, -1.5 if canvas.annotate else -0.5)
    ticks = log_ticks(low, high)
    factor, unit = prefix(math.sqrt(low * high), "s")
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{float(f'{x / factor:.3g}'):g}"))
    for tick in ticks:
        ax.plot([tick, tick], [-0.5, rows - 0.5], color="0.85", lw=0.6, zorder=0)
    for edge in np.arange(rows) - 0.5:
        ax.axhline(edge, color="0.92", lw=0.6, zorder=0)
    canvas.frame(f"Time per call [{unit}], logarithmic", x=plot / 2)
    ax.tick_params(axis="y", length=0)
    ax.spines["bottom"].set_bounds(low, high)


def _dot(canvas: Canvas, sweep: Sweep, m: Measurement) -> dict[str, Any]:
    if m.ceiling:
        return {"marker": "D", **canvas.hollow}
    return {"marker": "s", "color": _PEER} if m in sweep.peers else _DOT


def _table(canvas: Canvas, sweep: Sweep, rows: Sequence[Measurement]) -> Columns:
    """Make the table, without the columns that have no cells or for which there is no space."""
    last = f"of {sweep.limit}"
    table = new_columns((_TIME, _STEP, _VERDICT, last), [-1])
    before = sweep.step_pairs()
    for row, m in enumerate(rows):
        fastest = not m.ceiling and m in sweep.variants and m is sweep.fastest
        bold = {"fontweight": "bold"} if fastest else {}
        cells: dict[str, tuple[str, dict[str, Any]]] = {_TIME: (quantity(m.seconds, "s"), bold)}
        if m in before:
            verdict, gain = m.compare(before[m]).verdict, ratio(m.speedup_over(before[m]))
            style = text_of(verdict, canvas.ink)
            cells |= {_STEP: (gain, style), _VERDICT: (verdict.value, style)}
        share = sweep.share_of_limit(m)
        if share is not None:
            cells[last] = (share_of_limit(share), bold)
        for name, (words, style) in cells.items():
            table[name].append((row, words, {"gid": canvas.gid(m), **style}))
    return fitting(canvas, table, _OMITTED)


def _key(canvas: Canvas, sweep: Sweep, table: Columns) -> list[Line2D]:
    """Make the legend; the table explains the lines of the steps if it has their verdicts."""
    key = [entry("variant", **_DOT)]
    if any(m.ceiling for m in sweep):
        key.append(entry("ceiling: does not compute the result", marker="D", **canvas.hollow))
    if sweep.peers:
        key.append(entry("peer: code of another library", marker="s", color=_PEER))
    if _VERDICT not in table:
        found = {m.compare(before).verdict for m, before in sweep.step_pairs().items()}
        key += verdict_entries(found, canvas.ink, "step is ")
    return key if len(key) > 1 else []


def _finding(sweep: Sweep) -> str:
    """State how fast the best variant is relative to the first, the roof and the best peer."""
    if not sweep.variants:
        return "Only ceilings"
    first, best = sweep.variants[0], sweep.fastest
    nearest = sweep.nearest_limit(best)
    if best is first:
        parts = [f"{best.variant}: {quantity(best.seconds, 's')}"]
    else:
        gain = number(best.speedup_over(first))
        parts = [f"{best.variant} is {gain} times as fast as {first.variant}"]
    if nearest and nearest.applies:
        parts.append(f"{percent(nearest.share)} of the {nearest.name}")
    return ", ".join([*parts, *beside_peers(best, sweep.peers)])
