"""The first table of a report: one row per sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adokernels.tables.numbers import quantity, ratio, share_of_limit
from adokernels.tables.printable import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adokernels.measuring.records import Measurement, Sweep

_HEADERS = ("routine", "problem", "device", "fastest", "time", "speed-up", "of roof", "limiter")
#: Columns of numbers, which are aligned to the right.
_NUMBERS = ("time", "speed-up", "of roof")


def headline(sweeps: Sequence[Sweep], anchors: Sequence[str]) -> str:
    """Write the fastest variant of each sweep as an HTML table, with links to the sections.

    Parameters
    ----------
    sweeps
        The sweeps of the report.
    anchors
        The identifier of each sweep's section.
    """
    limits = [known_limiter(s.fastest) if s.variants else "" for s in sweeps]
    headers = [name for name in _HEADERS if name != "limiter" or any(limits)]
    head = "".join(f"<th{_style(name)}>{name}</th>" for name in headers)
    body = ""
    for sweep, anchor, limit in zip(sweeps, anchors, limits, strict=True):
        cells = dict(zip(_HEADERS, (*_cells(sweep), limit), strict=True))
        link = f'<td><a href="#{anchor}">{escaped(cells["routine"])}</a></td>'
        rest = (f"<td{_style(name)}>{escaped(cells[name])}</td>" for name in headers[1:])
        body += f"<tr>{link}{''.join(rest)}</tr>\n"
    return (
        '<div class="adokernels scroll" tabindex="0" role="region" aria-label="Summary">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n</div>"
    )


def known_limiter(m: Measurement) -> str:
    """The name of the limiter; empty if it is unknown."""
    found = m.limiter
    return "" if found.kind == "unknown" else found.name


def _style(name: str) -> str:
    return ' style="text-align:right"' if name in _NUMBERS else ""


def _cells(sweep: Sweep) -> tuple[str, ...]:
    """All cells except the limiter."""
    routine = f"{sweep.routine} (interrupted)" if sweep.interrupted else sweep.routine
    problem = "; ".join(dict.fromkeys(str(m.problem) for m in sweep))
    device = sweep.machine.title if sweep.machine else ""
    device = device or ", ".join(dict.fromkeys(m.machine_title or m.device for m in sweep))
    if not sweep.variants:
        return routine, problem, device, "no variant measured", "", "", ""
    first, best = sweep.variants[0], sweep.fastest
    share = sweep.share_of_roof(best)
    return (
        routine,
        problem,
        device,
        best.variant,
        quantity(best.seconds, "s"),
        "" if best is first else ratio(best.speedup_over(first)),
        "" if share is None else share_of_limit(share),
    )
