"""The record of a limiter, with its evidence; the categories of optimisation steps."""

from __future__ import annotations

from dataclasses import dataclass

from adokernels.text import StrEnum, percent, visible


class Provenance(StrEnum):
    """Source of a number."""

    COUNTED = "counted"
    EMULATED = "emulated"
    MODELLED = "modelled"
    CEILING = "measured ceiling"
    DATA_SHEET = "data sheet"
    COMPILED = "compiled"
    TIMED = "timed"
    EXPERIMENT = "experiment"


@dataclass(frozen=True)
class Evidence:
    """One statement with its number and the source of the number.

    The statement is a sentence without a full stop that contains the number. `threshold` is the
    number with which it was compared, or None.
    """

    statement: str
    value: float
    threshold: float | None
    provenance: Provenance

    def __str__(self) -> str:
        return visible(f"{self.statement} ({self.provenance})")


class Kind(StrEnum):
    """Kind of limiter."""

    COMPUTE = "compute"
    L1 = "L1"
    SHARED = "shared memory"
    L2 = "L2"
    L3 = "L3"
    DRAM = "DRAM"
    MEMORY = "memory"
    LATENCY = "latency"
    PARALLELISM = "too little work"
    UNKNOWN = "unknown"


class Step(StrEnum):
    """Category of an optimisation step."""

    COALESCING = "coalesce accesses"
    BANK_CONFLICTS = "avoid bank conflicts"
    PARALLELISM = "more work in parallel"
    OCCUPANCY = "raise occupancy"
    IN_FLIGHT = "more loads in flight"
    WIDER = "wider accesses"
    REUSE = "reuse in registers or shared memory"
    OPERATIONS = "fewer or cheaper operations"
    FMA = "fused multiply-add"
    DIVERGENCE = "avoid divergence"
    SPILLS = "avoid spills"
    BARRIERS = "fewer barriers"
    DRAM_REUSE = "less DRAM traffic"
    FUSION = "fuse or overlap kernels"
    DONE = "done"


@dataclass(frozen=True, kw_only=True, repr=False)
class Limiter:
    """The limiter of one variant, with the evidence; its ``repr`` is a sentence.

    Attributes
    ----------
    kind
        ``"compute"``, ``"L1"``, ``"shared memory"``, ``"L2"``, ``"L3"``, ``"DRAM"``,
        ``"memory"`` if the level is unknown, ``"latency"``, ``"too little work"``, or
        ``"unknown"`` without sufficient evidence.
    unit
        Its busiest unit, for example ``"FP64 pipe"`` or ``"crossbar to L2"``; may be empty.
    share
        Utilisation of the unit, as a fraction of its maximum, or None if unknown.
    evidence
        Statements, the decisive one first.
    counted
        Whether hardware counters were available.
    kernel
        Name of the analysed kernel, the longest; empty without counters.
    share_of_time
        Its share of the time of all kernels.
    unknown
        What remains unknown without counters, or which counters to collect; otherwise empty.
    """

    kind: Kind
    unit: str = ""
    share: float | None = None
    evidence: tuple[Evidence, ...] = ()
    counted: bool = False
    kernel: str = ""
    share_of_time: float = 1.0
    unknown: str = ""

    @property
    def tried(self) -> bool:
        """Whether experiments show it: the variant was timed under changed conditions."""
        return any(e.provenance is Provenance.EXPERIMENT for e in self.evidence)

    @property
    def name(self) -> str:
        """Kind and unit, such as ``"compute (FP64 pipe)"``."""
        redundant = not self.unit or self.unit.startswith(self.kind)
        return self.unit or str(self.kind) if redundant else f"{self.kind} ({self.unit})"

    def __repr__(self) -> str:
        parts = [str(e) for e in self.evidence]
        if self.share_of_time < 1:
            parts.append(f"{self.kernel} takes {percent(self.share_of_time)} of the time")
        if self.unknown:
            parts.append(self.unknown)
        note = ", by experiment" if self.tried else "" if self.counted else ", without counters"
        return visible(f"{self.name}{note}: {'; '.join(parts)}")
