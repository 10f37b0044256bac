"""Tables in two forms: terminal and HTML.

A table is built once, as a :class:`rich.table.Table` of plain text. Both forms are written from its
columns, so they cannot disagree.
"""

from __future__ import annotations

import copy
import html
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement as Extent
from rich.table import Table
from rich.text import Text

from adokernels.text import printable

if TYPE_CHECKING:
    from adokernels.code_text import Listing

_WIDTH = 110
#: Styles of a less important row and of a cell in italics, in all output formats. Colours are
#: shown only in terminals.
FADED, ITALIC = "dim", "italic"
#: A longer name is folded over several lines instead of widening the table.
_LONGEST_NAME = 24
#: Maximum number of characters of a cell, and of a title or the notes below a table.
_LONGEST_CELL, _LONGEST_NOTE = 1000, 100_000


class _LiteralTable(Table):
    """A table that shows only printable characters, and does not interpret markup."""

    def add_column(self, header: RenderableType = "", *args: Any, **style: Any) -> None:
        super().add_column(_literal(header, _LONGEST_CELL), *args, **style)

    def add_row(self, *cells: RenderableType | None, **style: Any) -> None:
        super().add_row(*(_literal(cell or "", _LONGEST_CELL) for cell in cells), **style)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("title", "caption") and value is not None:
            value = _literal(value, _LONGEST_NOTE)
        super().__setattr__(name, value)


def _literal(content: RenderableType, most: int) -> Text:
    """Replace the characters of a text that cannot be shown."""
    text = content if isinstance(content, Text) else Text(str(content))
    clean = printable(text.plain, most, lines=True)
    return text if clean == text.plain else Text(clean)


def new_table(title: str, headers: Iterable[tuple[str, bool]]) -> Table:
    """Make an empty table; a header is its text and whether the column is left-aligned."""
    table = _LiteralTable(title=Text(title), box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.title_justify = table.caption_justify = "left"
    for header, left in headers:
        table.add_column(Text(header), justify="left" if left else "right", no_wrap=True)
    names = table.columns[0]
    names.no_wrap, names.overflow, names.max_width = False, "fold", _LONGEST_NAME
    return table


def width_of(table: Table, console: Console) -> int:
    """The width at which only very long names are folded."""
    body = copy.copy(table)
    body.title = body.caption = None
    return Extent.get(console, console.options.update(width=10 * _WIDTH), body).maximum


def show(console: Console, tables: Iterable[Table]) -> None:
    """Print tables at their full width: a narrow terminal wraps lines, but nothing is cut."""
    before = console.width
    for table in tables:
        console.width = max(before, width_of(table, console))
        console.print(table)
    console.width = before


def to_text(table: Table | Listing, width: int = _WIDTH) -> str:
    """Render a table as plain text, or a listing of code.

    Numbers are never broken across lines. A table that needs more than `width` columns exceeds
    `width`, because wrapped lines are readable and columns of one letter are not.
    """
    if not isinstance(table, Table):
        return table.to_text()
    console = Console(file=io.StringIO(), color_system=None, width=width, legacy_windows=False)
    console.width = max(width, width_of(table, console))
    body = copy.copy(table)  # rich would wrap title and caption to the width of the table
    body.title = body.caption = None
    with console.capture() as capture:
        console.print(*(part for part in (table.title, body, table.caption) if part), sep="\n")
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def to_html(table: Table | Listing) -> str:
    """Render a table, or a listing, as HTML with the colours of the page, light or dark."""
    if not isinstance(table, Table):
        return table.to_html()
    aligned = [(f' style="text-align:{_align(c.justify)}"', c) for c in table.columns]
    for place, c in enumerate(table.columns):
        if place and not c.no_wrap:  # sentences are wrapped; the page wraps no other cells
            style = f"text-align:{_align(c.justify)};white-space:normal;min-width:12em"
            aligned[place] = (f' style="{style}"', c)
    head = "".join(f"<th{style}>{_lines(c.header)}</th>" for style, c in aligned)
    body = ""
    for style, cells in _rows(table):
        faded = ' style="opacity:0.65;font-style:italic"' if style == FADED else ""
        pairs = zip(aligned, cells, strict=True)
        data = "".join(f"<td{align}>{_html_cell(cell)}</td>" for (align, _), cell in pairs)
        body += f"<tr{faded}>{data}</tr>\n"
    caption = '<caption style="text-align:left;caption-side:top;color:inherit">{}</caption>\n'
    title = caption.format(f"<strong>{_lines(table.title)}</strong>") if table.title else ""
    note = f"<p>{_lines(table.caption)}</p>\n" if table.caption else ""
    return (
        f'<div class="adokernels" style="overflow-x:auto"><table>\n{title}'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n{note}</div>"
    )


def _rows(table: Table) -> list[tuple[str, Sequence[RenderableType]]]:
    """The style and the cells of each row."""
    cells = zip(*(column.cells for column in table.columns), strict=True)
    return [(str(row.style or ""), line) for row, line in zip(table.rows, cells, strict=True)]


def _html_cell(cell: RenderableType) -> str:
    text = html.escape(_plain(cell))
    return f"<em>{text}</em>" if _is_italic(cell) else text


def _is_italic(cell: RenderableType) -> bool:
    return isinstance(cell, Text) and cell.style == ITALIC


def _plain(content: RenderableType) -> str:
    return content.plain if isinstance(content, Text) else str(content)


def _lines(content: RenderableType | None) -> str:
    return "<br>".join(html.escape(line) for line in _plain(content or "").splitlines())


def _align(justify: str) -> str:
    return "right" if justify == "right" else "left"
