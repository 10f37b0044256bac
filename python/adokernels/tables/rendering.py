"""Tables in two forms: terminal and HTML.

A table is built once, as a :class:`rich.table.Table` of plain text. Both forms are written from its
columns, so they cannot disagree.
"""

from __future__ import annotations

import copy
import html
import io
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement as Extent
from rich.table import Column, Table
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
#: Characters of a folded column on a narrow terminal, between two columns, and at both edges.
_FOLDED, _BETWEEN, _EDGES = 14, 3, 2
#: Maximum number of characters of a cell, and of a title or the notes below a table.
_LONGEST_CELL, _LONGEST_NOTE = 1000, 100_000


class LiteralTable(Table):
    """A table that shows only printable characters, and does not interpret markup.

    On a narrow terminal, columns are omitted, and a note names them: the `expendable` ones first,
    then the last ones. A file or a pipe receives all columns, unless the variable COLUMNS is set.
    """

    #: Headers of columns, in the order in which they are omitted. Other text columns are folded.
    expendable: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show the columns that fit."""
        shown, notes = copy.copy(self), [_plain(self.caption or "")]
        shown.title = shown.caption = None  # rich would wrap them to the width of the table
        if console.is_terminal or "COLUMNS" in os.environ:
            left_out = _left_out(self, options.max_width)
            kept = (c for c in self.columns if c not in left_out)
            shown.columns = [replace(c, _index=i) for i, c in enumerate(kept)]
            for i, column in enumerate(shown.columns):
                folded = _widest(column) > _LONGEST_NAME if i == 0 else self._is_folded(column)
                column.no_wrap, column.overflow = not folded, "fold"
            if left_out:
                names = (" ".join(_plain(c.header).split()) for c in left_out)
                notes.append(f"omitted at this width: {', '.join(names)}")
        if self.title:
            yield Text(_plain(self.title), "table.title")
        yield from Table.__rich_console__(shown, console, options)
        if any(notes):
            yield Text("\n".join(filter(None, notes)), "table.caption")

    def _is_folded(self, column: Column) -> bool:
        """Whether a narrow terminal folds a column."""
        return not column.no_wrap or bool(self.expendable and column.justify == "left")

    def add_column(self, header: RenderableType = "", *args: Any, **style: Any) -> None:
        """Add a column with a printable header."""
        super().add_column(_literal(header, _LONGEST_CELL), *args, **style)

    def add_row(self, *cells: RenderableType | None, **style: Any) -> None:
        """Add a row of printable cells."""
        super().add_row(*(_literal(cell or "", _LONGEST_CELL) for cell in cells), **style)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("title", "caption") and value is not None:
            value = _literal(value, _LONGEST_NOTE)
        super().__setattr__(name, value)


def _left_out(table: LiteralTable, width: int) -> list[Column]:
    """The columns that do not fit into a width, in their order; never the first one."""
    headers = [_plain(column.header) for column in table.columns]
    places = {header: i for i, header in enumerate(headers) if i}
    first = [places[h] for h in dict.fromkeys(table.expendable) if h in places]
    order = [*first, *(i for i in reversed(range(1, len(headers))) if i not in first)]
    widths = []
    for i, column in enumerate(table.columns):
        widest = _widest(column)
        most = widest if not table._is_folded(column) else _FOLDED if i else _LONGEST_NAME
        widths.append(min(widest, most) + _BETWEEN)
    missing = sum(widths) - _BETWEEN + _EDGES - width
    left_out = set[int]()
    while missing > 0 and order:
        left_out.add(order[0])
        missing -= widths[order.pop(0)]
    return [column for i, column in enumerate(table.columns) if i in left_out]


def _widest(column: Column) -> int:
    """The width of the longest line of a column."""
    lines = (line for c in (column.header, *column.cells) for line in _plain(c).splitlines())
    return max(map(cell_len, lines), default=0)


def _literal(content: RenderableType, most: int) -> Text:
    """Replace the characters of a text that cannot be shown."""
    text = content if isinstance(content, Text) else Text(str(content))
    clean = printable(text.plain, most, lines=True)
    return text if clean == text.plain else Text(clean)


def new_table(
    title: str,
    headers: Sequence[str],
    left: Collection[str] = (),
    widths: Mapping[int, int | None] | None = None,
) -> LiteralTable:
    """Make an empty table.

    The first column and the columns in `left` are left-aligned. Cells are folded in the first
    column and in the columns in `widths`, to this number of characters; None: no maximum.
    """
    table = LiteralTable(title=Text(title), box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.title_justify = table.caption_justify = "left"
    for place, header in enumerate(headers):
        justify: Literal["left", "right"] = "left" if not place or header in left else "right"
        table.add_column(Text(header), justify=justify, no_wrap=True)
    for place, width in ({0: _LONGEST_NAME} | dict(widths or {})).items() if headers else ():
        column = table.columns[place]
        column.no_wrap, column.overflow, column.max_width = False, "fold", width
    return table


def table_of(
    title: str,
    rows: Iterable[Mapping[str, Any]],
    text: Mapping[str, int | None] | Iterable[str] = (),
    *,
    notes: Iterable[str] = (),
    faded: Iterable[bool] = (),
    sparse: bool = False,
    expendable: Sequence[str] = (),
) -> Table:
    """Make a table from rows that give the cell of each header; missing cells are empty.

    `text` has the headers of the left-aligned columns. A mapping also has the width at which each
    column is folded (None: no maximum, 0: not folded). Rows for which `faded` is true are less
    important. If `sparse`, columns whose cells are all empty are omitted, except the first one.
    A narrow terminal omits the columns in `expendable` first, in this order.
    """
    rows = list(rows)
    every = list(dict.fromkeys(header for row in rows for header in row))
    empty = {h for h in every[1:] if sparse and not any(str(row.get(h, "")) for row in rows)}
    headers = [header for header in every if header not in empty]
    folded = text if isinstance(text, Mapping) else {}
    widths = {place: folded[h] for place, h in enumerate(headers) if folded.get(h, 0) != 0}
    table = new_table(title, headers, left=[*text], widths=widths)
    less_important = dict(enumerate(faded))
    for place, row in enumerate(rows):
        style = FADED if less_important.get(place) else ""
        table.add_row(*(row.get(h, "") for h in headers), style=style)
    table.caption, table.expendable = "\n".join(notes) or None, expendable
    return table


def width_of(table: Table, console: Console) -> int:
    """The width at which only very long names are folded."""
    body = copy.copy(table)
    body.title = body.caption = None
    return Extent.get(console, console.options.update(width=10 * _WIDTH), body).maximum


def to_text(table: Table | Listing, width: int = _WIDTH) -> str:
    """Render a table as plain text, or a listing of code.

    A table may exceed `width`: wrapped lines are readable, and columns of one letter are not.
    """
    if not isinstance(table, Table):
        return table.to_text()
    how: dict[str, Any] = {"color_system": None, "force_terminal": False, "legacy_windows": False}
    console = Console(file=io.StringIO(), width=width, force_jupyter=False, **how)
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
    aligned = []
    for place, c in enumerate(table.columns):
        # Sentences are wrapped; pages of Jupyter would also wrap numbers and their units.
        wrapped = "normal;min-width:12em" if place and not c.no_wrap else "nowrap"
        align = "right" if c.justify == "right" else "left"
        aligned.append((f' style="text-align:{align};white-space:{wrapped}"', c))
    head = "".join(f"<th{style}>{_lines(c.header)}</th>" for style, c in aligned)
    body = ""
    for row, cells in zip(
        table.rows, zip(*(c.cells for c in table.columns), strict=True), strict=True
    ):
        faded = ' style="opacity:0.65;font-style:italic"' if row.style == FADED else ""
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


def to_markdown(table: Table | Listing) -> str:
    """Render a table, or a listing as a block of code, in GitHub's Markdown."""
    if not isinstance(table, Table):
        return f"```\n{table.to_text()}\n```\n"

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rows = zip(*(map(_markdown_cell, c.cells) for c in table.columns), strict=True)
    rule = ("--:" if c.justify == "right" else ":--" for c in table.columns)
    title, notes = (_plain(text or "").splitlines() for text in (table.title, table.caption))
    parts = [*(f"**{_markdown_cell(part)}**" for part in title), ""]
    if table.columns:  # a table without rows has none
        parts += [line(_markdown_cell(c.header) for c in table.columns), line(rule)]
    parts += map(line, rows)
    return "\n".join([*parts, "", *(f"{_markdown_cell(note)}  " for note in notes), ""])


def _markdown_cell(content: RenderableType) -> str:
    escaped = re.sub(r"([\\`*_{}\[\]<>|~])", r"\\\1", _plain(content))
    return escaped.replace("\n", " ")


def _html_cell(cell: RenderableType) -> str:
    text = html.escape(_plain(cell))
    return f"<em>{text}</em>" if isinstance(cell, Text) and cell.style == ITALIC else text


def _plain(content: RenderableType) -> str:
    return content.plain if isinstance(content, Text) else str(content)


def _lines(content: RenderableType | None) -> str:
    return "<br>".join(html.escape(line) for line in _plain(content or "").splitlines())
