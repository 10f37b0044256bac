"""The charts of a ladder's steps: one row per variant, with its time or its number of sectors.

The chart of compared sweeps has two times per variant, joined by a line.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from adokernels.charts.canvas import FADED, LITERAL, LOST, MEMORY, Canvas, entry, log_axis
from adokernels.charts.series import title_of
from adokernels.records.changes import SweepComparison
from adokernels.records.counted import CountedSweep
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import SECTOR
from adokernels.records.statistics import Verdict
from adokernels.records.sweep import Sweep, as_sweep
from adokernels.records.what_if import WhatIf
from adokernels.text import (
    count,
    number,
    percent,
    printable,
    quantity,
    ratio,
    require,
    share_of_limit,
)

#: Widest columns together, as a fraction of the width of the axes.
_WIDEST = 0.5
#: Maximum number of characters of a cell.
_LONGEST_CELL = 24
#: Width of a character and of the space between columns, relative to the size of the font.
_CHARACTER, _GAP = 0.6, 1.6
#: The mark of what an experiment promised.
_PROMISED: Mapping[str, Any] = {"marker": "|", "color": LOST, "mew": 1.4}
#: Dashes and spaces of the line of an unclear step, in units of the line width.
_DASHES = (0, (2.2, 1.6))


class Columns:
    """Columns of text beside the rows of a chart; the last one ends at the right edge of the axes.

    Each of the `rows` has its vertical position, its measurement, and the text and style of its
    cell in each column. The names of the columns are at the positions `headings`. Columns without
    text are omitted. If space is missing, `optional` columns are omitted, in their order.
    """

    def __init__(
        self,
        canvas: Canvas,
        rows: Iterable[tuple[float, Measurement, Mapping[str, tuple[str, Mapping[str, Any]]]]],
        headings: Sequence[float],
        optional: Iterable[str],
    ) -> None:
        self.canvas = canvas
        columns: dict[str, list[tuple[float, str, Mapping[str, Any]]]] = {}
        for y, m, cells in rows:
            for name, (words, style) in cells.items():
                column = columns.setdefault(name, [])
                if words:
                    own = {"gid": canvas.gid(m), **style}
                    column.append((y, printable(words, _LONGEST_CELL), own))
        bold = {"fontweight": "bold"}
        self.columns = {
            name: [*((y, name, bold) for y in headings), *cells]
            for name, cells in columns.items()
            if cells
        }
        for name in optional:
            if self.share_of_plot < 1 - _WIDEST:
                self.columns.pop(name, None)

    @property
    def _widths(self) -> list[float]:
        """The width of each column with the space before it, in points."""
        longest = [max(len(words) for _, words, _ in cells) for cells in self.columns.values()]
        return [self.canvas.font * (_CHARACTER * characters + _GAP) for characters in longest]

    @property
    def share_of_plot(self) -> float:
        """The fraction of the width of the axes that the columns leave for the plot."""
        return 1 - sum(self._widths) / self.canvas.width

    def draw(self) -> None:
        """Draw the cells. Labels that are added later avoid them."""
        canvas, widths = self.canvas, self._widths
        for place, cells in enumerate(self.columns.values()):
            shift = canvas.shift(-sum(widths[place + 1 :]))
            style: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": canvas.font}
            style |= {"color": canvas.ink, "transform": canvas.ax.get_yaxis_transform() + shift}
            for y, words, own in cells:
                text = canvas.ax.text(1.0, y, words, **{**style, **LITERAL, **own})
                canvas.labels.add(text, [{}])


def line_of(verdict: Verdict, faster: str) -> dict[str, Any]:
    """Style of the line of a step: `faster` is the colour of faster steps.

    Slower steps have a warning colour, and other steps are grey. Unclear steps are dashed.
    """
    colour = {Verdict.FASTER: faster, Verdict.SLOWER: LOST}.get(verdict, FADED)
    return {"color": colour, "ls": _DASHES if verdict is Verdict.UNCLEAR else "-"}


def text_of(verdict: Verdict, faster: str) -> dict[str, Any]:
    """Style of a text about a step: the colour of its line; only unclear steps are in italics."""
    style = "italic" if verdict is Verdict.UNCLEAR else "normal"
    return {"color": line_of(verdict, faster)["color"], "fontstyle": style}


def verdict_entries(verdicts: Iterable[Verdict], faster: str, prefix: str = "") -> list[Line2D]:
    """Make one legend entry per verdict that occurs; `prefix` precedes its word."""
    found = set(verdicts)
    return [
        entry(f"{prefix}{v.value}", lw=1.4, **line_of(v, faster)) for v in Verdict if v in found
    ]


def beside_peers(ours: Measurement, peers: Sequence[Measurement]) -> list[str]:
    """Compare a variant with the fastest peer, in words; empty if the verdict is unclear."""
    if not peers:
        return []
    peer = min(peers, key=lambda m: m.seconds)
    verdict, gain, _ = ours.compare(peer)
    return [] if verdict is Verdict.UNCLEAR else [f"{_as_fast(verdict, gain)} {peer.shown_as}"]


def _as_fast(verdict: Verdict, gain: float) -> str:
    return "as fast as" if verdict is Verdict.SAME else f"{number(gain)} times as fast as"


_PEER = "#E69F00"
_DOT: dict[str, Any] = {"marker": "o", "color": MEMORY}
#: Columns that a narrow chart omits, in this order: the lines also show the steps.
_OMITTED = ("step is", "step")
#: Height of a row, and of title, axis and legend together, in inches.
_ROW, _REST = 0.24, 1.7
#: Space on either side of the dots, as a factor of the time.
_MARGIN = 1.25


def steps(
    sweep: Sweep | CountedSweep | Measurement,
    *,
    what_if: Iterable[WhatIf] = (),
    ax: Axes | None = None,
    annotate: bool = True,
) -> Axes:
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
        The measured ladder, or one measurement. Peers follow the variants. For a sweep on the
        emulator, a row has a dot at the number of sectors of global memory, and the line is the
        compulsory bytes.
    what_if
        Experiments of ``ado.what_if`` on the variants. A thin bar in the row of the next variant
        marks the time that the largest gain of an experiment promised, without experiments that
        no correct kernel can realise.
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
    what: Sweep | CountedSweep = as_sweep(sweep)
    require((Sweep, CountedSweep), "a sweep", sweep=what)
    if isinstance(what, CountedSweep):
        return _counted_steps(what, ax, annotate=annotate)
    return _measured_steps(what, what_if, ax, annotate=annotate)


def _measured_steps(
    sweep: Sweep, what_if: Iterable[WhatIf], ax: Axes | None, *, annotate: bool
) -> Axes:
    """Draw the times of each variant on a logarithmic axis, with the roof as a line."""
    rows = (*sweep.measurements, *sweep.peers)
    if not rows:
        raise ValueError("sweep must contain at least one measurement, got none")
    canvas = _new_canvas([(m.shown_as, m.ceiling) for m in rows], ax, annotate=annotate)
    canvas.identify([rows])
    variants, times = sweep.variants, [end for m in rows for end in m.interval]
    gains = {r.variant: best.gain for r in what_if if (best := r.promise)}
    before = sweep.step_pairs()
    promised = {
        m: old.seconds / gains[old.variant] for m, old in before.items() if old.variant in gains
    }
    times += promised.values()
    limit = None  # the time of the roof, unless the FMA peak is the nearer limit
    if sweep.roof and variants and variants[0].bytes and sweep.limit == "roof":
        limit = variants[0].bytes / sweep.roof
        times.append(limit)
    table = Columns(canvas, _table(canvas, sweep, rows) if annotate else (), [-1], _OMITTED)
    _time_axis(canvas, times, len(rows), table.share_of_plot)
    if limit:
        canvas.line([limit, limit], [-0.5, len(rows) - 0.5], lw=1.2, color=MEMORY)
    key = [entry("variant", **_DOT)]
    if any(m.ceiling for m in sweep):
        key.append(entry("ceiling: does not compute the result", marker="D", **canvas.hollow))
    if sweep.peers:
        key.append(entry("peer: code of another library", marker="s", color=_PEER))
    verdicts = {m: m.compare(old).verdict for m, old in before.items()}
    if promised:
        key.append(entry("what an experiment on the variant before promised", **_PROMISED))
    if "step is" not in table.columns:  # otherwise, the table explains the lines
        key += verdict_entries(verdicts.values(), canvas.ink, "step is ")
    for row, m in enumerate(rows):
        if m in before:
            style = line_of(verdicts[m], canvas.ink)
            canvas.line([before[m].seconds, m.seconds], [row, row], lw=1.4, **style)
        if m in promised:
            canvas.mark(promised[m], row, **_PROMISED)
        canvas.error_bar(m.seconds, row, ends=m.interval)
        peer = {"marker": "s", "color": _PEER}
        dot = {"marker": "D", **canvas.hollow} if m.ceiling else peer if m in sweep.peers else _DOT
        canvas.mark(m.seconds, row, gid=canvas.gid(m), **dot)
    table.draw()
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


def _time_axis(canvas: Canvas, times: Sequence[float], rows: int, plot: float) -> None:
    """Set up the axis of times in the left part `plot` of the axes, with lines between the rows."""
    low, high = min(times) / _MARGIN, max(times) * _MARGIN
    unit = _log_axis(canvas, low, high, rows, "s", plot)
    for tick in canvas.ax.get_xticks():
        canvas.ax.plot([tick, tick], [-0.5, rows - 0.5], color=canvas.tint(0.15), lw=0.6, zorder=0)
    for edge in np.arange(rows) - 0.5:
        canvas.ax.axhline(edge, color=canvas.tint(0.08), lw=0.6, zorder=0)
    canvas.frame(f"Time per call [{unit}], logarithmic", x=plot / 2)
    canvas.ax.tick_params(axis="y", length=0)
    canvas.ax.spines["bottom"].set_bounds(low, high)


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


def _table(canvas: Canvas, sweep: Sweep, rows: Sequence[Measurement]) -> Iterator[Any]:
    """The rows of the table: time, ratio of times and verdict of the step, share of the limit."""
    before = sweep.step_pairs()
    for row, m in enumerate(rows):
        fastest = not m.ceiling and m in sweep.variants and m is sweep.fastest
        bold = {"fontweight": "bold"} if fastest else {}
        verdict, gain, style, share = "", "", {}, sweep.share_of_limit(m)
        if m in before:
            found = m.compare(before[m]).verdict
            verdict, gain = found.value, ratio(m.speedup_over(before[m]))
            style = text_of(found, canvas.ink)
        yield (
            row,
            m,
            {
                "time": (quantity(m.seconds, "s"), bold),
                "step": (gain, style),
                "step is": (verdict, style),
                f"of {sweep.limit}": ("" if share is None else share_of_limit(share), bold),
            },
        )


def _finding(sweep: Sweep) -> str:
    """State how fast the best variant is relative to the first, the roof and the best peer.

    A ratio whose verdict is unclear is not stated.
    """
    if not sweep.variants:
        return "Only ceilings"
    first, best = sweep.variants[0], sweep.fastest
    nearest = sweep.nearest_limit(best)
    verdict, gain, _ = best.compare(first) if best.is_like(first) else (Verdict.UNCLEAR, 0.0, None)
    if best is first or verdict is Verdict.UNCLEAR:
        parts = [f"{best.variant}: {quantity(best.seconds, 's')}"]
    else:
        parts = [f"{best.variant} is {_as_fast(verdict, gain)} {first.variant}"]
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


def draw_changes(changes: SweepComparison, ax: Axes | None = None) -> Axes:
    """Draw a line per variant from its time before to its time after, with a table beside it."""
    if not len(changes):
        raise ValueError("changes must contain at least one variant, got none")
    names = [(change.variant, change.after.ceiling) for change in changes]
    canvas = _new_canvas(names, ax, annotate=True)
    verdicts = [change.comparison.verdict for change in changes]
    gains = [change.after.speedup_over(change.before) for change in changes]
    labels = [printable(label, _LONGEST_CELL) for label in changes.labels]
    cells: list[Any] = []
    times: list[float] = []
    for row, (change, verdict) in enumerate(zip(changes, verdicts, strict=True)):
        style, both = text_of(verdict, MEMORY), (change.before.seconds, change.after.seconds)
        found: dict[str, Any] = {
            **{label: (quantity(t, "s"), {}) for label, t in zip(labels, both, strict=True)},
            "speed-up": (ratio(gains[row]), style),
            "it is": (verdict.value, style),
        }
        cells.append((row, change.after, found))
        times += both
    table = Columns(canvas, cells, [-1], ("it is",))
    _time_axis(canvas, times, len(changes), table.share_of_plot)
    for row, (change, verdict) in enumerate(zip(changes, verdicts, strict=True)):
        line, (before, after) = line_of(verdict, MEMORY), (change.before, change.after)
        canvas.line([before.seconds, after.seconds], [row, row], lw=1.4, **line)
        canvas.mark(before.seconds, row, marker="o", mfc=canvas.paper, mec=line["color"])
        canvas.mark(after.seconds, row, marker="o", color=line["color"])
    table.draw()
    faces = zip(labels, (canvas.paper, canvas.ink), strict=True)
    key = [entry(label, marker="o", mec=canvas.ink, mfc=face) for label, face in faces]
    canvas.legend_below([*key, *verdict_entries(verdicts, MEMORY)])
    # Ceilings compute no result: the title does not count them.
    counted = [row for row, (_, ceiling) in enumerate(names) if not ceiling] or range(len(names))
    verdicts = [verdicts[row] for row in counted]
    counts = ", ".join(f"{verdicts.count(v)} {v.value}" for v in Verdict if v in verdicts)
    finding = f"{labels[1]}: {counts}"
    if Verdict.UNCLEAR not in verdicts and set(verdicts) != {Verdict.SAME}:
        mean = statistics.geometric_mean(gains[row] for row in counted)
        finding += f"; mean speed-up {ratio(mean)}"
    canvas.title(finding, changes.title)
    return canvas.ax
