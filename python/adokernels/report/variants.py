"""The table of a report with all data about each variant of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from adokernels.records.metrics import LEVEL_BYTES
from adokernels.report.headline import known_limiter
from adokernels.tables.rendering import new_table
from adokernels.text import number, quantity, share_of_limit

if TYPE_CHECKING:
    from rich.table import Table

    from adokernels.records.measurement import Measurement
    from adokernels.records.sweep import Sweep

_CHANGES = "what it changes"
#: Significant digits of the bounds of an interval, which are often close to each other.
_DIGITS = 4


def variants_table(sweep: Sweep) -> Table:
    """Build a table with one row per measurement, in the order of the step table.

    The script of the page shows a row beside the point with the same number in a chart. Columns
    without a known value are omitted.
    """
    measured = (*sweep.measurements, *sweep.peers)
    rows = [_row(sweep, m) for m in measured]
    known = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    table = new_table("Each variant", [(name, name in ("variant", _CHANGES)) for name in known])
    if _CHANGES in known:
        table.columns[-1].no_wrap = False
    for m, row in zip(measured, rows, strict=True):
        table.add_row(*(Text(row[name]) for name in known), style="dim" if m.ceiling else "")
    return table


def _row(sweep: Sweep, m: Measurement) -> dict[str, str]:
    """The cells of a measurement by column; unknown cells are empty."""
    share = sweep.share_of_roof(m)
    kind = " (peer)" if m in sweep.peers else " (ceiling)" if m.ceiling else ""
    low, high = (quantity(bound, "s", _DIGITS) for bound in m.interval)
    return {
        "variant": m.shown_as + kind,
        "time": quantity(m.seconds, "s"),
        "95 % interval": f"{low} to {high}" if m.confidence else "",
        "of roof": "" if share is None else share_of_limit(share),
        "limiter": known_limiter(m),
        "FLOP per requested byte": number(m.intensity) if m.executed_flops else "",
        **{f"FLOP per {level} byte": _intensity(m, level) for level in LEVEL_BYTES},
        _CHANGES: m.changes,
    }


def _intensity(m: Measurement, level: str) -> str:
    """The counted FLOPs per counted byte of a memory level."""
    moved = m.counted_bytes.get(level)
    return number(m.counted_flops / moved) if moved and m.counted_flops else ""
