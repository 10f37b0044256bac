"""Facts about one measurement that its limiter and the next step are derived from.

A share is a fraction of a limit: of the hardware's maximum as a counter reports it, or of a
measured ceiling of the machine. Each fact states its provenance.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from adokernels.counters.metrics import (
    COMPUTE_BREAKDOWN,
    MEMORY_BREAKDOWN,
    STALLS,
    WARP,
    of_peak,
)
from adokernels.tables.numbers import NO_LIMIT, number, percent

if TYPE_CHECKING:
    from adokernels.counters.records import KernelProfile
    from adokernels.measuring.records import Machine, Measurement

# NVIDIA's thresholds (Nsight Compute 2025.3, SOLBottleneck.py and the rules beside it).
#: At this share of its maximum, a unit is the limiter.
BOUND = 0.8
#: Above this share, a unit is likely to be the limiter; if all units are below, latency is.
LEANING = 0.6
#: Two units whose shares differ by less than this are balanced.
BALANCED = 0.1
#: Bank conflicts, and floating-point instructions that are not fused, matter from this share.
NOTABLE = 0.1
#: A stall reason matters from this share of the cycles between two instructions of a warp.
STALL = 0.3
#: Lanes per instruction below which divergence matters.
LANES = 24

# Thresholds of this package.
#: DRAM traffic beyond the compulsory bytes matters from this factor.
EXCESS = 1.25
#: From this share of a measured ceiling, a variant has reached it: ceilings are best samples.
REACHED = 0.9
#: Variants may exceed a measured ceiling by this factor, because ceilings are samples, too.
MARGIN = 1.03
#: Bytes per lane of an access that fills whole cache lines if all lanes are active.
FULL_LINE = 4.0
#: Mean bytes per lane below which most accesses are narrower: inactive lanes lower the mean.
NARROW = 3.0
#: Bytes per lane of the widest access.
WIDEST = 16.0


class Provenance(enum.StrEnum):
    """Where a number comes from."""

    COUNTED = "counted"
    MODELLED = "modelled"
    CEILING = "measured ceiling"
    DATA_SHEET = "data sheet"
    COMPILED = "compiled"
    TIMED = "timed"


@dataclass(frozen=True)
class Evidence:
    """One statement with its number.

    Attributes
    ----------
    statement
        A sentence without a full stop that contains the number.
    value
        The number.
    threshold
        What it was compared with; None if it only informs.
    provenance
        Where the number comes from.
    """

    statement: str
    value: float
    threshold: float | None
    provenance: Provenance

    def __str__(self) -> str:
        return f"{self.statement} ({self.provenance})"


@dataclass(frozen=True)
class Unit:
    """A hardware unit and how busy it was, relative to its maximum, over the kernel's time."""

    name: str
    level: str
    share: float


def bandwidth_of_dram(machine: Machine | None, written: float) -> float | None:
    """Measured DRAM bandwidth in bytes per second, if a fraction `written` of them is written.

    Reads and writes in turn cost bandwidth, so the ceiling is interpolated between the measured
    read, copy and write ceilings.
    """
    if machine is None:
        return None
    known = {c.operation: c.measured for c in machine.ceilings if c.level == "DRAM"}
    if "copy" not in known:
        return max(known.values(), default=None)
    pure = known.get("read" if written <= 0.5 else "write", known["copy"])
    mixed = min(written, 1 - written) / 0.5
    return pure + (known["copy"] - pure) * mixed


def ceiling_named(machine: Machine | None, name: str) -> float | None:
    """The measured value of a ceiling, per second; None if the machine has none of that name."""
    ceilings = machine.ceilings if machine else ()
    return next((c.measured for c in ceilings if c.name == name), None)


#: Memory levels, their ceilings, and the quantities with the bytes that these limit.
_CEILINGS = (
    ("L1", "L1 read", "l1_bytes"),
    ("shared memory", "shared read", "shared_bytes"),
    ("L2", "L2 read", "l2_bytes"),
    ("DRAM", "", "dram_bytes"),
)


_TOTALS = ("compute", "L1", "L2", "DRAM")
#: Sectors of the largest request: 16 bytes for each lane of a warp.
_LARGEST_REQUEST = 16


class KernelFacts:
    """What the counters of one kernel say; a missing metric makes a fact None, never 0."""

    def __init__(self, profile: KernelProfile, machine: Machine | None) -> None:
        self.profile = profile
        self.machine = machine

    def get(self, name: str) -> float | None:
        """A quantity or a metric; None if it was not collected or is not a finite number."""
        value = self.profile.get(name)
        return value if value is not None and math.isfinite(value) else None

    def ratio(self, above: str, below: str) -> float | None:
        """The quotient of two quantities; None if one is missing or the second is 0."""
        first, second = self.get(above), self.get(below)
        return None if first is None or not second else first / second

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All units of the breakdown of the speed of light, the busiest first."""
        found = []
        for level, parts in {"compute": COMPUTE_BREAKDOWN, **MEMORY_BREAKDOWN}.items():
            for name, metric in parts.items():
                share = self.get(of_peak(metric))
                if share is not None:
                    found.append(Unit(name, level, share / 100))
        if not found:  # no breakdown was collected: the largest share of each level may have been
            totals = {level: self.get(f"{level.lower()}_sol") for level in _TOTALS}
            found = [Unit(level, level, share) for level, share in totals.items() if share]
        return tuple(sorted(found, key=lambda unit: -unit.share))

    def busiest(self, level: str) -> Unit | None:
        """The busiest unit of compute or of a memory level."""
        return next((unit for unit in self.units if unit.level == level), None)

    @cached_property
    def written(self) -> float:
        """The fraction of the DRAM bytes that were written."""
        return self.ratio("dram_write_bytes", "dram_bytes") or 0.0

    @cached_property
    def of_ceilings(self) -> tuple[Unit, ...]:
        """Counted bytes per second of each memory level, relative to its measured ceiling.

        Levels are left out if there is no ceiling, or if the bytes exceed it: then they are not
        the bytes that it limits, for example words that several lanes read at once.
        """
        found = []
        for level, name, moved in _CEILINGS:
            rate, ceiling = self.ratio(moved, "seconds"), self._ceiling(level, name)
            if rate is not None and ceiling and rate / ceiling <= NO_LIMIT:
                found.append(Unit(level, level, rate / ceiling))
        return tuple(found)

    def _ceiling(self, level: str, name: str) -> float | None:
        if level == "DRAM":
            return bandwidth_of_dram(self.machine, self.written)
        return ceiling_named(self.machine, name)

    @cached_property
    def stalls(self) -> tuple[tuple[str, float], ...]:
        """Stall reasons and their shares of the cycles between two instructions of a warp."""
        shares = [
            (name, self.ratio(f"stall_{name}", "warp_latency"))
            for name in STALLS
            if name != "selected"
        ]
        return tuple(sorted(((n, s) for n, s in shares if s), key=lambda item: -item[1]))

    def stall(self, *names: str) -> float:
        """The share of these stall reasons; 0 if they were not collected."""
        return sum(share for name, share in self.stalls if name in names)

    @cached_property
    def shared_of_l1(self) -> float | None:
        """The fraction of the wavefronts in L1 that access shared memory.

        L1 processes one wavefront per cycle and multiprocessor.
        """
        share = self.get(of_peak(MEMORY_BREAKDOWN["L1"]["L1 wavefronts"]))
        seconds, clock = self.get("seconds"), self.get("clock")
        loads, stores = self.get("shared_load_wavefronts"), self.get("shared_store_wavefronts")
        if not share or not seconds or not clock or loads is None or stores is None:
            return None
        everything = share / 100 * seconds * clock * self.profile.multiprocessors
        return min((loads + stores) / everything, 1.0)

    def bytes_per_lane(self, access: str) -> float | None:
        """Bytes that a lane moves per load or store instruction, if all lanes are active.

        It is an underestimate if lanes share words.
        """
        ideal, requests = self.get(f"ideal_{access}_sectors"), self.get(f"{access}_requests")
        return None if not requests or ideal is None else 32 * ideal / requests / WARP

    def over_ideal(self, access: str) -> float | None:
        """Sectors of loads or of stores relative to those that their bytes fill.

        If the bytes were not counted, requests are assumed to be as large as possible, which gives
        an underestimate.
        """
        moved, ideal = self.get(f"{access}_sectors"), self._ideal(access)
        return moved / ideal if moved and ideal else None

    def _ideal(self, access: str) -> float | None:
        """The sectors that the bytes fill; an overestimate if the bytes were not counted."""
        moved, requests = self.get(f"{access}_sectors"), self.get(f"{access}_requests")
        if not self._exact(access) and moved is not None and requests is not None:
            return min(moved, _LARGEST_REQUEST * requests)
        return self.get(f"ideal_{access}_sectors")

    def times_ideal(self, access: str) -> str:
        """Write that quotient: ``"8.00"``, or ``"at least 2.00"`` if it is an underestimate."""
        bound = "" if self._exact(access) else "at least "
        return f"{bound}{number(self.over_ideal(access) or 1.0)}"

    def _exact(self, access: str) -> bool:
        """Whether the bytes that loads or stores ask for were counted."""
        return self.get(f"ideal_{access}_sectors") is not None

    def excess(self, access: str) -> float:
        """Sectors of loads or of stores without a byte that was asked for, of all sectors."""
        times, moved = self.over_ideal(access), self.get(f"{access}_sectors")
        everything = (self.get("load_sectors") or 0.0) + (self.get("store_sectors") or 0.0)
        return moved * max(1 - 1 / times, 0.0) / everything if moved and times else 0.0

    @cached_property
    def loads_per_byte(self) -> float | None:
        """How often global loads ask for each byte that DRAM delivers.

        It is an overestimate if the bytes were not counted.
        """
        ideal, read = self._ideal("load"), self.get("dram_read_bytes")
        return None if ideal is None or not read else 32 * ideal / read

    @cached_property
    def times_loaded(self) -> str:
        """Write that quotient: ``"3.00 times"``, or ``"up to 3.00 times"`` if not exact."""
        bound = "" if self._exact("load") else "up to "
        return f"{bound}{number(self.loads_per_byte or 0.0)} times"

    @cached_property
    def load_instructions(self) -> float | None:
        """The fraction of the instructions that load from global memory."""
        return self.ratio("load_requests", "instructions")

    @cached_property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.profile.kernel.grid)


class Facts:
    """What is known about a measurement."""

    def __init__(self, m: Measurement, machine: Machine | None) -> None:
        self.m = m
        self.machine = machine
        self.kernels = [KernelFacts(k, machine) for k in (m.profile or ())]

    @cached_property
    def longest(self) -> KernelFacts | None:
        """The kernel that takes the most time; None without counters."""
        return max(self.kernels, key=lambda k: k.get("seconds") or 0.0, default=None)

    @cached_property
    def share_of_longest(self) -> float:
        """The share of the kernels' time that the longest takes."""
        total = sum(k.get("seconds") or 0.0 for k in self.kernels)
        longest = self.longest.get("seconds") if self.longest else None
        return longest / total if longest and total else 1.0

    @cached_property
    def share_of_kernels(self) -> float | None:
        """The time of all kernels relative to the measured time; the rest is launches and gaps."""
        times = [k.get("seconds") for k in self.kernels]
        return sum(t or 0.0 for t in times) / self.m.seconds if any(times) else None

    @cached_property
    def traffic(self) -> float | None:
        """Counted DRAM bytes relative to the compulsory bytes."""
        counted = self.m.profile.get("dram_bytes") if self.m.profile else None
        return counted / self.m.bytes if counted and self.m.bytes else None

    @cached_property
    def fits_in_cache(self) -> bool:
        """Whether the compulsory bytes fit into the last-level cache, or its size is unknown."""
        size = self.m.context.get("last_level_cache_bytes")
        return size is None or self.m.bytes <= size

    @cached_property
    def compulsory(self) -> tuple[float, str] | None:
        """The share of the time that the compulsory bytes need at least, and the limit used.

        Data that fit into the last-level cache may never move to or from DRAM during a call. On a
        GPU they still pass through L2, which reads and writes at the same time; on a CPU, the
        fastest cache is the limit then.
        """
        if self.machine is None or not self.m.bytes:
            return None
        if self.fits_in_cache and (l2 := ceiling_named(self.machine, "L2 read")):
            rate: float | None = 2 * l2
            name = "L2"
            if self.m.device == "cpu":
                fastest = max(self.machine.of_kind("bandwidth"), key=lambda c: c.measured)
                rate, name = fastest.measured, fastest.level
        else:
            written = [k.written for k in self.kernels if len(self.kernels) == 1]
            rate, name = self._dram(*(written or (0.0, 0.5, 1.0))), "DRAM"
        if not rate:
            return None
        return self.m.bytes / rate / self.m.seconds, name

    def _dram(self, *written: float) -> float | None:
        """The highest DRAM bandwidth for one of these fractions of bytes that are written."""
        rates = [bandwidth_of_dram(self.machine, fraction) for fraction in written]
        return max((rate for rate in rates if rate), default=None)

    @cached_property
    def useful_arithmetic(self) -> float | None:
        """The share of the time that the useful FLOPs need at least, at the measured peak."""
        return self.m.flops / self._peak / self.m.seconds if self._peak else None

    @cached_property
    def excess_arithmetic(self) -> float:
        """The share of the time that FLOPs beyond the useful ones need, at the measured peak.

        The peak is that of the variant's mix of FMAs and other instructions. It is 0 if unknown.
        """
        excess = max(self.m.executed_flops - self.m.flops, 0.0)
        if not self._peak or not self.m.flops or self.m.fma_share is None:
            return 0.0
        return excess / self._peak / self.m.seconds / ((1 + self.m.fma_share) / 2)

    @cached_property
    def _peak(self) -> float | None:
        """The measured peak of the problem's precision, in FLOP per second."""
        precision = self.m.problem.precision
        return self.machine.peak(precision) if self.machine and precision else None


def at(name: str, share: float, threshold: float | None, provenance: Provenance) -> Evidence:
    """State a unit's share of its maximum."""
    return Evidence(f"{name} at {percent(share)} of peak", share, threshold, provenance)
