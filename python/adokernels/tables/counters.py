"""Tables of hardware counters."""

from __future__ import annotations

from rich.table import Table

from adokernels.records.metrics import BY_KEY, QUANTITIES, Quantity
from adokernels.records.profile import Profile, ProfileComparison
from adokernels.tables.rendering import new_table
from adokernels.text import count, percent, quantity, ratio


def shown(q: Quantity, value: float) -> str:
    """Format a value of a quantity with its unit."""
    if q.unit == "%":
        return percent(value)
    if q.unit:
        return quantity(value, q.unit)
    return count(value)


def profile_table(profile: Profile) -> Table:
    """Build the table of a profile: one column per kernel, and the total if there are several."""
    columns = list(profile.kernels)
    names = [k.kernel.name.partition("<")[0] for k in columns]
    everything = [*columns, profile] if len(columns) > 1 else columns
    headers = ["quantity", *names, *(["total"] if len(columns) > 1 else [])]
    table = new_table(f"{profile.label}, {profile.cache}", headers, widths={0: None})
    section = ""
    for q in QUANTITIES:
        values = [of.get(q.key) for of in everything]
        if not any(values):
            continue
        if q.section != section:
            section = q.section
            table.add_row(section, *[""] * len(everything), style="dim")
        cells = ["n/a" if v is None else shown(q, v) for v in values]
        table.add_row(f"  {q.title}", *cells)
    table.caption = f"Counted with {profile.collector}. Quantities that are 0 are omitted."
    return table


def comparison_table(comparison: ProfileComparison) -> Table:
    """Build the table of two profiles; quantities that are 0 in both are omitted."""
    before, after = comparison.before, comparison.after
    headers = ["quantity", before.label, after.label, "change"]
    title = f"{after.label} compared with {before.label}"
    table = new_table(title, headers, widths={0: None})
    for key, old, new in comparison:
        if old or new:
            q, change = BY_KEY[key], ratio(new / old) if old else ""
            table.add_row(q.title, shown(q, old), shown(q, new), change)
    return table
