"""Records of the ceilings of a device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from adokernels import _core
from adokernels.records.forms import Context, Count, Device, Length, Positive, number_in
from adokernels.records.record import Fields, StoredRecord
from adokernels.records.shown import ShownAsTables

#: The ceiling that every machine must have.
_ROOF = "DRAM copy"
_MOST_CEILINGS = 1000


@dataclass(frozen=True, kw_only=True)
class Ceiling(Fields):
    """One limit of a machine.

    Attributes
    ----------
    kind
        ``"bandwidth"`` in bytes per second, ``"compute"`` in FLOPs per second, or
        ``"instructions"`` in warp instructions per second.
    level
        The memory level, ``"DRAM"``, ``"L3"``, ``"L2"``, ``"L1"`` or ``"shared"``; the precision,
        ``"FP64"`` or ``"FP32"``; or ``"warp"``.
    operation
        ``"copy"`` (read and write), ``"read"``, ``"write"``, ``"fma"``, ``"add"`` or ``"issue"``.
    measured
        The best sample, per second: no code on this machine should exceed it.
    theoretical
        From queried properties at the stated clock, or None if they cannot be queried.
    basis
        The formula of the theoretical figure.
    """

    kind: Literal["bandwidth", "compute", "instructions"]
    level: str
    operation: str
    measured: Positive
    theoretical: Positive | None = None
    basis: str = ""

    @property
    def name(self) -> str:
        """For example ``"DRAM copy"``."""
        return f"{self.level} {self.operation}"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Machine(StoredRecord, ShownAsTables):
    """The measured and theoretical ceilings of one device, at the thread count used."""

    KIND = "machine"

    device: Device
    name: str
    threads: Count
    ceilings: Annotated[tuple[Ceiling, ...], Length(1, _MOST_CEILINGS)]
    context: Context = field(default_factory=dict)

    def __getitem__(self, name: str) -> Ceiling:
        """The ceiling with this name, for example ``"DRAM copy"`` or ``"FP64 fma"``."""
        for ceiling in self.ceilings:
            if ceiling.name == name:
                return ceiling
        names = [c.name for c in self.ceilings]
        raise KeyError(f"no ceiling {name!r}{_core.suggest(name, names)}")

    def of_kind(self, kind: Literal["bandwidth", "compute"]) -> tuple[Ceiling, ...]:
        """The ceilings of one kind, in the order measured (DRAM first, nearest memory last)."""
        return tuple(c for c in self.ceilings if c.kind == kind)

    @property
    def title(self) -> str:
        """Its name; for a CPU, with the number of threads: ``"EPYC 9654, 8 threads"``."""
        if self.device != "cpu":
            return self.name
        return f"{self.name}, {self.threads} thread{'s' if self.threads != 1 else ''}"

    @property
    def roof(self) -> float:
        """Measured DRAM copy bandwidth, the limit of code that streams through memory."""
        return self[_ROOF].measured

    def peak(self, precision: str | None) -> float | None:
        """FLOPs per second that no code of a precision exceeds: its fastest ceiling.

        If the precision is unknown, the fastest of all ceilings is used: a limit that is too high
        misleads less than a limit that is too low.
        """
        compute = self.of_kind("compute")
        ours = [c for c in compute if c.level == precision]
        return max((c.measured for c in ours or compute), default=None)

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
        if all(ceiling.name != _ROOF for ceiling in self.ceilings):
            return f"ceilings must contain {_ROOF!r}"
        return ""
