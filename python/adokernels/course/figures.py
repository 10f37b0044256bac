"""Tables of profiler figures: those of a document for its GPU beside ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from adokernels.course.published.figure import TIMES, Published, written
from adokernels.course.text import Text, say, table
from adokernels.records.metrics import BY_KEY, STALLS
from adokernels.text import ratio

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adokernels.records.kernels import Kernel
    from adokernels.records.measurement import Measurement
    from adokernels.records.profile import KernelProfile, Profile
    from adokernels.records.sweep import Sweep

#: A value has changed if it differs from the baseline by more than this fraction.
_CHANGED = 0.05
#: The unit of quantities without one, by section.
_UNITS = {"warp states": "cycles"}
#: Sections whose name is part of the title of a quantity.
_NAMED_SECTIONS = ("speed of light", "warp states")


@dataclass(frozen=True)
class _Subject:
    """A measurement, and its kernels whose counters are shown."""

    measurement: Measurement
    counters: Profile | KernelProfile | None
    kernels: tuple[Kernel, ...]

    def get(self, key: str) -> float | None:
        """A quantity or a metric; None if it was not counted."""
        return self.counters.get(key) if self.counters else None


@dataclass(frozen=True)
class _Row:
    """One row of the table.

    Attributes
    ----------
    key
        The quantity of published figures that belongs to this row.
    title, unit
        Shown in the first column, and behind values.
    number
        The value of a measurement; None if it has none.
    text
        The value as text, if it is more than the number and its unit.
    """

    key: str
    title: str
    unit: str
    number: Callable[[_Subject], float | None]
    text: Callable[[_Subject], str] | None = None

    def shown(self, subject: _Subject) -> str:
        """The cell of a measurement; empty if it has no value."""
        value = self.number(subject)
        if value is None:
            return ""
        return self.text(subject) if self.text else written(value, self.unit)


def _counted(key: str, text: Callable[[_Subject], str] | None = None) -> _Row:
    q = BY_KEY[key]
    title = f"{q.section}: {q.title}" if q.section in _NAMED_SECTIONS else q.title
    unit = q.unit or _UNITS.get(q.section, "")
    return _Row(key, title, unit, lambda subject: subject.get(key), text)


def _if_used(key: str) -> _Row:
    row = _counted(key)
    return _Row(key, row.title, row.unit, lambda subject: subject.get(key) or None)


def _accesses(access: str) -> _Row:
    def text(subject: _Subject) -> str:
        assert subject.counters is not None
        found = written(subject.counters[f"{access}_sectors_per_request"], "")
        ideal = subject.counters.ideal_sectors_per_request(access)
        return found if ideal is None else f"{found} (ideal {written(ideal, '')})"

    return _counted(f"{access}_sectors_per_request", text)


def _stall_of(subject: _Subject) -> str | None:
    """The key of the stall reason with the most cycles."""
    keys = (f"stall_{name}" for name in STALLS if name != "selected")
    cycles = {key: subject.get(key) for key in keys}
    known = {key: value for key, value in cycles.items() if value}
    return max(known, key=lambda key: known[key]) if known else None


def _dominant(subject: _Subject) -> float | None:
    key = _stall_of(subject)
    return subject.get(key) if key else None


def _dominant_text(subject: _Subject) -> str:
    key = _stall_of(subject)
    assert key is not None
    return f"{BY_KEY[key].title}, {written(subject.get(key) or 0.0, 'cycles')}"


def _over_ideal(subject: _Subject, access: str) -> float | None:
    ideal = subject.counters and subject.counters.ideal_sectors_per_request(access)
    found = subject.get(f"{access}_sectors_per_request")
    return found / ideal if found and ideal else None


def _excess(subject: _Subject, access: str) -> float | None:
    ideal, found = subject.get(f"ideal_{access}_sectors"), subject.get(f"{access}_sectors")
    return None if ideal is None or found is None else found - ideal


_ROWS = (
    _Row("seconds", "time", "s", lambda s: s.measurement.seconds),
    *map(_counted, ("compute_sol", "memory_sol", "l1_sol", "l2_sol", "dram_sol")),
    _Row("dominant_stall", "dominant stall reason", "", _dominant, _dominant_text),
    *map(_counted, ("warp_latency", "active_warps", "eligible_warps", "issue_active")),
    *map(_accesses, ("load", "store")),
    *map(_counted, ("l1_hit_rate", "l2_hit_rate")),
    *map(_if_used, ("conflict_share", "local_bytes")),
    _counted("occupancy"),
    _Row(
        "theoretical_occupancy",
        "theoretical occupancy",
        "%",
        lambda s: min((k.occupancy for k in s.kernels), default=None),
    ),
    _Row(
        "registers",
        "registers per thread",
        "",
        lambda s: max((k.registers for k in s.kernels), default=None),
    ),
)


def _derived(access: str) -> list[_Row]:
    return [
        _Row(
            f"{access}_sectors_over_ideal",
            f"{access} sectors relative to the ideal",
            TIMES,
            lambda subject: _over_ideal(subject, access),
        ),
        _Row(
            f"excess_{access}_sectors",
            f"{access} sectors beyond the ideal",
            "",
            lambda subject: _excess(subject, access),
        ),
    ]


def _size(of: Literal["grid", "block"], unit: str) -> Callable[[_Subject], str]:
    def text(subject: _Subject) -> str:
        sizes = {" x ".join(map(str, getattr(k, of))) for k in subject.kernels}
        return f"{'; '.join(sorted(sizes))} {unit}" if sizes else ""

    return text


def _shared_memory(subject: _Subject) -> str:
    sizes = [k.static_shared_bytes + k.dynamic_shared_bytes for k in subject.kernels]
    return written(max(sizes), "B") if sizes else ""


def _occupancy_limiter(subject: _Subject) -> str:
    lowest = min(subject.kernels, key=lambda k: k.occupancy, default=None)
    return lowest.limiter if lowest else ""


def _transactions(subject: _Subject) -> str:
    found = [subject.get(f"{access}_sectors_per_request") for access in ("load", "store")]
    return ", ".join(
        f"{written(value, '')} per {access}"
        for value, access in zip(found, ("load", "store"), strict=True)
        if value
    )


#: Our text for published quantities that are text.
_TEXTS: dict[str, Callable[[_Subject], str]] = {
    "grid": _size("grid", "blocks"),
    "block": _size("block", "threads"),
    "shared memory per block": _shared_memory,
    "occupancy limiter": _occupancy_limiter,
    "limiter": lambda s: s.measurement.limiter.name if s.counters else "",
    "transactions per request": _transactions,
}

#: Rows that are shown only if a document has published the quantity.
_DERIVED = {row.key: row for access in ("load", "store") for row in _derived(access)}

#: The columns of the table with a row per variant.
_OVERVIEW = (
    *("seconds", "compute_sol", "memory_sol", "l1_sol", "l2_sol", "dram_sol", "dominant_stall"),
    *("load_sectors_per_request", "store_sectors_per_request", "occupancy"),
)


def figures(
    m: Measurement,
    *,
    published: Iterable[Published] = (),
    variant: str = "",
    baseline: Measurement | None = None,
    longest: bool = False,
    rows: Literal["all", "published", "changed"] = "all",
) -> Text:
    """Show the profiler figures of a variant: those of the documents beside ours.

    The table has a row for each quantity that was counted or published: speed of light, dominant
    stall reason, warps, sectors per request with the ideal value, hit rates, occupancy, registers
    and time. Published quantities without a row of their own follow, with our counter if there is
    one.

    Parameters
    ----------
    m
        The measurement; its time is the median of the sweep.
    published
        Figures of documents; those of other variants are omitted.
    variant
        The variant of the published figures. Default: that of the measurement.
    baseline
        A measurement to show beside it, with the ratio of each value to the baseline's.
    longest
        Whether to show only the kernel with the longest time. Default: all kernels together.
    rows
        ``"all"``; only those with published figures; or only the time and those that differ from
        the baseline by more than 5 %.
    """
    ours = [_subject(x, longest=longest) for x in (baseline, m) if x is not None]
    mine = [p for p in published if p.variant == (variant or m.variant)]
    sources = list(dict.fromkeys((p.document, p.device) for p in mine))
    header = ["quantity", *(f"{document}, {device}" for document, device in sources)]
    header += [f"{s.measurement.variant}, {_device(s.measurement)}" for s in ours]
    header += ["ratio"] if baseline else []
    lines = []
    for row in (*_ROWS, *_further(mine)):
        theirs = [_cell(row, [p for p in mine if (p.document, p.device) == s]) for s in sources]
        here = [row.shown(s) for s in ours]
        wanted = {
            "all": any(theirs) or any(here),
            "published": any(theirs),
            "changed": baseline is not None and _has_changed(row, ours),
        }
        if wanted[rows]:
            lines.append([row.title, *theirs, *here, *([_change(row, ours)] if baseline else [])])
    notes = list(dict.fromkeys(p.source for p in mine))
    return say(table(header, lines), *(["Source: " + "; ".join(notes) + "."] if notes else []))


def speed_of_light_table(sweep: Sweep) -> Text:
    """Show one row per variant: time, speed of light, dominant stall reason, sectors, occupancy."""
    subjects = [_subject(m, longest=False) for m in sweep]
    columns = [row for row in _ROWS if row.key in _OVERVIEW and any(map(row.shown, subjects))]
    header = ["variant", *(row.title.removeprefix("speed of light: ") for row in columns)]
    cells = [[s.measurement.variant, *(row.shown(s) for row in columns)] for s in subjects]
    return table(header, cells)


def _subject(m: Measurement, *, longest: bool) -> _Subject:
    if longest and m.profile:
        return _Subject(m, m.profile.longest, (m.profile.longest.kernel,))
    return _Subject(m, m.profile, m.kernels)


def _device(m: Measurement) -> str:
    return m.machine.name if m.machine else m.device


def _further(published: Iterable[Published]) -> list[_Row]:
    """Rows of published quantities that have no row of their own."""
    known = {row.key for row in _ROWS}
    rows: dict[str, _Row] = {}
    for p in published:
        if p.quantity not in known:
            rows.setdefault(p.quantity, _row_of(p))
    return list(rows.values())


def _row_of(p: Published) -> _Row:
    key = p.quantity
    if key in _TEXTS:
        text = _TEXTS[key]
        return _Row(key, p.shown_as, "", lambda s: len(text(s)) or None, text)
    if key in _DERIVED:
        return _DERIVED[key]
    if key in BY_KEY and not p.title:
        return _counted(key)
    return _Row(key, p.shown_as, p.unit, lambda subject: subject.get(key))


def _cell(row: _Row, published: Iterable[Published]) -> str:
    return "; ".join(p.text for p in published if p.quantity == row.key)


def _has_changed(row: _Row, ours: list[_Subject]) -> bool:
    """Whether the value is not that of the baseline; for text, whether the text differs.

    The time always counts as changed, so that it is always shown.
    """
    if row.key == "seconds":
        return True
    before, after = (row.number(subject) for subject in ours)
    if row.key == "dominant_stall":
        return _stall_of(ours[0]) != _stall_of(ours[1])
    if row.key in _TEXTS:
        return row.shown(ours[0]) != row.shown(ours[1])
    if not before or after is None:
        return bool(before) != bool(after)
    return abs(after / before - 1) > _CHANGED


def _change(row: _Row, ours: list[_Subject]) -> str:
    before, after = (row.number(subject) for subject in ours)
    if row.key == "dominant_stall" or row.key in _TEXTS or not before or after is None:
        return ""
    return ratio(after / before)
