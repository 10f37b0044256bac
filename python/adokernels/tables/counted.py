"""The table of a sweep on the emulator."""

from __future__ import annotations

from rich.table import Table

from adokernels.records.counted import Access, CountedSweep, CountedVariant
from adokernels.tables.rendering import FADED, new_table
from adokernels.text import count, number, percent


def counted_table(sweep: CountedSweep) -> Table:
    """List the counts of each variant; the sectors are also relative to the ideal number."""
    headers = ["variant", "load\nrequests", "load\nsectors", "of ideal", "store\nsectors"]
    headers += ["of ideal", "shared\nwavefronts", "of them\nconflicts", "FLOPs", "active\nlanes"]
    table = new_table(f"Counts on the emulator: {sweep.title}", headers)
    for v in sweep:
        conflicts, lanes = v.profile.get("conflict_share"), v.profile.get("lanes")
        table.add_row(
            v.variant,
            _count(v, "load_requests"),
            _sectors(v, "load"),
            _of_ideal(v, "load"),
            _sectors(v, "store"),
            _of_ideal(v, "store"),
            _count(v, "shared_load_wavefronts", "shared_store_wavefronts"),
            "" if conflicts is None else percent(conflicts),
            _count(v, "flops"),
            "" if lanes is None else number(lanes),
            style=FADED if v.ceiling else "",
        )
    bulk = [v.variant for v in sweep if v.has_bulk_copies]
    words = f"sectors of {', '.join(bulk)}: with bulk copies, which are not requests"
    notes = [words] if bulk else []
    notes += [f"{name}: {reason}" for name, reason in sweep.skipped.items()]
    table.caption = "\n".join(
        [
            "Emulated: requests and load sectors are exact. Time, stalls and hit rates are not"
            " available.",
            *notes,
        ]
    )
    return table


def _count(v: CountedVariant, *names: str) -> str:
    """The sum of quantities; empty if the profile lacks one."""
    found = [value for name in names if (value := v.profile.get(name)) is not None]
    return count(sum(found)) if len(found) == len(names) else ""


def _sectors(v: CountedVariant, access: Access) -> str:
    return "" if (sectors := v.sectors_of(access)) is None else count(sectors)


def _of_ideal(v: CountedVariant, access: Access) -> str:
    sectors, ideal = v.sectors_of(access), v.ideal_sectors_of(access)
    return f"{number(sectors / ideal)}x" if sectors and ideal else ""
