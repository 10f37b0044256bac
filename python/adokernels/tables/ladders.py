"""Tables of a ladder's variants, of the settings of one variant, and of all routines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from adokernels.model.ladder import Ladder
from adokernels.model.routine import Routine
from adokernels.records.tuning import Tuning
from adokernels.tables.measurements import (
    ERRORS,
    interval_cell,
    interval_notes,
    verdict_cell,
    verdict_notes,
)
from adokernels.tables.rendering import LiteralTable, new_table
from adokernels.text import quantity, ratio


def ladder_table(ladder: Ladder) -> Table:
    """One line per variant: its change, and whether it can run here."""
    title = f"{ladder.name}: {_shown(ladder.summary)}" if ladder.summary else ladder.name
    table = LiteralTable(title=Text(title))
    for heading in ("variant", "device", "what it changes", "available"):
        table.add_column(heading)
    for v in ladder.variants:
        name = f"{v.name} (ceiling)" if v.ceiling else v.name
        table.add_row(*map(Text, (name, v.device, v.changes, v.why_unavailable or "yes")))
    return table


def tuning_table(tuning: Tuning) -> Table:
    """One row per setting: its time, and the comparison with the default."""
    errors = any(m.shown_error for m in tuning.sweep)
    headers = ["setting", "time", "95 % CI", "samples", "against the\ndefault", "it is"]
    headers += [ERRORS] * errors
    table = new_table(
        f"{tuning.routine}[{tuning.variant}]: {tuning.sweep.title}", headers, left=["it is"]
    )
    default = tuning.default
    others = [m for m in tuning.sweep if m is not default]
    comparisons = {m.variant: m.compare(default) for m in others} if default else {}
    for m in tuning.sweep:
        against = comparisons.get(m.variant)
        cells = [m.variant, quantity(m.seconds, "s"), interval_cell(m), str(len(m.samples))]
        gain = ratio(m.speedup_over(default)) if against and default else ""
        verdict = verdict_cell(against.verdict.value) if against else Text("the default")
        table.add_row(*cells, gain, verdict, *([m.shown_error] if errors else []))
    notes = [f"best: {tuning.best}"] if len(tuning.sweep) else []
    notes += interval_notes(tuning.sweep)
    notes += verdict_notes(comparisons)
    notes += [f"skipped {name}: {reason}" for name, reason in tuning.sweep.skipped.items()]
    table.caption = "\n".join(notes)
    return table


def _shown(summary: str) -> str:
    """Replace the double backticks of a docstring with the single backticks of Markdown."""
    return summary.replace("``", "`")


def routines_table(routines: Mapping[str, Routine]) -> Table:
    """One line per routine: what it computes, and its number of variants per device."""
    headers = ["routine", "what it computes", "variants"]
    table = new_table("Routines", headers, left=headers)
    for routine in routines.values():
        devices = Counter(v.device for v in routine if not v.ceiling)
        counts = ", ".join(f"{count} {device}" for device, count in devices.items())
        table.add_row(routine.name, _shown(routine.summary), counts)
    table.columns[1].no_wrap = False
    text = "The variants of one routine: ado.routines[name], or `adokernels list NAME` in a shell."
    table.caption = text
    return table
