"""The charts of a ladder's steps: one row per variant, with its time or its number of sectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from adokernels.charts.canvas import MEMORY, Canvas, entry, log_axis
from adokernels.charts.rows import (
    Columns,
    beside_peers,
    draw_columns,
    fitting,
    line_of,
    new_columns,
    share_of_plot,
    text_of,
    verdict_entries,
)
from adokernels.charts.series import title_of
from adokernels.records.counted import CountedSweep
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import SECTOR
from adokernels.records.sweep import Sweep
from adokernels.text import count, number, percent, quantity, ratio, require, share_of_limit

_PEER = "#E69F00"
_DOT: dict[str, Any] = {"marker": "o", "color": MEMORY}
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
        return _counted_steps(sweep, ax, annotate=annotate)
    rows = (*sweep.measurements, *sweep.peers)
    if not rows:
        raise ValueError("sweep must contain at least one measurement, got none")
    canvas = _new_canvas([(m.shown_as, m.ceiling) for m in rows], ax, annotate=annotate)
    canvas.identify([rows])
    variants, times = sweep.variants, [end for m in rows for end in m.interval]
    limit = None  # the time of the roof, unless the FMA peak is the nearer limit
    if sweep.roof and variants and variants[0].bytes and sweep.limit == "roof":
        limit = variants[0].bytes / sweep.roof
        times.append(limit)
    table = _table(canvas, sweep, rows) if annotate else {}
    low, high = min(times) / _MARGIN, max(times) * _MARGIN
    plot = share_of_plot(canvas, table)
    unit = _log_axis(canvas, low, high, len(rows), "s", plot)
    for tick in canvas.ax.get_xticks():
        canvas.ax.plot([tick, tick], [-0.5, len(rows) - 0.5], color="0.85", lw=0.6, zorder=0)
    for edge in np.arange(len(rows)) - 0.5:
        canvas.ax.axhline(edge, color="0.92", lw=0.6, zorder=0)
    canvas.frame(f"Time per call [{unit}], logarithmic", x=plot / 2)
    canvas.ax.tick_params(axis="y", length=0)
    canvas.ax.spines["bottom"].set_bounds(low, high)
    if limit:
        canvas.line([limit, limit], [-0.5, len(rows) - 0.5], lw=1.2, color=MEMORY)
    key = [entry("variant", **_DOT)]
    if any(m.ceiling for m in sweep):
        key.append(entry("ceiling: does not compute the result", marker="D", **canvas.hollow))
    if sweep.peers:
        key.append(entry("peer: code of another library", marker="s", color=_PEER))
    before = sweep.step_pairs()
    verdicts = {m: m.compare(old).verdict for m, old in before.items()}
    if _VERDICT not in table:  # otherwise, the table explains the lines
        key += verdict_entries(verdicts.values(), canvas.ink, "step is ")
    for row, m in enumerate(rows):
        if m in before:
            style = line_of(verdicts[m], canvas.ink)
            canvas.line([before[m].seconds, m.seconds], [row, row], lw=1.4, **style)
        canvas.error_bar(m.seconds, row, ends=m.interval)
        peer = {"marker": "s", "color": _PEER}
        dot = {"marker": "D", **canvas.hollow} if m.ceiling else peer if m in sweep.peers else _DOT
        canvas.mark(m.seconds, row, gid=canvas.gid(m), **dot)
    draw_columns(canvas, table)
    if limit:
        _label_roof(canvas, f"roof, {quantity(limit, 's')}", limit)
    canvas.legend_below(key if len(key) > 1 else [])
    canvas.title(_finding(sweep), title_of(sweep))
    return canvas.ax


def _new_canvas(names: Sequence[tuple[str, bool]], ax: Axes | None, *, annotate: bool) -> Canvas:
    """Axes with one row per name, with whether it is a ceiling."""
    canvas = Canvas(ax, annotate=annotate, size=(10.0, _REST + _ROW * len(names)))
    canvas.row_names([f"{name} (ceiling)" if ceiling else name for name, ceiling in names])
    canvas.settle()
    return canvas


def _log_axis(
    canvas: Canvas, low: float, high: float, rows: int, unit: str, plot: float = 1.0
) -> str:
    """Set up a logarithmic axis in the left part `plot` of the axes; return its prefixed unit."""
    canvas.ax.set_xscale("log")
    canvas.ax.set_xlim(low, low * (high / low) ** (1 / plot))
    canvas.ax.set_ylim(rows - 0.5, -1.5 if canvas.annotate else -0.5)
    return log_axis(canvas.ax.xaxis, low, high, unit)


def _label_roof(canvas: Canvas, words: str, x: float) -> None:
    """Label the vertical line at `x` above the first row."""
    sides = [{"ha": ha} for ha in ("center", "left", "right")]
    canvas.label(words, sides, position=(x, -1), va="center", color=MEMORY)


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


def _counted_steps(sweep: CountedSweep, ax: Axes | None, *, annotate: bool) -> Axes:
    """Draw the sectors of each variant on a logarithmic axis, with the ideal as a line."""
    rows = [v for v in sweep if v.sectors]
    if not rows:
        raise ValueError("sweep must contain at least one variant with counts, got none")
    canvas = _new_canvas([(v.variant, v.ceiling) for v in rows], ax, annotate=annotate)
    ideal, sectors = rows[0].bytes / SECTOR, [v.sectors for v in rows]
    low, high = min([*sectors, ideal]) / _MARGIN, max(sectors) * _MARGIN
    unit = _log_axis(canvas, low, high, len(rows), "")
    canvas.frame(f"Sectors of global memory [{unit or 'sectors'}], logarithmic")
    before = None
    for row, v in enumerate(rows):
        if before is not None and not v.ceiling:
            canvas.line([before.sectors, v.sectors], [row, row], lw=1.4)
        style = {"marker": "D", **canvas.hollow} if v.ceiling else _DOT
        canvas.mark(v.sectors, row, **style)
        canvas.callout(count(v.sectors), (v.sectors, row), (8,), ((1, 0), (-1, 0)))
        before = before if v.ceiling else v
    canvas.line([ideal, ideal], [-0.5, len(rows) - 0.5], lw=1.2, color=MEMORY)
    _label_roof(canvas, "compulsory bytes", ideal)
    variants = [v for v in rows if not v.ceiling] or rows
    fewest = min(variants, key=lambda v: v.sectors)
    equal = sum(v.sectors == fewest.sectors for v in variants)
    finding = f"{fewest.variant} accesses the fewest sectors"
    if equal > 1:
        finding = f"{equal} of {len(variants)} variants access the fewest sectors"
    if fewest is not variants[0]:
        times = number(variants[0].sectors / fewest.sectors)
        finding += f": {times} times fewer than {variants[0].variant}"
    canvas.title(finding, f"{sweep.title}; emulated, not timed")
    return canvas.ax
