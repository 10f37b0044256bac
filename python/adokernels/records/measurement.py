"""Records of measurements: plain values that can be stored, loaded and compared.

All values are in seconds, bytes, FLOPs and hertz; they are converted only for display.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal

import numpy as np

from adokernels import later
from adokernels.records import contention, statistics
from adokernels.records.experiments import Experiments
from adokernels.records.forms import (
    NOT_STORED,
    Amount,
    Amounts,
    Context,
    Device,
    Grid,
    Seconds,
    Size,
    Words,
    number_in,
)
from adokernels.records.inputs import Inputs
from adokernels.records.kernels import Kernel, Resources
from adokernels.records.limiter import Limiter, Step
from adokernels.records.machine import Machine
from adokernels.records.metrics import LEVEL_BYTES
from adokernels.records.profile import Profile
from adokernels.records.record import StoredRecord
from adokernels.records.statistics import Comparison
from adokernels.text import DIGITS, magnitude, number, percent, prefix, printable, quantity, require

Cache = Literal["cold", "warm"]
Flush = Literal["overwritten", "read", ""]
Category = Annotated[str, Words("a category of steps", "|".join(Step))]
#: The routine of a measurement of a function.
FUNCTION = "callable"
#: Flag of a peer whose result was not compared with the reference result.
UNCHECKED = "unchecked"
#: The end of the flag of a function whose time depends on the memory allocator of the process.
NEW_PAGES = "new pages of memory per call"
#: Maximum number of characters of the description of a measurement.
_LONGEST_LINE = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement(StoredRecord):
    """Times of one variant on one problem.

    Attributes
    ----------
    routine, variant, changes, device, ceiling
        The variant that was measured; for a callable, its name.
    steps
        The categories of its changes, or None if it does not state them.
    stages
        The stages of a pipeline, in order: routine and variant. Empty for a single kernel.
    problem
        Operands and options; ``str`` gives ``"a: (8192, 8192) float32"``.
    cache
        ``"cold"``: the caches were overwritten or read over (see `flush`) before each sample.
        ``"warm"``: calls ran back to back. The two are different quantities.
    flush
        How the caches were made cold: ``"overwritten"``, which leaves dirty lines that a sample
        writes back, or ``"read"``, which leaves clean lines; empty if warm.
    samples
        Seconds per call, one number per sample, in the order taken.
    clocks
        Mean SM clock during each sample, in Hz; empty if unknown.
    waits
        The longest time that a thread waited for a processor during each sample, in seconds per
        call; empty if unknown. A sample is disturbed if it exceeds 5 % of its time. The median and
        its interval use only undisturbed samples if there are at least 10.
    switches
        The number of involuntary context switches of the process around each sample: how often the
        system took the processor from one of its threads. Empty if unknown.
    cpu_seconds
        CPU time of the process around each sample, including the flush of the caches, in seconds of
        all threads. Empty if unknown.
    session
        Measurements with the same session were interleaved; their samples are paired by round.
    calls_per_sample
        Number of calls averaged in one sample.
    flops, bytes
        Useful FLOPs and compulsory bytes of the problem, the same for every variant.
    executed_flops, requested_bytes
        FLOPs that this variant executes and bytes that it requests, from its own formulas. Without
        a formula, the counted FLOPs or else the useful ones, and the compulsory bytes.
    executed_instructions
        Floating-point instructions that compute the FLOPs, counting an FMA once; 0 if not
        counted.
    profile
        Hardware counters of the same call, collected after timing, or None if not collected.
    experiments
        The variant under changed conditions, from which its limiter follows without counters; None
        if no experiments were run.
    kernels
        The kernels launched, with their resource usage; empty on the CPU.
    error
        Largest difference from the reference result in all checks, in the task's unit, or None if
        the result was not checked.
    error_ulp
        Largest difference from the reference result, computed in higher precision, in ulp: the
        distance between neighbouring numbers of the result's type at the reference, or at the root
        mean square of its row if this is larger; 1 for integers. None if it was not computed, and
        for ladders whose results must be exact.
    error_relative
        Largest difference from that reference, relative to the same magnitude. None as for
        `error_ulp`, and for integers.
    stopped
        Why sampling ended: ``"converged"``, ``"time"``, ``"count"`` or ``"interrupted"``.
    flags
        Warnings: ``"throttled"``, ``"launch overhead included"``, ``"near the clock's
        resolution"``, ``"unchecked"``, ``"disturbed: 43 % of the samples waited for a processor"``,
        ``"554 new pages of memory per call"`` (the time can differ between processes),
        ``"no counters: "`` and the error while they were collected.
    context
        Machine, software and settings.
    machine
        The ceilings of the device, if its sweep has them; stored with the sweep only.
    """

    KIND = "measurement"

    routine: str
    variant: str
    device: Device
    problem: Inputs
    cache: Cache
    samples: Seconds
    flops: Amount
    bytes: Amount
    executed_flops: Amount
    requested_bytes: Amount
    executed_instructions: Amount = 0.0
    flush: Flush = ""
    changes: str = ""
    steps: tuple[Category, ...] | None = None
    ceiling: bool = False
    stages: tuple[tuple[str, str], ...] = ()
    clocks: Amounts = field(default_factory=lambda: np.empty(0))
    waits: Amounts = field(default_factory=lambda: np.empty(0))
    switches: Amounts = field(default_factory=lambda: np.empty(0))
    cpu_seconds: Amounts = field(default_factory=lambda: np.empty(0))
    session: str = ""
    calls_per_sample: Size = 1
    profile: Profile | None = None
    experiments: Experiments | None = None
    block: Grid | None = None
    grid: Grid | None = None
    kernels: tuple[Kernel, ...] = ()
    error: Amount | None = None
    error_ulp: Amount | None = None
    error_relative: Amount | None = None
    stopped: str = ""
    flags: tuple[str, ...] = ()
    context: Context = field(default_factory=dict)
    machine: Machine | None = field(default=None, metadata=NOT_STORED)

    @property
    def shown_as(self) -> str:
        """The name in charts: the variant's name, with ``(unchecked)`` for an unchecked peer."""
        return f"{self.variant} (unchecked)" if UNCHECKED in self.flags else self.variant

    @property
    def shown_error(self) -> str:
        """Its largest error: ``"2.5 ulp"``, for integers ``"1 step"``; empty if unknown."""
        if self.error_ulp is None:
            return ""
        steps = "step" if self.error_ulp == 1 else "steps"
        return f"{magnitude(self.error_ulp)} {steps if self.error_relative is None else 'ulp'}"

    @cached_property
    def seconds(self) -> float:
        """Median time of one call."""
        return self._series.median

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the median, in seconds; see ``confidence``."""
        return statistics.median_interval(self._series.usable)

    @property
    def confidence(self) -> float | None:
        """0.95, or None with fewer than 11 samples, because ``interval`` is then their range."""
        return 0.95 if len(self._series.usable) >= statistics.FEWEST_SAMPLES else None

    @property
    def noise(self) -> float:
        """Half the width of ``interval``, relative to the median."""
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
        """The fraction of FMAs among the floating-point instructions, or None if not counted.

        On a GPU, where one pipe executes all of them, a fraction f limits the performance to
        (1 + f) / 2 of the FMA peak.
        """
        if not self.executed_instructions:
            return None
        return max(self.executed_flops / self.executed_instructions - 1, 0.0)

    @property
    def clock(self) -> float | None:
        """Median SM clock in Hz, if known."""
        return float(np.median(self.clocks)) if len(self.clocks) else None

    @property
    def counted_flops(self) -> float | None:
        """FP64 and FP32 FLOPs from hardware counters, or None without counters."""
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
        found: Limiter = later.limiter(self, self.machine)
        return found

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
            "executed_flops": "counted"
            if self.executed_flops == self.counted_flops
            else "modelled",
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

    def is_like(self, other: Measurement) -> bool:
        """Whether both measured the same problem with the same state of the caches."""
        ours, theirs = ((m.problem, m.cache, m.flush) for m in (self, other))
        return ours == theirs

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
            If one is cold and the other warm, if caches were made cold in different ways, or if the
            problems differ, because these are different quantities; if the machines differ and
            `across_machines` is false.
        """
        require(Measurement, "a measurement", other=other)
        if self.cache != other.cache:
            raise ValueError(f"cannot compare a {self.cache} with a {other.cache} measurement")
        if self.flush != other.flush:
            raise ValueError(
                f"cannot compare cold measurements whose caches were {self.flush} with ones whose "
                f"caches were {other.flush}: measure both with one version"
            )
        if self.problem != other.problem:
            raise ValueError(f"cannot compare {self.problem} with {other.problem}")
        names = self._label, other._label
        machines = self.machine_title, other.machine_title
        if all(machines) and machines[0] != machines[1]:
            if not across_machines:
                raise ValueError(
                    f"measurements must be from one machine, got {machines[0]} and {machines[1]}: "
                    "pass across_machines=True to compare different machines"
                )
            names = f"{names[0]} on {machines[0]}", f"{names[1]} on {machines[1]}"
        paired = bool(self.session) and self.session == other.session
        return contention.judge(self._series, other._series, paired=paired, names=names)

    def speedup_over(self, other: Measurement) -> float:
        """The ratio of the medians, ``other.seconds / self.seconds``; above 1 if this is faster.

        It is the ratio of :meth:`compare`, but any two measurements are accepted.
        """
        require(Measurement, "a measurement", other=other)
        return other.seconds / self.seconds

    @property
    def _label(self) -> str:
        """``"transpose[tiled]"``, or the name of a function."""
        return self.variant if self.routine == FUNCTION else f"{self.routine}[{self.variant}]"

    @property
    def _series(self) -> contention.TimedSeries:
        return contention.TimedSeries(
            self.samples, self.waits, self.clocks, self.context, self.switches
        )

    def __repr__(self) -> str:
        """For example ``"transpose[tiled] on cuda, cold: 3.21 ms (95 % CI 3.19 to 3.25, ...)"``."""
        factor, unit = prefix(self.seconds, "s")
        # Enough digits to tell the ends of the interval apart, but no more than six.
        digits = next(
            (d for d in range(DIGITS, 6) if len({number(t, d) for t in self.interval}) > 1), 6
        )
        low, high = (number(t / factor, digits) for t in self.interval)
        time = f"{number(self.seconds / factor, digits)} {unit}"
        count = len(self.samples)
        samples = f"{count} sample{'s' if count > 1 else ''}"
        if self.confidence is None:
            parts = [f"{time} (range {low} to {high}, only {samples})"]
        else:
            parts = [f"{time} (95 % CI {low} to {high}, {samples})"]
        if self.bytes:
            parts.append(quantity(self.bytes_per_second, "B/s"))
        if self.executed_flops:
            parts.append(quantity(self.flops_per_second, "FLOP/s"))
        if self.fma_share is not None:
            parts.append(f"{percent(self.fma_share)} FMA")
        line = f"{self._label} on {self.device}, {self.cache}: {', '.join(parts)}"
        notes = [*(["ceiling: does not compute the result"] if self.ceiling else []), *self.flags]
        return printable("; ".join([line, *notes]), _LONGEST_LINE)
