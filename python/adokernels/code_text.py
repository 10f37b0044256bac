"""C++ and CUDA code with highlighted syntax, line by line: in a terminal and as HTML.

rich and Pygments are imported when code is shown: a first call must not wait for them.
"""

from __future__ import annotations

import html
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from adokernels.process import is_terminal
from adokernels.text import escaped, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pygments.token import _TokenType
    from rich.console import Group
    from rich.text import Text

#: The font of code, because pages of nbconvert do not set one.
MONOSPACE = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
#: A block of code. The colours of the page apply, light or dark.
PRE = (
    "margin:0;padding:0;background:none;color:inherit;line-height:1.3;font-size:inherit;"
    f"white-space:pre;{MONOSPACE}"
)
#: Maximum number of characters of a line.
_LONGEST_LINE = 2000
#: Maximum number of characters of the title of a listing.
_LONGEST_TITLE = 500
#: Minimum width of a column of marks, and the space between two.
_LEAST_WIDTH, _GAP = 7, "  "
_HEAT = "rgba(234,110,20,{:.2f})"  # readable on light and dark pages


@cache
def _colours() -> dict[_TokenType, str]:
    """Colours of medium luminance: a contrast of at least 4 on white and on dark grey."""
    from pygments.token import Comment, Keyword, Name, Number, String

    return {
        Comment: "#75777b;font-style:italic",
        Comment.Preproc: "#a0682c",
        Keyword: "#3b78d8",
        Keyword.Type: "#168479",
        Name.Builtin: "#168479",
        Name.Function: "#9a63c4",
        Number: "#b7592d",
        String: "#3c8543",
    }


def html_lines(code: str) -> list[str]:
    """Highlight code as HTML, one string per line."""
    from pygments.lexers import CudaLexer

    colours, lines = _colours(), [""]
    for token, text in CudaLexer(stripnl=False, ensurenl=False).get_tokens(_clean(code)):
        kind = token
        while kind is not None and kind not in colours:
            kind = kind.parent
        first, *others = html.escape(text).split("\n")
        style = f'<span style="color:{colours[kind]}">' if kind is not None else ""
        lines[-1] += f"{style}{first}</span>" if style and first else first
        lines += [f"{style}{part}</span>" if style and part else part for part in others]
    return lines


def _clean(code: str) -> str:
    """Replace control characters, which a terminal would interpret; keep line breaks."""
    parts = (printable(part, _LONGEST_LINE) for part in code.replace("\t", "    ").split("\n"))
    return "\n".join(parts)


def text_lines(code: str) -> list[Text]:
    """Highlight code for a terminal, one text per line."""
    from rich.syntax import Syntax

    text = Syntax("", "cuda", theme="ansi_dark", background_color="default").highlight(_clean(code))
    lines = text.split("\n", allow_blank=True)
    return list(lines)[: len(code.split("\n"))]


class ShownAsCode:
    """Base of texts of code: coloured in a terminal and in Jupyter, plain with ``print``."""

    @property
    def text(self) -> str:
        """The plain text."""
        raise NotImplementedError

    def _lines(self) -> Iterable[Text]:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text("\n").join(self._lines())

    def __repr__(self) -> str:
        if not is_terminal(sys.stdout):
            return str(self)
        from rich.console import Console

        console = Console()
        with console.capture() as capture:
            for line in self._lines():
                console.print(line, soft_wrap=True)
        return capture.get().rstrip("\n")


@dataclass(frozen=True)
class Mark:
    """A mark of a line: its text, its heat from 0 to 1, and its tooltip."""

    text: str
    heat: float
    hint: str

    @property
    def style(self) -> str:
        """The style in a terminal."""
        return "bold red" if self.heat > 0.5 else "yellow" if self.heat > 0.1 else "dim"


def _html_cell(mark: Mark | None, width: int) -> str:
    """A mark as HTML, with its colour and tooltip; spaces without a mark."""
    if mark is None:
        return f'<span style="background:none">{"":>{width}}</span>'
    colour, hint = _HEAT.format(0.75 * mark.heat), escaped(mark.hint)
    text = escaped(f"{mark.text:>{width}}")
    return f'<span style="background:{colour}" title="{hint}">{text}</span>'


@dataclass(frozen=True)
class Listing:
    """Numbered lines of code with columns of marks on some lines; shown like a table.

    Without `headers`, there is one column.
    """

    title: str
    code: str
    first: int
    marks: Mapping[int, Sequence[Mark]]
    headers: Sequence[str] = ("",)

    @property
    def _widths(self) -> list[int]:
        """Characters of each column."""
        columns = zip(*self.marks.values(), strict=True)
        longest = [max(len(mark.text) for mark in column) for column in columns]
        longest = longest or [0] * len(self.headers)
        return [
            max(_LEAST_WIDTH, len(header), most)
            for header, most in zip(self.headers, longest, strict=True)
        ]

    def _lines(self) -> Iterator[Text]:
        from rich.text import Text

        widths = self._widths
        yield Text()
        yield Text(printable(self.title, _LONGEST_TITLE), style="bold")
        if any(self.headers):
            yield Text(_GAP.join(map(str.rjust, self.headers, widths)), style="dim")
        for number, code in enumerate(text_lines(self.code), self.first):
            marks = self.marks.get(number, [Mark("", 0, "")] * len(widths))
            cells = [
                (f"{mark.text:>{n}}", mark.style) for mark, n in zip(marks, widths, strict=True)
            ]
            parts = [part for cell in cells for part in (cell, (_GAP, ""))][:-1]
            yield Text.assemble(*parts, (f" {number:4} ", "dim"), code)

    def __rich__(self) -> Group:
        from rich.console import Group

        return Group(*self._lines())

    def to_text(self) -> str:
        """The listing as plain text."""
        return "\n".join(line.plain.rstrip() for line in self._lines())

    def to_html(self) -> str:
        """The listing as HTML, with the colours of the page."""
        rows, widths = [], self._widths
        if any(self.headers):
            header = escaped(_GAP.join(map(str.rjust, self.headers, widths)))
            rows.append(f'<span style="opacity:0.65">{header}</span>')
        for number, code in enumerate(html_lines(self.code), self.first):
            marks = self.marks.get(number, [None] * len(widths))
            cells = [_html_cell(mark, n) for mark, n in zip(marks, widths, strict=True)]
            rows.append(
                f"{_GAP.join(cells)}"
                f'<span style="opacity:0.65;user-select:none"> {number:4} </span>{code}'
            )
        title, body = escaped(self.title), "\n".join(rows)
        return (
            f'<div class="adokernels" style="overflow-x:auto"><strong>{title}</strong>'
            f'<pre style="{PRE}">{body}</pre></div>'
        )
