"""Tables of profiler figures, published ones next to ours, and ranks of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from adobook.published import TIMES, UNITS, Published, written
from adobook.text import Text, say, table
from adokernels.records.definitions import STALLS
from adokernels.records.kernels import Kernel
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import BY_KEY
from adokernels.records.profile import KernelProfile, Profile
from adokernels.text import ratio

#: A value has changed if it differs from the baseline by more than this fraction.
_CHANGED = 0.05
#: The section of the shares of peak.
_SHARES = "speed of light"
#: Sections whose name is part of the title of a quantity.
_NAMED_SECTIONS = (_SHARES, "warp states")


@dataclass(frozen=True)
class Subject:
    """Counters that are shown, with their kernels and, if it is known, their measurement."""

    counters: Profile | KernelProfile | None
    kernels: tuple[Kernel, ...]
    measurement: Measurement | None = None

    @classmethod
    def of(cls, m: Measurement, *, longest: bool = False) -> Subject:
        """All kernels of a measurement, or the kernel with the longest time."""
        if longest and m.profile:
            return cls(m.profile.longest, (m.profile.longest.kernel,), m)
        return cls(m.profile, m.kernels, m)

    def get(self, key: str) -> float | None:
        """A counted quantity or a metric. It is None without a count.

        Shares of peak belong to the longest kernel, from which the limiter is derived.
        """
        if isinstance(self.counters, Profile) and key in BY_KEY and BY_KEY[key].section == _SHARES:
            return self.counters.longest.get(key) if len(self.counters) else None
        return self.counters.get(key) if self.counters else None

    @property
    def stall(self) -> str:
        """The key of the stall reason with the most cycles; empty if none was counted."""
        keys = (f"stall_{name}" for name in STALLS if name != "selected")
        return max(keys, key=lambda key: self.get(key) or 0) if self.counters else ""

    def value(self, key: str) -> float | str | None:
        """A counted or computed quantity, or text. Unknown ones, and some that are 0, are None."""
        value = _COMPUTED[key][2](self) if key in _COMPUTED else self.get(key)
        return (value or None) if key in _SHOWN_IF_NOT_ZERO else value

    def text(self, key: str, unit: str = "") -> str:
        """The cell of a quantity; empty if it is unknown."""
        value = self.value(key)
        if value is None or isinstance(value, str):
            return value or ""
        shown, access = written(value, unit), key.removesuffix("_sectors_per_request")
        if access != key and self.counters:
            ideal = self.counters.ideal_sectors_per_request(access)
            return shown if ideal is None else f"{shown} (ideal {written(ideal, '')})"
        return shown


def _dominant_stall(s: Subject) -> str | None:
    cycles = s.get(s.stall)
    return f"{BY_KEY[s.stall].title}, {written(cycles, 'cycles')}" if cycles else None


def _over_ideal(access: str, s: Subject) -> float | None:
    ideal = s.counters and s.counters.ideal_sectors_per_request(access)
    found = s.get(f"{access}_sectors_per_request")
    return found / ideal if found and ideal else None


def _excess(access: str, s: Subject) -> float | None:
    ideal, found = s.get(f"ideal_{access}_sectors"), s.get(f"{access}_sectors")
    return None if ideal is None or found is None else found - ideal


def _size(of: Literal["grid", "block"], unit: str, s: Subject) -> str:
    sizes = {" x ".join(map(str, getattr(k, of))) for k in s.kernels}
    return f"{'; '.join(sorted(sizes))} {unit}" if sizes else ""


def _shared_memory(s: Subject) -> str:
    sizes = [k.static_shared_bytes + k.dynamic_shared_bytes for k in s.kernels]
    return written(max(sizes), "B") if sizes else ""


def _transactions(s: Subject) -> str:
    found = {a: s.get(f"{a}_sectors_per_request") for a in ("load", "store")}
    return ", ".join(f"{written(value, '')} per {a}" for a, value in found.items() if value)


#: Quantities without a counter: title, unit, and value.
_COMPUTED: Mapping[str, tuple[str, str, Callable[[Subject], float | str | None]]] = {
    "seconds": ("time", "s", lambda s: s.measurement.seconds if s.measurement else None),
    "dominant_stall": ("dominant stall reason", "", _dominant_stall),
    "theoretical_occupancy": (
        *("theoretical occupancy", "%"),
        lambda s: max((k.occupancy for k in s.kernels), default=None),
    ),
    "registers": (
        *("registers per thread", ""),
        lambda s: max((k.registers for k in s.kernels), default=None),
    ),
    "load_sectors_over_ideal": (
        *("load sectors relative to the ideal", TIMES),
        partial(_over_ideal, "load"),
    ),
    "store_sectors_over_ideal": (
        *("store sectors relative to the ideal", TIMES),
        partial(_over_ideal, "store"),
    ),
    "excess_load_sectors": ("load sectors beyond the ideal", "", partial(_excess, "load")),
    "excess_store_sectors": ("store sectors beyond the ideal", "", partial(_excess, "store")),
    "grid": ("grid", "", partial(_size, "grid", "blocks")),
    "block": ("block", "", partial(_size, "block", "threads")),
    "shared memory per block": ("shared memory per block", "", _shared_memory),
    "occupancy limiter": (
        *("occupancy limiter", ""),
        lambda s: min(s.kernels, key=lambda k: k.occupancy).limiter if s.kernels else "",
    ),
    "limiter": (
        *("limiter", ""),
        lambda s: s.measurement.limiter.name if s.measurement and s.counters else "",
    ),
    "transactions per request": ("transactions per request", "", _transactions),
}
_SHOWN_IF_NOT_ZERO = ("conflict_share", "local_bytes")
#: The rows of the table.
_ROWS = (
    *("seconds", "compute_sol", "memory_sol", "l1_sol", "l2_sol", "dram_sol", "dominant_stall"),
    *("warp_latency", "active_warps", "eligible_warps", "issue_active"),
    *("load_sectors_per_request", "store_sectors_per_request", "l1_hit_rate", "l2_hit_rate"),
    *(*_SHOWN_IF_NOT_ZERO, "occupancy", "theoretical_occupancy", "registers"),
)


def title_and_unit(key: str, p: Published | None = None) -> tuple[str, str]:
    """The title of a row, and the unit of our values; `p` is a published figure of the row."""
    if key in _COMPUTED:
        return _COMPUTED[key][:2]
    if p and (p.title or key not in BY_KEY):
        return p.shown_as, p.unit
    q = BY_KEY[key]
    named = f"{q.section}: {q.title}" if q.section in _NAMED_SECTIONS else q.title
    return named, q.unit or UNITS.get(q.section, "")


def figures(
    m: Measurement,
    *,
    published: Iterable[Published] = (),
    variant: str = "",
    baseline: Measurement | None = None,
    longest: bool = False,
    rows: Literal["all", "published", "changed"] = "all",
) -> Text:
    """Show the profiler figures of a variant: published figures next to ours.

    The table has a row for each quantity that was counted or published: speed of light, dominant
    stall reason, warps, sectors per request with the ideal value, hit rates, occupancy, registers
    and time. Published quantities without a row of their own follow, with our counter if there is
    one.

    Parameters
    ----------
    m
        The measurement; its time is the median of the sweep.
    published
        Figures of documents. Figures of other variants are omitted.
    variant
        The variant of the published figures. Default: the measured variant.
    baseline
        A measurement to show next to it, with the ratio of each value to the baseline's.
    longest
        Whether to show only the kernel with the longest time. Default: all kernels together.
    rows
        ``"all"``; ``"published"``: rows with published figures; ``"changed"``: the time, and rows
        that differ from the baseline by more than 5 %.
    """
    measured = [x for x in (baseline, m) if x is not None]
    ours = [Subject.of(x, longest=longest) for x in measured]
    mine = [p for p in published if p.variant == (variant or m.variant)]
    sources = list(dict.fromkeys((p.document, p.device) for p in mine))
    header = ["quantity", *(f"{document}, {device}" for document, device in sources)]
    header += [f"{x.variant}, {x.machine.name if x.machine else x.device}" for x in measured]
    header += ["ratio"] if baseline else []
    first = {p.quantity: p for p in reversed(mine) if p.quantity not in _ROWS}
    lines = []
    for key in dict.fromkeys([*_ROWS, *(p.quantity for p in mine)]):
        title, unit = title_and_unit(key, first.get(key))
        of_row = [p for p in mine if p.quantity == key]
        theirs = ["; ".join(p.text for p in of_row if (p.document, p.device) == s) for s in sources]
        here = [s.text(key, unit) for s in ours]
        wanted = {
            "all": any(theirs) or any(here),
            "published": any(theirs),
            "changed": baseline is not None and _has_changed(key, *ours),
        }
        if wanted[rows]:
            lines.append([title, *theirs, *here, *([_change(key, *ours)] if baseline else [])])
    notes = list(dict.fromkeys(p.source for p in mine))
    return say(table(header, lines), *(["Source: " + "; ".join(notes) + "."] if notes else []))


def _has_changed(key: str, before: Subject, after: Subject) -> bool:
    """Whether a value differs from the baseline. The time always counts as changed."""
    if key == "dominant_stall":
        return before.stall != after.stall
    earlier, later = before.value(key), after.value(key)
    if isinstance(earlier, str) or isinstance(later, str):
        return earlier != later
    if not earlier or later is None:
        return bool(earlier) != bool(later)
    return key == "seconds" or abs(later / earlier - 1) > _CHANGED


def _change(key: str, before: Subject, after: Subject) -> str:
    earlier, later = before.value(key), after.value(key)
    if isinstance(earlier, str) or isinstance(later, str) or not earlier or later is None:
        return ""
    return ratio(later / earlier)


# --- Ranks of the kernels of an application -------------------------------------------------------


def ranks(kernels: Iterable[Measurement], roof: float) -> dict[str, float]:
    """Rank kernels by their possible gain: 100 for the largest, the others in proportion.

    It is the time minus the time of the compulsory bytes at `roof` bytes per second.
    """
    gains = {m.routine: m.seconds - m.bytes / roof for m in kernels}
    return {routine: 100 * gain / max(gains.values()) for routine, gain in gains.items()}
