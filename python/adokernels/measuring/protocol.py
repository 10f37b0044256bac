"""Measurement of variants, ladders and callables.

The results of variants are checked first. All timings are interleaved.

The README's section on measuring describes the protocol and its sources.
"""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.ladders.registry import routines
from adokernels.ladders.resources import Kernel
from adokernels.ladders.routine import Routine, Variant
from adokernels.measuring.context import context
from adokernels.measuring.correctness import ResultChecker
from adokernels.measuring.machine import machine as measure_machine
from adokernels.measuring.problem import Problem
from adokernels.measuring.profiling import collect, require_counters
from adokernels.measuring.records import Cache, Measurement, Sweep
from adokernels.measuring.sampling import Sampler, clock_reached, sample_interleaved
from adokernels.measuring.streams import stream_handle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adokernels.counters.records import Profile

    Block = tuple[int, ...]

_DEFAULT_PRECISION = {"cpu": 0.01, "cuda": 0.005}


@dataclass(frozen=True)
class _Settings:
    """Sampling settings: the arguments that `measure` and `sweep` share."""

    cache: Cache
    precision: float | None
    seconds: float
    progress: bool = False

    def __post_init__(self) -> None:
        if self.cache not in ("cold", "warm"):
            raise ValueError(f"cache must be 'cold' or 'warm', got {self.cache!r}")
        _require_finite(seconds=self.seconds, precision=self.precision)

    @property
    def cold(self) -> bool:
        return self.cache == "cold"

    def sample(self, samplers: Sequence[Sampler], device: str, title: str) -> None:
        default = _DEFAULT_PRECISION[device]
        sample_interleaved(
            samplers,
            warm=not self.cold,
            precision=default if self.precision is None else self.precision,
            budget=self.seconds,
            progress=self.progress,
            title=title,
        )


def measure(
    what: Variant | Routine | Callable[..., Any],
    *args: Any,
    cache: Cache = "cold",
    block: Block | None = None,
    device: str | None = None,
    flops: float | None = None,
    bytes: float | None = None,
    stream: Any = None,
    precision: float | None = None,
    seconds: float = 3.0,
    **options: Any,
) -> Measurement:
    """Time one variant, or any function.

    Parameters
    ----------
    what
        A variant (``ado.transpose["tiled"]``), a routine (its default variant), or any callable:
        CuPy, torch, Triton, Numba, NumPy. The result of a variant is checked first.
    *args, **options
        The arguments of the call.
    cache : {"cold", "warm"}
        Whether the last-level cache is overwritten before each sample. A warm sample is the mean
        of back-to-back calls.
    block
        Block shape of a CUDA variant.
    device
        For a routine, the device to run on. For a callable, the device to time: on ``"cuda"`` or
        ``"cuda:1"``, the time between two events around the work that the function launches on
        `stream`. Default for a callable: ``"cpu"``.
    flops, bytes
        For a callable: FLOPs and compulsory bytes per call, for rates and the roofline.
    stream
        For a callable on CUDA: a handle, or a stream object of CuPy, torch or cuda.core. Default:
        the current stream of torch or CuPy if one is in use, else the legacy default stream.
    precision
        Stop when half the 95 % interval of the median is below this fraction of the median; default
        0.5 % on CUDA and 1 % on the CPU.
    seconds
        Upper limit of the sampling time.

    Raises
    ------
    ValueError
        If the variant's result is wrong, or it cannot solve the problem.
    Unavailable
        If the variant cannot run here.
    """
    settings = _Settings(cache, precision, seconds)
    _require_finite(flops=flops, bytes=bytes)
    if isinstance(what, Routine | Variant):
        if flops is not None or bytes is not None or stream is not None:
            raise TypeError("flops=, bytes= and stream= are for callables, not for variants")
        routine, named = (what, None) if isinstance(what, Routine) else (what.routine, what)
        if named and named.why_unavailable:
            raise _core.Unavailable(f"{routine.name}[{named.name}]: {named.why_unavailable}")
        variant = named.name if named else None
        problem = routine.problem(*args, device=device, variant=variant, **options)
        name = variant or problem.best()
        result = _measure_ladder(routine, problem, [name], {name: block}, settings)
        for skipped, reason in result.skipped.items():
            raise ValueError(f"{routine.name}[{skipped}]: {reason}")
        return result.measurements[0]
    if not callable(what):
        raise TypeError(f"what to measure must be callable, got {type(what).__name__}")
    if block is not None:
        raise TypeError("block= is for the variants of a routine, not for callables")
    name = getattr(what, "__name__", type(what).__name__)
    where = device or "cpu"
    handle = 0 if where == "cpu" else stream_handle(stream, where)
    work = (lambda: what(*args, **options)) if args or options else what
    sampler = Sampler.of_function(work, where, cold=settings.cold, stream=handle)
    settings.sample([sampler], sampler.device, name)
    return Measurement(
        routine="callable",
        variant=name,
        device=sampler.device,
        problem=Problem.of(map(_operand_of, args)),
        cache=cache,
        flops=float(flops or 0),
        bytes=float(bytes or 0),
        executed_flops=float(flops or 0),
        requested_bytes=float(bytes or 0),
        context=context(where),
        **sampler.record(clock_reached([sampler])),
    )


def sweep(
    routine: Routine,
    *args: Any,
    device: str | None = None,
    variants: str | Iterable[str] | None = None,
    blocks: dict[str, Block] | None = None,
    cache: Cache = "cold",
    precision: float | None = None,
    seconds: float = 3.0,
    peers: Mapping[str, Callable[[], object]] | None = None,
    ceilings: bool = True,
    counters: bool | str = False,
    progress: bool = True,
    **options: Any,
) -> Sweep:
    """Check every variant of a ladder on one problem, then time them interleaved.

    In each round, every variant is sampled once, in random order. Slow drift of the machine then
    affects all variants equally, and ratios are computed per round.

    Parameters
    ----------
    routine
        For example ``ado.transpose``.
    *args, **options
        The operands and options of a call.
    device : str, optional
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. Default: the device of the operands, else the default
        device.
    variants
        Names of the variants to measure; default all variants of the device.
    blocks
        Block shapes by variant; default the first of each variant's ``blocks``.
    cache, precision, seconds
        As for :func:`measure`; `seconds` is per variant.
    peers
        Functions without arguments that compute the same result, by name. They are timed in the
        same rounds, on the legacy default stream on CUDA, and are not checked.
    ceilings
        Whether to include the machine's ceilings, which are measured or looked up.
    counters
        Whether to read the hardware counters of every variant and peer after timing, or the set of
        metrics to read: ``"default"`` or ``"light"``, see :func:`profile`. CUDA only.
    progress
        Show a progress bar on a terminal or in Jupyter.

    Returns
    -------
    Sweep
        Variants that decline the problem, are unavailable or compute a wrong result are not timed;
        ``skipped`` gives the reasons. The stages of pipelines are also timed, each separately, and
        ranked as hotspots.

    Raises
    ------
    Unavailable
        If `counters` is set and the counters cannot be read here.
    """
    if not isinstance(routine, Routine):
        raise TypeError(f"routine must be a Routine, got {type(routine).__name__}")
    settings = _Settings(cache, precision, seconds, progress)
    chosen = [variants] if isinstance(variants, str) else variants
    names = None if chosen is None else [routine[name].name for name in chosen]
    if names is not None and not names:
        raise ValueError("variants must name at least one variant, got none")
    problem = routine.problem(*args, device=device, variant=names[0] if names else None, **options)
    if names is None:
        names = [v.name for v in routine if v.device == problem.device_type]
        if not names:
            raise ValueError(f"{routine.name} has no variants for device {problem.device_type!r}")
    for name in blocks or ():
        if name not in names:
            raise KeyError(
                f"blocks must name variants to measure, got {name!r}{_core.suggest(name, names)}"
            )
    for name, work in (peers or {}).items():
        if not isinstance(name, str) or not callable(work):
            raise TypeError(f"peers must map names to functions, got {name!r}: {work!r}")
    if clash := set(names) & set(peers or ()):
        raise ValueError(f"peers must not have names of variants, got {', '.join(sorted(clash))}")
    if counters and problem.device_type != "cuda":
        raise ValueError(f"counters need device 'cuda', got {problem.device!r}")
    metrics = ("default" if counters is True else counters) or None
    if metrics:
        require_counters(metrics)
    result = _measure_ladder(
        routine, problem, names, blocks or {}, settings, peers or {}, True, metrics
    )
    if ceilings:
        result = dataclasses.replace(result, machine=measure_machine(problem.device))
    return result


def _measure_ladder(
    routine: Routine,
    problem: _core.Problem,
    names: Sequence[str],
    blocks: Mapping[str, Block | None],
    settings: _Settings,
    peers: Mapping[str, Callable[[], object]] | None = None,
    with_stages: bool = False,
    metrics: str | None = None,
) -> Sweep:
    device = problem.device_type
    checker = ResultChecker(routine, problem)
    calls: dict[str, _core.Call] = {}
    skipped: dict[str, str] = {}
    errors: dict[str, float | None] = {}
    for name in names:
        if reason := routine[name].why_unavailable or problem.why_not(name):
            skipped[name] = reason
            continue
        call = problem.prepare(name, blocks.get(name))
        try:
            errors[name] = checker.error(call)
            calls[name] = call
        except ValueError as error:
            skipped[name] = str(error)
    pipelines = [routine[name] for name in calls]
    stages = _prepare_stages(pipelines, problem) if with_stages else []

    of_variants = {n: Sampler.of_call(call, cold=settings.cold) for n, call in calls.items()}
    of_stages = [Sampler.of_call(stage.call, cold=settings.cold) for stage in stages]
    of_peers = {
        name: Sampler.of_function(work, problem.device, cold=settings.cold)
        for name, work in (peers or {}).items()
    }
    samplers = [*of_variants.values(), *of_stages, *of_peers.values()]
    settings.sample(samplers, device, f"{routine.name} on {problem.device}, {settings.cache}")
    for name in list(calls):  # a data race does not show in every run
        try:
            errors[name] = checker.error(calls[name])
        except ValueError as error:
            skipped[name] = f"{error} (after timing)"
            del calls[name]

    def profiled(work: _core.Call | Callable[[], object], label: str) -> Profile | None:
        """The counters; None if they are not requested or no kernel was launched."""
        if not metrics:
            return None
        profile = collect(work, label, metrics, settings.cache, problem.device)
        return profile if profile.kernels else None

    reached = clock_reached(samplers)
    shared: dict[str, Any] = {
        "device": device,
        "cache": settings.cache,
        "session": uuid.uuid4().hex,
        "context": context(problem.device),
    }
    described = _described(problem)
    useful = routine.variants[0].cost(*problem.arguments, **problem.options)
    return Sweep(
        routine=routine.name,
        measurements=tuple(
            Measurement(
                **_of_variant(routine[name], call),
                problem=described,
                error=errors[name],
                profile=profiled(call, f"{routine.name}[{name}]"),
                **shared,
                **of_variants[name].record(reached),
            )
            for name, call in calls.items()
        ),
        skipped=skipped,
        stages=tuple(
            Measurement(
                **_of_variant(stage.variant, stage.call),
                problem=stage.problem,
                **shared,
                **sampler.record(reached),
            )
            for stage, sampler in zip(stages, of_stages, strict=True)
        ),
        peers=tuple(
            Measurement(
                routine="peer",
                variant=name,
                problem=described,
                flops=useful.flops,
                bytes=useful.bytes,
                executed_flops=useful.flops,
                requested_bytes=useful.bytes,
                profile=profiled(peers[name], name) if peers else None,
                **shared,
                **sampler.record(reached),
            )
            for name, sampler in of_peers.items()
        ),
    )


def _of_variant(variant: Variant, call: _core.Call) -> dict[str, Any]:
    """The fields of a Measurement that come from the variant and its prepared call."""
    on_cuda = call.device == "cuda"
    return {
        "routine": variant.routine.name,
        "variant": variant.name,
        "flops": call.cost.flops,
        "bytes": call.cost.bytes,
        "executed_flops": call.cost.executed_flops,
        "requested_bytes": call.cost.requested_bytes,
        "executed_instructions": call.cost.executed_instructions,
        "changes": variant.changes,
        "ceiling": variant.ceiling,
        "stages": variant.stages,
        "block": tuple(call.block) if on_cuda else None,
        "grid": tuple(call.grid) if on_cuda else None,
        "kernels": tuple(map(Kernel.from_core, call.kernels())),
    }


@dataclass
class _Stage:
    """A pipeline stage, prepared with the operand that it has in the pipeline."""

    variant: Variant
    call: _core.Call
    problem: Problem


def _prepare_stages(pipelines: Sequence[Variant], problem: _core.Problem) -> list[_Stage]:
    """Prepare every stage of the pipelines once.

    All pipelines have the same sequence of routines. Each routine takes one array, the result of
    the previous stage.
    """
    found: dict[tuple[str, str], _Stage] = {}
    chains = [pipeline.stages for pipeline in pipelines if pipeline.stages]
    operand = problem.arguments[0]
    for step in zip(*chains, strict=True):
        routine = routines[step[0][0]]
        staged = routine.problem(operand, device=problem.device)
        for stage in step:
            if stage not in found:
                call = staged.prepare(stage[1])
                found[stage] = _Stage(routine[stage[1]], call, _described(staged))
        found[step[-1]].call.run()
        operand = staged.results()
    return list(found.values())


def _described(problem: _core.Problem) -> Problem:
    return Problem.of(problem.operands, problem.options)


def _operand_of(arg: Any) -> tuple[str, tuple[int, ...], str]:
    if hasattr(arg, "shape") and hasattr(arg, "dtype"):
        return "", tuple(arg.shape), str(arg.dtype)
    return "", (), type(arg).__name__


def _require_finite(**limits: float | None) -> None:
    """Reject limits that are negative or not finite."""
    for name, value in limits.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
