"""Tables of a ladder's variants, and of all routines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from adokernels.tables.rendering import new_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adokernels.model.ladder import Ladder
    from adokernels.model.routine import Routine


def ladder_table(ladder: Ladder) -> Table:
    """One line per variant: what it changes, and whether it can run here."""
    title = f"{ladder.name}: {ladder.summary}" if ladder.summary else ladder.name
    table = Table(title=Text(title))
    for heading in ("variant", "device", "what it changes", "available"):
        table.add_column(heading)
    for v in ladder.variants:
        name = f"{v.name} (ceiling)" if v.ceiling else v.name
        table.add_row(*map(Text, (name, v.device, v.changes, v.why_unavailable or "yes")))
    return table


def routines_table(routines: Mapping[str, Routine]) -> Table:
    """One line per routine: what it computes, and its number of variants per device."""
    headers = [("routine", True), ("what it computes", True), ("variants", True)]
    table = new_table("Routines", headers)
    for routine in routines.values():
        devices = Counter(v.device for v in routine if not v.ceiling)
        counts = ", ".join(f"{count} {device}" for device, count in devices.items())
        table.add_row(*map(Text, (routine.name, routine.summary, counts)))
    table.columns[1].no_wrap = False
    table.caption = Text(
        "The variants of one routine: ado.routines[name], or `adokernels list NAME` in a shell."
    )
    return table
