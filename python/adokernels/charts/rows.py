"""Parts of charts with one row per variant: columns of text, and styles for verdicts on steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.lines import Line2D

from adokernels.charts.canvas import FADED, LITERAL, LOST, Canvas, entry
from adokernels.records.measurement import Measurement
from adokernels.records.statistics import Verdict
from adokernels.text import number, printable

#: The cells of each column, from left to right: vertical position, text and style.
Columns = dict[str, list[tuple[float, str, Mapping[str, Any]]]]
#: Widest columns together, as a fraction of the width of the axes.
_WIDEST = 0.5
#: Maximum number of characters of a cell.
_LONGEST_CELL = 24
#: Width of a character and of the space between columns, relative to the size of the font.
_CHARACTER, _GAP = 0.6, 1.6
#: Dashes and spaces of the line of an unclear step, in units of the line width.
_DASHES = (0, (2.2, 1.6))


def new_columns(names: Iterable[str], headings: Sequence[float]) -> Columns:
    """Columns that only have their names, at each of the positions `headings`."""
    return {name: [(y, name, {"fontweight": "bold"}) for y in headings] for name in names}


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


def line_of(verdict: Verdict, faster: str) -> dict[str, Any]:
    """Style of the line of a step: `faster` is the colour of a faster one, unclear ones are dashed.

    Slower steps have a warning colour, others are grey.
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
    if verdict is Verdict.UNCLEAR:
        return []
    words = "as fast as" if verdict is Verdict.SAME else f"{number(gain)} times as fast as"
    return [f"{words} {peer.shown_as}"]
