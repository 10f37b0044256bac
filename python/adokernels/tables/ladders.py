"""Tables of all routines, of a ladder's variants, of their settings, and of their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite

from rich.table import Table

from adokernels.model.ladder import Ladder
from adokernels.model.routine import Routine
from adokernels.records.counted import Access, CountedSweep, CountedVariant
from adokernels.records.tuning import Tuning
from adokernels.records.what_if import Trial, WhatIf
from adokernels.tables.measurements import (
    ERRORS,
    interval_cell,
    interval_notes,
    verdict_cell,
    verdict_notes,
)
from adokernels.tables.rendering import FADED, new_table, table_of
from adokernels.text import binary_size, count, number, percent, quantity, ratio

_Column = tuple[str, Callable[[CountedVariant], str]]


def ladder_table(ladder: Ladder) -> Table:
    """One line per variant: its change, and whether it can run here."""
    title = f"{ladder.name}: {_shown(ladder.summary)}" if ladder.summary else ladder.name
    rows = (
        {
            "variant": f"{v.name} (ceiling)" if v.ceiling else v.name,
            "device": v.device,
            "what it changes": v.changes,
            "available": v.why_unavailable or "yes",
        }
        for v in ladder.variants
    )
    widths = {"variant": None, "device": None, "what it changes": 60, "available": 40}
    return table_of(title, rows, widths, expendable=["device"])


def tuning_table(tuning: Tuning) -> Table:
    """One row per setting: its time, and the comparison with the default."""
    default = tuning.default
    others = [m for m in tuning.sweep if m is not default]
    comparisons = {m.variant: m.compare(default) for m in others} if default else {}
    rows = []
    for m in tuning.sweep:
        against = comparisons.get(m.variant)
        rows.append(
            {
                "setting": m.variant,
                "time": quantity(m.seconds, "s"),
                "95 % CI": interval_cell(m),
                "samples": str(len(m.samples)),
                "against the\ndefault": ratio(m.speedup_over(default))
                if against and default
                else "",
                "it is": verdict_cell(against.verdict.value) if against else "the default",
                ERRORS: m.shown_error,
            }
        )
    notes = [f"best: {tuning.best}"] if len(tuning.sweep) else []
    notes += interval_notes(tuning.sweep)
    notes += verdict_notes(comparisons)
    notes += [f"skipped {name}: {reason}" for name, reason in tuning.sweep.skipped.items()]
    title = f"{tuning.routine}[{tuning.variant}]: {tuning.sweep.title}"
    return table_of(title, rows, ("it is",), notes=notes, sparse=True)


def _shown(summary: str) -> str:
    """Replace the double backticks of a docstring with the single backticks of Markdown."""
    return summary.replace("``", "`")


def routines_table(routines: Mapping[str, Routine]) -> Table:
    """One line per routine: what it computes, and its number of variants per device."""
    rows = []
    for routine in routines.values():
        devices = Counter(v.device for v in routine if not v.ceiling)
        counts = ", ".join(f"{n} {device}" for device, n in devices.items())
        summary = _shown(routine.summary)
        rows.append({"routine": routine.name, "what it computes": summary, "variants": counts})
    note = "The variants of one routine: ado.routines[name], or `adokernels list NAME` in a shell."
    text = {"routine": 24, "what it computes": None, "variants": 0}
    return table_of("Routines", rows, text, notes=[note])


def counted_table(sweep: CountedSweep) -> Table:
    """List the counts of each variant; the sectors are also relative to the ideal number.

    A narrow terminal omits columns of zeros first. Columns of atomics are omitted without atomics.
    """
    known = {header: any(cell(v) not in ("", "0") for v in sweep) for header, cell in _COLUMNS}
    columns = [(h, cell) for h, cell in _COLUMNS if known[h] or h not in _OF_ATOMICS]
    table = new_table(
        f"Counts on the emulator: {sweep.title}", ["variant", *(h for h, _ in columns)]
    )
    table.expendable = sorted(_OMITTED, key=known.__getitem__)
    for v in sweep:
        cells = (cell(v) for _, cell in columns)
        table.add_row(v.variant, *cells, style=FADED if v.ceiling else "")
    notes = [
        "Emulated: requests and load sectors are exact. Time, stalls and hit rates are not"
        " available."
    ]
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


def _known(v: CountedVariant, name: str, show: Callable[[float], str]) -> str:
    return "" if (value := v.profile.get(name)) is None else show(value)


_WAVEFRONTS = ("shared_load_wavefronts", "shared_store_wavefronts")
#: Columns of a ladder with atomics.
_OF_ATOMICS = ("atomic\nsectors", "shared atomic\nconflicts")
#: The header of each column, and its cell for a variant.
_COLUMNS: Sequence[_Column] = (
    ("load\nrequests", lambda v: _count(v, "load_requests")),
    ("load\nsectors", lambda v: _sectors(v, "load")),
    ("of ideal", lambda v: _of_ideal(v, "load")),
    ("store\nsectors", lambda v: _sectors(v, "store")),
    ("of ideal", lambda v: _of_ideal(v, "store")),
    ("shared\nwavefronts", lambda v: _count(v, *_WAVEFRONTS)),
    ("of them\nconflicts", lambda v: _known(v, "conflict_share", percent)),
    (_OF_ATOMICS[0], lambda v: _count(v, "atomic_sectors")),
    (_OF_ATOMICS[1], lambda v: _count(v, "shared_atomic_conflicts")),
    ("FLOPs", lambda v: _count(v, "flops")),
    ("active\nlanes", lambda v: _known(v, "lanes", number)),
)
#: Columns that a narrow table omits, in this order.
_OMITTED = ("load\nrequests", "active\nlanes", "FLOPs", "of them\nconflicts", "shared\nwavefronts")


def what_if_table(record: WhatIf) -> Table:
    """One row per experiment: its gain on a GPU, what it changed, or why it was refused."""
    lines = [
        {
            **_what_if_row(trial, record.seconds),
            "if ...": f"  only {trial.place or 'unknown lines'}",
        }
        for trial in record.lines
    ]
    best, rows, trials = record.largest, list[dict[str, str]](), list[Trial]()
    for trial in record:
        rows.append(_what_if_row(trial, record.seconds))
        trials.append(trial)
        if trial is best:
            rows += lines
            trials += record.lines
    label = f"{record.routine}[{record.variant}]" if record.routine else record.variant
    title = f"{label}, {record.problem}, {record.source}"
    notes = [f"{trial.experiment}: {trial.meaning}" for trial in record if not trial.reason]
    if record.seconds:
        title += f", {record.cache}: {quantity(record.seconds, 's')}"
        words = f"{best.experiment}: {percent(1 - 1 / best.gain)} of the time" if best else ""
        notes.insert(0, words or "No experiment makes the kernel clearly faster.")
        notes += _headroom(record)
    return table_of(
        title,
        rows,
        {"it changes": 0, "mostly at": 0, "remarks": 50},
        notes=notes,
        faded=(trial.verdict == "refused" for trial in trials),
        sparse=True,
        expendable=("rewritten", "intrusion", "mostly at", "remarks", "it would take"),
    )


def _headroom(record: WhatIf) -> Iterator[str]:
    """How many instructions of each kind can be added."""
    for kind in ("FP64", "FP32", "integer"):
        added = record.headroom(kind)
        if added is not None:
            many = f"{number(added)}" if isfinite(added) else "more than 2"
            yield f"5 % more time: {many} added {kind} instructions per instruction"


def _what_if_row(trial: Trial, original: float) -> dict[str, str]:
    change = f"{number(trial.before)} to {number(trial.after)} {trial.count}"
    if trial.count == "bytes in reach":
        change = f"{binary_size(trial.before)} to {binary_size(trial.after)} in reach"
    remarks = trial.reason or "; ".join(trial.code)
    if not remarks and trial.clear == "unclear":
        low, high = trial.interval
        remarks = f"unclear: x{number(low)} to x{number(high)}"
    timed = bool(trial.seconds) and not trial.reason
    factor = trial.seconds / trial.off_seconds if timed else 0.0
    return {
        "if ...": trial.experiment,
        "it would take": quantity(original * factor, "s") if timed else "",
        "gain": ratio(trial.gain) if trial.gain and timed else "",
        "intrusion": f"{trial.intrusion - 1:+.0%}".replace("%", " %")
        if timed and not trial.dose
        else "",
        "rewritten": f"{trial.rewritten} of {trial.accesses}" if trial.accesses else "",
        "it changes": change if trial.count else "",
        "mostly at": trial.place,
        "remarks": remarks,
    }
