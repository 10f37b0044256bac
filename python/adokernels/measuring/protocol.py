"""Measurement of variants, ladders and callables.

The results of variants are checked first. All timings are interleaved.

docs/methods.md describes the protocol and its sources.
"""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.ladders.base import AnyCall, AnyChecker, AnyLadder, AnyVariant
from adokernels.ladders.registry import routines
from adokernels.ladders.resources import Kernel
from adokernels.measuring.context import context
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
class Settings:
    """Sampling settings: the common arguments of `measure`, `sweep` and `tune`."""

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
        """Whether caches are overwritten before each sample."""
        return self.cache == "cold"

    def sample(self, samplers: Sequence[Sampler], device: str, title: str) -> None:
        """Sample in alternation until all medians have converged or the time is used up."""
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
    what: AnyVariant | AnyLadder[Any] | Callable[..., Any],
    *args: Any,
    cache: Cache = "cold",
    block: Block | None = None,
    device: str | None = None,
    label: str | None = None,
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
        ``"cuda:1"``, the result is the time between two events around the work that the function
        launches on `stream`. Default for a callable: ``"cpu"``.
    label
        The name of a callable in tables and charts. Default: the name of the function.
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
    settings = Settings(cache, precision, seconds)
    _require_finite(flops=flops, bytes=bytes)
    if isinstance(what, AnyLadder | AnyVariant):
        if any(given is not None for given in (flops, bytes, stream, label)):
            raise TypeError(
                "flops=, bytes=, label= and stream= are for callables, not for variants"
            )
        ladder, named = (what, None) if isinstance(what, AnyLadder) else (what.ladder, what)
        if named and named.why_unavailable:
            raise _core.Unavailable(f"{named.label}: {named.why_unavailable}")
        variant = named.name if named else None
        problem = ladder.problem(*args, device=device, variant=variant, **options)
        name = variant or problem.best()
        result = measure_ladder(ladder, problem, {name: Run(name, block)}, settings)
        for skipped, reason in result.skipped.items():
            raise ValueError(f"{ladder.name}[{skipped}]: {reason}")
        return result.measurements[0]
    if not callable(what):
        raise TypeError(f"what to measure must be callable, got {type(what).__name__}")
    if block is not None:
        raise TypeError("block= is for the variants of a routine, not for callables")
    if label is not None and not isinstance(label, str):
        raise TypeError(f"label must be a str, got {type(label).__name__}")
    name = str(label or getattr(what, "__name__", type(what).__name__))
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
    routine: AnyLadder[Any],
    *args: Any,
    device: str | None = None,
    variants: str | Iterable[str] | None = None,
    blocks: dict[str, Block] | None = None,
    cache: Cache = "cold",
    precision: float | None = None,
    seconds: float = 3.0,
    peers: Mapping[str, Callable[[], object]] | None = None,
    extra: Iterable[Any] = (),
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
        For example ``ado.transpose``, or a custom ladder (:func:`adokernels.ladder`).
    *args, **options
        The operands and options of a call.
    device : str, optional
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. Default: the device of the operands, else that of the
        custom variants if all have the same one, else the default device.
    variants
        Names of the variants to measure; default all variants of the device.
    blocks
        Block shapes by variant; default the first of each variant's ``blocks``.
    cache, precision, seconds
        As for :func:`measure`; `seconds` is per variant.
    peers
        Functions without arguments that compute the same result, by name. They are timed in the
        same rounds, on the legacy default stream on CUDA. An array that they return is checked.
        Other peers have the flag ``"unchecked"``.
    extra
        Custom variants, which are checked and timed with the ladder; see
        :meth:`Routine.with_variants`.
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
    if not isinstance(routine, AnyLadder):
        raise TypeError(f"routine must be a routine or a ladder, got {type(routine).__name__}")
    if extra := tuple(extra):
        routine = routine.with_variants(*extra)
    settings = Settings(cache, precision, seconds, progress)
    chosen = [variants] if isinstance(variants, str) else variants
    names = None if chosen is None else [routine[name].name for name in chosen]
    if names is not None and not names:
        raise ValueError("variants must name at least one variant, got none")
    problem = routine.problem(*args, device=device, variant=names[0] if names else None, **options)
    if names is None:
        names = [v.name for v in routine if v.device == problem.device]
        if not names:
            raise ValueError(f"{routine.name} has no variants for device {problem.device!r}")
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
    if counters and problem.device != "cuda":
        raise ValueError(f"counters need device 'cuda', got {problem.device!r}")
    metrics = ("default" if counters is True else counters) or None
    if metrics:
        require_counters(metrics)
    runs = {name: Run(name, (blocks or {}).get(name)) for name in names}
    result = measure_ladder(routine, problem, runs, settings, peers or {}, True, metrics)
    if ceilings:
        result = dataclasses.replace(result, machine=measure_machine(problem.device_id))
    return result


@dataclass(frozen=True)
class Run:
    """A variant to measure, and its block shape; None is the default shape."""

    variant: str
    block: Block | None = None


def measure_ladder(
    ladder: AnyLadder[Any],
    problem: Any,
    runs: Mapping[str, Run],
    settings: Settings,
    peers: Mapping[str, Callable[[], object]] | None = None,
    with_stages: bool = False,
    metrics: str | None = None,
) -> Sweep:
    """Check and time variants of a ladder in alternation; the keys of `runs` name the results."""
    device, device_id = problem.device, problem.device_id
    checks = _Checks(ladder.checker(problem))
    calls = checks.prepared(ladder, problem, runs)
    variants = {name: ladder[runs[name].variant] for name in calls}
    works = checks.peers(peers or {})
    stages = _prepare_stages(list(variants.values()), problem) if with_stages else []

    of_variants = {n: Sampler.of_call(call, cold=settings.cold) for n, call in calls.items()}
    of_stages = [Sampler.of_call(stage.call, cold=settings.cold) for stage in stages]
    of_peers = {
        name: Sampler.of_function(work, device_id, cold=settings.cold)
        for name, work in works.items()
    }
    samplers = [*of_variants.values(), *of_stages, *of_peers.values()]
    settings.sample(samplers, device, f"{ladder.name} on {device_id}, {settings.cache}")
    calls = checks.still_right(calls)

    def profiled(work: AnyCall | Callable[[], object], label: str) -> Profile | None:
        """The counters; None if they are not requested or no kernel was launched."""
        if not metrics:
            return None
        profile = collect(work, label, metrics, settings.cache, device_id)
        return profile if profile.kernels else None

    reached = clock_reached(samplers)
    shared: dict[str, Any] = {
        "device": device,
        "cache": settings.cache,
        "session": uuid.uuid4().hex,
        "context": context(device_id),
    }
    described = _described(problem)
    flops, compulsory = ladder.useful(problem)
    profiles = {name: profiled(call, variants[name].label) for name, call in calls.items()}
    return Sweep(
        routine=ladder.name,
        measurements=tuple(
            Measurement(
                **_of_variant(variants[name], call, profiles[name]) | {"variant": name},
                problem=described,
                error=checks.errors[name],
                profile=profiles[name],
                **shared,
                **of_variants[name].record(reached),
            )
            for name, call in calls.items()
        ),
        skipped=checks.skipped,
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
                flops=flops,
                bytes=compulsory,
                executed_flops=flops,
                requested_bytes=compulsory,
                error=checks.errors[name],
                profile=profiled(works[name], name),
                **shared,
                **sampler.record(reached, checked=checks.errors[name] is not None),
            )
            for name, sampler in of_peers.items()
        ),
    )


class _Checks:
    """The checks of variants and peers before and after the timing.

    Attributes
    ----------
    errors
        The error of each variant and peer in its last check; None if it has no checked result.
    skipped
        The reason why each other variant or peer has no measurement.
    """

    def __init__(self, checker: AnyChecker) -> None:
        self._checker = checker
        self.errors: dict[str, float | None] = {}
        self.skipped: dict[str, str] = {}

    def prepared(
        self,
        ladder: AnyLadder[Any],
        problem: Any,
        runs: Mapping[str, Run],
    ) -> dict[str, AnyCall]:
        """Prepare the variants, and return those that compute a correct result."""
        calls: dict[str, AnyCall] = {}
        for name, run in runs.items():
            if reason := ladder[run.variant].why_unavailable or problem.why_not(run.variant):
                self.skipped[name] = reason
                continue
            try:
                call = problem.prepare(run.variant, run.block)
            except (ValueError, TypeError, _core.Unavailable) as error:
                if run.block is not None:  # the caller has chosen the block shape
                    raise
                self.skipped[name] = str(error)
                continue
            try:
                self.errors[name] = self._checker.before(call)
                calls[name] = call
            except ValueError as error:
                self.skipped[name] = str(error)
        return calls

    def peers(self, works: Mapping[str, Callable[[], object]]) -> dict[str, Callable[[], object]]:
        """Run the peers, and return those that return a correct result or no result."""
        right = {}
        for name, work in works.items():
            returned = work()
            try:
                self.errors[name] = None if returned is None else self._checker.peer(returned)
                right[name] = work
            except ValueError as error:
                self.skipped[name] = str(error)
        return right

    def still_right(self, calls: Mapping[str, AnyCall]) -> dict[str, AnyCall]:
        """The variants whose result is still correct after timing."""
        right = {}
        for name, call in calls.items():
            try:
                self.errors[name] = self._checker.after(call)
                right[name] = call
            except ValueError as error:
                self.skipped[name] = f"{error} (after timing)"
        return right


def _of_variant(
    variant: AnyVariant, call: AnyCall, profile: Profile | None = None
) -> dict[str, Any]:
    """The fields of a Measurement that come from the variant and its prepared call."""
    kernels = tuple(map(Kernel.from_core, call.kernels()))
    if not kernels and profile:  # a function's kernels are known from the counters
        kernels = tuple(counted.kernel for counted in profile.kernels)
    return {
        "routine": variant.ladder.name,
        "variant": variant.name,
        "flops": call.cost.flops,
        "bytes": call.cost.bytes,
        "executed_flops": call.cost.executed_flops,
        "requested_bytes": call.cost.requested_bytes,
        "executed_instructions": call.cost.executed_instructions,
        "changes": variant.changes,
        "ceiling": variant.ceiling,
        "stages": variant.stages,
        "block": tuple(call.block) if call.block and call.device == "cuda" else None,
        "grid": tuple(call.grid) if call.grid and call.device == "cuda" else None,
        "kernels": kernels,
    }


@dataclass
class _Stage:
    """A pipeline stage, prepared with the operand that it has in the pipeline."""

    variant: AnyVariant
    call: AnyCall
    problem: Problem


def _prepare_stages(pipelines: Sequence[AnyVariant], problem: Any) -> list[_Stage]:
    """Prepare every stage of the pipelines once.

    All pipelines have the same sequence of routines. Each routine takes one array, the result of
    the previous stage.
    """
    found: dict[tuple[str, str], _Stage] = {}
    chains = [pipeline.stages for pipeline in pipelines if pipeline.stages]
    operand = problem.arguments[0]
    for step in zip(*chains, strict=True):
        routine = routines[step[0][0]]
        staged = routine.problem(operand, device=problem.device_id)
        for stage in step:
            if stage not in found:
                call = staged.prepare(stage[1])
                found[stage] = _Stage(routine[stage[1]], call, _described(staged))
        found[step[-1]].call.run()
        operand = staged.results()
    return list(found.values())


def _described(problem: Any) -> Problem:
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
