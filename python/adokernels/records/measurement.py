"""Records of measurements: plain values that can be stored, loaded and shown.

All values are in seconds, bytes, FLOPs and hertz; they are converted only for display.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from adokernels import _core
from adokernels.diagnosis.limiter import Limiter, limiter
from adokernels.records import statistics
from adokernels.records.forms import (
    NOT_STORED,
    Amount,
    Amounts,
    Context,
    Count,
    Device,
    Fields,
    Grid,
    Length,
    Positive,
    Seconds,
    Size,
    number_in,
)
from adokernels.records.inputs import Problem
from adokernels.records.kernels import Kernel, Resources
from adokernels.records.metrics import LEVEL_BYTES
from adokernels.records.profile import Profile
from adokernels.records.statistics import Comparison
from adokernels.storage import StoredRecord, write_csv
from adokernels.tables.measurements import describe, machine_table, sweep_records, sweep_tables
from adokernels.tables.rendering import ShownAsTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pandas as pd
    from rich.table import Table

Cache = Literal["cold", "warm"]
#: Flag of a peer whose result was not compared with the reference result.
UNCHECKED = "unchecked"
#: The ceiling that every machine must have.
_ROOF = "DRAM copy"
_MOST_CEILINGS = 1000


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement(StoredRecord):
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
        Why sampling ended: ``"converged"``, ``"time"``, ``"count"`` or ``"interrupted"``.
    flags
        Warnings: ``"throttled"``, ``"launch overhead included"``, ``"near the clock's
        resolution"``, ``"unchecked"``.
    context
        Machine, software and settings.
    machine
        The ceilings of the device, if its sweep has them; stored with the sweep only.
    """

    KIND = "measurement"

    routine: str
    variant: str
    device: Device
    problem: Problem
    cache: Cache
    samples: Seconds
    flops: Amount
    bytes: Amount
    executed_flops: Amount
    requested_bytes: Amount
    executed_instructions: Amount = 0.0
    changes: str = ""
    ceiling: bool = False
    stages: tuple[tuple[str, str], ...] = ()
    clocks: Amounts = field(default_factory=lambda: np.empty(0))
    session: str = ""
    calls_per_sample: Size = 1
    profile: Profile | None = None
    block: Grid | None = None
    grid: Grid | None = None
    kernels: tuple[Kernel, ...] = ()
    error: Amount | None = None
    stopped: str = ""
    flags: tuple[str, ...] = ()
    context: Context = field(default_factory=dict)
    machine: Machine | None = field(default=None, metadata=NOT_STORED)

    @property
    def shown_as(self) -> str:
        """The name in charts: that of the variant, with ``(unchecked)`` for an unchecked peer."""
        return f"{self.variant} (unchecked)" if UNCHECKED in self.flags else self.variant

    @property
    def seconds(self) -> float:
        """Median time of one call."""
        return float(np.median(self.samples))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the median, in seconds; see ``confidence``."""
        return statistics.median_interval(self.samples)

    @property
    def confidence(self) -> float | None:
        """0.95; None with fewer than 11 samples, because ``interval`` is then their range."""
        return 0.95 if len(self.samples) >= statistics.FEWEST_SAMPLES else None

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

    @property
    def machine_title(self) -> str:
        """Name of the device, for a CPU with the number of threads; empty if unknown."""
        name = str(self.context.get("device_name", ""))
        threads = number_in(self.context, "threads")
        return f"{name}, {threads:.0f} threads" if name and threads else name

    def compare(self, other: Measurement, *, across_machines: bool = False) -> Comparison:
        """Compare with `other`: verdict, ratio of times, and its 99.9 % interval.

        Parameters
        ----------
        other
            The measurement to compare with.
        across_machines
            Whether the two may come from different machines. The names in the result then include
            the machines.

        Returns
        -------
        Comparison
            A tuple of verdict, ratio and interval, which is shown as a sentence.

        Raises
        ------
        ValueError
            If one is cold and the other warm or if the problems differ, because these are different
            quantities; if the machines differ and `across_machines` is false.
        """
        if self.cache != other.cache:
            raise ValueError(f"cannot compare a {self.cache} with a {other.cache} measurement")
        if self.problem != other.problem:
            raise ValueError(f"cannot compare {self.problem} with {other.problem}")
        paired = self._is_paired(other)
        found = statistics.compare(self.samples, other.samples, paired=paired)
        names = [f"{m.routine}[{m.variant}]" for m in (self, other)]
        machines = [m.machine_title for m in (self, other)]
        if all(machines) and machines[0] != machines[1]:
            if not across_machines:
                raise ValueError(
                    f"measurements must be from one machine, got {machines[0]} and {machines[1]}: "
                    "pass across_machines=True to compare different machines"
                )
            names = [f"{name} on {machine}" for name, machine in zip(names, machines, strict=True)]
        samples = min(len(self.samples), len(other.samples))
        return Comparison(*found, ours=names[0], theirs=names[1], samples=samples)

    def speedup_over(self, other: Measurement) -> float:
        """The ratio of times; above 1 if this measurement is faster.

        It is the median of the ratios per round if the two were interleaved, else the ratio of the
        medians.
        """
        paired = self._is_paired(other)
        return statistics.ratio_of_times(self.samples, other.samples, paired=paired)

    def _is_paired(self, other: Measurement) -> bool:
        return bool(self.session) and self.session == other.session

    def __repr__(self) -> str:
        return describe(self)


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
        From queried properties at the stated clock; None if they cannot be queried.
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
        """Warp instructions per second that a GPU issues; None if unknown, and for a CPU.

        Four schedulers per multiprocessor issue one instruction per cycle each. The measured rate
        is that of FP32 FMAs, of which one warp instruction is 64 FLOPs. It is unknown on GPUs with
        fewer than 128 FP32 lanes per multiprocessor, where FMAs cannot use all issue slots.
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

    def _tables(self) -> list[Table]:
        return [machine_table(self)]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sweep(StoredRecord, ShownAsTables):
    """The variants of one ladder, measured interleaved on one problem, in ladder order.

    Attributes
    ----------
    measurements
        One per variant that ran, including ceilings.
    skipped
        The other variants, with the reason: declined, unavailable, a wrong result, or interrupted.
    machine
        The ceilings of the device.
    peers
        Functions of other libraries, timed in the same rounds.
    stages
        The stages of pipelines, each timed separately in the same rounds.
    interrupted
        Whether Ctrl-C ended the measurement. Samples, counters or ceilings may then be missing.
    """

    KIND = "sweep"

    routine: str
    measurements: tuple[Measurement, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    peers: tuple[Measurement, ...] = ()
    stages: tuple[Measurement, ...] = ()
    interrupted: bool = False

    def __post_init__(self) -> None:
        """Attach the machine to the measurements, whose limiters refer to its ceilings."""
        for name in ("measurements", "stages"):
            attached = (self._with_machine(m) for m in getattr(self, name))
            object.__setattr__(self, name, tuple(attached))

    def _contradiction(self) -> str:
        """Measurements from different machines cannot be compared or shown in one table."""
        first = ""
        for name in ("measurements", "peers", "stages"):
            for i, m in enumerate(getattr(self, name)):
                first = first or m.machine_title
                if m.machine_title not in ("", first):
                    return (
                        f"{name}[{i}].context must name the same machine in all measurements, "
                        f"got {m.machine_title!r} and {first!r}"
                    )
        return ""

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
        """What was measured: routine, problem, machine or device, cold or warm, interrupted."""
        parts = [self.routine, *dict.fromkeys(str(m.problem) for m in self)]
        parts += (
            [self.machine.title] if self.machine else list(dict.fromkeys(m.device for m in self))
        )
        parts += [*dict.fromkeys(m.cache for m in self), *(["interrupted"] * self.interrupted)]
        return ", ".join(parts)

    def steps(self) -> dict[Measurement, Measurement]:
        """Pair each variant with the previous one, without ceilings."""
        return steps(self.measurements)

    def share_of_roof(self, m: Measurement) -> float | None:
        """The share of the nearer limit, bandwidth or arithmetic; None if neither is known."""
        peak = self.machine.peak(m.problem.precision) if self.machine else None
        shares = [m.bytes_per_second / self.roof] if self.roof else []
        shares += [m.flops_per_second / peak] if peak else []
        return max(shares, default=None)

    def records(self) -> list[dict[str, Any]]:
        """The step table as one dictionary per measurement, in SI units; peers come last.

        Any library of data frames accepts it, for example ``polars.DataFrame(sweep.records())``.
        ``speedup`` is relative to the first variant, ``step_speedup`` to the previous one. Both
        are computed by :meth:`Measurement.speedup_over`. ``confidence`` is the level of the
        interval from ``ci_low`` to ``ci_high``. A value that does not apply is None.
        """
        return sweep_records(self)

    def to_csv(self, path: str | Path) -> None:
        """Write the step table as a CSV file, in SI units, with one line per measurement.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file is unchanged.
        """
        write_csv(path, self.records())

    def to_frame(self) -> pd.DataFrame:
        """The step table as a pandas frame, in SI units.

        Raises
        ------
        ImportError
            If pandas, which is optional, is not installed.
        """
        import pandas as pd

        return pd.DataFrame(self.records()).set_index("variant")

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
