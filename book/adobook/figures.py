"""Tables of published profiler figures next to ours, and ranks of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from adobook.published import TIMES, UNITS, Published, written
from adobook.text import LEFT, RIGHT, write_table
from adokernels.records.definitions import STALLS
from adokernels.records.kernels import Kernel
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import BY_KEY
from adokernels.records.profile import KernelProfile, Profile

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

    def get(self, key: str) -> float | None:
        """A counted quantity or a metric. It is None without a count.

        Shares of peak belong to the longest kernel, from which the limiter is derived.
        """
        if isinstance(self.counters, Profile) and key in BY_KEY and BY_KEY[key].section == _SHARES:
            return self.counters.longest.get(key) if len(self.counters) else None
        return self.counters.get(key) if self.counters else None

    def text(self, key: str, unit: str = "") -> str:
        """The cell of a quantity; empty if unknown and, for some quantities, if it is 0."""
        value = _COMPUTED[key][2](self) if key in _COMPUTED else self.get(key)
        if value is None or isinstance(value, str) or (not value and key in _SHOWN_IF_NOT_ZERO):
            return str(value or "")
        shown, access = written(value, unit), key.removesuffix("_sectors_per_request")
        if access != key and self.counters:
            ideal = self.counters.ideal_sectors_per_request(access)
            return shown if ideal is None else f"{shown} (ideal {written(ideal, '')})"
        return shown


def _dominant_stall(s: Subject) -> str:
    """The stall reason with the most cycles. An issued instruction is not a stall."""
    found = {f"stall_{name}": s.get(f"stall_{name}") or 0 for name in STALLS if name != "selected"}
    key = max(found, key=lambda key: found[key])
    return f"{BY_KEY[key].title}, {written(found[key], 'cycles')}" if found[key] else ""


def _over_ideal(s: Subject) -> float | None:
    ideal, found = s.get("ideal_store_sectors"), s.get("store_sectors")
    return found / ideal if found and ideal else None


def _excess(s: Subject) -> float | None:
    ideal, found = s.get("ideal_store_sectors"), s.get("store_sectors")
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
    "store_sectors_over_ideal": ("store sectors relative to the ideal", TIMES, _over_ideal),
    "excess_store_sectors": ("store sectors beyond the ideal", "", _excess),
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


def figures(m: Measurement, published: Iterable[Published], variant: str) -> str:
    """Write a table of the published figures of a variant and our values of these quantities."""
    mine = [p for p in published if p.variant == variant]
    sources = list(dict.fromkeys((p.document, p.device) for p in mine))
    header = ["quantity", *(f"{document}, {device}" for document, device in sources)]
    header.append(f"{m.variant}, {m.machine.name if m.machine else m.device}")
    first = {p.quantity: p for p in reversed(mine) if p.quantity not in _ROWS}
    subject, rows = Subject(m.profile, m.kernels, m), []
    for key in dict.fromkeys([*_ROWS, *(p.quantity for p in mine)]):
        of_row = [p for p in mine if p.quantity == key]
        if of_row:
            title, unit = title_and_unit(key, first.get(key))
            places = [[p.text for p in of_row if (p.document, p.device) == s] for s in sources]
            rows.append([title, *map("; ".join, places), subject.text(key, unit)])
    notes = "; ".join(dict.fromkeys(p.source for p in mine))
    rules = [LEFT, *[RIGHT] * len(header[1:])]
    return f"{write_table(header, rows, rules)}\n\nSource: {notes}."


def ranks(kernels: Iterable[Measurement], roof: float) -> dict[str, float]:
    """Rank kernels by their possible gain: 100 for the largest, the others in proportion.

    It is the time minus the time of the compulsory bytes at `roof` bytes per second.
    """
    gains = {m.routine: m.seconds - m.bytes / roof for m in kernels}
    return {routine: 100 * gain / max(gains.values()) for routine, gain in gains.items()}
