"""Interleaved sampling until every median has converged.

In each round, every sampler takes one sample, in random order. Slow drift of the machine then
affects all samplers equally, and ratios are computed per round. One sample is taken in C++
(`_core.sample`): if cold, the operands are evicted from the caches first. On the GPU, a blocking
kernel hides the launch overhead, and the SM clock is read before and after.
"""

from __future__ import annotations

import math
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.measuring.progress import ProgressDisplay
from adokernels.model.problem import Call
from adokernels.records.contention import THROTTLED, TimedSeries, judge
from adokernels.records.forms import LARGEST
from adokernels.records.measurement import NEW_PAGES, UNCHECKED, Cache, Flush
from adokernels.records.statistics import FEWEST_SAMPLES, median_interval
from adokernels.text import failure, percent, require

#: Seconds per call, mean SM clock in Hz (0 if unknown), whether launch overhead was hidden, and the
#: longest time per call that a thread waited for a processor (negative if unknown).
Sample = tuple[float, float, bool, float]

_MIN_SAMPLES, _MAX_SAMPLES = 30, 2000
_CHECKED = 5  # rounds between two checks of the intervals
# After its share of the time, a function is sampled until there are FEWEST_SAMPLES undisturbed
# samples, but at most up to this multiple of its share. Regardless of it, there are at least
# _MIN_SAMPLES_IF_SLOW samples.
_OVERTIME, _MIN_SAMPLES_IF_SLOW = 4, 5
# Below this share of undisturbed samples, further samples are not worth their time.
_HOPELESS = 0.2
_WARM_UP_SECONDS = 0.1
# The part of a function's share of the time that its warm-up takes at most.
_WARM_UP_SHARE = 0.2
# The part of the time for a call that is left for sampling, however long the checks take.
_LEAST_LEFT = 0.25
# Target duration of a warm sample, far above the clock's resolution.
_WARM_SAMPLE_SECONDS = {"cpu": 1e-3, "cuda": 1e-4}
_MAX_CALLS = 256  # per warm sample; the driver's queue holds about 1000 launches
# The share of throttled or disturbed samples above which a measurement is flagged.
_FLAGGED = 0.1
# A page fault is counted as _FAULT_SECONDS. A call is flagged if page faults take more than
# _FAULT_SHARE of its time. The allocator of glibc keeps arrays of up to 32 MiB or returns them to
# the system, depending on earlier arrays; larger arrays cause page faults in every process.
_FAULT_SECONDS, _FAULT_SHARE, _FAULTS_OF_ANY_PROCESS = 1e-6, 0.1, 32 * 2**20 / 4096
# The comparison of two variants is precise enough if one is faster by more than this fraction.
_CLEARLY_FASTER = 0.1
# CUDA events have a resolution of half a microsecond, which shows in samples shorter than this.
_COARSE_SECONDS = 20e-6


_DEFAULT_PRECISION = {"cpu": 0.01, "cuda": 0.005}


@dataclass
class Sampler:
    """A timed function: how to take one sample, and the samples so far."""

    take: Callable[[int], Sample]  # takes one sample of the given number of calls
    device: str  # "cpu" or "cuda"
    name: str = ""
    before: Callable[[], None] | None = None  # called before each sample, and not timed
    calls: int = 1  # per sample
    run: Callable[[int], Sample] | None = None  # like `take`, but never evicts the caches
    single: bool = False  # whether each call needs `before`, so that a sample is one call
    optional: bool = False  # whether one sample is enough if the time is short
    seconds: list[float] = field(default_factory=list)  # per call, of each sample
    clocks: list[float] = field(default_factory=list)  # SM clock in Hz of each sample
    waits: list[float] = field(default_factory=list)  # for a processor, in seconds per call
    switches: list[float] = field(default_factory=list)  # involuntary, of the process
    cpu_seconds: list[float] = field(default_factory=list)  # of the process, flush included
    faults: list[int] = field(default_factory=list)  # page faults of the process, per sample
    blocked: bool = True  # whether the launch overhead of every sample was hidden
    spent: float = 0.0  # seconds spent on sampling, including the flush of the caches
    stopped: str = ""  # why no more samples are needed; empty while more are needed
    exhausted: bool = False  # whether no more samples are allowed
    error: Exception | None = None  # raised by the function; it is not sampled any more
    warnings: list[str] = field(default_factory=list)  # flags that do not come from samples

    @classmethod
    def of_call(cls, call: Call, *, cold: bool, name: str = "") -> Sampler:
        """Time a prepared variant."""
        take, run = (partial(call.sample, evicted) for evicted in (cold, False))
        return cls(take, call.device, name, call.between_samples, run=run)

    @classmethod
    def of_function(
        cls,
        work: Callable[[], object],
        device: str,
        *,
        cold: bool,
        stream: int = 0,
        name: str = "",
    ) -> Sampler:
        """Time a function; on CUDA, the work that it launches on `stream`."""

        def take(evicted: bool, repeats: int) -> Sample:
            return _core.sample(work, device, evicted, repeats, stream)

        run = partial(take, False)
        return cls(partial(take, cold), _core.device_kind(device), name, run=run)

    @contextmanager
    def stopped_by_errors(self) -> Iterator[None]:
        """Stop sampling if the function raises, so that the samples of the others are kept.

        It raises CudaError: after most of these errors, no function can use the GPU.
        """
        try:
            yield
        except _core.CudaError:
            raise
        except Exception as error:  # any error of the user's code
            self.error, self.stopped, self.exhausted = error, "failed", True

    @contextmanager
    def warned_of_errors(self, words: str) -> Iterator[None]:
        """Flag the measurement, which remains valid, if another use of the function fails."""
        try:
            yield
        except _core.CudaError:
            raise
        except Exception as error:  # any error of the user's code
            self.warnings.append(f"{words}: {failure(error)}")

    def warm_up(self, *, warm: bool, limit: float = _WARM_UP_SECONDS) -> None:
        """Run until code is loaded and clocks have risen; choose the number of calls per sample."""
        start, runs, seconds, spent = time.perf_counter(), 0, math.inf, 0.0
        limit = min(limit, _WARM_UP_SECONDS)
        while spent <= 10 * limit and (runs < 3 or spent < limit):
            if self.before:
                self.before()
            seconds = min(seconds, (self.run or self.take)(1)[0])
            runs, spent = runs + 1, time.perf_counter() - start
        if warm and not self.single:
            wanted = math.ceil(_WARM_SAMPLE_SECONDS[self.device] / max(seconds, 1e-9))
            self.calls = min(max(wanted, 1), _MAX_CALLS)
            # A callable may launch more kernels than the queue holds. The host then waits for the
            # blocking kernel, which waits for the host until a time-out.
            while self.calls > 1 and not self.take(self.calls)[2]:
                self.calls //= 2

    def sample(self, *, precision: float, budget: float) -> None:
        """Take one sample and decide whether more are needed."""
        if self.before:
            self.before()
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        seconds, clock, blocked, waited = self.take(self.calls)
        after = resource.getrusage(resource.RUSAGE_SELF)
        self.spent += time.perf_counter() - start
        self.switches.append(float(after.ru_nivcsw - before.ru_nivcsw))
        used = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
        self.cpu_seconds.append(max(used, 0.0))
        self.faults.append(after.ru_minflt - before.ru_minflt)
        self.seconds.append(seconds)
        if clock:
            self.clocks.append(clock)
        if waited >= 0:
            self.waits.append(waited)
        self.blocked &= blocked
        count = len(self.seconds)
        overtime = self.optional or self.spent > _OVERTIME * budget
        late = self.spent > budget and self._are_enough(overtime=overtime)
        self.exhausted = late or count >= _MAX_SAMPLES
        if self.stopped:
            return
        if count >= _MIN_SAMPLES and count % _CHECKED == 0:
            usable = self.series.usable
            low, high = median_interval(usable)
            if (
                len(usable) >= _MIN_SAMPLES
                and (high - low) / 2 / float(np.median(usable)) <= precision
            ):
                self.stopped = "converged"
                return
        if self.exhausted:
            self.stopped = "time" if late else "count"

    def _are_enough(self, *, overtime: bool) -> bool:
        """Whether there are enough samples to stop when the time is used up."""
        count = len(self.seconds)
        if overtime:
            return count >= (1 if self.optional else _MIN_SAMPLES_IF_SLOW)
        # A round of two variants is undisturbed only if both samples are. If few samples are
        # undisturbed, there will be no verdict, and more samples do not help.
        undisturbed = 1 - self.series.waited
        hopeless = undisturbed < _HOPELESS
        return count * (1 if hopeless else undisturbed**2) >= FEWEST_SAMPLES

    def done(self, budget: float) -> float:
        """The completed fraction: 1 if stopped, else the fraction of the budget that is used."""
        return 1.0 if self.stopped else min(self.spent / max(budget, 1e-9), 0.99)

    def flags(self, reached: float, *, checked: bool = True) -> tuple[str, ...]:
        """Warnings about the result; `reached` is the clock that the run reached."""
        flags = [*self.warnings, *([] if checked else [UNCHECKED])]
        if not self.blocked:
            flags.append("launch overhead included")
        if self.device == "cuda" and float(np.median(self.seconds)) * self.calls < _COARSE_SECONDS:
            flags.append("near the clock's resolution")
        faults = float(np.median(self.faults)) / self.calls if self.faults else 0.0
        share = faults * _FAULT_SECONDS / float(np.median(self.seconds)) if faults else 0.0
        if self.device == "cpu" and share > _FAULT_SHARE and faults < _FAULTS_OF_ANY_PROCESS:
            flags.append(f"{faults:.0f} {NEW_PAGES}")
        if self.clocks and np.mean(np.asarray(self.clocks) < THROTTLED * reached) > _FLAGGED:
            flags.append("throttled")
        if self.seconds and (share := self.series.waited) > _FLAGGED:
            flags.append(f"disturbed: {percent(share)} of the samples waited for a processor")
        return tuple(flags)

    @property
    def series(self) -> TimedSeries:
        """The samples so far."""
        return TimedSeries(np.array(self.seconds), np.array(self.waits), np.array(self.clocks))

    def record(self, reached: float, *, checked: bool = True) -> dict[str, Any]:
        """The fields of a Measurement that come from sampling."""
        return {
            "samples": np.asarray(self.seconds),
            "clocks": np.asarray(self.clocks),
            "waits": np.asarray(self.waits),
            "switches": np.asarray(self.switches),
            "cpu_seconds": np.asarray(self.cpu_seconds),
            "calls_per_sample": self.calls,
            "stopped": self.stopped or "interrupted",
            "flags": self.flags(reached, checked=checked),
        }


def _are_done(samplers: Sequence[Sampler], precision: float) -> bool:
    """Whether no sampler needs a further round."""
    if not all(sampler.stopped for sampler in samplers):
        return False
    if all(sampler.exhausted for sampler in samplers):
        return True
    count = max(len(sampler.seconds) for sampler in samplers)
    return count % _CHECKED == 0 and all(
        _is_precise(ours, theirs, precision)
        for i, ours in enumerate(samplers[1:])
        for theirs in {id(s): s for s in (samplers[0], samplers[i])}.values()
        if not (ours.exhausted or theirs.exhausted)
    )


def _is_precise(ours: Sampler, theirs: Sampler, precision: float) -> bool:
    """Whether the ratio of two variants is precise enough for a verdict.

    Half of its 99.9 % interval must be below `precision`, or one variant must be clearly faster.
    The end of sampling thus does not depend on which of two similar variants has been faster so
    far: this would increase the number of wrong verdicts.
    """
    found = judge(ours.series, theirs.series, paired=True)
    low, high = found.interval
    if low > 1 + _CLEARLY_FASTER or high < 1 - _CLEARLY_FASTER:
        return True
    return (high - low) / 2 / found.ratio <= precision


@dataclass(frozen=True)
class Timing:
    """Sampling settings: the common arguments of `measure`, `sweep`, `compare` and `tune`.

    `seconds` is the time for the whole call, which begins when this object is made.
    """

    cache: Cache
    precision: float | None
    seconds: float
    started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        if self.cache not in ("cold", "warm"):
            raise ValueError(f"cache must be 'cold' or 'warm', got {self.cache!r}")
        require(Real, "a number", seconds=self.seconds)
        require_finite(seconds=self.seconds)
        require((Real, type(None)), "a number", precision=self.precision)
        if self.precision is not None and not 0 <= self.precision < 1:
            raise ValueError(
                f"precision must be at least 0 and less than 1, got {self.precision!r}: it is a "
                "fraction of the median, for example precision=0.01 for 1 %"
            )

    @property
    def cold(self) -> bool:
        """Whether caches are overwritten before each sample."""
        return self.cache == "cold"

    @property
    def flush(self) -> Flush:
        """How samples flush the caches; see :class:`Measurement`."""
        return "overwritten" if self.cold else ""

    @property
    def left(self) -> float:
        """The seconds that are left; at least a quarter of them, however long the checks take."""
        left = self.seconds - (time.perf_counter() - self.started)
        return max(left, _LEAST_LEFT * self.seconds)

    def sample(
        self,
        samplers: Sequence[Sampler],
        device: str,
        display: ProgressDisplay,
        share: float = 1.0,
    ) -> None:
        """Take one sample of every sampler per round, in random order, until all have stopped.

        A sampler is sampled until all samplers and the ratios of their times have converged, or its
        time is used up, because the speed of the others depends on the code that runs before them,
        and ratios are computed per round. A disturbed sample stays in the record and does not
        count. A sampler whose function raises an exception is not sampled any more; it keeps the
        exception. All samplers have equal parts of a share of the time that is left.
        """
        precision = _DEFAULT_PRECISION[device] if self.precision is None else self.precision
        start, budget = time.perf_counter(), share * self.left / max(len(samplers), 1)
        for sampler in display.each("warming up", samplers, lambda s: s.name):
            with sampler.stopped_by_errors():
                sampler.warm_up(warm=not self.cold, limit=_WARM_UP_SHARE * budget)
        warmed = (time.perf_counter() - start) / max(len(samplers), 1)
        budget = max(budget - warmed, _LEAST_LEFT * budget)
        display.begin_timing(len(samplers), budget * len(samplers))
        while not _are_done(samplers, precision):
            active = [sampler for sampler in samplers if not sampler.exhausted]
            random.shuffle(active)
            for sampler in active:
                if display.is_due():
                    done = [each.done(budget) for each in samplers]
                    display.show(sampler.name, sum(part == 1 for part in done), sum(done))
                with sampler.stopped_by_errors():
                    sampler.sample(precision=precision, budget=budget)


def require_finite(**limits: float | None) -> None:
    """Reject numbers that are negative, not finite, or too large for a record."""
    for name, value in limits.items():
        require((Real, type(None)), "a number", **{name: value})
        if value is None:
            continue
        if not 0 <= value < math.inf:  # also if it is NaN
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
        if value > LARGEST:
            raise ValueError(f"{name} must be at most {LARGEST:g}, got a larger number")
