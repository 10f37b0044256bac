"""Records of measurements: plain values that can be stored, loaded and shown.

All values are in seconds, bytes, FLOPs and hertz; they are converted only for display.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from adokernels import _core
from adokernels.counters.metrics import LEVEL_BYTES
from adokernels.counters.records import Profile
from adokernels.diagnosis.limiter import Limiter, limiter
from adokernels.ladders.resources import Kernel, Resources
from adokernels.measuring import statistics
from adokernels.measuring.problem import Problem
from adokernels.measuring.statistics import Comparison
from adokernels.storage import write
from adokernels.tables.measurements import describe, machine_table, sweep_records, sweep_tables
from adokernels.tables.rendering import ShownAsTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pandas as pd
    from numpy.typing import NDArray
    from rich.table import Table

Cache = Literal["cold", "warm"]
#: The flag of a peer whose result was not compared with the reference result.
UNCHECKED = "unchecked"
Context = dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """Times of one variant on one problem.

    Attributes
    ----------
    routine, variant, changes, device, ceiling
        The variant that was measured; for a callable, its name.
    stages
        The stages of a pipeline, in order: routine and variant. Empty for a single kernel.
    problem
        Operands and options; ``str`` gives ``"a: (8192, 8192) float32"``.
    cache
        ``"cold"``: the operands were evicted from the caches before each sample. ``"warm"``: calls
        ran back to back. The two are different quantities.
    samples
        Seconds per call, one number per sample, in the order taken.
    clocks
        Mean SM clock during each sample, in Hz; empty if unknown.
    session
        Measurements with the same session were interleaved; their samples are paired by round.
    calls_per_sample
        Number of calls averaged in one sample.
    flops, bytes
        Useful FLOPs and compulsory bytes of the problem, the same for every variant.
    executed_flops, requested_bytes
        FLOPs that this variant executes and bytes that it requests, from its own formulas.
    executed_instructions
        Floating-point instructions that compute those FLOPs, counting an FMA once; 0 if not
        counted.
    profile
        Hardware counters of the same call, collected after timing; None if not collected.
    kernels
        The kernels launched, with their resource usage; empty on the CPU.
    error
        Largest difference from the reference result before timing, in the task's unit; None if
        there was none.
    stopped
        Why sampling ended: ``"converged"``, ``"time"`` or ``"count"``.
    flags
        Warnings: ``"throttled"``, ``"launch overhead included"``, ``"near the clock's
        resolution"``, ``"unchecked"``.
    context
        Machine, software and settings.
    machine
        The ceilings of the device, if its sweep has them; stored with the sweep only.
    """

    routine: str
    variant: str
    device: str
    problem: Problem
    cache: Cache
    samples: NDArray[np.float64]
    flops: float
    bytes: float
    executed_flops: float
    requested_bytes: float
    executed_instructions: float = 0.0
    changes: str = ""
    ceiling: bool = False
    stages: tuple[tuple[str, str], ...] = ()
    clocks: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    session: str = ""
    calls_per_sample: int = 1
    profile: Profile | None = None
    block: tuple[int, ...] | None = None
    grid: tuple[int, ...] | None = None
    kernels: tuple[Kernel, ...] = ()
    error: float | None = None
    stopped: str = ""
    flags: tuple[str, ...] = ()
    context: Context = field(default_factory=dict)
    machine: Machine | None = None

    @property
    def shown_as(self) -> str:
        """The variant's name; for a peer whose result is unknown, with ``(unchecked)``."""
        return f"{self.variant} (unchecked)" if UNCHECKED in self.flags else self.variant

    @property
    def seconds(self) -> float:
        """Median time of one call."""
        return float(np.median(self.samples))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the median, in seconds."""
        return statistics.median_interval(self.samples)

    @property
    def noise(self) -> float:
        """Half the width of that interval, relative to the median."""
        low, high = self.interval
        return (high - low) / 2 / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Compulsory bytes over time: comparable between variants."""
        return self.bytes / self.seconds

    @property
    def flops_per_second(self) -> float:
        """Executed FLOPs over time."""
        return self.executed_flops / self.seconds

    @property
    def intensity(self) -> float:
        """Executed FLOPs over requested bytes: the position on the roofline's horizontal axis."""
        return self.executed_flops / self.requested_bytes if self.requested_bytes else np.inf

    @property
    def fma_share(self) -> float | None:
        """The fraction of FMAs among the floating-point instructions; None if not counted.

        On a GPU, where one pipe executes all of them, a fraction f limits the performance to
        (1 + f) / 2 of the FMA peak.
        """
        if not self.executed_instructions:
            return None
        return self.executed_flops / self.executed_instructions - 1

    @property
    def clock(self) -> float | None:
        """Median SM clock in Hz, if known."""
        return float(np.median(self.clocks)) if len(self.clocks) else None

    @property
    def counted_flops(self) -> float | None:
        """FP64 and FP32 FLOPs from hardware counters; None without counters."""
        return self.profile.get("flops") if self.profile else None

    @property
    def counted_bytes(self) -> dict[str, float]:
        """Bytes moved at each memory level, from hardware counters; empty without counters."""
        if self.profile is None:
            return {}
        moved = ((level, self.profile.get(key)) for level, key in LEVEL_BYTES.items())
        return {level: value for level, value in moved if value}

    @property
    def limiter(self) -> Limiter:
        """The limiter, with evidence; precise only with counters and in a sweep with ceilings."""
        return limiter(self, self.machine)

    @property
    def provenance(self) -> dict[str, str]:
        """The origin of each number.

        ``"measured"``: timed. ``"counted"``: read from hardware counters. ``"modelled"``: computed
        by a formula of the routine or the variant. ``"not available"``: neither.
        """
        counted = "counted" if self.profile else "not available"
        modelled = ("flops", "bytes", "executed_flops", "requested_bytes")
        return {
            "seconds": "measured",
            "clock": "measured" if len(self.clocks) else "not available",
            **dict.fromkeys(modelled, "modelled"),
            "executed_instructions": "modelled" if self.executed_instructions else "not available",
            "counted_flops": "not available" if self.counted_flops is None else "counted",
            "counted_bytes": counted,
        }

    @property
    def resources(self) -> Resources:
        """Resource usage of its kernels."""
        return Resources(routine=self.routine, variant=self.variant, kernels=self.kernels)

    def compare(self, other: Measurement) -> Comparison:
        """Compare with `other`: verdict, ratio of times, and its 99.9 % interval.

        Returns
        -------
        Comparison
            A tuple of the three, which is shown as a sentence.

        Raises
        ------
        ValueError
            If one is cold and the other warm, or if the problems differ: these are different
            quantities.
        """
        if self.cache != other.cache:
            raise ValueError(f"cannot compare a {self.cache} with a {other.cache} measurement")
        if self.problem != other.problem:
            raise ValueError(f"cannot compare {self.problem} with {other.problem}")
        paired = bool(self.session) and self.session == other.session
        found = statistics.compare(self.samples, other.samples, paired=paired)
        names = [f"{m.routine}[{m.variant}]" for m in (self, other)]
        return Comparison(*found, ours=names[0], theirs=names[1])

    def to_dict(self) -> dict[str, Any]:
        """The measurement as JSON types."""
        stored = (f.name for f in dataclasses.fields(self) if f.name != "machine")
        record = {name: getattr(self, name) for name in stored}
        record["samples"] = [float(x) for x in self.samples]
        record["clocks"] = [float(x) for x in self.clocks]
        record["profile"] = self.profile.to_dict() if self.profile else None
        record["problem"] = self.problem.to_dict()
        record["kernels"] = [dataclasses.asdict(kernel) for kernel in self.kernels]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        values = dict(record)
        samples = values["samples"] = np.asarray(values["samples"], dtype=float)
        if (
            samples.ndim != 1
            or not len(samples)
            or not (np.isfinite(samples) & (samples > 0)).all()
        ):
            raise ValueError("samples must be one or more positive numbers of seconds")
        values["clocks"] = np.asarray(values["clocks"], dtype=float)
        for name in ("block", "grid"):
            values[name] = tuple(values[name]) if values[name] is not None else None
        for name in ("flops", "bytes", "executed_flops", "requested_bytes"):
            values[name] = float(values[name])
        for name in ("routine", "variant", "device", "cache"):
            if not isinstance(values[name], str):
                raise TypeError(f"{name} must be a string, got {values[name]!r}")
        values["problem"] = Problem.from_dict(values["problem"])
        values["flags"] = tuple(values["flags"])
        values["stages"] = tuple((str(r), str(v)) for r, v in values.get("stages", ()))
        values["kernels"] = tuple(map(Kernel.from_dict, values.get("kernels", ())))
        profile = values.get("profile")
        values["profile"] = Profile.from_dict(profile) if profile else None
        return cls(**values)

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file that :func:`adokernels.load` reads."""
        write(path, "measurement", self.to_dict())

    def __repr__(self) -> str:
        return describe(self)


@dataclass(frozen=True, kw_only=True)
class Ceiling:
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
        From queried properties at the stated clock; None if they cannot be queried.
    basis
        The formula of the theoretical figure.
    """

    kind: Literal["bandwidth", "compute", "instructions"]
    level: str
    operation: str
    measured: float
    theoretical: float | None = None
    basis: str = ""

    @property
    def name(self) -> str:
        """For example ``"DRAM copy"``."""
        return f"{self.level} {self.operation}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Machine(ShownAsTables):
    """The measured and theoretical ceilings of one device, at the thread count used."""

    device: str
    name: str
    threads: int
    ceilings: tuple[Ceiling, ...]
    context: Context = field(default_factory=dict)

    def __getitem__(self, name: str) -> Ceiling:
        """The ceiling of that name, for example ``"DRAM copy"`` or ``"FP64 fma"``."""
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
        return self["DRAM copy"].measured

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
        """Warp instructions per second that a GPU issues; None if unknown, and for a CPU.

        Four schedulers per multiprocessor issue one instruction per cycle each. The measured rate
        is that of FP32 FMAs, of which one warp instruction is 64 FLOPs. It is unknown on GPUs with
        fewer than 128 FP32 lanes per multiprocessor, where FMAs cannot use all issue slots.
        """
        gpu, per_fma = self.context.get("cuda"), 2 * 32
        fma = next((c for c in self.ceilings if c.name == "FP32 fma"), None)
        if not (gpu and fma and fma.theoretical):
            return None
        peak = gpu["multiprocessors"] * 4 * gpu["core_hertz"]
        if not math.isclose(fma.theoretical / per_fma, peak, rel_tol=1e-6):
            return None
        return Ceiling(
            kind="instructions",
            level="warp",
            operation="issue",
            measured=fma.measured / per_fma,
            theoretical=peak,
            basis=f"{gpu['multiprocessors']} multiprocessors x 4 schedulers"
            f" x {gpu['core_hertz'] / 1e9:.2f} GHz",
        )

    def to_dict(self) -> dict[str, Any]:
        """The machine as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        ceilings = tuple(Ceiling(**c) for c in record["ceilings"])
        return cls(**{**record, "ceilings": ceilings})

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file that :func:`adokernels.load` reads."""
        write(path, "machine", self.to_dict())

    def _tables(self) -> list[Table]:
        return [machine_table(self)]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sweep(ShownAsTables):
    """The variants of one ladder, measured interleaved on one problem, in ladder order.

    Attributes
    ----------
    measurements
        One per variant that ran, including ceilings.
    skipped
        The other variants, with the reason: declined, unavailable, or a wrong result.
    machine
        The ceilings of the device.
    peers
        Functions of other libraries, timed in the same rounds.
    stages
        The stages of pipelines, each timed separately in the same rounds.
    """

    routine: str
    measurements: tuple[Measurement, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    peers: tuple[Measurement, ...] = ()
    stages: tuple[Measurement, ...] = ()

    def __post_init__(self) -> None:
        """Attach the machine to the measurements, whose limiters refer to its ceilings."""
        for name in ("measurements", "stages"):
            attached = (self._with_machine(m) for m in getattr(self, name))
            object.__setattr__(self, name, tuple(attached))

    def _with_machine(self, m: Measurement) -> Measurement:
        if m.machine is self.machine:
            return m
        return dataclasses.replace(m, machine=self.machine)

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self.measurements)

    def __len__(self) -> int:
        return len(self.measurements)

    def __getitem__(self, variant: str) -> Measurement:
        """Measurement of a variant or a peer, by its name."""
        everything = (*self.measurements, *self.peers)
        for measurement in everything:
            if measurement.variant == variant:
                return measurement
        names = [m.variant for m in everything]
        raise KeyError(f"{variant!r} was not measured{_core.suggest(variant, names)}")

    @property
    def variants(self) -> tuple[Measurement, ...]:
        """The measurements without the ceilings."""
        return tuple(m for m in self.measurements if not m.ceiling)

    @property
    def fastest(self) -> Measurement:
        """The variant with the smallest median."""
        return min(self.variants, key=lambda m: m.seconds)

    @property
    def roof(self) -> float | None:
        """Bytes per second that a variant's share of the roof is relative to.

        It is the fastest of the ladder's own ceilings, which moved the same bytes in the same
        rounds; without a ceiling, the machine's copy bandwidth.
        """
        copies = [m.bytes_per_second for m in self.measurements if m.ceiling]
        if not copies and self.machine is not None:
            copies = [self.machine.roof]
        return max(copies, default=None)

    def stages_of(self, m: Measurement) -> tuple[Measurement, ...]:
        """The stages of this pipeline, in order; empty for a single kernel."""
        named = {(stage.routine, stage.variant): stage for stage in self.stages}
        return tuple(named[stage] for stage in m.stages if stage in named)

    @property
    def title(self) -> str:
        """What was measured: routine, problem, machine or device, cold or warm."""
        parts = [self.routine, *dict.fromkeys(str(m.problem) for m in self)]
        parts += (
            [self.machine.title] if self.machine else list(dict.fromkeys(m.device for m in self))
        )
        return ", ".join([*parts, *dict.fromkeys(m.cache for m in self)])

    def steps(self) -> dict[Measurement, Measurement]:
        """Pair each variant with the previous one, without ceilings."""
        return steps(self.measurements)

    def share_of_roof(self, m: Measurement) -> float | None:
        """The share of the nearer limit, bandwidth or arithmetic; None if neither is known."""
        peak = self.machine.peak(m.problem.precision) if self.machine else None
        shares = [m.bytes_per_second / self.roof] if self.roof else []
        shares += [m.flops_per_second / peak] if peak else []
        return max(shares, default=None)

    def to_frame(self) -> pd.DataFrame:
        """The step table as a pandas frame, in SI units.

        Raises
        ------
        ImportError
            If pandas, which is optional, is not installed.
        """
        import pandas as pd

        return pd.DataFrame(sweep_records(self)).set_index("variant")

    def to_dict(self) -> dict[str, Any]:
        """The sweep as JSON types."""
        return {
            "routine": self.routine,
            "measurements": [m.to_dict() for m in self.measurements],
            "skipped": dict(self.skipped),
            "machine": self.machine.to_dict() if self.machine else None,
            "peers": [m.to_dict() for m in self.peers],
            "stages": [m.to_dict() for m in self.stages],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        machine = record["machine"]
        return cls(
            routine=record["routine"],
            measurements=tuple(Measurement.from_dict(m) for m in record["measurements"]),
            skipped=dict(record["skipped"]),
            machine=Machine.from_dict(machine) if machine else None,
            peers=tuple(Measurement.from_dict(m) for m in record["peers"]),
            stages=tuple(Measurement.from_dict(m) for m in record.get("stages", ())),
        )

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file that :func:`adokernels.load` reads."""
        write(path, "sweep", self.to_dict())

    def _tables(self) -> list[Table]:
        return sweep_tables(self)


def steps(measurements: Iterable[Measurement]) -> dict[Measurement, Measurement]:
    """Pair each variant with the previous one of the same ladder and problem."""
    variants = [m for m in measurements if not m.ceiling]
    return {
        m: before
        for before, m in itertools.pairwise(variants)
        if (m.routine, m.problem, m.cache) == (before.routine, before.problem, before.cache)
    }
