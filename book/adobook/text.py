"""Tables and anchors in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.table import Table

#: The start of a cell with a number: a ratio has a multiplication sign.
_NUMBER = re.compile("[*+-]*\N{MULTIPLICATION SIGN}?\\d")
_LEFT, _RIGHT = ":---", "---:"


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Make a table: columns of numbers are right-aligned, the first and text columns left-aligned.

    None is an empty cell. A row with more or fewer cells than the header raises ValueError.
    """
    lines = []
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"row must have {len(header)} cells, got {len(row)}: {row!r}")
        lines.append(["" if cell is None else str(cell) for cell in row])
    numbers = [any(map(_NUMBER.match, column)) for column in zip(*lines, strict=True)][1:]
    rules = [_LEFT, *(_RIGHT if number else _LEFT for number in numbers)]
    rules += [_RIGHT] * (len(header) - len(rules))  # without rows
    return write_table(header, lines, rules)


def write_table(
    header: Sequence[object], rows: Iterable[Sequence[object]], rules: Sequence[str] = ()
) -> str:
    """Write a table in Markdown. Rules are the line below the header; the default is unaligned."""
    lines = (header, rules or ["---"] * len(header), *rows)
    texts = ([" ".join(str(cell).split("\n")) for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in texts)


def write_rich_table(table: Table) -> str:
    """Write a table of the package, with its title above and its caption below."""

    def cell(content: object) -> str:
        text = _escape(str(content))
        return f"*{text}*" if getattr(content, "style", "") == "italic" else text

    text = write_table(
        [cell(column.header).replace("\n", " ") for column in table.columns],
        zip(*(map(cell, column.cells) for column in table.columns), strict=True),
        [_RIGHT if column.justify == "right" else _LEFT for column in table.columns],
    )
    title = f"**{_escape(str(table.title))}**\n\n" if table.title else ""
    notes = [f"- {_escape(note)}" for note in str(table.caption or "").splitlines()]
    return "\n".join([title + text, *([""] if notes else []), *notes])


def _escape(text: str) -> str:
    return re.sub(r"[\\|<*`]", r"\\\g<0>", text)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST form it; Jupyter keeps case and punctuation."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")
