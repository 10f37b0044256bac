"""The verdict of a comparison in tables."""

from __future__ import annotations

from rich.text import Text

from adokernels.tables.rendering import ITALIC

_STYLES = {"faster": "green", "slower": "red", "unclear": ITALIC}
#: The note of a table that contains "(range)".
FEW_SAMPLES = (
    "range: with fewer than 11 samples there is no 95 % interval, and comparisons are unclear; "
    "increase the time per variant"
)


def verdict_cell(verdict: str) -> Text:
    """The verdict in its style, which distinguishes "unclear" from "same"."""
    return Text(verdict, style=_STYLES.get(verdict, ""))
