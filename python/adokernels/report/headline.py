"""The first table of a report: one row per sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adokernels.text import escaped, quantity, ratio, share_of_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adokernels.records.measurement import Measurement
    from adokernels.records.sweep import Sweep

#: Columns with the attributes of their cells.
_COLUMNS = {
    "routine": "",
    "fastest": "",
    "time": ' style="text-align:right"',
    "speed-up": ' style="text-align:right"',
    "of roof": ' style="text-align:right"',
    "limiter": "",
    "device": "",
    "problem": ' class="sentence"',
}


def headline(sweeps: Sequence[Sweep], anchors: Sequence[str]) -> str:
    """Write the fastest variant of each sweep as an HTML table, with links to the sections.

    Parameters
    ----------
    sweeps
        The sweeps of the report.
    anchors
        The identifier of each sweep's section.
    """
    rows = [_row(sweep) for sweep in sweeps]
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


def known_limiter(m: Measurement) -> str:
    """The name of the limiter; empty if it is unknown."""
    found = m.limiter
    return "" if found.kind == "unknown" else found.name


def _row(sweep: Sweep) -> dict[str, str]:
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
    share = sweep.share_of_roof(best)
    return row | {
        "fastest": best.variant,
        "time": quantity(best.seconds, "s"),
        "speed-up": "" if best is first else ratio(best.speedup_over(first)),
        "of roof": "" if share is None else share_of_limit(share),
        "limiter": known_limiter(best),
    }
