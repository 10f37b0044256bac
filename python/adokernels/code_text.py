"""C++ and CUDA code with highlighted syntax, line by line: in a terminal and as HTML.

rich and Pygments are imported when code is shown: a first call must not wait for them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from adokernels.process import is_terminal
from adokernels.text import escaped, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pygments.formatter import Formatter
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
def _formatter() -> Formatter[str]:
    """Colours of medium luminance: a contrast of at least 4 on white and on dark grey."""
    from pygments.formatters import HtmlFormatter
    from pygments.style import Style
    from pygments.token import Comment, Keyword, Name, Number, String

    class Colours(Style):  # type: ignore[misc]
        styles: ClassVar = {
            Comment: "italic #75777b",
            Comment.Preproc: "noitalic #a0682c",
            Keyword: "#3b78d8",
            Keyword.Type: "#168479",
            Name.Builtin: "#168479",
            Name.Function: "#9a63c4",
            Number: "#b7592d",
            String: "#3c8543",
        }

    return HtmlFormatter(style=Colours, noclasses=True, nowrap=True)


def html_lines(code: str) -> list[str]:
    """Highlight code as HTML, one string per line."""
    from pygments import highlight
    from pygments.lexers import CudaLexer

    page: str = highlight(f"{_clean(code)}\n", CudaLexer(stripnl=False), _formatter())
    return page.split("\n")[:-1]


def _clean(code: str) -> str:
    """Replace control characters, which a terminal would interpret; keep line breaks."""
    lines = code.replace("\t", "    ").split("\n")
    return "\n".join(printable(line, _LONGEST_LINE) for line in lines)


def text_lines(code: str) -> list[Text]:
    """Highlight code for a terminal, one text per line."""
    from rich.syntax import Syntax

    text = Syntax("", "cuda", theme="ansi_dark", background_color="default").highlight(_clean(code))
    return list(text.split("\n", allow_blank=True))[: code.count("\n") + 1]


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
            console.print(self, soft_wrap=True)
        return capture.get().rstrip("\n")


class Mark(NamedTuple):
    """A mark of a line: its text, its heat from 0 to 1, and its tooltip."""

    text: str
    heat: float
    hint: str

    @property
    def style(self) -> str:
        """The style in a terminal."""
        return "bold red" if self.heat > 0.5 else "yellow" if self.heat > 0.1 else "dim"


@dataclass(frozen=True)
class Listing:
    """Numbered lines of code with columns of marks on some lines; shown like a table.

    By default, there is one column without a header.
    """

    title: str
    code: str
    first: int
    marks: Mapping[int, Sequence[Mark]]
    headers: Sequence[str] = ("",)

    @cached_property
    def _widths(self) -> list[int]:
        """Characters of each column."""
        texts = ([mark.text for mark in marks] for marks in self.marks.values())
        columns = zip(self.headers, *texts, strict=True)
        return [max(_LEAST_WIDTH, *map(len, column)) for column in columns]

    def _cells(self, number: int) -> list[tuple[str, Mark]]:
        """The text and the mark of each column of a line."""
        marks = self.marks.get(number) or [Mark("", 0, "")] * len(self.headers)
        return [(f"{m.text:>{n}}", m) for m, n in zip(marks, self._widths, strict=True)]

    def _header(self) -> str:
        return _GAP.join(map(str.rjust, self.headers, self._widths))

    def lines(self) -> Iterator[Text]:
        """The lines for a terminal: an empty one, the title, the headers and the code."""
        from rich.text import Text

        yield Text()
        yield Text(printable(self.title, _LONGEST_TITLE), style="bold")
        if any(self.headers):
            yield Text(self._header(), style="dim")
        for number, code in enumerate(text_lines(self.code), self.first):
            cells = Text(_GAP).join(Text(text, m.style) for text, m in self._cells(number))
            yield cells.append(f" {number:4} ", style="dim").append_text(code)

    def __rich__(self) -> Group:
        from rich.console import Group

        return Group(*self.lines())

    def to_text(self) -> str:
        """The listing as plain text."""
        return "\n".join(line.plain.rstrip() for line in self.lines())

    def to_html(self) -> str:
        """The listing as HTML, with the colours of the page."""
        rows = [f'<span style="opacity:0.65">{escaped(self._header())}</span>']
        for number, code in enumerate(html_lines(self.code), self.first):
            cells = _GAP.join(
                f'<span style="background:{_HEAT.format(0.75 * mark.heat)}" '
                f'title="{escaped(mark.hint)}">{escaped(text)}</span>'
                for text, mark in self._cells(number)
            )
            rows.append(
                f'{cells}<span style="opacity:0.65;user-select:none"> {number:4} </span>{code}'
            )
        title, body = escaped(self.title), "\n".join(rows if any(self.headers) else rows[1:])
        return (
            f'<div class="adokernels" style="overflow-x:auto"><strong>{title}</strong>'
            f'<pre style="{PRE}">{body}</pre></div>'
        )
