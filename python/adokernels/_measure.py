"""Honest timing: checked first, cold and warm apart, interleaved, until the median is known.

The protocol and its sources are in the README's section on measuring. One sample is taken in C++
(`_core.sample`): if cold, the caches are emptied of the operands; the GPU's launch overhead is
hidden behind a blocking kernel, and the SM clock is read before and after.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from adokernels import _core, _stats, oracles
from adokernels._context import context
from adokernels._machine import machine as measure_machine
from adokernels._records import Cache, Measurement, Sweep
from adokernels._routine import Routine, Variant, kernels_of, routine_named, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Poison for results: an element that a variant does not write keeps these bytes. As floating-point
#: numbers they are NaN; among integers they are unlikelier than zeros and ones.
_POISON, _POISON_FLOATS = 0xA5, 0xFF

_FEWEST, _MOST = 30, 2000  # samples
_FEWEST_SLOW = 5  # when they are so slow that the time is up first
_WARM_UP_SECONDS = 0.1
# A warm sample lasts about this long, so that the clock's own resolution does not matter.
_WARM_SAMPLE_SECONDS = {"cpu": 1e-3, "cuda": 1e-4}
_MOST_CALLS = 256  # of one warm sample; the driver's queue holds about 1000 launches
# Samples below this share of the clock that the run has reached count as throttled.
_THROTTLED = 0.8
# CUDA events tell half a microsecond: samples shorter than this many seconds show it.
_COARSE = 20e-6


@dataclass
class _Subject:
    """Something that is being timed: how to take one sample, and the samples so far."""

    take: Callable[[int], tuple[float, float, bool]]
    device: str
    calls: int = 1
    seconds: list[float] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)
    blocked: bool = True
    spent: float = 0.0
    stopped: str = ""  # why more samples are not needed
    exhausted: bool = False  # no more samples are allowed

    def warm_up(self, *, warm: bool) -> None:
        """Run until code is loaded and clocks are up; choose how many calls make one sample."""
        start, runs, seconds = time.perf_counter(), 0, math.inf
        while runs < 3 or time.perf_counter() - start < _WARM_UP_SECONDS:
            seconds = min(seconds, self.take(1)[0])
            runs += 1
            if time.perf_counter() - start > 1:
                break
        if warm:
            wanted = math.ceil(_WARM_SAMPLE_SECONDS[self.device] / max(seconds, 1e-9))
            self.calls = min(max(wanted, 1), _MOST_CALLS)
            # A callable may launch many kernels, more than the queue holds: then the host waits
            # for the blocking kernel, which waits for the host until it gives up.
            while self.calls > 1 and not self.take(self.calls)[2]:
                self.calls //= 2

    def sample(self, *, precision: float, budget: float) -> None:
        """Take one sample and decide whether more are needed."""
        start = time.perf_counter()
        seconds, clock, blocked = self.take(self.calls)
        self.spent += time.perf_counter() - start
        self.seconds.append(seconds)
        if clock:
            self.clocks.append(clock)
        self.blocked &= blocked
        count = len(self.seconds)
        late = self.spent > budget and count >= _FEWEST_SLOW
        self.exhausted = late or count >= _MOST
        if self.stopped:
            return
        if count >= _FEWEST and count % 5 == 0 and _noise(self.seconds) <= precision:
            self.stopped = "converged"
        elif self.exhausted:
            self.stopped = "time" if late else "count"

    def flags(self, reached: float) -> tuple[str, ...]:
        """What a reader of the result should know; `reached` is the clock that the run reached."""
        flags = []
        if not self.blocked:
            flags.append("launch overhead included")
        if self.device == "cuda" and float(np.median(self.seconds)) * self.calls < _COARSE:
            flags.append("near the clock's resolution")
        if self.clocks and np.mean(np.asarray(self.clocks) < _THROTTLED * reached) > 0.1:
            flags.append("throttled")
        return tuple(flags)

    def record(self, reached: float) -> dict[str, Any]:
        """The fields of a Measurement that come from sampling."""
        return {
            "samples": np.asarray(self.seconds),
            "clocks": np.asarray(self.clocks),
            "calls_per_sample": self.calls,
            "stopped": self.stopped,
            "flags": self.flags(reached),
        }


def _clock_reached(subjects: Iterable[_Subject]) -> float:
    """The clock that the fastest samples of a run had, in Hz; 0 where it is not known."""
    return max((float(np.quantile(s.clocks, 0.9)) for s in subjects if s.clocks), default=0.0)


def _noise(seconds: Sequence[float]) -> float:
    low, high = _stats.median_interval(seconds)
    return (high - low) / 2 / float(np.median(seconds))


def measure(
    what: Variant | Routine | Callable[..., Any],
    *args: Any,
    cache: Cache = "cold",
    block: tuple[int, ...] | None = None,
    device: str | None = None,
    flops: float | None = None,
    bytes: float | None = None,
    stream: Any = None,
    precision: float | None = None,
    seconds: float = 3.0,
    **options: Any,
) -> Measurement:
    """Time one variant, or anybody's function.

    Parameters
    ----------
    what
        A variant (``ado.transpose["tiled"]``), a routine (its default variant), or any callable:
        CuPy, torch, Triton, Numba, NumPy. A variant is checked against its oracle first.
    *args, **options
        What to call it with.
    cache : {"cold", "warm"}
        Whether the last-level cache is overwritten before each sample. A warm sample is the mean
        of back-to-back calls.
    block
        Block shape of a CUDA variant.
    device
        For a routine, where to run; for a callable, whose time to take: on ``"cuda"`` that of what
        the function launches on `stream`, between two events. Default ``"cpu"`` for a callable.
    flops, bytes
        Of a callable: what one call computes and must move, for rates and the roofline.
    stream
        Of a callable on CUDA: a handle, or an object of CuPy, torch or cuda.core. Default: the
        current stream of torch or CuPy if one is in use, else the legacy default stream.
    precision
        Stop when the 95 % interval of the median is within this share of it; default 0.5 % on
        CUDA and 1 % on the CPU.
    seconds
        Stop after this long in any case.

    Raises
    ------
    ValueError
        If the variant's result is wrong, or it refuses the problem.
    Unavailable
        If it cannot run here.
    """
    if cache not in ("cold", "warm"):
        raise ValueError(f"cache must be 'cold' or 'warm', got {cache!r}")
    _check_budget(seconds=seconds, precision=precision, flops=flops, bytes=bytes)
    if isinstance(what, Routine | Variant):
        args, options = _operands_first(
            what if isinstance(what, Routine) else what.routine, args, options
        )
        if flops is not None or bytes is not None or stream is not None:
            raise TypeError(
                "flops=, bytes= and stream= are for callables; a variant's row has them"
            )
        routine, named = (what, None) if isinstance(what, Routine) else (what.routine, what)
        if named and named.why_unavailable:
            raise _core.Unavailable(f"{routine.name}[{named.name}]: {named.why_unavailable}")
        where = _device_of(args, named.device if named else device, device)
        problem = routine._core.problem(args, options, where)
        name = named.name if named else problem.best()
        result = _measure_ladder(
            routine,
            problem,
            args,
            options,
            device=where,
            names=[name],
            blocks={name: block},
            cache=cache,
            precision=precision,
            seconds=seconds,
            progress=False,
        )
        for skipped, reason in result.skipped.items():
            raise ValueError(f"{routine.name}[{skipped}]: {reason}")
        return result.measurements[0]
    if not callable(what):
        raise TypeError(f"what to measure must be callable, not {type(what).__name__}")
    if block is not None:
        raise TypeError("block= is for the variants of a routine")
    return _measure_callable(
        what,
        args,
        options,
        cache,
        device or "cpu",
        float(flops or 0),
        float(bytes or 0),
        stream,
        precision,
        seconds,
    )


def sweep(
    routine: Routine,
    *args: Any,
    device: str | None = None,
    variants: str | Iterable[str] | None = None,
    blocks: dict[str, tuple[int, ...]] | None = None,
    cache: Cache = "cold",
    precision: float | None = None,
    seconds: float = 3.0,
    peers: Mapping[str, Callable[[], object]] | None = None,
    ceilings: bool = True,
    progress: bool = True,
    **options: Any,
) -> Sweep:
    """Check every rung of a ladder on one problem, then time them interleaved.

    In each round every rung is sampled once, in random order, so that slow drift of the machine
    hits all alike and ratios can be taken round by round.

    Parameters
    ----------
    routine
        For example ``ado.transpose``.
    *args, **options
        The operands and options of a call.
    device : {"cpu", "cuda"}, optional
        Default: where the operands are, else the default device.
    variants
        Names of the rungs to measure; default all of the device.
    blocks
        Block shapes by variant; default each row's first.
    cache, precision, seconds
        As for :func:`measure`; `seconds` is for each rung.
    peers
        Functions without arguments that do the same job by other means, by name; they are timed in
        the same rounds, on the legacy default stream on CUDA, and not checked.
    ceilings
        Whether to measure (or look up) the machine's ceilings too.
    progress
        Show a progress bar on a terminal or in Jupyter.

    Returns
    -------
    Sweep
        Rungs that refuse the problem, are unavailable or compute a wrong result are not timed; its
        ``skipped`` says why. Of a pipeline, the kernels that its rungs run are timed as well, each
        by itself, and ranked as hotspots.
    """
    if not isinstance(routine, Routine):
        raise TypeError(f"sweep takes a routine, not {type(routine).__name__}")
    _check_budget(seconds=seconds, precision=precision)
    args, options = _operands_first(routine, args, options)
    variants = [variants] if isinstance(variants, str) else variants
    chosen = None if variants is None else [routine[name] for name in variants]
    named = chosen[0].device if chosen else None
    where = _device_of(args, named, device)
    if cache not in ("cold", "warm"):
        raise ValueError(f"cache must be 'cold' or 'warm', got {cache!r}")
    if chosen is None:
        chosen = [v for v in routine.variants if v.device == where]
    names = [v.name for v in chosen]
    for name in blocks or ():
        if name not in names:
            raise KeyError(f"blocks names {name!r}, which is not measured{suggest(name, names)}")
    if not names:
        raise ValueError("there is nothing to measure: variants is empty")
    for name, work in (peers or {}).items():
        if not isinstance(name, str) or not callable(work):
            raise TypeError(f"peers maps names to functions; {name!r}: {work!r} is neither")
    if clash := set(names) & set(peers or ()):
        raise ValueError(f"a peer has the name of a variant: {', '.join(sorted(clash))}")
    result = _measure_ladder(
        routine,
        routine._core.problem(args, options, where),
        args,
        options,
        device=where,
        names=names,
        blocks=blocks or {},
        cache=cache,
        precision=precision,
        seconds=seconds,
        progress=progress,
        peers=peers,
        with_stages=True,
    )
    return dataclasses.replace(result, machine=measure_machine(where)) if ceilings else result


def _operands_first(
    routine: Routine, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Move operands that were given by name to their places."""
    inputs = [p.name for p in routine._core.parameters if p.role == "input"]
    rest = dict(options)
    named = [rest.pop(name) for name in inputs[len(args) :] if name in rest]
    complete = len(args) + len(named) >= len(inputs)
    return ((*args, *named), rest) if complete else (args, options)


def _device_of(args: Sequence[Any], named: str | None, wanted: str | None) -> str:
    """Where the operands are, else where the named variant runs, else as wanted."""
    on_device = any(isinstance(arg, _core.DeviceArray) for arg in args)
    places = {p for p in ("cuda" if on_device else None, named, wanted) if p is not None}
    if len(places) > 1:
        raise ValueError("operands, variant and device= disagree: " + " and ".join(sorted(places)))
    return places.pop() if places else _core.device()


def _measure_ladder(
    routine: Routine,
    problem: _core.Problem,
    args: Sequence[Any],
    options: dict[str, Any],
    *,
    device: str,
    names: Sequence[str],
    blocks: Mapping[str, tuple[int, ...] | None],
    cache: Cache,
    precision: float | None,
    seconds: float,
    progress: bool,
    peers: Mapping[str, Callable[[], object]] | None = None,
    with_stages: bool = False,
) -> Sweep:
    gate = _Gate(routine, problem, args, options, device)
    calls: dict[str, _core.Call] = {}
    skipped: dict[str, str] = {}
    errors: dict[str, float | None] = {}
    for name in names:
        reason = routine[name].why_unavailable or problem.why_refused(name)
        if not reason:
            calls[name] = problem.prepare(name, blocks.get(name))
            reason = gate.check(calls[name], errors)
        if reason:
            skipped[name] = reason
            calls.pop(name, None)
    stages = _stages([routine[name] for name in calls], args, device) if with_stages else []

    def subject(call: _core.Call) -> _Subject:
        return _Subject(partial(_take_call, call, cache == "cold"), device)

    subjects = {name: subject(call) for name, call in calls.items()}
    parts = [subject(stage.call) for stage in stages]
    others = {
        name: _Subject(partial(_take_callable, work, device, cache == "cold", 0), device)
        for name, work in (peers or {}).items()
    }
    everything = [*subjects.values(), *parts, *others.values()]
    _sample_interleaved(
        everything,
        warm=cache == "warm",
        precision=_precision(precision, device),
        budget=seconds,
        progress=progress,
        title=f"{routine.name} on {device}, {cache}",
    )
    for name in list(calls):  # a race need not show the first time
        if reason := gate.check(calls[name], errors):
            skipped[name] = f"{reason} (after timing)"
            del calls[name]

    reached = _clock_reached(everything)
    shared: dict[str, Any] = {
        "device": device,
        "cache": cache,
        "session": uuid.uuid4().hex,
        "context": context(device),
    }

    def record(variant: Variant, call: _core.Call, of: _Subject, description: str) -> Measurement:
        return Measurement(
            routine=variant.routine.name,
            variant=variant.name,
            problem=description,
            flops=call.cost.flops,
            bytes=call.cost.bytes,
            executed_flops=call.cost.executed_flops,
            requested_bytes=call.cost.requested_bytes,
            executed_instructions=call.cost.executed_instructions,
            changes=variant.changes,
            ceiling=variant.ceiling,
            stages=variant.stages,
            block=tuple(call.block) if device == "cuda" else None,
            grid=tuple(call.grid) if device == "cuda" else None,
            kernels=kernels_of(call.kernels()),
            error=errors[variant.name] if variant.routine is routine else None,
            **shared,
            **of.record(reached),
        )

    useful = routine._core.cost(routine.variants[0].name, tuple(args), options)
    return Sweep(
        routine=routine.name,
        measurements=tuple(
            record(routine[name], call, subjects[name], problem.description)
            for name, call in calls.items()
        ),
        skipped=skipped,
        stages=tuple(
            record(stage.variant, stage.call, part, stage.description)
            for stage, part in zip(stages, parts, strict=True)
        ),
        peers=tuple(
            Measurement(
                routine="peer",
                variant=name,
                problem=problem.description,
                flops=useful.flops,
                bytes=useful.bytes,
                executed_flops=useful.flops,
                requested_bytes=useful.bytes,
                **shared,
                **other.record(reached),
            )
            for name, other in others.items()
        ),
    )


@dataclass
class _Stage:
    """A kernel that pipelines run, prepared on what it would be given there."""

    variant: Variant
    call: _core.Call
    description: str


def _stages(pipelines: Sequence[Variant], args: Sequence[Any], device: str) -> list[_Stage]:
    """Every kernel that one of the pipelines runs, once.

    The routines are the same in all of them and each takes one array: the result of the one before.
    """
    found: dict[tuple[str, str], _Stage] = {}
    chains = [pipeline.stages for pipeline in pipelines if pipeline.stages]
    operand = args[0]
    for step in zip(*chains, strict=True):
        routine = routine_named(step[0][0])
        problem = routine._core.problem((operand,), {}, device)
        for stage in step:
            if stage not in found:
                call = problem.prepare(stage[1])
                found[stage] = _Stage(routine[stage[1]], call, problem.description)
        found[step[-1]].call.run()
        operand = problem.results()
    return list(found.values())


def _check_budget(**limits: float | None) -> None:
    """Refuse what would never end, or mean nothing."""
    for name, value in limits.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")


def _precision(wanted: float | None, device: str) -> float:
    if wanted is None:
        return 0.005 if device == "cuda" else 0.01
    return wanted


def _take_call(call: _core.Call, cold: bool, repeats: int) -> tuple[float, float, bool]:
    return _core.sample(call, cold, repeats)


def _take_callable(
    work: Callable[[], object], device: str, cold: bool, stream: int, repeats: int
) -> tuple[float, float, bool]:
    return _core.sample(work, device, cold, repeats, stream)


class _Gate:
    """Lets only right answers through to the timer.

    Where the oracle would take too long, the answer is that to the same problem, thinned out.
    """

    def __init__(
        self,
        routine: Routine,
        problem: _core.Problem,
        args: Sequence[Any],
        options: dict[str, Any],
        device: str,
    ) -> None:
        self.routine, self.problem, self.thinned = routine, problem, False
        host = [a.numpy() if isinstance(a, _core.DeviceArray) else a for a in args]
        oracle = oracles.ORACLES.get(routine.name)
        if oracle and oracle.thinned and (thin := oracle.thinned(*host, **options)):
            self.problem, self.thinned = routine._core.problem(thin, options, device), True
            host = list(thin)
        self.expected = oracle.expected(*host, **options) if oracle else None
        self.unit = oracle.unit(*host, **options) if oracle and oracle.unit else None
        floats = all(e.dtype.kind in "fc" for e in oracles.as_tuple(self.expected))
        self.poison = _POISON_FLOATS if floats else _POISON

    def check(self, call: _core.Call, errors: dict[str, float | None]) -> str:
        """Empty if the result is right, else what is wrong with it; notes the error."""
        errors[call.variant] = None
        if self.routine[call.variant].ceiling or self.expected is None:
            return ""
        if self.thinned:
            block = tuple(call.block) if self.routine[call.variant].blocks else None
            call = self.problem.prepare(call.variant, block)
        self.problem.fill_results(self.poison)
        call.run()
        try:
            errors[call.variant] = oracles.check(
                self.routine.name, self.problem.results(), self.expected, self.unit
            )
        except ValueError as error:
            return str(error)
        return ""


def _sample_interleaved(
    subjects: Sequence[_Subject],
    *,
    warm: bool,
    precision: float,
    budget: float,
    progress: bool,
    title: str,
) -> None:
    """Sample every subject once a round, in random order, until each has stopped.

    One that has stopped stays in the rounds as long as its time lasts: the others would be faster
    or slower in other company, and ratios are taken round by round.
    """
    for subject in subjects:
        subject.warm_up(warm=warm)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    seen = progress and (console.is_terminal or console.is_jupyter)
    with Progress(*columns, console=console, transient=True, disable=not seen) as bar:
        task = bar.add_task(title, total=len(subjects))
        while not all(subject.stopped for subject in subjects):
            company = [subject for subject in subjects if not subject.exhausted]
            random.shuffle(company)
            for subject in company:
                subject.sample(precision=precision, budget=budget)
            bar.update(task, completed=sum(bool(s.stopped) for s in subjects))


def _measure_callable(
    work: Callable[..., Any],
    args: Sequence[Any],
    options: dict[str, Any],
    cache: Cache,
    device: str,
    flops: float,
    moved: float,
    stream: Any,
    precision: float | None,
    seconds: float,
) -> Measurement:
    handle = _stream_handle(stream) if device == "cuda" else 0
    name = getattr(work, "__name__", type(work).__name__)
    bound = (lambda: work(*args, **options)) if args or options else work
    subject = _Subject(partial(_take_callable, bound, device, cache == "cold", handle), device)
    _sample_interleaved(
        [subject],
        warm=cache == "warm",
        precision=_precision(precision, device),
        budget=seconds,
        progress=False,
        title=name,
    )
    return Measurement(
        routine="callable",
        variant=name,
        device=device,
        problem=", ".join(_describe(a) for a in args),
        cache=cache,
        flops=flops,
        bytes=moved,
        executed_flops=flops,
        requested_bytes=moved,
        context=context(device),
        **subject.record(_clock_reached([subject])),
    )


def _describe(arg: Any) -> str:
    if hasattr(arg, "shape") and hasattr(arg, "dtype"):
        return f"{tuple(arg.shape)} {arg.dtype}"
    return type(arg).__name__


def _stream_handle(stream: Any) -> int:
    """The cudaStream_t of a handle or of another library's stream object."""
    if stream is None:
        return _current_stream()
    if isinstance(stream, int):
        return stream
    for attribute in ("cuda_stream", "ptr", "handle"):
        if isinstance(handle := getattr(stream, attribute, None), int):
            return handle
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise TypeError(f"stream must be a handle or a stream object, not {type(stream).__name__}")


def _current_stream() -> int:
    """That of torch or CuPy, if one is in use, else the legacy default stream."""
    handles = set()
    if "torch" in sys.modules and (cuda := sys.modules["torch"].cuda).is_initialized():
        handles.add(int(cuda.current_stream().cuda_stream))
    if "cupy" in sys.modules:
        handles.add(int(sys.modules["cupy"].cuda.get_current_stream().ptr))
    if len(handles) > 1:
        raise ValueError("torch and CuPy have different current streams: say which by stream=")
    return handles.pop() if handles else 0
