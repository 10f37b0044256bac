"""Tables of the score of the diagnoses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from adokernels.diagnosis.steps import Step
from adokernels.tables.diagnoses import bound_cell, listed, yes
from adokernels.tables.rendering import new_table
from adokernels.text import ratio

if TYPE_CHECKING:
    from rich.table import Table

    from adokernels.diagnosis.score import Score


def score_tables(score: Score) -> list[Table]:
    """Build the tables of a score: a summary, and the result of every step."""
    summary = new_table("Score of the diagnoses", [("quantity", True), ("value", False)])
    summary.columns[0].max_width = None
    for name, value in score.summary():
        summary.add_row(Text(name), Text(value))
    headers = [("ladder", True), ("step", True), ("limiter", True), ("proposed", True)]
    headers += [("changed", True), ("at\nmost", False), ("realised", False), ("bound", True)]
    table = new_table("Every step", [*headers, ("named", True)])
    for place in (1, 2, 3, 4):
        table.columns[place].no_wrap, table.columns[place].overflow = False, "fold"
        table.columns[place].max_width = 24
    last = ""
    for row in score:
        cells = (
            "" if row.ladder == last else row.ladder,
            f"{row.variant} to {row.next_variant}",
            row.limiter,
            row.proposed,
            listed(Step(name) for name in row.changes),
            bound_cell(row.bound),
            ratio(row.realised),
            row.verdict,
            yes(row.named),
        )
        last = row.ladder
        table.add_row(*cells, style="" if row.named else "dim")
    return [summary, table]
