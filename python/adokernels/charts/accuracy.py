"""The chart of accuracy: the largest error of each variant against its time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from adokernels.charts.canvas import COMPUTE, FADED, MEMORY, Canvas, entry, log_axis, log_ticks
from adokernels.charts.series import title_of
from adokernels.records.measurement import Measurement
from adokernels.records.sweep import Sweep
from adokernels.text import number, quantity, require

_FIELDS = {"ulp": "error_ulp", "relative": "error_relative"}
#: Error of a correctly rounded result, in ulp, and the smallest error above which it is not drawn.
_ROUNDING, _FAR_ABOVE = 0.5, 8.0
#: Position of an exact result, relative to the smallest error and to a correctly rounded one.
_EXACT = 1 / 3
#: Space around the points, as factors of the time and of the error.
_BESIDE, _ABOVE = 1.6, 2.0
#: Distances from a point to its label, in points, and directions: first those beside the interval.
_DISTANCES = (9, 16, 26, 38)
_COMPASS = ((0, 1), (0, -1), (0.7, 0.7), (-0.7, -0.7), (-0.7, 0.7), (0.7, -0.7))


def accuracy(
    sweep: Sweep, *, kind: str = "ulp", ax: Axes | None = None, annotate: bool = True
) -> Axes:
    """Draw the largest error of each variant against its time, both on logarithmic axes.

    Nothing is both faster and more accurate than the variants on the line, which are filled. Exact
    results are on the lowest line of the chart.

    Parameters
    ----------
    sweep
        The measured ladder. Peers are drawn if they were checked; ceilings are not.
    kind : {"ulp", "relative"}
        The error: in ulp of the result's type at the reference (in steps for integers), or
        relative; see the attributes of :class:`adokernels.records.Measurement`.
    ax
        The axes to draw on; by default, new axes of a new figure.
    annotate
        Whether to add names, a legend and a title.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If `kind` is unknown, if no result has a rounding error, or if the record has no errors.
    """
    if kind not in _FIELDS:
        raise ValueError(f"kind must be 'ulp' or 'relative', got {kind!r}")
    require(Sweep, "a sweep", sweep=sweep)
    rows = (*sweep.variants, *sweep.peers)
    known = {m: error for m in rows if (error := getattr(m, _FIELDS[kind])) is not None}
    if not any(known.values()):
        errors = [m.error for m in rows if m.error is not None]
        why = (
            f"sweep must have errors in ulp, got none: results of {sweep.routine} must be exact or "
            "were not checked"
        )
        if kind == "relative" and any(m.error_ulp is not None for m in rows):
            why = f"{sweep.routine} computes integers, which have no relative error; use kind='ulp'"
        elif errors and not any(errors):
            why = f"all results of {sweep.routine} are exact: there is no accuracy to draw"
        raise ValueError(why)
    best = frontier(known)
    canvas = Canvas(ax, annotate=annotate, size=(9.0, 5.0))
    canvas.identify([rows])
    floating = any(m.error_relative is not None for m in rows)
    unit = "" if kind == "relative" else "ulp" if floating else "steps"
    lowest = min(*filter(None, known.values()), _ROUNDING)
    heights = {m: error or lowest * _EXACT for m, error in known.items()}
    _frame(canvas, heights, 0.0 in known.values(), unit)
    (_, right), (_, height) = canvas.ax.get_xlim(), canvas.ax.get_ylim()
    corners = []  # steps from each point to the next one, and on to the ends of the axes
    for m in best:
        corners += [(m.seconds, height), (m.seconds, height := heights[m])]
    for (x, y), (x_next, y_next) in itertools.pairwise([*corners, (right, height)]):
        canvas.line([x, x_next], [y, y_next], color=MEMORY, lw=1.2, alpha=0.6)
    for m in sorted(known, key=best.__contains__, reverse=True):  # the labels of the best first
        colour = COMPUTE if m in sweep.peers else MEMORY if m in best else FADED
        x, y = m.seconds, heights[m]
        canvas.error_bar(x, y, ends=m.interval)
        canvas.labels.lines.append(np.array([(t, y) for t in m.interval]))
        face = colour if m in best else canvas.paper
        canvas.mark(x, y, marker="o", mfc=face, mec=colour, mew=1.4, gid=canvas.gid(m))
        if annotate:
            words = m.shown_as
            if m in best:
                words += f"\n{quantity(x, 's')}, {_words(known[m], unit)}"
            style: dict[str, Any] = {"fontweight": "bold"} if m in best else {"color": FADED}
            canvas.callout(words, (x, y), _DISTANCES, _COMPASS, **style)
    hollow: dict[str, Any] = {"marker": "o", "mfc": canvas.paper, "mec": FADED, "mew": 1.4}
    key = [
        entry("no other is both faster and more accurate", marker="o", color=MEMORY, ls="-"),
        entry("another is faster and at least as accurate", **hollow),
    ]
    if any(m in known for m in sweep.peers):
        key.append(entry("peer", marker="o", color=COMPUTE))
    canvas.legend_below(key)
    words = "\N{SOUTH WEST ARROW} faster and more accurate"
    places = [{"position": (x, y)} for y in (0, 0.1, 0.2) for x in (0, 0.2, 0.4, 0.6)]
    corner = canvas.ax.transAxes + canvas.shift(4, 4)
    canvas.label(words, places, color=FADED, transform=corner, va="bottom")
    if annotate:
        canvas.title(_finding(best, known, unit), title_of(sweep))
    return canvas.ax


def frontier(errors: dict[Measurement, float]) -> list[Measurement]:
    """Find the measurements that no other beats in both time and error, fastest first."""
    found: list[Measurement] = []
    for m in sorted(errors, key=lambda m: (m.seconds, errors[m])):
        if not found or errors[m] < errors[found[-1]]:
            found.append(m)
    return found


def _frame(canvas: Canvas, heights: dict[Measurement, float], has_exact: bool, unit: str) -> None:
    ax = canvas.ax
    times = [t for m in heights for t in m.interval]
    low, high = min(heights.values()), max(heights.values())
    rounding = unit == "ulp" and low < _FAR_ABOVE
    if rounding:
        low = min(low, _ROUNDING)
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(min(times) / _BESIDE, max(times) * _BESIDE)
    ax.set_ylim(low / _ABOVE, high * _ABOVE)
    seconds = log_axis(ax.xaxis, *ax.get_xlim(), "s")
    ticks = log_ticks(*ax.get_ylim())
    exact = [low] if has_exact else []
    ax.yaxis.set_major_locator(
        FixedLocator([*exact, *(t for t in ticks if not exact or t > 1.5 * low)])
    )
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda y, _: "exact" if y in exact else f"{float(f'{y:.3g}'):g}")
    )
    name = f"Largest error [{unit}], logarithmic" if unit else "Largest relative error, logarithmic"
    canvas.frame(f"Time per call [{seconds}], logarithmic", name)
    ax.grid(color=canvas.tint(0.1), lw=0.6)
    ax.set_axisbelow(True)
    if rounding:
        ax.axhline(_ROUNDING, color=FADED, lw=0.9, ls="--", zorder=1)
        transform = ax.get_yaxis_transform() + canvas.shift(0, 2)
        place = {"position": (0.99, _ROUNDING), "ha": "right", "transform": transform}
        canvas.label("0.5 ulp: correctly rounded", [place], va="bottom", color=FADED)


def _words(error: float, unit: str) -> str:
    if not error:
        return "exact"
    return f"{number(error, 2)} {unit}" if unit else f"{error:.2g}"


def _finding(best: Sequence[Measurement], errors: dict[Measurement, float], unit: str) -> str:
    fastest, accurate = best[0], best[-1]
    if fastest is accurate:
        error = _words(errors[fastest], unit)
        return f"{fastest.shown_as} is the fastest, and nothing is more accurate: {error}"
    return (
        f"{fastest.shown_as} is the fastest ({_words(errors[fastest], unit)}); "
        f"{accurate.shown_as} is the most accurate ({_words(errors[accurate], unit)}) and takes "
        f"{number(accurate.seconds / fastest.seconds)} times as long"
    )
