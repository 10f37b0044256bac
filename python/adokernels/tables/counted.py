"""The table of a sweep on the emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from adokernels.records.counted import Access, CountedSweep, CountedVariant
from adokernels.tables.rendering import FADED, new_table, width_of
from adokernels.text import count, number, percent

_Column = tuple[str, Callable[[CountedVariant], str]]


def counted_table(sweep: CountedSweep, width: int | None = None) -> Table:
    """List the counts of each variant; the sectors are also relative to the ideal number.

    A table that is wider than `width` omits columns, starting with columns of zeros.
    """
    columns = list(_COLUMNS)
    table = _table(sweep, columns)
    known = {header: any(cell(v) not in ("", "0") for v in sweep) for header, cell in columns}
    for header in sorted(_OMITTED, key=known.__getitem__):
        if width is None or width_of(table, Console()) <= width:
            break
        columns = [column for column in columns if column[0] != header]
        table = _table(sweep, columns)
    return table


def _table(sweep: CountedSweep, columns: Sequence[_Column]) -> Table:
    headers = ["variant", *(header for header, _ in columns)]
    table = new_table(f"Counts on the emulator: {sweep.title}", headers)
    for v in sweep:
        cells = (cell(v) for _, cell in columns)
        table.add_row(v.variant, *cells, style=FADED if v.ceiling else "")
    notes = [
        "Emulated: requests and load sectors are exact. Time, stalls and hit rates are not"
        " available."
    ]
    if omitted := [header for header, _ in _COLUMNS if header not in headers]:
        names = ", ".join(header.replace("\n", " ") for header in omitted)
        notes.append(f"omitted at this width: {names}")
    if bulk := [v.variant for v in sweep if v.has_bulk_copies]:
        notes.append(f"sectors of {', '.join(bulk)} include bulk copies, which are not requests")
    notes += [f"{name}: {reason}" for name, reason in sweep.skipped.items()]
    table.caption = "\n".join(notes)
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


def _conflicts(v: CountedVariant) -> str:
    share = v.profile.get("conflict_share")
    return "" if share is None else percent(share)


def _lanes(v: CountedVariant) -> str:
    lanes = v.profile.get("lanes")
    return "" if lanes is None else number(lanes)


_WAVEFRONTS = ("shared_load_wavefronts", "shared_store_wavefronts")
#: The header of each column, and its cell for a variant.
_COLUMNS: Sequence[_Column] = (
    ("load\nrequests", lambda v: _count(v, "load_requests")),
    ("load\nsectors", lambda v: _sectors(v, "load")),
    ("of ideal", lambda v: _of_ideal(v, "load")),
    ("store\nsectors", lambda v: _sectors(v, "store")),
    ("of ideal", lambda v: _of_ideal(v, "store")),
    (
        "shared\nwavefronts",
        lambda v: _count(v, *_WAVEFRONTS),
    ),
    ("of them\nconflicts", _conflicts),
    ("FLOPs", lambda v: _count(v, "flops")),
    ("active\nlanes", _lanes),
)
#: Columns that a narrow table omits, in this order.
_OMITTED = ("load\nrequests", "active\nlanes", "FLOPs", "of them\nconflicts", "shared\nwavefronts")
