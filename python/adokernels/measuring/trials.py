"""Trials: one call under changed conditions, and problems of other sizes for them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.measuring.sampling import Sampler
from adokernels.model.ladder import Ladder
from adokernels.model.problem import Call, Problem
from adokernels.model.values import is_array
from adokernels.records.experiments import SMALLEST, Run

#: Rounds per variant: the maximum, and the minimum below which a run is omitted.
_ROUNDS, _FEWEST_ROUNDS = 11, 3
#: Target duration of a warm sample in seconds, and the most calls of one sample.
_SAMPLE_SECONDS, _MAX_CALLS = {"cpu": 5e-4, "cuda": 1e-4}, {"cpu": 4096, "cuda": 256}
#: A round of a run with samples shorter than this takes the fastest of several samples, because
#: other processes disturb some.
_SHORT_SECONDS, _SAMPLES_OF_SHORT = 5e-3, 3
#: The samples of the sweep are reused if new samples would take more than this part of the time.
_REUSED = 0.25
#: The last round ends after the deadline, which is therefore earlier by this part of the time.
_RESERVE = 0.15
#: The part of a sample's time that remains at least if a wait for a processor is subtracted.
_LEAST_LEFT = 0.1
#: Lengths that are shorter than the longest one by more than this factor do not change with the
#: size, and neither do lengths up to _FEW, for example a number of channels.
_LONG, _FEW = 64, 4
#: Lengths of scaled problems are multiples of this number, so that vectors stay aligned.
_MULTIPLE = 16


@dataclass
class Trial:
    """One run in progress."""

    conditions: dict[str, Any]  # fields of Run
    call: Call
    footprint: float
    setting: Callable[[], AbstractContextManager[Any]] = nullcontext
    repeats: int = 1
    seconds: list[float] = field(default_factory=list)
    processors: list[float] = field(default_factory=list)
    cost: float = 0.0  # seconds of one sample, including the eviction of caches

    @property
    def _cold(self) -> bool:
        return bool(self.conditions["cache"] == "cold")

    def round(self) -> None:
        """Take the sample of a round."""
        short = not self._cold and self.cost < _SHORT_SECONDS
        count = _SAMPLES_OF_SHORT if short else 1
        self.seconds.append(min(self.sample() for _ in range(count)))

    def sample(self) -> float:
        """Take one sample under the conditions; return its time per call."""
        if before := self.call.between_samples:
            before()
        with self.setting():
            start, used = time.perf_counter(), time.process_time()
            seconds, _, _, waited = self.call.sample(self._cold, self.repeats)
            self.cost = time.perf_counter() - start
        if not self._cold:
            self.processors.append((time.process_time() - used) / self.cost)
        return _without_wait(seconds, waited)

    def warm_up(self) -> None:
        """Load code and data, and choose the number of calls per sample."""
        seconds = min(self.sample() for _ in range(1 if self._cold else 2))
        if not self._cold:
            wanted = math.ceil(_SAMPLE_SECONDS[self.call.device] / max(seconds, 1e-9))
            self.repeats = min(max(wanted, 1), _MAX_CALLS[self.call.device])
            self.cost = max(self.cost, seconds * self.repeats)
        self.processors.clear()

    @property
    def run(self) -> Run:
        """The record of the samples."""
        cost = self.call.cost
        return Run(
            **self.conditions,
            seconds=np.asarray(self.seconds),
            processors=max(self.processors, default=0.0) if self.call.device == "cpu" else 0.0,
            flops=cost.executed_flops,
            bytes=cost.requested_bytes,
            footprint=self.footprint,
        )


def runs_of(
    plan: Iterable[Callable[[], Trial | None]], sampler: Sampler, budget: float
) -> tuple[Run, ...]:
    """Take the rounds of all planned trials for which the time suffices, the first ones first.

    A trial that fails is left out, for example one that needs too much shared memory. The first
    trial has the conditions of the sweep. It reuses the samples of the sweep if new samples
    would take too long.
    """
    budget *= 1 - _RESERVE
    deadline, planned = time.perf_counter() + budget, 0.0
    trials: list[Trial] = []
    for make in plan:
        if trials and time.perf_counter() > deadline - budget / 2:
            break
        trial = None
        with suppress(ValueError, TypeError, MemoryError, _core.Unavailable, _core.CudaError):
            trial = make()
            if trial and trials:
                trial.warm_up()
        if trial is None:
            continue
        if not trials:
            trial.repeats = sampler.calls
            trial.cost = sampler.spent / len(sampler.seconds)
            if _FEWEST_ROUNDS * trial.cost > _REUSED * budget:
                waits = sampler.waits or [0.0] * len(sampler.seconds)
                trial.seconds = list(map(_without_wait, sampler.seconds, waits))
        if trials and planned + _FEWEST_ROUNDS * trial.cost > deadline - time.perf_counter():
            continue
        planned += 0.0 if trial.seconds else _FEWEST_ROUNDS * trial.cost
        trials.append(trial)
    active = [trial for trial in trials if not trial.seconds]
    for done in range(_ROUNDS):
        for trial in active:
            trial.round()
        if done + 1 >= _FEWEST_ROUNDS and time.perf_counter() > deadline:
            break
    return tuple(trial.run for trial in trials)


def _without_wait(seconds: float, waited: float) -> float:
    """The time of a sample without the longest wait of a thread for a processor, if it is known."""
    return max(seconds - max(waited, 0.0), _LEAST_LEFT * seconds)


def footprint_of(problem: Problem) -> float:
    """Bytes of the operands and results."""
    arrays = sum(a.nbytes for a in problem.host_arguments if is_array(a))
    results = (math.prod(r.shape) * r.dtype.itemsize for r in problem.result_types)
    return float(arrays + sum(results))


class Sizes:
    """The problem of a sweep, and problems of the same ladder with other sizes."""

    def __init__(self, ladder: Ladder, problem: Problem) -> None:
        self.ladder, self.problem, self.bytes = ladder, problem, footprint_of(problem)
        self._made: dict[Any, Problem | None] = {}

    def smallest(self) -> Problem | None:
        """A problem with one element per long dimension."""
        return self.once(SMALLEST, lambda: self._scaled(0.0))

    def scaled(self, target: float) -> Problem | None:
        """The largest problem with about `target` bytes; None if there is no such problem."""
        return self.once(target, lambda: self._scaled(target))

    def once(self, key: Any, make: Callable[[], Problem | None]) -> Problem | None:
        """The problem with this key; it is made at the first request."""
        if key not in self._made:
            self._made[key] = None
            with suppress(ValueError, TypeError, MemoryError):
                self._made[key] = make()
        return self._made[key]

    def _problem(self, operands: Sequence[Any]) -> Problem:
        options: Mapping[str, Any] = self.problem.options
        return self.ladder.problem(*operands, device=self.problem.device_id, **options)

    def _scaled(self, target: float) -> Problem | None:
        if not self.bytes:
            return None
        task, host = self.ladder.task, self.problem.host_arguments
        if task.problems is not None:
            cases = list(map(self._problem, task.edge_cases(host, np.random.default_rng(0))))
            if not target:
                return min(cases, key=footprint_of, default=None)
            fit = [p for p in cases if footprint_of(p) <= target]
            return max(fit, key=footprint_of, default=None)
        if task.core is not None:
            named = task.lengths_of(host)
            if not set(task.lengths) <= set(named):
                return None
            lengths = tuple(named[name] for name in task.lengths)
            dtype = host[0].dtype if task.dtype else None
            new = self._shorter(lengths, target, lambda n: _bytes_of(task.operand_types(n, dtype)))
            return self._problem(task.random_operands(new, dtype))
        rng = np.random.default_rng(0)
        lengths = tuple(sorted({n for o in host if is_array(o) for n in o.shape}))

        def shape(array: Any, new: Sequence[int]) -> tuple[int, ...]:
            mapped = dict(zip(lengths, new, strict=True))
            return tuple(mapped[n] for n in array.shape)

        def size(new: Sequence[int]) -> float:
            return _bytes_of([(shape(o, new), o.dtype) for o in host if is_array(o)])

        new = self._shorter(lengths, target, size)
        drawn = (
            rng.choice(o.reshape(-1), shape(o, new)) if is_array(o) else o  # values as given
            for o in host
        )
        return self._problem(tuple(drawn))

    def _shorter(
        self, lengths: Sequence[int], target: float, bytes_of: Callable[[Sequence[int]], float]
    ) -> tuple[int, ...]:
        """The lengths, with the long ones divided by one number so that operands fit."""
        wanted = target * bytes_of(lengths) / self.bytes
        long = [n > _FEW and n * _LONG >= max(lengths) for n in lengths]
        new = tuple(lengths)
        for step in range(1, 161):
            factor = 2.0 ** (-step / 4) if target else 0.0
            pairs = zip(lengths, long, strict=True)
            new = tuple(_rounded(n * factor) if scaled else n for n, scaled in pairs)
            if not target or bytes_of(new) <= wanted:
                break
        return new


def _rounded(length: float) -> int:
    whole = max(int(length), 1)
    return whole // _MULTIPLE * _MULTIPLE if whole >= _MULTIPLE else whole


def _bytes_of(types: Iterable[tuple[tuple[int, ...], np.dtype[Any]]]) -> float:
    return float(sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in types))
