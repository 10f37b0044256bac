"""The chart of a ladder's steps: the time of each variant as a dot, with a table beside it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from adokernels.charts.canvas import LITERAL, LOST, Canvas, entry
from adokernels.charts.counted import new_axes
from adokernels.measuring.statistics import Verdict
from adokernels.tables.numbers import (
    NO_LIMIT,
    number,
    percent,
    prefix,
    quantity,
    ratio,
    share_of_limit,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from adokernels.measuring.records import Measurement, Sweep

_VARIANT, _PEER = "#0072B2", "#E69F00"
#: Width of the plot as a fraction of the axes; the table has the rest.
_PLOT = 0.60
#: Right ends of the table's columns as fractions of the width: time, step, verdict, share.
_COLUMNS = {"time": 0.71, "step": 0.80, "step is": 0.90, "of roof": 1.0}
#: Height of a row, and of title, axis and legend together, in inches.
_ROW, _REST = 0.24, 1.7
#: Candidates for ticks, as multiples of powers of ten. The first with enough ticks is used.
_MULTIPLES: tuple[tuple[float, ...], ...] = (
    (1,),
    (1, 3),
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 7),
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
)
_FEWEST_TICKS = 4
#: Space on either side of the dots, as a factor of the time.
_MARGIN = 1.25


def steps(sweep: Sweep, *, ax: Axes | None = None, annotate: bool = True) -> Axes:
    """Draw the time of each variant on a logarithmic axis, with a table beside it.

    A row has a dot at the median time, with its 95 % confidence interval. A line leads from the
    time of the previous variant to the dot: black if the step is faster, orange if it is slower,
    grey if the difference is within the noise. The table has the time, the ratio of times of the
    step, its verdict, and the share of the roof. The vertical line is the time of the roof: the
    fastest ceiling of the ladder, or the compulsory bytes at the copy bandwidth of the machine.

    Parameters
    ----------
    sweep
        The measured ladder. Peers follow the variants.
    ax
        The axes to draw on; by default those of a new figure.
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
    rows = (*sweep.measurements, *sweep.peers)
    if not rows:
        raise ValueError("sweep must contain at least one measurement, got none")
    ax = ax or new_axes(10.0, _REST + _ROW * len(rows))
    canvas = Canvas(ax, annotate=annotate)
    limit = _time_of_roof(sweep)
    _frame(canvas, [m.seconds for m in rows] + ([limit] if limit else []), rows)
    if limit:
        canvas.line([limit, limit], [-0.5, len(rows) - 0.5], lw=1.2, color=_VARIANT)
    before = sweep.steps()
    for row, m in enumerate(rows):
        if m in before:
            colour = canvas.step_ink(m.compare(before[m])[0])
            canvas.line([before[m].seconds, m.seconds], [row, row], color=colour, lw=1.4)
        low, high = m.interval
        canvas.error_bar(m.seconds, row, xerr=[[m.seconds - low], [high - m.seconds]])
        canvas.mark(m.seconds, row, **_dot(canvas, sweep, m))
        if annotate:
            _cells(canvas, sweep, m, before.get(m), row)
    if annotate:
        for name in _COLUMNS if before else ("time", "of roof"):
            _cell(canvas, name, name, -1, fontweight="bold")
        canvas.legend_below(_key(canvas, sweep, limit))
    canvas.title(_finding(sweep), sweep.title)
    return ax


def _time_of_roof(sweep: Sweep) -> float | None:
    """The time of the compulsory bytes at the roof; None if bandwidth is not the limit.

    For a compute-bound ladder, only the table shows the share of the roof.
    """
    variants = sweep.variants
    if not sweep.roof or not variants or not variants[0].bytes:
        return None
    fastest = sweep.fastest
    share, of_bytes = sweep.share_of_roof(fastest), fastest.bytes_per_second / sweep.roof
    if share is None or of_bytes < share:
        return None
    return variants[0].bytes / sweep.roof


def _frame(canvas: Canvas, times: Sequence[float], rows: Sequence[Measurement]) -> None:
    """Set up a logarithmic time axis in the left part of the axes."""
    ax = canvas.ax
    low, high = min(times) / _MARGIN, max(times) * _MARGIN
    plot = _PLOT if canvas.annotate else 1.0
    ax.set_xscale("log")
    ax.set_xlim(low, low * (high / low) ** (1 / plot))
    ax.set_ylim(len(rows) - 0.5, -1.5 if canvas.annotate else -0.5)
    ticks = _ticks(low, high)
    factor, unit = prefix(math.sqrt(low * high), "s")
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{float(f'{x / factor:.3g}'):g}"))
    for tick in ticks:
        ax.plot([tick, tick], [-0.5, len(rows) - 0.5], color="0.85", lw=0.6, zorder=0)
    ax.set_xlabel(f"Time of a call [{unit}], logarithmic", x=plot / 2, fontsize=canvas.font + 1)
    ax.tick_params(labelsize=canvas.font)
    ax.spines[["top", "right"]].set_visible(False)
    canvas.row_names([f"{m.shown_as} (ceiling)" if m.ceiling else m.shown_as for m in rows])


def _ticks(low: float, high: float) -> list[float]:
    """Round times within the range: powers of ten, with their multiples if there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for multiples in _MULTIPLES:
        found = [m * 10.0**p for p in powers for m in multiples if low <= m * 10.0**p <= high]
        if len(found) >= _FEWEST_TICKS:
            return found
    return [float(f"{t:.2g}") for t in np.geomspace(low * 1.05, high / 1.05, _FEWEST_TICKS)]


def _dot(canvas: Canvas, sweep: Sweep, m: Measurement) -> dict[str, Any]:
    if m.ceiling:
        return {"marker": "D", "mfc": canvas.paper, "mec": canvas.ink}
    if m in sweep.peers:
        return {"marker": "s", "color": _PEER}
    return {"marker": "o", "color": _VARIANT}


def _cells(
    canvas: Canvas, sweep: Sweep, m: Measurement, before: Measurement | None, row: int
) -> None:
    """Write the row of the table."""
    share = sweep.share_of_roof(m)
    comparison = m.compare(before) if before else None
    cells = {
        "time": quantity(m.seconds, "s"),
        "step": ratio(comparison.ratio) if comparison else "",
        "step is": str(comparison.verdict.value) if comparison else "",
        "of roof": "" if share is None else share_of_limit(share),
    }
    for name, words in cells.items():
        style: dict[str, Any] = {"color": canvas.ink}
        if comparison and name in ("step", "step is"):
            style["color"] = canvas.step_ink(comparison.verdict)
            if comparison.verdict is Verdict.UNCLEAR:
                style["fontstyle"] = "italic"
        elif name == "time" and not m.ceiling and m is sweep.fastest:
            style["fontweight"] = "bold"
        _cell(canvas, name, words, row, **style)


def _cell(canvas: Canvas, column: str, words: str, row: int, **style: Any) -> None:
    canvas.ax.text(
        _COLUMNS[column],
        row,
        words,
        transform=canvas.ax.get_yaxis_transform(),
        ha="right",
        va="center",
        fontsize=canvas.font,
        **LITERAL,
        **style,
    )


def _key(canvas: Canvas, sweep: Sweep, limit: float | None) -> list[Any]:
    key = [entry("variant", marker="o", color=_VARIANT)]
    if any(m.ceiling for m in sweep):
        style = {"marker": "D", "mfc": canvas.paper, "mec": canvas.ink}
        key.append(entry("ceiling: does not compute the result", **style))
    if sweep.peers:
        key.append(entry("peer: code of another library", marker="s", color=_PEER))
    if limit:
        words = f"time at the roof, {quantity(limit, 's')}"
        key.append(entry(words, marker="|", color=_VARIANT, ms=9, mew=1.2))
    verdicts = {m.compare(before)[0] for m, before in sweep.steps().items()}
    for verdict, words, colour in (
        (Verdict.FASTER, "step is faster", canvas.ink),
        (Verdict.SLOWER, "step is slower", LOST),
    ):
        if verdict in verdicts:
            key.append(entry(words, marker="_", color=colour, ms=9, mew=1.4))
    return key


def _finding(sweep: Sweep) -> str:
    """State the speed-up of the fastest variant over the first, and its share of the roof."""
    if not sweep.variants:
        return "Only ceilings"
    first, best = sweep.variants[0], sweep.fastest
    share = sweep.share_of_roof(best)
    of_roof = f", {percent(share)} of the roof" if share and share <= NO_LIMIT else ""
    if best is first:
        return f"{best.variant}: {quantity(best.seconds, 's')}{of_roof}"
    gain = number(first.seconds / best.seconds)
    return f"{best.variant} is {gain} times as fast as {first.variant}{of_roof}"
