"""Axes of the charts of the notebooks."""

from __future__ import annotations

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, PercentFormatter

from adokernels.charts.canvas import Canvas
from adokernels.text import quantity


def new_canvas(height: float, width: float = 10.0) -> Canvas:
    """A canvas on the axes of a new figure, without the upper and the right line of the frame."""
    ax = plt.figure(figsize=(width, height), layout="constrained").add_subplot()
    return open_canvas(ax)


def open_canvas(ax: Axes) -> Canvas:
    """A canvas on axes, without the upper and the right line of the frame."""
    ax.spines[["top", "right"]].set_visible(False)
    return Canvas(ax, annotate=True)


def label_axis(axis: Axis, label: str, unit: str = "", *, font: float | None = None) -> None:
    """Label an axis, and its ticks with quantities of this unit; a share is a percentage."""
    if unit == "%":
        axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    elif unit:
        axis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, unit)))
    axis.set_label_text(label)
    if font:
        axis.label.set_fontsize(font + 1)
        axis.set_tick_params(labelsize=font)
