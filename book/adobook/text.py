"""Tables and anchors in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.table import Table

#: The rules below the headers of aligned columns.
LEFT, RIGHT = ":---", "---:"


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
        [RIGHT if column.justify == "right" else LEFT for column in table.columns],
    )
    title = f"**{_escape(str(table.title))}**\n\n" if table.title else ""
    notes = [f"- {_escape(note)}" for note in str(table.caption or "").splitlines()]
    return "\n".join([title + text, *([""] if notes else []), *notes])


def _escape(text: str) -> str:
    return re.sub(r"[\\|<*`]", r"\\\g<0>", text)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST form it; Jupyter keeps case and punctuation."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")
