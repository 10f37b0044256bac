"""The table of a pattern: one row per quantity."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from adokernels.tables.rendering import new_table
from adokernels.text import number, quantity

#: Counts and bytes from this value on are shown with a unit prefix.
_LARGEST_WHOLE = 100_000


def quantities_table(title: str, rows: Mapping[str, str]) -> Table:
    """Build a table with the name and the value of each quantity."""
    table = new_table(title, ["quantity", "value"], widths={0: None})
    for row in rows.items():
        table.add_row(*row)
    return table


def share(value: float) -> str:
    """Format a fraction as a percentage with three digits."""
    return f"{number(100 * value)} %"


def count(value: int, unit: str = "") -> str:
    """Format a number of things, or of bytes."""
    whole = value < _LARGEST_WHOLE
    return (f"{value} {unit}" if whole else quantity(value, unit)).strip()


def mean(value: float) -> str:
    """Format a mean; without decimals if it is an integer."""
    return f"{value:.0f}" if value == int(value) else number(value)
