"""The tables of a report: one row per sweep, and all data about each variant."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from adokernels.records.measurement import Measurement
from adokernels.records.metrics import LEVEL_BYTES
from adokernels.records.sweep import Sweep
from adokernels.tables.rendering import FADED, new_table
from adokernels.text import escaped, number, quantity, ratio, share_of_limit

#: Columns with the attributes of their cells.
_COLUMNS = {
    **dict.fromkeys(("routine", "fastest"), ""),
    **dict.fromkeys(("time", "speed-up", "of roof"), ' style="text-align:right"'),
    **dict.fromkeys(("limiter", "device"), ""),
    "problem": ' class="sentence"',
}
_CHANGES = "what it changes"
#: Significant digits of the bounds of an interval, which are often close to each other.
_DIGITS = 4


def headline(sweeps: Sequence[Sweep], anchors: Sequence[str]) -> str:
    """Write the fastest variant of each sweep as an HTML table, with links to its section."""
    rows = [_summary(sweep) for sweep in sweeps]
    names = [name for name in _COLUMNS if any(row[name] for row in rows)]
    head = "".join(f"<th{_COLUMNS[name]}>{name}</th>" for name in names)
    body = ""
    for row, anchor in zip(rows, anchors, strict=True):
        link = f'<td><a href="#{anchor}">{escaped(row["routine"])}</a></td>'
        rest = (f"<td{_COLUMNS[name]}>{escaped(row[name])}</td>" for name in names[1:])
        body += f"<tr>{link}{''.join(rest)}</tr>\n"
    return (
        '<div class="adokernels scroll" tabindex="0" role="region" aria-label="Summary">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n</div>"
    )


def variants_table(sweep: Sweep) -> Table:
    """Build a table with one row per measurement, without columns that have no known value.

    The script of the page shows a row beside the point with the same number in a chart.
    """
    measured = (*sweep.measurements, *sweep.peers)
    rows = [_details(sweep, m) for m in measured]
    known = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    table = new_table("Each variant", known, left=[_CHANGES])
    if _CHANGES in known:
        table.columns[-1].no_wrap = False
    for m, row in zip(measured, rows, strict=True):
        table.add_row(*(row[name] for name in known), style=FADED if m.ceiling else "")
    return table


def _summary(sweep: Sweep) -> dict[str, str]:
    """The cells of a sweep by column; unknown cells are empty."""
    device = sweep.machine.title if sweep.machine else ""
    row = dict.fromkeys(_COLUMNS, "") | {
        "routine": f"{sweep.routine} (interrupted)" if sweep.interrupted else sweep.routine,
        "fastest": "no variant measured",
        "device": device or ", ".join(dict.fromkeys(m.machine_title or m.device for m in sweep)),
        "problem": "; ".join(dict.fromkeys(str(m.problem) for m in sweep)),
    }
    if not sweep.variants:
        return row
    first, best = sweep.variants[0], sweep.fastest
    gain = "" if best is first else ratio(best.speedup_over(first))
    return row | {"fastest": best.variant, "speed-up": gain, **_result(sweep, best)}


def _result(sweep: Sweep, m: Measurement) -> dict[str, str]:
    """The cells that both tables have."""
    share, found = sweep.share_of_roof(m), m.limiter
    return {
        "time": quantity(m.seconds, "s"),
        "of roof": "" if share is None else share_of_limit(share),
        "limiter": "" if found.kind == "unknown" else found.name,
    }


def _details(sweep: Sweep, m: Measurement) -> dict[str, str]:
    """The cells of a measurement by column; unknown cells are empty."""
    kind = " (peer)" if m in sweep.peers else " (ceiling)" if m.ceiling else ""
    low, high = (quantity(bound, "s", _DIGITS) for bound in m.interval)
    result = _result(sweep, m)
    flops, moved = m.counted_flops, m.counted_bytes
    per_byte = {level: number(flops / moved[level]) for level in moved if flops and moved[level]}
    return {
        "variant": m.shown_as + kind,
        "time": result.pop("time"),
        "95 % interval": f"{low} to {high}" if m.confidence else "",
        **result,
        "FLOP per requested byte": number(m.intensity) if m.executed_flops else "",
        **{f"FLOP per {level} byte": per_byte.get(level, "") for level in LEVEL_BYTES},
        _CHANGES: m.changes,
    }
