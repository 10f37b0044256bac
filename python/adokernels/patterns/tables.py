"""Tables of access patterns, bank conflicts and divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from adokernels.records.metrics import WARP
from adokernels.tables.rendering import new_table
from adokernels.text import number, quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from adokernels.patterns.banks import BankConflicts
    from adokernels.patterns.divergence import Divergence
    from adokernels.patterns.sectors import Sectors

#: Counts and bytes from this value on are shown with a unit prefix.
_LARGEST_WHOLE = 100_000


def sectors_table(of: Sectors) -> Table:
    """Build the table of the sectors of an access pattern."""
    rows = [
        ("requests", _count(of.requests)),
        ("active lanes per request", _mean(float(of.accesses.active.sum()) / of.requests)),
        ("32-byte sectors", _count(of.sectors)),
        ("32-byte sectors per request", _mean(of.sectors_per_request)),
        ("32-byte sectors, ideal", _count(of.ideal_sectors)),
        ("128-byte cache lines", _count(of.lines)),
        ("bytes requested by lanes", _bytes(of.requested_bytes)),
        ("bytes used (shared bytes once)", _bytes(of.used_bytes)),
        ("bytes moved", _bytes(of.moved_bytes)),
        ("utilisation", share(of.utilisation)),
    ]
    return _table(f"Sectors: {of.accesses}", rows)


def banks_table(of: BankConflicts) -> Table:
    """Build the table of the bank conflicts of an access pattern."""
    parts = {1: "the whole warp", 2: "half a warp", 4: "a quarter of a warp"}
    rows = [
        ("requests", _count(of.requests)),
        ("lanes served at a time", parts[of.phases]),
        ("bank conflict", f"{of.ways}-way" if of.ways > 1 else "none"),
        ("wavefronts", _count(of.wavefronts)),
        ("wavefronts per request", _mean(of.wavefronts_per_request)),
        ("wavefronts, ideal", _count(of.ideal_wavefronts)),
        ("wavefronts that are conflicts", _count(of.conflicts)),
    ]
    return _table(f"Bank conflicts: {of.accesses}", rows)


def divergence_table(of: Divergence) -> Table:
    """Build the table of the branches that warps take."""
    rows = [
        (f"active lanes in branch {name}", f"{_mean(lanes)} of {WARP}")
        for name, lanes in of.active_lanes.items()
    ]
    rows += [
        ("warps", _count(of.warps)),
        ("warps that diverge", _count(of.divergent_warps)),
        ("passes", _count(of.passes)),
        ("passes per warp", _mean(of.passes / of.warps)),
        ("lane efficiency", share(of.lane_efficiency)),
    ]
    return _table("Divergence", rows)


def share(value: float) -> str:
    """Format a fraction as a percentage with three digits."""
    return f"{number(100 * value)} %"


def _table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    table = new_table(title, [("quantity", True), ("value", False)])
    table.columns[0].max_width = None
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _count(value: int) -> str:
    return str(value) if value < _LARGEST_WHOLE else quantity(value, "").strip()


def _mean(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else number(value)


def _bytes(value: int) -> str:
    return f"{value} B" if value < _LARGEST_WHOLE else quantity(value, "B")
