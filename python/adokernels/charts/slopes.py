"""The slope chart: the time of each variant in two runs, joined by a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from adokernels.charts.canvas import FADED, LITERAL, Canvas
from adokernels.charts.rows import line_of, text_of, verdict_entries
from adokernels.records.changes import SweepComparison
from adokernels.records.statistics import Verdict
from adokernels.text import printable, quantity, ratio

_FASTER = "#0072B2"
_LONGEST_NAME = 40
#: Positions of the two runs, and of the labels beside them, as fractions of the width.
_BEFORE, _AFTER, _LABEL = 0.38, 0.62, 0.035
#: Height of a label, relative to the size of its font.
_LINE = 1.5
_ROW, _REST = 0.26, 1.6  # inches


def draw_slopes(changes: SweepComparison, ax: Axes | None = None) -> Axes:
    """Draw the times before on the left and the times after on the right, logarithmically."""
    if not len(changes):
        raise ValueError("changes must contain at least one variant, got none")
    canvas = Canvas(ax, annotate=True, size=(8.5, _REST + _ROW * len(changes)))
    ax = canvas.ax
    before = [math.log10(c.before.seconds) for c in changes]
    after = [math.log10(c.after.seconds) for c in changes]
    gains = [c.after.speedup_over(c.before) for c in changes]  # ratios of the times in the chart
    low, high = min(*before, *after), max(*before, *after)
    # Each label needs one line, even if all times are nearly the same.
    space = _LINE * canvas.font * len(changes) / canvas.height
    span = max(high - low, 0.02)
    margin = span * max(0.08, (space - 0.84) / 2)
    limits = low - margin, high + margin
    ax.set(xlim=(0, 1), ylim=limits, xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    step = _LINE * canvas.font / canvas.height * (span + 2 * margin)
    left, right = (_spread(values, step, limits) for values in (before, after))
    for i, change in enumerate(changes):
        verdict = change.comparison.verdict
        line = line_of(verdict, _FASTER)
        # Otherwise, the lines of unchanged times would hide the other lines.
        front = 0 if verdict is Verdict.SAME else 1
        ends = [before[i], after[i]]
        canvas.line([_BEFORE, _AFTER], ends, lw=1.4, zorder=2 + front, **line)
        first, name = (printable(m.variant, _LONGEST_NAME) for m in (change.before, change.after))
        gain = ratio(gains[i])
        texts = (
            (f"{first}  {quantity(change.before.seconds, 's')}", _BEFORE, -1, before, left),
            (f"{quantity(change.after.seconds, 's')}  {gain}  {name}", _AFTER, 1, after, right),
        )
        face = canvas.paper if verdict is Verdict.UNCLEAR else line["color"]
        for words, x, side, points, places in texts:
            canvas.mark(x, points[i], marker="o", mfc=face, mec=line["color"], zorder=4 + front)
            end = x + side * _LABEL
            ax.plot([x, end], [points[i], places[i]], color=FADED, lw=0.5, zorder=1)
            at = {"x": end + side * 0.008, "y": places[i], "ha": "left" if side > 0 else "right"}
            canvas.text(words, va="center", bbox=None, **at, **text_of(verdict, _FASTER))
    below = ax.transAxes + canvas.shift(0, -0.6 * canvas.font)
    head: dict[str, Any] = {"transform": below, "ha": "center", "va": "top", "gid": "subject"}
    head |= {"fontsize": canvas.font + 1, "fontweight": "bold", **LITERAL}
    for x, label in zip((_BEFORE, _AFTER), changes.labels, strict=True):
        ax.text(x, 0.0, printable(label, _LONGEST_NAME), **head)
    verdicts = [change.comparison.verdict for change in changes]
    canvas.legend_below(verdict_entries(verdicts, _FASTER))
    counts = ", ".join(f"{verdicts.count(v)} {v.value}" for v in Verdict if v in verdicts)
    mean = ratio(math.exp(np.mean(np.log(gains))))
    finding = f"{changes.labels[1]}: {counts}; mean speed-up {mean}"
    canvas.title(finding, f"{changes.title}; times on a logarithmic axis")
    return ax


def _spread(values: Sequence[float], step: float, limits: tuple[float, float]) -> list[float]:
    """Positions as close as possible to the values, in their order, at least one step apart."""
    groups: list[tuple[float, int]] = []  # centre and number of labels that touch each other
    for value in sorted(values):
        groups.append((value, 1))
        while len(groups) > 1:
            (low, n), (high, m) = groups[-2:]
            if high - low >= step * (n + m) / 2:
                break
            groups[-2:] = [((low * n + high * m) / (n + m), n + m)]
    spread: list[float] = []
    for centre, count in groups:
        reach = step * (count - 1) / 2
        middle = min(max(centre, limits[0] + reach), limits[1] - reach)
        spread += [middle - reach + step * k for k in range(count)]
    places = np.empty(len(values))
    places[np.argsort(values, kind="stable")] = spread
    return list(places)
