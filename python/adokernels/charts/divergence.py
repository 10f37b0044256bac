"""The chart of divergence: active and masked lanes in the passes of a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch, Rectangle

from adokernels.charts.canvas import FADED, Canvas
from adokernels.charts.counted import new_axes
from adokernels.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from adokernels.patterns.divergence import Divergence

#: Colours of the branches, in order; they are repeated if there are more. Okabe & Ito.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_MASKED = "0.93"
_MOST_WARPS = 8
_LANES = 32


def draw_divergence(of: Divergence, *, ax: Axes | None, annotate: bool) -> Axes:
    """Draw the passes of the first warps; see ``Divergence.plot``."""
    warps = min(of.warps, _MOST_WARPS)
    passes = [
        (warp, branch)
        for warp in range(warps)
        for branch in range(len(of.branches))
        if of.lanes[branch, warp].any()
    ]
    ax = ax or new_axes(10.0, 1.7 + 0.3 * len(passes))
    canvas = Canvas(ax, annotate=annotate)
    heights = [number_in_order + 0.35 * warp for number_in_order, (warp, _) in enumerate(passes)]
    for height, (warp, branch) in zip(heights, passes, strict=True):
        _pass(canvas, height, of.lanes[branch, warp], _COLOURS[branch % len(_COLOURS)])
    _frame(canvas, heights, [f"warp {w}, {of.branches[b]}" for w, b in passes])
    if annotate:
        legend = [
            (_COLOURS[b % len(_COLOURS)], f"active in {n}") for b, n in enumerate(of.branches)
        ]
        legend.append((_MASKED, "masked"))
        canvas.legend_below([Patch(fc=c, ec=FADED, lw=0.4, label=words) for c, words in legend])
    more = f", the first {warps} of {of.warps} warps" if warps < of.warps else ""
    canvas.title(
        f"{number(100 * of.lane_efficiency)} % of the lanes are active",
        f"{of.passes} passes of {of.warps} warp{'s' if of.warps != 1 else ''}{more}",
    )
    return ax


def _pass(canvas: Canvas, height: float, active: Any, colour: str) -> None:
    for lane, works in enumerate(active):
        style: dict[str, Any] = {"fc": colour if works else _MASKED, "ec": canvas.paper, "lw": 1.0}
        canvas.ax.add_patch(Rectangle((lane - 0.5, height - 0.42), 1, 0.84, **style))
    if canvas.annotate:
        words = f"{np.count_nonzero(active)} of {_LANES}"
        canvas.label(words, position=(_LANES - 0.2, height), va="center", bbox=None)


def _frame(canvas: Canvas, heights: list[float], names: list[str]) -> None:
    ax = canvas.ax
    ax.set_xlim(-0.6, _LANES + 3.2 if canvas.annotate else _LANES - 0.4)
    ax.set_ylim(max(heights) + 0.6, -0.6)
    ax.set_xticks(range(_LANES), [str(lane) for lane in range(_LANES)], fontsize=canvas.font)
    ax.set_yticks(heights, names, fontsize=canvas.font)
    ax.set_xlabel("Lane", fontsize=canvas.font, x=0.5 * _LANES / (_LANES + 3.2))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
