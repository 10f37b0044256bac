"""Measures the variants of a ladder: checks, interleaved timing, counters."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from adokernels import _core
from adokernels.measuring.context import context
from adokernels.measuring.profiling import collect
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler, clock_reached
from adokernels.measuring.settings import Settings
from adokernels.model.checker import Checker
from adokernels.model.ladder import Ladder, Variant
from adokernels.model.operands import batch_option
from adokernels.model.problem import Block, Call, Problem
from adokernels.model.registry import routines
from adokernels.records.inputs import Inputs
from adokernels.records.kernels import Kernel
from adokernels.records.measurement import Measurement
from adokernels.records.profile import Profile
from adokernels.records.sweep import Sweep


@dataclass(frozen=True)
class Run:
    """A variant to measure, and its block shape; None selects the default shape."""

    variant: str
    block: Block | None = None


def measure_ladder(
    ladder: Ladder,
    problem: Problem,
    runs: Mapping[str, Run],
    settings: Settings,
    display: ProgressDisplay,
    peers: Mapping[str, Callable[[], object]] | None = None,
    with_stages: bool = False,
    metrics: str | None = None,
) -> Sweep:
    """Check variants of a ladder and time them interleaved. The keys of `runs` name the results.

    Ctrl-C after the first sample ends the measurement; the result is marked as interrupted.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C is pressed before any variant has a sample, or a second time.
    """
    device, device_id = problem.device, problem.device_id
    display.phase("computing the reference result")
    checks = _Checks(Checker(ladder, problem), display)
    calls = checks.prepared(ladder, problem, runs)
    variants = {name: ladder[runs[name].variant] for name in calls}
    works = checks.peers(peers or {})
    stages = _prepare_stages(list(variants.values()), problem) if with_stages else []

    cold = settings.cold
    of_variants = {n: Sampler.of_call(call, cold=cold, name=n) for n, call in calls.items()}
    of_stages = [Sampler.of_call(s.call, cold=cold, name=s.variant.label) for s in stages]
    of_peers = {
        name: Sampler.of_function(work, device_id, cold=cold, name=name)
        for name, work in works.items()
    }
    samplers = [*of_variants.values(), *of_stages, *of_peers.values()]
    profiles: dict[str, Profile] = {}
    interrupted = False
    try:
        problem.load(problem.values)
        settings.sample(samplers, device, display)
        problem.forget()  # the memory may have changed since the first check
        checks.repeat(calls)
        if metrics:
            problem.load(problem.values)
            counted: dict[str, Any] = {**{n: c.timed for n, c in calls.items()}, **works}
            for name in display.each("counting", [n for n in counted if n not in checks.skipped]):
                label = variants[name].label if name in variants else name
                profile = collect(counted[name], label, metrics, settings.cache, device_id)
                if profile.kernels:
                    profiles[name] = profile
    except KeyboardInterrupt:
        interrupted = True
        if not any(sampler.seconds for sampler in of_variants.values()):
            raise
    for name, sampler in (of_variants | of_peers).items():
        if not sampler.seconds:
            checks.skipped[name] = "interrupted"
    calls = {name: call for name, call in calls.items() if name not in checks.skipped}

    reached = clock_reached(samplers)
    shared: dict[str, Any] = {
        "device": device,
        "cache": settings.cache,
        "session": uuid.uuid4().hex,
        "context": context(device_id),
    }
    described = inputs_of(problem)
    flops, compulsory = problem.useful
    return Sweep(
        routine=ladder.name,
        measurements=tuple(
            Measurement(
                **_of_variant(variants[name], call, profiles.get(name)) | {"variant": name},
                problem=described,
                error=checks.errors[name],
                profile=profiles.get(name),
                **shared,
                **of_variants[name].record(reached),
            )
            for name, call in calls.items()
        ),
        skipped=checks.skipped,
        interrupted=interrupted,
        stages=tuple(
            Measurement(
                **_of_variant(stage.variant, stage.call),
                problem=inputs_of(stage.call.problem),
                **shared,
                **sampler.record(reached),
            )
            for stage, sampler in zip(stages, of_stages, strict=True)
            if sampler.seconds
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
                profile=profiles.get(name),
                **shared,
                **sampler.record(reached, checked=checks.errors[name] is not None),
            )
            for name, sampler in of_peers.items()
            if sampler.seconds
        ),
    )


class _Checks:
    """Checks variants and peers before timing, and variants again after timing.

    Attributes
    ----------
    errors
        The error of each variant and peer in its last check; None if it has no checked result.
    skipped
        The reason why each of the other variants and peers has no measurement.
    """

    def __init__(self, checker: Checker, display: ProgressDisplay) -> None:
        self._checker, self._display = checker, display
        self.errors: dict[str, float | None] = {}
        self.skipped: dict[str, str] = {}

    def prepared(
        self,
        ladder: Ladder,
        problem: Problem,
        runs: Mapping[str, Run],
    ) -> dict[str, Call]:
        """Prepare the variants, and return those that compute a correct result."""
        calls: dict[str, Call] = {}
        for name in self._display.each("checking", runs):
            run = runs[name]
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
        for name in self._display.each("checking", works):
            work = works[name]
            returned = work()
            try:
                self.errors[name] = None if returned is None else self._checker.peer(returned)
                right[name] = work
            except ValueError as error:
                self.skipped[name] = str(error)
        return right

    def repeat(self, calls: Mapping[str, Call]) -> None:
        """Check the variants again after timing; skip those with a wrong result."""
        for name in self._display.each("checking again", calls):
            try:
                self.errors[name] = self._checker.after(calls[name])
            except ValueError as error:
                self.skipped[name] = f"{error} (after timing)"


def _of_variant(variant: Variant, call: Call, profile: Profile | None = None) -> dict[str, Any]:
    """The fields of a Measurement that come from the variant and its prepared call."""
    kernels = tuple(map(Kernel.from_core, call.kernels()))
    if not kernels and profile:  # the kernels of a Python function are known only from the counters
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
        "block": call.block,
        "grid": call.grid,
        "kernels": kernels,
    }


def inputs_of(problem: Problem) -> Inputs:
    """The operands and options of a problem, as a record."""
    return Inputs.of(problem.operands, problem.options)


class _Stage(NamedTuple):
    """A pipeline stage, prepared with the operand that it has in the pipeline."""

    variant: Variant
    call: Call


def _prepare_stages(pipelines: Sequence[Variant], problem: Problem) -> list[_Stage]:
    """Prepare every stage of the pipelines once.

    All pipelines have the same sequence of routines. Each routine takes one array, the result of
    the previous stage.
    """
    found: dict[tuple[str, str], _Stage] = {}
    chains = [pipeline.stages for pipeline in pipelines if pipeline.stages]
    operand = problem.arguments[0]
    for step in zip(*chains, strict=True):
        routine = routines[step[0][0]]
        options = batch_option(routine, operand)
        staged = routine.problem(operand, device=problem.device_id, **options)
        for stage in step:
            if stage not in found:
                found[stage] = _Stage(routine[stage[1]], staged.prepare(stage[1]))
        found[step[-1]].call.run()
        operand = staged.results()
    return list(found.values())
