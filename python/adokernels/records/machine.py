"""Records of the ceilings of a device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from adokernels import _core
from adokernels.records.forms import Amount, Context, Count, Device, Length, Positive, number_in
from adokernels.records.record import Entries, Fields, StoredRecord
from adokernels.records.shown import ShownAsTables
from adokernels.text import NO_LIMIT, number, percent

#: The ceiling that every machine must have.
ROOF = "DRAM copy"
#: A ceiling is doubtful if the interval of its samples is wider than their median.
_WIDEST = 1.0
#: A measured ceiling may exceed the theoretical one by this factor, because clocks vary.
_ABOVE_THEORY = 1.05
#: Reads of DRAM may be slower than copies by this factor: rounds of ceilings agree within 10 %.
_SLOWER_READ = 0.9
#: A cache may be slower than the next level by this factor, because ceilings are samples.
_SLOWER = 0.97
#: Fewest additions per FLOP of FMAs. With equal clocks, the ratio is 0.5.
_FEWEST_ADDED = 0.4
#: Memory levels, the farthest one first. Shared memory has the data path of L1.
LEVELS = ("DRAM", "L3", "L2", "L1", "shared")
#: The tensor cores that can compute products of problems of a precision, or of an unknown one.
_TENSOR = {"FP64": "FP64 tensor", "FP32": "TF32 tensor", None: "FP16 tensor"}


@dataclass(frozen=True, kw_only=True)
class Ceiling(Fields):
    """One limit of a machine.

    Attributes
    ----------
    kind
        ``"bandwidth"`` and ``"link"`` in bytes per second, ``"compute"`` and ``"tensor"`` in
        FLOPs per second (INT8: integer operations), or ``"instructions"`` in warp instructions
        per second.
    level
        The memory level, ``"DRAM"``, ``"L3"``, ``"L2"``, ``"L1"`` or ``"shared"``; ``"host link"``;
        the precision, ``"FP64"`` or ``"FP32"``; the type that tensor cores multiply, for example
        ``"TF32 tensor"``; or ``"warp"``.
    operation
        ``"copy"`` (read and write), ``"read"``, ``"write"``, ``"fma"``, ``"add"``, ``"mma"`` (a
        product of dense matrices) or ``"issue"``; of the link, the host memory and the direction:
        ``"pageable to device"``, ``"pinned to host"`` or ``"pinned both ways"``, which is the sum
        of simultaneous copies in both directions.
    measured
        The best sample, per second: no code on this machine should exceed it.
    theoretical
        From queried properties at the stated clock, or None if they cannot be queried.
    basis
        The formula of the theoretical figure.
    spread
        The width of the 95 % interval of the median of the samples, relative to this median. With
        fewer than 11 samples, the range replaces the interval. None if unknown.
    """

    kind: Literal["bandwidth", "compute", "instructions", "link", "tensor"]
    level: str
    operation: str
    measured: Positive
    theoretical: Positive | None = None
    basis: str = ""
    spread: Amount | None = None

    @property
    def name(self) -> str:
        """For example ``"DRAM copy"``."""
        return f"{self.level} {self.operation}"


def contradictions(ceilings: Sequence[Ceiling]) -> dict[str, str]:
    """Find ceilings that cannot be right, and state the reason for each name.

    A ceiling is wrong if its samples vary by more than their median, if it exceeds the theoretical
    figure by more than 5 %, if a cache is slower than a farther memory level, if FMAs perform fewer
    FLOPs per second than additions, or if additions perform less than 40 % of the FLOPs of FMAs:
    each FMA includes an addition. Ceilings that are wrong by themselves are not compared with
    others.
    """
    found = {}
    for c in ceilings:
        if c.spread is not None and c.spread > _WIDEST:
            found[c.name] = f"the interval of its samples is {percent(c.spread)} of their median"
        elif c.theoretical and c.measured > _ABOVE_THEORY * c.theoretical:
            found[c.name] = (
                f"it is {number(c.measured / c.theoretical)} times the theoretical figure"
            )
    read = {c.level: c for c in ceilings if c.operation == "read" and c.name not in found}
    for place, level in enumerate(LEVELS[1:], 1):
        farther = [read[n] for n in LEVELS[: min(place, 3)] if n in read]
        fastest = max(farther, key=lambda c: c.measured, default=None)
        if level in read and fastest and read[level].measured < _SLOWER * fastest.measured:
            c = read.pop(level)
            found[c.name] = _speed(c, fastest)
    additions = {c.level: c for c in ceilings if c.operation == "add" and c.name not in found}
    for c in ceilings:
        added = additions.get(c.level) if c.operation == "fma" and c.name not in found else None
        if added and c.measured < _SLOWER * added.measured:
            found[c.name] = _speed(c, added)
        elif added and added.measured < _FEWEST_ADDED * c.measured:
            found[added.name] = _speed(added, c)
    return found


def _speed(slow: Ceiling, fast: Ceiling) -> str:
    return f"it has {percent(slow.measured / fast.measured)} of the speed of {fast.name}"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Machine(StoredRecord, ShownAsTables, Entries[Ceiling]):
    """The measured and theoretical ceilings of one device, at the thread count used.

    It is a sequence of :class:`Ceiling`; ``machine["DRAM copy"]`` is the ceiling with this name.

    Attributes
    ----------
    device, name
        ``"cpu"`` or ``"cuda"``, and the name of the processor.
    threads
        Threads of CPU variants; 0 for a GPU.
    ceilings
        The measured ceilings. DRAM copy is always present.
    context
        Versions, settings and properties of the device.
    refused
        The reasons why ceilings are missing, by name: a contradiction that remained when they were
        measured again, or a library that was not found. DRAM copy is kept even then.
    """

    KIND = "machine"
    _ENTRIES = ("ceilings",)
    _NAME = "name"

    device: Device
    name: str
    threads: Count
    ceilings: Annotated[tuple[Ceiling, ...], Length(1)]
    context: Context = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def _why_not(self, which: str, names: list[str]) -> str:
        if which in self.refused:
            return f"the ceiling {which!r} was refused: {self.refused[which]}"
        return f"no ceiling {which!r}{_core.suggest(which, names)}"

    def of_kind(
        self, kind: Literal["bandwidth", "compute", "link", "tensor"]
    ) -> tuple[Ceiling, ...]:
        """The ceilings of one kind, in the order measured (DRAM first, nearest memory last)."""
        return tuple(c for c in self.ceilings if c.kind == kind)

    @property
    def title(self) -> str:
        """Its name; for a CPU, with the number of threads: ``"EPYC 9654, 8 threads"``."""
        if self.device != "cpu":
            return self.name
        return f"{self.name}, {self.threads} thread{'s' if self.threads != 1 else ''}"

    @property
    def busy(self) -> str:
        """The reason why its ceilings may be too low, such as a high load; otherwise empty."""
        load, processors = (number_in(self.context, name) for name in ("load", "processors"))
        if self.device != "cpu" or not processors or (load or 0.0) <= processors:
            return ""
        return f"the load of its {processors:.0f} processors was {load:.1f}"

    @property
    def remark(self) -> str:
        """Why the measured ceilings may be too low, as a note below tables; otherwise empty."""
        why = f"when they were measured, {self.busy}" if self.busy else ""
        read = next((c for c in self.ceilings if c.name == "DRAM read"), None)
        if not why and read and read.measured < _SLOWER_READ * self.roof:
            why = f"{read.name}: {_speed(read, self[ROOF])}"
        again = "adokernels info --refresh measures them again"
        return f"the ceilings may be too low: {why}; {again}" if why else ""

    @property
    def roof(self) -> float:
        """Measured DRAM copy bandwidth, the limit of code that streams through memory."""
        return self[ROOF].measured

    def peak(self, precision: str | None, rate: float = 0.0) -> float | None:
        """FLOPs per second that no code of a precision exceeds; see :meth:`fastest`."""
        fastest = self.fastest(precision, rate)
        return fastest.measured if fastest else None

    def fastest(self, precision: str | None, rate: float = 0.0) -> Ceiling | None:
        """The fastest ceiling of a precision: of FMAs, or of tensor cores if `rate` exceeds it.

        `rate` is in FLOPs per second. Code that exceeds the FMA peak, such as the matrix product of
        a library, uses tensor cores. If the precision is unknown, the fastest of all ceilings is
        used: a limit that is too high misleads less than a limit that is too low.
        """
        compute = self.of_kind("compute")
        ours = [c for c in compute if c.level == precision]
        best = max(ours or compute, key=lambda c: c.measured, default=None)
        tensor = [c for c in self.of_kind("tensor") if c.level == _TENSOR.get(precision)]
        if best and tensor and rate > NO_LIMIT * best.measured:
            return tensor[0]
        return best

    @property
    def issue_rate(self) -> Ceiling | None:
        """Warp instructions per second that a GPU issues, or None if unknown or for a CPU.

        Four schedulers per multiprocessor issue one instruction per cycle each. The measured rate
        is the rate of FP32 FMAs, at 64 FLOPs per warp instruction. It is unknown on GPUs with fewer
        than 128 FP32 lanes per multiprocessor, where FMAs cannot use all issue slots.
        """
        per_fma = 2 * 32
        multiprocessors = number_in(self.context, "cuda", "multiprocessors")
        hertz = number_in(self.context, "cuda", "core_hertz")
        fma = next((c for c in self.ceilings if c.name == "FP32 fma"), None)
        if not (multiprocessors and hertz and fma and fma.theoretical):
            return None
        peak = multiprocessors * 4 * hertz
        if not math.isclose(fma.theoretical / per_fma, peak, rel_tol=1e-6):
            return None
        return Ceiling(
            kind="instructions",
            level="warp",
            operation="issue",
            measured=fma.measured / per_fma,
            theoretical=peak,
            basis=f"{multiprocessors} multiprocessors x 4 schedulers x {hertz / 1e9:.2f} GHz",
        )

    def _contradiction(self) -> str:
        if all(ceiling.name != ROOF for ceiling in self.ceilings):
            return f"ceilings must contain {ROOF!r}"
        return ""
