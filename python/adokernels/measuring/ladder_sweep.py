"""Measures the variants of a ladder: checks, interleaved timing, counters."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from adokernels import _core
from adokernels.measuring.context import Contention, context
from adokernels.measuring.experiments import CpuExperiments, GpuExperiments
from adokernels.measuring.functions import require_clock
from adokernels.measuring.profiling import collect
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler, Settings, clock_reached
from adokernels.model.checker import Checker, reason
from adokernels.model.ladder import Ladder, Variant
from adokernels.model.problem import Block, Call, Problem, kernels_on
from adokernels.model.registry import routines
from adokernels.model.routine import batch_option
from adokernels.model.values import Errors
from adokernels.records.experiments import Experiments
from adokernels.records.inputs import Inputs
from adokernels.records.measurement import Measurement
from adokernels.records.profile import Profile
from adokernels.records.sweep import Sweep
from adokernels.text import failure

#: The largest share of the time that timing takes if experiments follow.
_TIMING = 0.5
#: Fields of the cost of a call that a Measurement also has.
_COSTS = ["flops", "bytes", "executed_flops", "requested_bytes", "executed_instructions"]


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
    experiments: Literal["", "alone", "with ceilings"] = "",
) -> Sweep:
    """Check variants of a ladder and time them interleaved. The keys of `runs` name the results.

    With `experiments`, variants are also timed under changed conditions, in the second half of the
    time; ``"with ceilings"`` also measures the ceilings of one thread.

    Ctrl-C after the first sample of a variant ends the measurement; the result is then marked as
    interrupted. Ctrl-C before that, or a second time, raises KeyboardInterrupt.
    """
    device, device_id = problem.device, problem.device_id
    require_clock(device_id)
    display.phase("computing the reference result")
    checks = _Checks(Checker(ladder, problem), display)
    calls = checks.prepared(ladder, problem, runs)
    variants = {name: ladder[runs[name].variant] for name in calls}
    works = checks.peers(peers or {})
    stages = _prepare_stages(list(variants.values()), problem) if with_stages else []

    cold = settings.cold
    of_variants = {n: Sampler.of_call(call, cold=cold, name=n) for n, call in calls.items()}
    of_stages = [Sampler.of_call(s.call, cold=cold, name=s.variant.label) for s in stages]
    for sampler in of_stages:
        sampler.optional = True
    of_peers = {
        name: Sampler.of_function(work, device_id, cold=cold, name=name)
        for name, work in works.items()
    }
    samplers = [*of_variants.values(), *of_stages, *of_peers.values()]
    profiles: dict[str, Profile] = {}
    tried: dict[str, Experiments] = {}
    interrupted = False
    contention = Contention(device_id)
    used_by_others: dict[str, Any] = {}
    try:
        problem.load(problem.values)
        try:
            settings.sample(samplers, device, display, _TIMING if experiments else 1.0)
        finally:
            used_by_others = contention.facts(waits=any(s.waits for s in samplers))
            checks.skip_failed(samplers)
        problem.forget()  # the memory may have changed since the first check
        checks.repeat({name: c for name, c in calls.items() if name not in checks.skipped})
        if metrics:
            problem.load(problem.values)
            counted: dict[str, Any] = {**{n: c.timed for n, c in calls.items()}, **works}
            for name in display.each("counting", [n for n in counted if n not in checks.skipped]):
                label = variants[name].label if name in variants else name
                with (of_variants | of_peers)[name].warned_of_errors("no counters"):
                    profile = collect(counted[name], label, metrics, settings.cache, device_id)
                    if profile.kernels:
                        profiles[name] = profile
        if experiments:
            kind = CpuExperiments if device == "cpu" else GpuExperiments
            trials = kind(
                ladder, problem, settings.cache, display if experiments == "with ceilings" else None
            )
            right = [n for n in calls if n not in checks.skipped and not variants[n].ceiling]
            budget = settings.left / max(len(right), 1)
            for name in display.each("experiments", right):
                # A variant that cannot run under the changed conditions has no experiments.
                with of_variants[name].warned_of_errors("no experiments"):
                    tried[name] = trials.on(name, calls[name], of_variants[name], budget)
    except KeyboardInterrupt:
        interrupted = True
        if not any(sampler.seconds for sampler in of_variants.values()):
            raise
    for name, sampler in (of_variants | of_peers).items():
        if not sampler.seconds:
            checks.skipped.setdefault(name, "interrupted")
    calls = {name: call for name, call in calls.items() if name not in checks.skipped}

    reached, session, described = clock_reached(samplers), uuid.uuid4().hex, inputs_of(problem)
    shared: dict[str, Any] = {"device": device, "cache": settings.cache, "session": session}
    shared["flush"] = settings.flush
    shared["context"] = context(device_id) | {"contention": used_by_others}

    def result(sampler: Sampler, fields: dict[str, Any], *, checked: bool = True) -> Measurement:
        return Measurement(**fields, **shared, **sampler.record(reached, checked=checked))

    def checked_fields(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {
            "problem": described,
            "profile": profiles.get(name),
            "experiments": tried.get(name),
            "variant": name,
        }
        if errors := checks.errors[name]:
            names = ("error", "error_ulp", "error_relative")
            found |= dict(zip(names, errors, strict=True))
        return found

    measurements = [
        result(
            of_variants[name],
            _of_variant(variants[name], call, profiles.get(name)) | checked_fields(name),
        )
        for name, call in calls.items()
    ]
    useful = dict(zip(("flops", "bytes"), problem.useful, strict=True))
    useful |= {"executed_flops": useful["flops"], "requested_bytes": useful["bytes"]}
    return Sweep(
        routine=ladder.name,
        measurements=tuple(measurements),
        skipped=checks.skipped,
        interrupted=interrupted,
        stages=tuple(
            result(sampler, _of_variant(*stage) | {"problem": inputs_of(stage.call.problem)})
            for stage, sampler in zip(stages, of_stages, strict=True)
            if sampler.seconds and sampler.name not in checks.skipped
        ),
        peers=tuple(
            result(
                sampler,
                {"routine": "peer", **useful, **checked_fields(name)},
                checked=checks.errors[name] is not None,
            )
            for name, sampler in of_peers.items()
            if name not in checks.skipped
        ),
    )


class _Checks:
    """Checks variants and peers before timing, and variants again after timing."""

    def __init__(self, checker: Checker, display: ProgressDisplay) -> None:
        self._checker, self._display = checker, display
        #: The largest errors of each variant and peer, or None if it was not checked.
        self.errors: dict[str, Errors | None] = {}
        #: The reason why each of the other variants and peers has no measurement.
        self.skipped: dict[str, str] = {}

    @contextmanager
    def _skipped_if_wrong(self, name: str, when: str = "") -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            self.skipped[name] = f"{error}{when}"

    def skip_failed(self, samplers: Sequence[Sampler]) -> None:
        """Skip the variants, peers and stages that raised an exception during timing."""
        for sampler in samplers:
            if sampler.error:
                self.skipped[sampler.name] = f"{reason(sampler.error)} (during timing)"

    def prepared(
        self, ladder: Ladder, problem: Problem, runs: Mapping[str, Run]
    ) -> dict[str, Call]:
        """Prepare the variants, and return those that compute a correct result."""
        calls: dict[str, Call] = {}
        for name in self._display.each("checking", runs):
            run = runs[name]
            if why := ladder[run.variant].why_unavailable or problem.why_not(run.variant):
                self.skipped[name] = why
                continue
            try:
                call = problem.prepare(run.variant, run.block)
            except (ValueError, TypeError, _core.Unavailable) as error:
                if run.block is not None:  # the caller has chosen the block shape
                    raise
                self.skipped[name] = str(error)
                continue
            with self._skipped_if_wrong(name):
                self.errors[name] = self._checker.before(call)
                calls[name] = call
        return calls

    def peers(self, works: Mapping[str, Callable[[], object]]) -> dict[str, Callable[[], object]]:
        """Run the peers, and return those that return a correct result or no result."""
        right = {}
        for name in self._display.each("checking", works):
            try:
                returned = works[name]()
            except _core.CudaError:
                raise
            except Exception as error:  # any error of the user's code
                self.skipped[name] = f"{failure(error)} (during the check)"
                continue
            with self._skipped_if_wrong(name):
                self.errors[name] = None if returned is None else self._checker.peer(returned)
                right[name] = works[name]
        return right

    def repeat(self, calls: Mapping[str, Call]) -> None:
        """Check the variants again after timing; skip those with a wrong result."""
        for name in self._display.each("checking again", calls):
            with self._skipped_if_wrong(name, " (after timing)"):
                before, after = self.errors[name], self._checker.after(calls[name])
                self.errors[name] = before.combined(after) if before and after else None


def _of_variant(variant: Variant, call: Call, profile: Profile | None = None) -> dict[str, Any]:
    """The fields of a Measurement that come from the variant and its prepared call."""
    kernels = kernels_on(call.problem.device_id, call.kernels())
    if not kernels and profile:  # the kernels of a Python function are known only from the counters
        kernels = tuple(counted.kernel for counted in profile.kernels)
    return {
        "routine": variant.ladder.name,
        "variant": variant.name,
        **{field: getattr(call.cost, field) for field in _COSTS},
        "changes": variant.changes,
        "steps": variant.steps,
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

    All pipelines have the same routines in order. Each takes the result of the previous stage.
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
