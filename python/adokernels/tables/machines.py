"""Tables that show the records of several machines side by side."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from adokernels.records import contention
from adokernels.records.machine import contradictions
from adokernels.records.sweep import Sweep
from adokernels.tables.rendering import new_table
from adokernels.text import quantity, ratio


def refusal(sweep: Sweep) -> str:
    """Return why the times of a sweep do not describe its machine; empty if they do."""
    for m in sweep.variants:
        if reason := contention.stolen(m.context)[1]:
            return reason
        if "throttled" in m.flags:
            return f"the clock was reduced while {m.variant} was measured"
    if sweep.machine is not None:
        for name, reason in contradictions(sweep.machine.ceilings).items():
            return f"the ceiling {name} is impossible: {reason}"
    return "" if sweep.variants else "no variant was measured"


def machine_tables(sweeps: Iterable[Sweep]) -> list[Table]:
    """One table per ladder and problem that several machines have measured.

    Per machine: the time, the speed-up over the previous variant, the share of its nearest limit,
    and the limiter.
    """
    ladders: dict[tuple[str, str], dict[str, Sweep]] = {}
    for sweep in sweeps:
        first = sweep.variants[0]
        title = first.machine_title or first.device
        ladders.setdefault((sweep.routine, str(first.problem)), {})[title] = sweep
    return [
        _table(f"{routine}, {problem}", found)
        for (routine, problem), found in ladders.items()
        if len(found) > 1
    ]


def _table(title: str, sweeps: dict[str, Sweep]) -> Table:
    headers = ["variant"]
    for name in sweeps:
        headers += [f"{name}:\ntime", "step", "of limit", "limiter"]
    left = ["limiter"]
    table = new_table(title, headers, left=left)
    names = dict.fromkeys(m.variant for sweep in sweeps.values() for m in sweep.variants)
    for name in names:
        cells = [name]
        for sweep in sweeps.values():
            m = next((m for m in sweep.variants if m.variant == name), None)
            before = sweep.step_pairs().get(m) if m else None
            step = ratio(m.speedup_over(before)) if m and before else ""
            share = str(sweep.nearest_limit(m) or "") if m else ""
            cells += [quantity(m.seconds, "s"), step, share, m.limiter.name] if m else [""] * 4
        table.add_row(*cells)
    return table
