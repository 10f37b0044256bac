"""Tables of two sweeps compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from adokernels.tables.rendering import new_table
from adokernels.tables.verdicts import FEW_SAMPLES, verdict_cell
from adokernels.text import quantity, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from adokernels.records.changes import Change


def changes_table(
    changes: Sequence[Change],
    title: str,
    labels: tuple[str, str],
    only_before: Sequence[str],
    only_after: Sequence[str],
) -> Table:
    """One row per variant: both times, the ratio with its interval, the verdict."""
    headers = [("variant", True), (labels[0], False), (labels[1], False), ("speed-up", False)]
    headers += [("99.9 %\ninterval", False), ("samples", False), (f"{labels[1]} is", True)]
    table = new_table(title, headers)
    for change in changes:
        verdict, gain, (low, high) = change.comparison
        few = " (range)" if change.comparison.confidence is None else ""
        cells = (
            change.variant,
            quantity(change.before.seconds, "s"),
            quantity(change.after.seconds, "s"),
            ratio(gain),
            f"{low:.3g} to {high:.3g}{few}",
            f"{len(change.before.samples)}, {len(change.after.samples)}",
        )
        table.add_row(*map(Text, cells), verdict_cell(verdict.value))
    notes = [
        f"only {label}: {', '.join(names)}"
        for label, names in zip(labels, (only_before, only_after), strict=True)
        if names
    ]
    if any(change.comparison.confidence is None for change in changes):
        notes.append(FEW_SAMPLES)
    table.caption = Text("\n".join(notes)) if notes else None
    return table
