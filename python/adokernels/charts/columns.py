"""Columns of text at the right of a chart with rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adokernels.charts.canvas import LITERAL, Canvas
from adokernels.text import printable

#: A cell: its vertical position, its text and its style.
Cell = tuple[float, str, Mapping[str, Any]]
#: The cells of each column, from left to right.
Columns = dict[str, list[Cell]]
#: Widest columns together, as a fraction of the width of the axes.
_WIDEST = 0.5
#: Maximum number of characters of a cell.
_LONGEST_CELL = 24
#: Width of a character and of the space between columns, relative to the size of the font.
_CHARACTER, _GAP = 0.6, 1.6
_BOLD: dict[str, Any] = {"fontweight": "bold"}


def new_columns(names: Iterable[str], headings: Sequence[float]) -> Columns:
    """Columns that only have their names, at each of the positions `headings`."""
    return {name: [(y, name, _BOLD) for y in headings] for name in names}


def fitting(canvas: Canvas, columns: Columns, optional: Iterable[str]) -> Columns:
    """The columns with cells below their names, without `optional` ones if space is missing."""
    found = {
        name: [(y, printable(words, _LONGEST_CELL), own) for y, words, own in cells]
        for name, cells in columns.items()
        if any(words != name for _, words, _ in cells)
    }
    for name in optional:
        if canvas.font * sum(_widths(found)) > _WIDEST * canvas.width:
            found.pop(name, None)
    return found


def share_of_plot(canvas: Canvas, columns: Columns) -> float:
    """The fraction of the width of the axes that the columns leave for the plot."""
    return 1 - canvas.font * sum(_widths(columns)) / canvas.width


def draw_columns(canvas: Canvas, columns: Columns) -> None:
    """Draw the cells; the last column ends at the right edge of the axes."""
    widths = _widths(columns)
    for column, cells in enumerate(columns.values()):
        shift = canvas.shift(-canvas.font * sum(widths[column + 1 :]))
        style: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": canvas.font}
        style |= {"color": canvas.ink, "transform": canvas.ax.get_yaxis_transform() + shift}
        for y, words, own in cells:
            text = canvas.ax.text(1.0, y, words, **{**style, **LITERAL, **own})
            canvas.labels.add(text, [{}])  # labels that are added later avoid it


def _widths(columns: Columns) -> list[float]:
    longest = [max(len(words) for _, words, _ in cells) for cells in columns.values()]
    return [_CHARACTER * characters + _GAP for characters in longest]
