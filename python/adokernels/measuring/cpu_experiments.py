"""Experiments on CPU variants: the same variant under changed conditions, timed interleaved.

The rules in :mod:`adokernels.diagnosis.cpu_rules` derive the limiter from the times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from adokernels import _core
from adokernels.measuring.machine import measured_machine
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler
from adokernels.measuring.trials import Sizes, Trial, footprint_of, runs_of
from adokernels.model.guarded import GuardedArray
from adokernels.model.ladder import Ladder
from adokernels.model.problem import Call, Problem
from adokernels.records.experiments import GIVEN, SMALLEST, Experiments

#: Operands that fit in a cache have this part of its size.
_PART = 0.5
#: Operands in L3 have at most this multiple of the size of L2.
_BEYOND_L2 = 4
#: Page sizes are compared for operands and results of this many bytes: smaller arrays can be in
#: memory that the process already uses, and larger ones take long to fill.
_LEAST_PAGED, _MOST_PAGED = 64 << 20, 256 << 20
#: MADV_HUGEPAGE and MADV_NOHUGEPAGE of Linux.
_ADVICE = {"huge": 14, "small": 15}
_ISA_LEVELS = ("baseline", "avx2", "avx512")
#: A function uses several threads from this mean number of processors.
_SEVERAL = 1.5


class CpuExperiments:
    """The experiments on the variants of one problem."""

    def __init__(
        self, ladder: Ladder, problem: Problem, cache: str, display: ProgressDisplay | None
    ) -> None:
        """Prepare problems of other sizes; `display` is None for no measurement of ceilings."""
        problem.load(problem.values)
        self._cache, self._display = cache, display
        self._sizes = _CacheSizes(ladder, problem)
        for level in self._sizes.levels(1):  # so that no variant's time is used for it
            self._sizes.fitting(level, 1)
        self._sizes.smallest()

    def on(self, name: str, call: Call, sampler: Sampler, budget: float) -> Experiments:
        """Run the experiments on one variant; `budget` is their time in seconds."""
        runs = runs_of(self._plan(name, call), sampler, budget)
        threads = next((run.threads for run in runs if run.size not in (GIVEN, SMALLEST)), 1)
        ceilings = _ceilings(threads or 1, self._display) if self._display else {}
        return Experiments(runs=runs, ceilings=ceilings, cores=_core.max_threads())

    def _plan(self, name: str, call: Call) -> Iterator[Callable[[], Trial | None]]:
        """Yield functions that make the trials, the most important first."""
        sizes, threads, isa, own = self._sizes, _core.max_threads(), _core.isa(), not call.built_in
        given: dict[str, Any] = {"size": GIVEN, "cache": self._cache}
        given |= {"isa": "", "threads": 0} if own else {"isa": isa, "threads": threads}
        lower = [] if own else list(_ISA_LEVELS[: _ISA_LEVELS.index(isa)])[::-1]

        def trial(problem: Problem | None, **changed: Any) -> Trial | None:
            if problem is None or problem.why_not(name):
                return None
            conditions = {**given, **changed}
            setting = partial(_setting, conditions["isa"], conditions["threads"])
            with setting():
                prepared = call if conditions == given else problem.prepare(name)
            return Trial(conditions, prepared, footprint_of(problem), setting)

        first = trial(sizes.problem)
        yield lambda: first
        used = 1
        if own and (warm := trial(sizes.problem, cache="warm") if self._cache == "cold" else first):
            if warm is not first:
                warm.warm_up()
            warm.sample()  # also if the first trial reuses the samples of the sweep
            used = round(max(warm.processors)) if max(warm.processors) >= _SEVERAL else 1
            if warm is not first:
                yield lambda: warm
        elif not own and threads > 1:
            yield partial(trial, sizes.problem, threads=1)
        inside: dict[str, Any] = {"cache": "warm", "threads": 0 if own else 1}
        for level in sizes.levels(used):
            yield partial(trial, sizes.fitting(level, used), size=level, **inside)
        for other in lower:
            yield partial(trial, sizes.fitting("L1", used), size="L1", **{**inside, "isa": other})
        for state in dict.fromkeys(("warm", self._cache)):
            yield partial(trial, sizes.smallest(), size=SMALLEST, cache=state)
        if not own:
            for fewer in sorted({2, threads // 2} - {0, 1, threads}):
                yield partial(trial, sizes.problem, threads=fewer)
            if self._cache == "cold":
                yield partial(trial, sizes.problem, cache="warm")
            for other in lower:
                yield partial(trial, sizes.problem, isa=other)
        for pages in _ADVICE:
            yield partial(self._paged, trial, pages)

    def _paged(self, trial: Callable[..., Trial | None], pages: str) -> Trial | None:
        return trial(self._sizes.paged(pages), pages=pages)


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


class _CacheSizes(Sizes):
    """Problems that fit in the caches of a CPU."""

    def __init__(self, ladder: Ladder, problem: Problem) -> None:
        super().__init__(ladder, problem)
        self._capacity = {f"L{number}": size for number, size, _ in _core.caches()}
        self._shared_by = {f"L{number}": shared for number, _, shared in _core.caches()}

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
        return size if size * 2 <= self.bytes else 0.0

    def fitting(self, level: str, threads: int) -> Problem | None:
        """A problem whose operands and results fit in a cache; the given one if it fits."""
        if level not in self._capacity:
            return None
        target = self._target(level, threads)
        if not target:
            return self.problem if self.bytes <= self._capacity[level] else None
        return self.scaled(target)

    def paged(self, pages: str) -> Problem | None:
        """The same problem in memory with small or huge pages; None for other sizes."""
        if not _LEAST_PAGED <= self.bytes <= _MOST_PAGED:
            return None

        def make() -> Problem:
            copy = self._problem(self.problem.host_arguments)
            for guarded in (*copy.guarded_operands, *copy.guarded_results):
                if isinstance(guarded, GuardedArray):
                    guarded.advise(_ADVICE[pages])
            copy.load(copy.values)
            return copy

        return self.once(pages, make)
