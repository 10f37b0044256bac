"""The pipeline of every measurement: prepare, check, sample, count, record.

A work is a variant on a problem, a function on its operands, a peer, or a stage of a pipeline. Each
kind has a function that prepares and checks it, and returns a :class:`Work`. The rest is the same
for all kinds.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from adokernels import _core
from adokernels.measuring.context import Contention, context
from adokernels.measuring.emulating import all_checks, emulated_profile
from adokernels.measuring.experiments import CpuExperiments
from adokernels.measuring.functions import (
    Function,
    bytes_of,
    device_of,
    operand_of,
    require_clock,
    require_clock_of,
    require_same_results,
    stream_handle,
)
from adokernels.measuring.machine import measured_machine, stored_machine
from adokernels.measuring.profiling import collect
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler, Timing
from adokernels.model.checker import Checker, reason
from adokernels.model.ladder import Variant
from adokernels.model.problem import Block, Call, Problem, kernels_on
from adokernels.model.registry import routines
from adokernels.model.routine import batch_option
from adokernels.model.task import Task
from adokernels.model.values import Errors
from adokernels.records.counted import CountedSweep, CountedVariant
from adokernels.records.experiments import Experiments
from adokernels.records.inputs import Inputs
from adokernels.records.measurement import FUNCTION, Measurement
from adokernels.records.profile import Profile
from adokernels.records.sweep import Sweep
from adokernels.text import failure, require

#: The largest share of the time that timing takes if experiments follow.
_TIMING = 0.5
#: Fields of the cost of a call that a Measurement also has.
_COSTS = ["flops", "bytes", "executed_flops", "requested_bytes", "executed_instructions"]
Peers = Mapping[str, Callable[[], object]]


class Skipped(Exception):
    """A work that cannot be measured, or whose result is wrong; the message is the reason."""


@dataclass(eq=False, kw_only=True)
class Work:
    """A variant, function, peer or stage that is prepared and checked, and can be measured."""

    sampler: Sampler  # with its name
    fields: Mapping[str, Any]  # fields of its record, without times, checks and counts
    call: Call | None = None  # the call of a variant, which is checked again after timing
    counted: Any = None  # what the counters count: a function, or a call of the core; or None
    errors: Errors | None = None  # errors found by its checks; None if unknown
    checked: bool = True  # whether its result was compared with another one
    models_flops: bool = True  # whether there is a formula of its executed FLOPs
    profile: Profile | None = None
    experiments: Experiments | None = None

    @property
    def name(self) -> str:
        """The name in tables and charts."""
        return self.sampler.name


class Pipeline:
    """The works of one measurement by name, on one device; for others, why they are skipped."""

    def __init__(self, device: str, timing: Timing, display: ProgressDisplay) -> None:
        require_clock(device)
        self.device, self.timing, self.display = device, timing, display
        self.works: dict[str, Work] = {}
        self.skipped: dict[str, str] = {}
        self.interrupted = False  # whether Ctrl-C was pressed
        self._contention: dict[str, Any] = {}

    def prepare(self, makers: Mapping[str, Callable[[], Work]]) -> list[Work]:
        """Prepare and check works; skip those that raise :class:`Skipped`."""
        made = prepared(makers, self.display, self.skipped)
        self.works |= {work.name: work for work in made}
        return made

    def measure(
        self,
        checker: Checker | None = None,
        metrics: str | None = None,
        experiments: Callable[[], CpuExperiments] | None = None,
    ) -> None:
        """Sample the works in the same rounds, check variants again, count, run experiments.

        Ctrl-C after the first sample of a variant ends the measurement. Ctrl-C before that, or a
        second time, raises KeyboardInterrupt.
        """
        try:
            self._sample(_TIMING if experiments else 1.0)
            if checker:
                self._check_again(checker)
            if metrics:
                if checker:
                    checker.problem.load(checker.problem.values)
                self._count(metrics)
            if experiments:
                self._experiment(experiments())
        except KeyboardInterrupt:
            self.interrupted = True
            if not any(work.call and work.sampler.seconds for work in self.works.values()):
                raise
        for name, work in self.works.items():
            if not work.sampler.seconds and not work.sampler.optional:
                self.skipped.setdefault(name, "interrupted")

    def records(self) -> dict[str, Measurement]:
        """The record of each work that was measured, by name."""
        works = {work.name: work for work in self._left() if work.sampler.seconds}
        all_series = (work.sampler.series for work in self.works.values())
        reached = max((series.reached for series in all_series), default=0.0)
        shared: dict[str, Any] = {
            "cache": self.timing.cache,
            "flush": self.timing.flush,
            "session": uuid.uuid4().hex,
            "context": context(self.device) | {"contention": self._contention},
        }
        found = {}
        for name, work in works.items():
            fields: dict[str, Any] = dict(work.fields)
            if not fields.get("kernels") and work.profile:
                # The kernels of a Python function are known only from the counters.
                fields["kernels"] = tuple(counted.kernel for counted in work.profile.kernels)
            if not work.models_flops and work.profile:
                fields["executed_flops"] = work.profile.get("flops") or fields["executed_flops"]
            if work.errors:
                names = ("error", "error_ulp", "error_relative")
                fields |= dict(zip(names, work.errors, strict=True))
            found[name] = Measurement(
                device=work.sampler.device,
                profile=work.profile,
                experiments=work.experiments,
                **fields,
                **shared,
                **work.sampler.record(reached, checked=work.checked),
            )
        return found

    def _left(self) -> Iterator[Work]:
        """The works that are not skipped."""
        return (work for name, work in self.works.items() if name not in self.skipped)

    def _sample(self, share: float) -> None:
        samplers = [work.sampler for work in self.works.values()]
        contention = Contention(self.device)
        try:
            kind = _core.device_kind(self.device)
            self.timing.sample(samplers, kind, self.display, share)
        finally:
            self._contention = contention.facts(waits=any(s.waits for s in samplers))
            for sampler in samplers:
                if sampler.error:
                    self.skipped[sampler.name] = f"{reason(sampler.error)} (during timing)"

    def _check_again(self, checker: Checker) -> None:
        """Check variants with other values; skip those with a wrong result."""
        checker.problem.forget()  # the memory may have changed since the first check
        variants = [work for work in self._left() if work.call]
        for work in self.display.each("checking again", variants, lambda work: work.name):
            assert work.call
            try:
                before, after = work.errors, checker.after(work.call)
                work.errors = before.combined(after) if before and after else None
            except ValueError as error:
                self.skipped[work.name] = f"{error} (after timing)"

    def _count(self, metrics: str) -> None:
        counted = [work for work in self._left() if work.counted]
        for work in self.display.each("counting", counted, lambda work: work.name):
            with work.sampler.warned_of_errors("no counters"):
                label = work.call.label if work.call else work.name
                found = collect(work.counted, label, metrics, self.timing.cache, self.device)
                work.profile = found if found.kernels else None

    def _experiment(self, trials: CpuExperiments) -> None:
        right = [w for w in self._left() if w.call and not w.fields["ceiling"]]
        budget = self.timing.left / max(len(right), 1)
        for work in self.display.each("experiments", right, lambda work: work.name):
            assert work.call
            # A variant that cannot run under the changed conditions has no experiments.
            with work.sampler.warned_of_errors("no experiments"):
                work.experiments = trials.on(work.call, work.sampler, budget)


def prepared(
    makers: Mapping[str, Callable[[], Work]], display: ProgressDisplay, skipped: dict[str, str]
) -> list[Work]:
    """Prepare and check works; add the reason to `skipped` for those that raise Skipped."""
    made = []
    for name in display.each("checking", makers):
        try:
            made.append(makers[name]())
        except Skipped as error:
            skipped[name] = str(error)
    return made


# --- Works ----------------------------------------------------------------------------------------


@contextmanager
def _skipping(*errors: type[Exception], label: str = "") -> Iterator[None]:
    """Raise Skipped instead of these errors, without the label at the beginning."""
    try:
        yield
    except errors as error:
        raise Skipped(str(error).removeprefix(f"{label}: ")) from error


def variant_work(
    checker: Checker, name: str, variant: Variant, block: Block | None = None, *, cold: bool = True
) -> Work:
    """A variant on the checker's problem, with a block shape; None selects the default shape."""
    problem = checker.problem
    if why := variant.why_unavailable_on(problem.device_id) or problem.why_not(variant.name):
        raise Skipped(why)
    # If the caller has chosen the block shape, errors are raised.
    errors: tuple[type[Exception], ...] = (ValueError, TypeError, _core.Unavailable) * (not block)
    if problem.device_id == "emulator":
        errors = (ValueError, TypeError, RuntimeError)  # also what the emulator refuses
    with _skipping(*errors, label=variant.label):
        call = problem.prepare(variant.name, block)
    with _skipping(ValueError):
        found = checker.before(call)
    sampler = Sampler.of_call(call, cold=cold, name=name)
    fields = _fields_of(variant, call) | {"variant": name}
    models_flops = getattr(variant, "models_flops", True)
    return Work(
        sampler=sampler, fields=fields, call=call, counted=call.timed, errors=found,
        models_flops=models_flops,
    )  # fmt: skip


def peer_work(checker: Checker, name: str, function: Callable[[], object], *, cold: bool) -> Work:
    """A function of another library that solves the checker's problem."""
    problem = checker.problem
    try:
        returned = function()
    except _core.CudaError:
        raise
    except Exception as error:  # any error of the user's code
        raise Skipped(f"{failure(error)} (during the check)") from error
    with _skipping(ValueError):
        errors = None if returned is None else checker.peer(returned)
    flops, moved = problem.useful
    useful = {"flops": flops, "bytes": moved, "executed_flops": flops, "requested_bytes": moved}
    return Work(
        sampler=Sampler.of_function(function, problem.device_id, cold=cold, name=name),
        fields={"routine": "peer", "variant": name, "problem": problem.inputs, **useful},
        counted=function,
        errors=errors,
        checked=errors is not None,
    )


def stage_works(pipelines: Sequence[Variant], problem: Problem, *, cold: bool) -> list[Work]:
    """Prepare each stage of these pipelines once, with its operand in the pipelines.

    All pipelines have the same routines in the same order. A stage takes the result of the previous
    stage.
    """
    found: dict[tuple[str, str], Work] = {}
    chains = [pipeline.stages for pipeline in pipelines if pipeline.stages]
    operand = problem.arguments[0]
    for step in zip(*chains, strict=True):
        routine = routines[step[0][0]]
        options = batch_option(routine, operand)
        staged = routine.problem(operand, device=problem.device_id, **options)
        for stage in step:
            if stage not in found:
                call = staged.prepare(stage[1])
                sampler = Sampler.of_call(call, cold=cold, name=call.label)
                sampler.optional = True
                fields = _fields_of(routine[stage[1]], call)
                found[stage] = Work(sampler=sampler, fields=fields)
        call.run()
        operand = staged.results()
    return list(found.values())


def _fields_of(variant: Variant, call: Call) -> dict[str, Any]:
    """The fields of a Measurement that come from the variant and its prepared call."""
    return {
        "routine": variant.ladder.name,
        "variant": variant.name,
        "problem": call.problem.inputs,
        **{field: getattr(call.cost, field) for field in _COSTS},
        "changes": variant.changes,
        "steps": variant.steps,
        "ceiling": variant.ceiling,
        "stages": variant.stages,
        "block": call.block,
        "grid": call.grid,
        "kernels": kernels_on(call.problem.device_id, call.kernels()),
    }


# --- Functions ------------------------------------------------------------------------------------


def measure_functions(
    functions: Sequence[Function],
    timing: Timing,
    display: ProgressDisplay,
    title: str = "",
    *,
    device: str | None = None,
    stream: Any = None,
    task: Task | None = None,
    flops: float = 0.0,
    bytes: float | None = None,
) -> list[Measurement]:
    """Time functions interleaved; by default, on the device of their operands and results.

    With a `task`, the results must agree within its tolerance. The default of `bytes` is the size
    of the operands and of the result. Exceptions of functions are raised unchanged.
    """
    require((str, type(None)), "a str", device=device)
    require_clock(device)
    for function in functions:
        require_clock_of(function.function, device)
    results: list[Any] = []

    def call_each() -> None:
        once = require_same_results(functions, task) if task else [f.once() for f in functions]
        results.extend(once)

    if _core.emulated_counts(call_each):  # also detects a function that calls a variant
        require_clock("emulator")
    first = functions[0]
    pipeline = Pipeline(device or device_of(first.given, results), timing, display)
    where = pipeline.device
    moved = bytes_of(first.given, results[0]) if bytes is None else bytes
    checked = len(functions) == 1 or bool(task and (first.setup or results[0] is not None))
    results.clear()  # they may be large
    handle = 0 if where == "cpu" else stream_handle(stream, where)
    for function in functions:
        sampler = Sampler.of_function(
            function.run, where, cold=timing.cold, stream=handle, name=function.name
        )
        if function.setup:
            sampler.before, sampler.single = function.prepare, True
        fields = {
            "routine": FUNCTION,
            "variant": function.name,
            "problem": Inputs.of(map(operand_of, first.given)),
            **{"flops": flops, "executed_flops": flops, "bytes": moved, "requested_bytes": moved},
        }
        pipeline.works[function.name] = Work(sampler=sampler, fields=fields, checked=checked)
    with display.measurement(f"{title or first.name} on {where}, {timing.cache}"):
        pipeline.measure()
    for work in pipeline.works.values():
        if work.sampler.error:
            raise work.sampler.error
    return list(pipeline.records().values())


# --- Ladders --------------------------------------------------------------------------------------


class Selected(NamedTuple):
    """A variant to measure, and its block shape; None selects the default shape."""

    variant: str
    block: Block | None = None


def variant_makers(
    checker: Checker, runs: Mapping[str, Selected], *, cold: bool = True
) -> dict[str, Callable[[], Work]]:
    """Functions that prepare and check variants, by the names of their measurements."""
    return {
        name: partial(
            variant_work, checker, name, checker.ladder[run.variant], run.block, cold=cold
        )
        for name, run in runs.items()
    }


def measure_ladder(
    checker: Checker,
    runs: Mapping[str, Selected],
    timing: Timing,
    display: ProgressDisplay,
    *,
    peers: Peers | None = None,
    with_stages: bool = False,
    metrics: str | None = None,
    experiments: bool = False,
    ceilings: bool = False,
) -> Sweep:
    """Check variants of a ladder and time them interleaved. The keys of `runs` name the results.

    With `experiments`, variants are also timed under changed conditions, in the second half of the
    time. With `ceilings`, the record contains the ceilings of the machine, and the experiments
    measure the ceilings of one thread.
    """
    ladder, problem, cold = checker.ladder, checker.problem, timing.cold
    pipeline = Pipeline(problem.device_id, timing, display)
    variants = pipeline.prepare(variant_makers(checker, runs, cold=cold))
    theirs = pipeline.prepare(
        {n: partial(peer_work, checker, n, f, cold=cold) for n, f in (peers or {}).items()}
    )
    used = [ladder[runs[work.name].variant] for work in variants]
    stages = stage_works(used, problem, cold=cold) if with_stages else []
    pipeline.works |= {work.name: work for work in stages}
    problem.load(problem.values)
    make = partial(CpuExperiments, problem, timing.cache, display if ceilings else None)
    pipeline.measure(checker, metrics, make if experiments else None)
    machine, interrupted = None, pipeline.interrupted
    if ceilings and not interrupted:
        try:
            machine = measured_machine(problem.device_id, display)
        except KeyboardInterrupt:
            interrupted = True
    elif ceilings:
        machine = stored_machine(problem.device_id)
    found = pipeline.records()
    return Sweep(
        routine=ladder.name,
        measurements=tuple(found[work.name] for work in variants if work.name in found),
        skipped=pipeline.skipped,
        machine=machine,
        peers=tuple(found[work.name] for work in theirs if work.name in found),
        stages=tuple(found[work.name] for work in stages if work.name in found),
        interrupted=interrupted,
    )


def count_ladder(
    checker: Checker, runs: Mapping[str, Selected], display: ProgressDisplay
) -> CountedSweep:
    """Check the variants of a ladder on the emulator, with all of its checks, and count them."""
    problem, skipped, found = checker.problem, dict[str, str](), []
    flops, compulsory = problem.useful
    with all_checks():
        for work in prepared(variant_makers(checker, runs), display, skipped):
            assert work.call
            try:
                counted = emulated_profile(work.call)
            except (ValueError, RuntimeError) as error:  # also what the emulator refuses
                skipped[work.name] = str(error)
                continue
            found.append(
                CountedVariant(
                    variant=work.name,
                    ceiling=work.fields["ceiling"],
                    flops=flops,
                    bytes=compulsory,
                    profile=counted,
                )
            )
    return CountedSweep(
        routine=checker.ladder.name,
        problem=problem.inputs,
        variants=tuple(found),
        skipped=skipped,
        context=context(problem.device_id),
    )
