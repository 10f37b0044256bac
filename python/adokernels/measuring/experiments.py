"""Experiments on CPU variants: the same variant under changed conditions, timed interleaved.

The rules in :mod:`adokernels.diagnosis.experiments` derive the limiter from the times.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.measuring.machine import measured_machine
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler
from adokernels.model.guarded import GuardedArray
from adokernels.model.ladder import Ladder
from adokernels.model.problem import Call, Problem
from adokernels.model.values import is_array
from adokernels.records.experiments import GIVEN, SMALLEST, Experiments, Run

#: Rounds per variant: the most, and the fewest for which a run is worth its time.
_ROUNDS, _FEWEST_ROUNDS = 11, 3
#: Target duration of a warm sample in seconds, and the most calls of one sample.
_SAMPLE_SECONDS, _MAX_CALLS = 5e-4, 4096
#: A round of a run with samples shorter than this takes the fastest of several samples, because
#: other processes disturb some.
_SHORT_SECONDS, _SAMPLES_OF_SHORT = 5e-3, 3
#: The samples of the sweep are used again if new ones would take more than this part of the time.
_REUSED = 0.25
#: Operands that fit in a cache have this part of its size.
_PART = 0.5
#: Without a larger L2, operands in L3 have this multiple of the size of L2.
_BEYOND_L2 = 4
#: Lengths that are shorter than the longest one by more than this factor do not change with the
#: size, and neither do lengths up to _FEW, for example a number of channels.
_LONG, _FEW = 64, 4
#: Lengths of scaled problems are multiples of this number, so that vectors stay aligned.
_MULTIPLE = 16
#: Page sizes are compared from this number of bytes per operand; smaller arrays can be in memory
#: that the process already uses. MADV_HUGEPAGE and MADV_NOHUGEPAGE of Linux.
_PAGED_BYTES = 64 << 20
_ADVICE = {"huge": 14, "small": 15}
_ISA_LEVELS = ("baseline", "avx2", "avx512")
#: A function uses several threads from this mean number of processors.
_SEVERAL = 1.5


@dataclass
class _Trial:
    """One run in progress."""

    conditions: dict[str, Any]
    call: Call
    footprint: float
    repeats: int = 1
    seconds: list[float] = field(default_factory=list)
    processors: list[float] = field(default_factory=list)
    cost: float = 0.0  # seconds of one sample, including the eviction of caches

    def round(self) -> None:
        """Take the sample of a round."""
        short = self.conditions["cache"] == "warm" and self.cost < _SHORT_SECONDS
        count = _SAMPLES_OF_SHORT if short else 1
        self.seconds.append(min(self.sample() for _ in range(count)))

    def sample(self) -> float:
        """Take one sample under the conditions; return its time per call."""
        cold = self.conditions["cache"] == "cold"
        if before := self.call.between_samples:
            before()
        with _setting(self.conditions["isa"], self.conditions["threads"]):
            start, used = time.perf_counter(), time.process_time()
            seconds = self.call.sample(cold, self.repeats)[0]
            elapsed = time.perf_counter() - start
        self.cost = elapsed
        if not cold:
            self.processors.append((time.process_time() - used) / elapsed)
        return seconds

    def warm_up(self) -> None:
        """Load code and data, and choose the number of calls per sample."""
        seconds = min(self.sample() for _ in range(2))
        if self.conditions["cache"] == "warm":
            wanted = math.ceil(_SAMPLE_SECONDS / max(seconds, 1e-9))
            self.repeats = min(max(wanted, 1), _MAX_CALLS)
            self.cost = max(self.cost, seconds * self.repeats)
        self.processors.clear()

    @property
    def run(self) -> Run:
        cost = self.call.cost
        return Run(
            **self.conditions,
            seconds=np.asarray(self.seconds),
            processors=max(self.processors, default=0.0),
            flops=cost.executed_flops,
            bytes=cost.requested_bytes,
            footprint=self.footprint,
        )


def experiments_on(
    ladder: Ladder,
    problem: Problem,
    calls: Mapping[str, Call],
    samplers: Mapping[str, Sampler],
    *,
    cache: str,
    budget: float,
    ceilings: bool,
    display: ProgressDisplay,
) -> dict[str, Experiments]:
    """Run the experiments on CPU variants; `budget` is the time per variant in seconds.

    `samplers` have the times of the variants in the sweep. A variant without result is missing in
    the dictionary: it raised an exception.
    """
    problem.load(problem.values)
    sizes = _Sizes(ladder, problem)
    sizes.prepare()
    found = {}
    for name in display.each("experiments", calls):
        with suppress(ValueError, TypeError, MemoryError, _core.Unavailable):
            found[name] = _of_variant(
                name, calls[name], samplers[name], sizes, cache, budget, ceilings, display
            )
    return found


def _of_variant(
    name: str,
    call: Call,
    sampler: Sampler,
    sizes: _Sizes,
    cache: str,
    budget: float,
    ceilings: bool,
    display: ProgressDisplay,
) -> Experiments:
    deadline = time.perf_counter() + budget
    trials: list[_Trial] = []
    planned = 0.0
    for make in _plan(name, call, sizes, cache):
        if trials and time.perf_counter() > deadline - budget / 2:
            break
        trial = make()
        if trial is None:
            continue
        if not trials:
            trial.repeats = sampler.calls
            trial.cost = sampler.spent / len(sampler.seconds)
            if _FEWEST_ROUNDS * trial.cost > _REUSED * budget:
                trial.seconds = list(sampler.seconds)
        else:
            trial.warm_up()
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
    runs = tuple(trial.run for trial in trials)
    threads = next((run.threads for run in runs if run.size not in (GIVEN, SMALLEST)), 1)
    return Experiments(
        runs=runs,
        ceilings=_ceilings(threads or 1, display) if ceilings else {},
        cores=_core.max_threads(),
    )


def _plan(
    name: str, call: Call, sizes: _Sizes, cache: str
) -> Iterator[Callable[[], _Trial | None]]:
    """Yield functions that make the trials, the most important first.

    The first result of a function, not the plan, determines the threads of a Python function.
    """
    threads, isa = _core.max_threads(), _core.isa()
    own = not call.built_in
    given: dict[str, Any] = {"size": GIVEN, "cache": cache}
    given |= {"isa": "", "threads": 0} if own else {"isa": isa, "threads": threads}
    lower = [] if own else list(_ISA_LEVELS[: _ISA_LEVELS.index(isa)])[::-1]

    def trial(problem: Problem | None, **changed: Any) -> _Trial | None:
        if problem is None or problem.why_not(name):
            return None
        conditions = {**given, **changed}
        with _setting(conditions["isa"], conditions["threads"]):
            prepared = call if conditions == given else problem.prepare(name)
        return _Trial(conditions, prepared, footprint_of(problem))

    yield lambda: trial(sizes.problem)
    used = 1
    if own:
        warm = trial(sizes.problem, cache="warm")
        if warm:
            warm.warm_up()
            warm.sample()
            used = max(round(max(warm.processors)), 1)
            used = used if max(warm.processors) >= _SEVERAL else 1
            if cache == "cold":
                yield lambda: warm
    inside: dict[str, Any] = {"cache": "warm", "threads": 0 if own else 1}
    for level in sizes.levels(used):
        yield lambda level=level: trial(sizes.fitting(level, used), size=level, **inside)
    for other in lower:
        yield lambda isa=other: trial(sizes.fitting("L1", used), size="L1", isa=isa, **inside)
    yield lambda: trial(sizes.smallest(), size=SMALLEST)
    if not own:
        for fewer in sorted({1, 2, threads // 2} - {0, threads}):
            yield lambda fewer=fewer: trial(sizes.problem, threads=fewer)
        if cache == "cold":
            yield lambda: trial(sizes.problem, cache="warm")
        for other in lower:
            yield lambda isa=other: trial(sizes.problem, isa=isa)
    for pages in _ADVICE:
        yield lambda pages=pages: trial(sizes.paged(pages), pages=pages)


@contextmanager
def _setting(isa: str, threads: int) -> Iterator[None]:
    """Set the instruction set and the number of threads; "" and 0 change nothing."""
    before = _core.isa(), _core.max_threads()
    try:
        if isa and isa != before[0]:
            _core.set_isa(isa)
        if threads and threads != before[1]:
            _core.set_max_threads(threads)
        yield
    finally:
        if _core.isa() != before[0]:
            _core.set_isa(before[0])
        if _core.max_threads() != before[1]:
            _core.set_max_threads(before[1])


def _ceilings(threads: int, display: ProgressDisplay) -> dict[str, float]:
    """The bandwidths and peaks that this number of threads reaches."""
    with _setting("", threads):
        machine = measured_machine("cpu", display)
    return {c.name: c.measured for c in machine.ceilings if c.kind in ("bandwidth", "compute")}


def footprint_of(problem: Problem) -> float:
    """Bytes of the operands and results."""
    arrays = sum(a.nbytes for a in problem.host_arguments if is_array(a))
    results = (math.prod(r.shape) * r.dtype.itemsize for r in problem.result_types)
    return float(arrays + sum(results))


class _Sizes:
    """The problem of a sweep, and problems of the same ladder with other sizes."""

    def __init__(self, ladder: Ladder, problem: Problem) -> None:
        self._ladder, self.problem = ladder, problem
        self._made: dict[Any, Problem | None] = {}
        self._bytes = footprint_of(problem)
        self._capacity = {f"L{number}": size for number, size, _ in _core.caches()}
        self._shared_by = {f"L{number}": shared for number, _, shared in _core.caches()}

    def prepare(self) -> None:
        """Make the problems that every variant needs, so that no variant's time is used for it."""
        for level in self.levels(1):
            self.fitting(level, 1)
        self.smallest()

    def levels(self, threads: int) -> list[str]:
        """The caches that the problem exceeds, the nearest first."""
        return [level for level in sorted(self._capacity) if self._target(level, threads)]

    def _target(self, level: str, threads: int) -> float:
        """Bytes that fit in a cache, or 0 if the problem is hardly larger."""
        instances = max(threads // max(self._shared_by.get(level, 1), 1), 1)
        size = _PART * self._capacity[level] * instances
        inner = f"L{int(level[1:]) - 1}"
        if level != "L1" and inner in self._capacity:
            size = min(size, _BEYOND_L2 * self._capacity[inner] * threads)
        return size if size * 2 <= self._bytes else 0.0

    def fitting(self, level: str, threads: int) -> Problem | None:
        """A problem whose operands and results fit in a cache; the given one if it fits."""
        if level not in self._capacity:
            return None
        target = self._target(level, threads)
        if not target:
            return self.problem if self._bytes <= self._capacity[level] else None
        return self._once((level, threads), lambda: self._scaled(target))

    def smallest(self) -> Problem | None:
        """A problem with one element per long dimension."""
        return self._once(SMALLEST, lambda: self._scaled(0.0))

    def paged(self, pages: str) -> Problem | None:
        """The same problem in memory with small or huge pages; None if it is too small."""
        if self._bytes < _PAGED_BYTES:
            return None

        def make() -> Problem:
            p = self.problem
            copy = self._ladder.problem(*p.host_arguments, device="cpu", **p.options)
            copy._result_types = p._result_types
            for guarded in (*copy.guarded_operands, *copy.guarded_results):
                if isinstance(guarded, GuardedArray):
                    guarded.advise(_ADVICE[pages])
            copy.load(copy.values)
            return copy

        return self._once(pages, make)

    def _once(self, key: Any, make: Callable[[], Problem | None]) -> Problem | None:
        if key not in self._made:
            self._made[key] = None
            with suppress(ValueError, TypeError, MemoryError):
                self._made[key] = make()
        return self._made[key]

    def _scaled(self, target: float) -> Problem | None:
        """The largest problem with about `target` bytes; 0 stands for the smallest one."""
        task, host = self._ladder.task, self.problem.host_arguments
        if task.problems is not None:
            cases = [
                self._ladder.problem(*case, device="cpu", **self.problem.options)
                for case in task.edge_cases(host, np.random.default_rng(0))
            ]
            fit = [p for p in cases if footprint_of(p) <= target or not target]
            best = max(fit, key=footprint_of, default=None) if target else None
            return best if target else min(cases, key=footprint_of, default=None)
        if task.core is not None:
            named = task.lengths_of(host)
            if not set(task.lengths) <= set(named):
                return None
            lengths = tuple(named[name] for name in task.lengths)
            dtype = host[0].dtype if task.dtype else None
            new = self._shorter(lengths, target, lambda n: _bytes_of(task.operand_types(n, dtype)))
            operands: Sequence[Any] = task.random_operands(new, dtype)
        else:
            rng = np.random.default_rng(0)
            lengths = tuple(sorted({n for o in host if is_array(o) for n in o.shape}))

            def shapes(new: Sequence[int]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
                mapped = dict(zip(lengths, new, strict=True))
                arrays = (o for o in host if is_array(o))
                return [(tuple(mapped[n] for n in o.shape), o.dtype) for o in arrays]

            new = self._shorter(lengths, target, lambda n: _bytes_of(shapes(n)))
            shape_of = iter(shapes(new))
            operands = [
                rng.choice(o.reshape(-1), next(shape_of)[0]) if is_array(o) else o for o in host
            ]
        return self._ladder.problem(*operands, device="cpu", **self.problem.options)

    def _shorter(
        self, lengths: Sequence[int], target: float, bytes_of: Callable[[Sequence[int]], float]
    ) -> tuple[int, ...]:
        """The lengths, with the long ones divided by one number so that operands fit."""
        wanted = target * bytes_of(lengths) / self._bytes
        long = [n > _FEW and n * _LONG >= max(lengths) for n in lengths]
        for step in range(1, 161):
            factor = 2.0 ** (-step / 4) if target else 0.0
            new = tuple(
                _rounded(n * factor) if scaled else n
                for n, scaled in zip(lengths, long, strict=True)
            )
            if not target or bytes_of(new) <= wanted:
                break
        return new


def _rounded(length: float) -> int:
    whole = max(int(length), 1)
    return whole // _MULTIPLE * _MULTIPLE if whole >= _MULTIPLE else whole


def _bytes_of(types: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> float:
    return float(sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in types))
