"""Sentences and tables in Markdown, for notebooks. This module does not need IPython."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The start of a cell with a number: a ratio has a multiplication sign.
_NUMBER = re.compile("[*+-]*\N{MULTIPLICATION SIGN}?\\d")


@dataclass(frozen=True, repr=False)
class Text:
    """Text in Markdown: rendered in a notebook, plain in a terminal.

    Attributes
    ----------
    markdown
        The text.
    """

    markdown: str

    def __str__(self) -> str:
        return self.markdown

    def __repr__(self) -> str:
        return self.markdown

    def _repr_markdown_(self) -> str:
        return self.markdown


def say(*parts: object) -> Text:
    """Make text from parts, for example sentences and tables. Each part is a paragraph."""
    return Text("\n\n".join(map(str, parts)))


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> Text:
    """Make a table: columns of numbers are right-aligned, the first and those of text left-aligned.

    Parameters
    ----------
    header
        The headings of the columns.
    rows
        The cells of each row, from left to right. None is an empty cell.

    Raises
    ------
    ValueError
        If a row does not have one cell per column.
    """
    lines = []
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"row must have {len(header)} cells, got {len(row)}: {row!r}")
        lines.append(["" if cell is None else str(cell) for cell in row])
    numbers = [any(map(_NUMBER.match, column)) for column in zip(*lines, strict=True)][1:]
    rules = [":---", *("---:" if number else ":---" for number in numbers)]
    rules += ["---:"] * (len(header) - len(rules))  # without rows
    return Text(
        "\n".join("| " + " | ".join(map(str, line)) + " |" for line in (header, rules, *lines))
    )
