"""Experiments: one variant timed under changed conditions, to find what its time depends on.

On a CPU: fewer threads, operands that fit in each cache, other instruction sets, hardly any work.
The rules in :mod:`adokernels.diagnosis.cpu_rules` derive the limiter from the times. On a GPU,
``ado.what_if`` times calls with a lower occupancy and on fewer multiprocessors.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.measuring.machine import measured_machine
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sample, Sampler
from adokernels.model.problem import Block, Call, Problem
from adokernels.model.routine import BuiltInVariant
from adokernels.model.values import is_array
from adokernels.records.experiments import GIVEN, SMALLEST, Experiments, Run

#: Samples per run: the maximum, and the minimum for which the time must suffice.
_SAMPLES, _FEWEST = 11, 3
#: The least part of a sample's time that remains after waits for a processor are subtracted.
_LEAST_LEFT = 0.1
#: Operands that fit in a cache have this part of its size, and in L3 at most this multiple of L2.
_PART, _BEYOND_L2 = 0.5, 4
#: Lengths that are shorter than the longest one by more than this factor do not change with the
#: size, and neither do lengths up to _FEW, for example a number of channels.
_LONG, _FEW = 64, 4
#: Lengths of scaled problems are multiples of this number, so that vectors stay aligned.
_MULTIPLE = 16
_ISA_LEVELS = ("baseline", "avx2", "avx512")
#: Shared memory that CUDA reserves per block, in bytes (CUDA C++ Programming Guide).
_RESERVED_SHARED = 1 << 10


class _Trial:
    """One run in progress: a call, and the conditions under which it is sampled."""

    def __init__(
        self,
        call: Call,
        conditions: Mapping[str, Any],
        setting: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        def take(cold: bool, repeats: int) -> Sample:
            with setting():
                return call.sample(cold, repeats)

        self.call, self.conditions, self.cold = call, conditions, conditions["cache"] == "cold"
        take_one, run = (partial(take, cold) for cold in (self.cold, False))
        self.sampler = Sampler(take_one, call.device, before=call.between_samples, run=run)

    @property
    def run(self) -> Run:
        """The record of the samples."""
        sampler, cost = self.sampler, self.call.cost
        seconds = np.asarray(sampler.seconds)
        waits = np.asarray(sampler.waits) if len(sampler.waits) == len(seconds) else 0.0
        processors = 0.0
        if self.call.device == "cpu" and not self.cold:
            used = np.asarray(sampler.cpu_seconds) / (seconds * sampler.calls)
            processors = float(np.median(used))
        return Run(
            **self.conditions,
            seconds=np.maximum(seconds - waits, _LEAST_LEFT * seconds),
            disturbed=sampler.series.waited,
            processors=processors,
            flops=cost.executed_flops,
            bytes=cost.requested_bytes,
            footprint=footprint_of(self.call.problem),
        )


def _runs_of(plan: Iterable[Callable[[], _Trial | None]], budget: float) -> list[Run]:
    """Sample the planned trials in rounds, as far as the time suffices, the first ones first.

    Failed trials are omitted.
    """
    start, trials, planned = time.perf_counter(), [], 0.0
    for make in plan:
        if time.perf_counter() - start > budget / 2:
            break
        with suppress(ValueError, TypeError, MemoryError, _core.Unavailable, _core.CudaError):
            if trial := make():
                began = time.perf_counter()
                trial.sampler.warm_up(warm=not trial.cold, limit=budget / 100)
                trial.sampler.sample(precision=0.0, budget=math.inf)
                cost = time.perf_counter() - began
                planned += (_FEWEST - 1) * cost
                if planned > budget - (time.perf_counter() - start):
                    break
                trials.append(trial)
    for taken in range(1, _SAMPLES):
        if taken >= _FEWEST and time.perf_counter() - start > budget:
            break
        for trial in trials:
            trial.sampler.sample(precision=0.0, budget=math.inf)
    return [trial.run for trial in trials]


class CpuExperiments:
    """The experiments on the variants of one problem on the CPU."""

    def __init__(self, problem: Problem, cache: str, display: ProgressDisplay | None) -> None:
        """Prepare problems of other sizes; `display` is None for no measurement of ceilings."""
        problem.load(problem.values)
        self._problem, self._cache, self._display = problem, cache, display
        footprint = footprint_of(problem)
        sizes = {f"L{number}": size for number, size, _ in _core.caches()}
        self._smallest = scaled(problem, 0.0)
        #: Problems that fit in the caches, by cache, the nearest first. A problem shows one level:
        #: the nearest cache in which it fits, or the time of the call if it is the smallest.
        self._inside: dict[str, Problem] = {}
        shown = {footprint_of(self._smallest)} if self._smallest else set()
        for level, size in sorted(sizes.items()):
            target = _PART * size
            if level == "L3" and "L2" in sizes:
                target = min(target, _BEYOND_L2 * sizes["L2"])
            if 2 * target <= footprint:
                made = scaled(problem, target)
                if made and footprint_of(made) not in shown:
                    self._inside[level] = made
                    shown.add(footprint_of(made))
            elif level == "L1" and footprint <= size:
                self._inside[level] = problem

    def on(self, call: Call, timed: Sampler, budget: float) -> Experiments:
        """Run the experiments on one variant, which `timed` has sampled, in `budget` seconds."""
        given: dict[str, Any] = {"size": GIVEN, "cache": self._cache}
        if call.built_in:
            given |= {"isa": _core.isa(), "threads": _core.max_threads()}
        first = _Trial(call, given)
        first.sampler = timed
        runs = [first.run, *_runs_of(self._plan(call.variant, given), budget)]
        ceilings = {}
        if self._display:
            with _setting("", 1):
                machine = measured_machine("cpu", self._display)
            found = (c for c in machine.ceilings if c.kind in ("bandwidth", "compute"))
            ceilings = {c.name: c.measured for c in found}
        return Experiments(runs=tuple(runs), ceilings=ceilings, cores=_core.max_threads())

    def _plan(self, name: str, given: Mapping[str, Any]) -> Iterator[Callable[[], _Trial | None]]:
        """Yield functions that make the trials, the most important first."""

        def trial(problem: Problem | None, **changed: Any) -> _Trial | None:
            if problem is None or problem.why_not(name):
                return None
            conditions = {**given, **changed}
            setting = partial(_setting, conditions.get("isa"), conditions.get("threads"))
            with setting():
                return _Trial(problem.prepare(name), conditions, setting)

        one = {"threads": 1} if "threads" in given else {}
        if given.get("threads", 0) > 1:
            yield partial(trial, self._problem, threads=1)
        elif not one and self._cache == "cold":  # shows the processors that a function uses
            yield partial(trial, self._problem, cache="warm")
        if self._cache == "cold":  # its time is subtracted from the warm runs below
            yield partial(trial, self._smallest, size=SMALLEST, cache="warm", **one)
        for level, problem in self._inside.items():
            yield partial(trial, problem, size=level, cache="warm", **one)
        for isa in _ISA_LEVELS[: _ISA_LEVELS.index(given["isa"])] if "isa" in given else ():
            inside = self._inside.get("L1")
            yield partial(trial, inside, size="L1", cache="warm", isa=isa, **one)
        yield partial(trial, self._smallest, size=SMALLEST)


@contextmanager
def _setting(isa: str | None, threads: int | None) -> Iterator[None]:
    """Set the instruction set and the number of threads, if they are given."""
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


# --- Problems of other sizes ---------------------------------------------------------------------


def footprint_of(problem: Problem) -> float:
    """Bytes of the operands and results."""
    operands = ((a.shape, a.dtype) for a in problem.host_arguments if is_array(a))
    return _bytes_of([*operands, *((r.shape, r.dtype) for r in problem.result_types)])


def _bytes_of(types: Iterable[tuple[tuple[int, ...], np.dtype[Any]]]) -> float:
    return float(sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in types))


def scaled(problem: Problem, target: float) -> Problem | None:
    """The largest problem of the same ladder with about `target` bytes; None if there is none.

    If `target` is 0, the long lengths are 1. Ladders with operands of their own have only the
    problems of their edge cases.
    """
    try:
        made = [
            problem.ladder.problem(*operands, device=problem.device_id, **problem.options)
            for operands in _operands(problem, target)
        ]
    except (ValueError, TypeError, MemoryError):
        return None
    if not target:
        return min(made, key=footprint_of, default=None)
    return max((p for p in made if footprint_of(p) <= 2 * target), key=footprint_of, default=None)


def _operands(problem: Problem, target: float) -> Iterable[Sequence[Any]]:
    task, host, rng = problem.task, problem.host_arguments, np.random.default_rng(0)
    if task.problems is not None:
        return task.edge_cases(host, rng)
    if task.core is not None:
        named, dtype = task.lengths_of(host), host[0].dtype if task.dtype else None
        lengths = tuple(named[name] for name in task.lengths)
        new = _shorter(lengths, problem, target, lambda n: _bytes_of(task.operand_types(n, dtype)))
        return [task.random_operands(new, dtype)]
    lengths = tuple(sorted({n for o in host if is_array(o) for n in o.shape}))

    def shape(array: Any, new: Sequence[int]) -> tuple[int, ...]:
        mapped = dict(zip(lengths, new, strict=True))
        return tuple(mapped[n] for n in array.shape)

    arrays = [o for o in host if is_array(o)]
    new = _shorter(
        lengths, problem, target, lambda n: _bytes_of((shape(o, n), o.dtype) for o in arrays)
    )
    # The values are drawn from the operands.
    return [[rng.choice(o.reshape(-1), shape(o, new)) if is_array(o) else o for o in host]]


def _shorter(
    lengths: Sequence[int],
    problem: Problem,
    target: float,
    bytes_of: Callable[[Sequence[int]], float],
) -> tuple[int, ...]:
    """The lengths, with the long ones divided by one number so that operands fit."""
    wanted = target * bytes_of(lengths) / max(footprint_of(problem), 1.0)
    long = [n > _FEW and n * _LONG >= max(lengths) for n in lengths]
    new = tuple(lengths)
    for step in range(1, 161):
        factor = 2.0 ** (-step / 4) if target else 0.0
        new = tuple(_rounded(n * factor) if s else n for n, s in zip(lengths, long, strict=True))
        if not target or bytes_of(new) <= wanted:
            break
    return new


def _rounded(length: float) -> int:
    whole = max(int(length), 1)
    return whole // _MULTIPLE * _MULTIPLE if whole >= _MULTIPLE else whole


# --- GPU -----------------------------------------------------------------------------------------


def with_half_occupancy(
    variant: BuiltInVariant, call: Call, block: Block | None = None
) -> Call | None:
    """The call with extra shared memory that halves the resident blocks; None if impossible."""
    kernels = [k for k in call.kernels() if k.resident_warps]
    if not kernels:
        return None
    gpu = _core.cuda_properties(call.problem.device_id)
    warps = [math.ceil(math.prod(k.block) / 32) for k in kernels]
    resident = max(k.resident_warps // w for k, w in zip(kernels, warps, strict=True))
    wanted = math.ceil(resident / 2)
    used = max(k.static_shared_bytes + k.dynamic_shared_bytes for k in kernels)
    each = int(gpu["shared_bytes_per_multiprocessor"]) // wanted
    extra = min(each - _RESERVED_SHARED, int(gpu["shared_bytes"])) - used
    extra = max(extra, 0) // 256 * 256 if wanted < resident else 0
    return variant.prepare(call.problem, block, extra_shared_bytes=extra) if extra else None


def on_half_the_gpu(variant: BuiltInVariant, call: Call, block: Block | None = None) -> Call | None:
    """The call on about half of the multiprocessors; None without green contexts."""
    device = call.problem.device_id
    stream = green_stream(device, _core.cuda_properties(device)["multiprocessors"] // 2)
    return variant.prepare(call.problem, block, stream=stream) if stream else None


_SM_RESOURCE = 1
#: At least the bytes of a CUdevResource, which are 144 in CUDA 12 and 13.
_RESOURCE_BYTES = 256


@cache
def green_stream(device: str, count: int) -> int:
    """The stream of a green context with at least `count` multiprocessors; 0 without one.

    The context lives until the process ends. It needs a driver for CUDA 12.5.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        get, split = driver.cuDeviceGetDevResource, driver.cuDevSmResourceSplitByCount
        describe, create = driver.cuDevResourceGenerateDesc, driver.cuGreenCtxCreate
        make_stream = driver.cuGreenCtxStreamCreate
    except (OSError, AttributeError):
        return 0
    everything, part, rest = (ctypes.create_string_buffer(_RESOURCE_BYTES) for _ in range(3))
    groups, gpu = ctypes.c_uint(1), ctypes.c_int(int(device.partition(":")[2] or 0))
    described, context, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    one = ctypes.c_uint(1)  # of resources, and the required flags of the context and the stream
    failed = (
        get(gpu, everything, ctypes.c_int(_SM_RESOURCE))
        or split(
            *(part, ctypes.byref(groups), everything, rest, ctypes.c_uint(0), ctypes.c_uint(count))
        )
        or describe(ctypes.byref(described), part, one)
        or create(ctypes.byref(context), described, gpu, one)
        or make_stream(ctypes.byref(stream), context, one, ctypes.c_int(0))
    )
    return 0 if failed else stream.value or 0
