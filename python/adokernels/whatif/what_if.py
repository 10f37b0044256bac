"""``ado.what_if``: experiments that each change one property of a kernel's memory accesses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from adokernels import _core
from adokernels.kernels.emulated import LATEST_COMPUTE, emulated
from adokernels.kernels.launch import array_of
from adokernels.measuring.context import context
from adokernels.measuring.experiments import (
    footprint_of,
    on_half_the_gpu,
    scaled,
    with_half_occupancy,
)
from adokernels.measuring.functions import name_of, require_function
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.sampling import Timing
from adokernels.model.ladder import Ladder, Variant, check_options
from adokernels.model.libraries import is_on_device, on_host
from adokernels.model.problem import Call, Problem
from adokernels.model.routine import BuiltInVariant
from adokernels.model.values import is_array
from adokernels.records.inputs import Inputs
from adokernels.records.measurement import Cache
from adokernels.records.what_if import HALF_GPU, HALF_OCCUPANCY, Trial, WhatIf, largest
from adokernels.whatif import rewriting
from adokernels.whatif.emulation import EmulatedWork, alone, proved, subjects_of
from adokernels.whatif.experiments import (
    EXPERIMENTS,
    MEANINGS,
    TOTAL,
    Arrays,
    Counts,
    Experiment,
    Plan,
    Refused,
    Subject,
    doses,
    hazard,
    plan_of,
)
from adokernels.whatif.flow import Slot
from adokernels.whatif.machine_proof import (
    Assembled,
    MachineCode,
    assembled,
    differences,
    form_of,
)
from adokernels.whatif.timing import GpuWork, Recording, observed, timed

#: The smallest share of the excess, or of the requests, that an experiment must change.
_LEAST_COVERED = 0.5
#: A kernel gets a dose if it has at least this share of the arithmetic of all kernels.
_LEAST_DOSED = 0.1
#: The maximum bytes of operands and results of a built-in variant in the proof for a GPU.
_PROOF_BYTES = 2 << 20


def what_if(
    work: Variant | Ladder | Callable[..., Any],
    *args: Any,
    block: tuple[int, ...] | None = None,
    device: str | None = None,
    seconds: float = 5.0,
    cache: Cache = "cold",
    per_line: bool = False,
    progress: bool | ProgressDisplay = True,
    **options: Any,
) -> WhatIf:
    """Change one property of the kernels of a variant at a time, and measure the time.

    Each experiment rewrites the PTX of the kernels. A switch selects between the original accesses
    and the changed accesses in the same machine code. With the switch on, the results are wrong;
    they are discarded. The gain shows how much time the property costs.

    On a GPU, further experiments add arithmetic instructions, halve the resident blocks, or use
    half of the multiprocessors. They show what limits a kernel. They do not promise a gain.

    Each experiment is proved first. On the emulator, the kernel with the switch off must have the
    original result and access counts, and the switch may change only the count of the experiment.
    In machine code, the floating-point, matrix and memory instructions must be the same;
    otherwise, the trial is weak. An experiment that could change control flow or addresses is
    refused.

    Parameters
    ----------
    work
        A CUDA variant, for example ``ado.transpose["naive"]`` or a kernel in CUDA C++ source; a
        ladder, whose choice for the problem is used; or a function that launches kernels of Triton
        or Numba, and reads and writes arrays among its arguments.
    *args, **options
        Operands and options of a call, or arguments of the function.
    block : tuple of int, optional
        One of the variant's ``blocks``; default the first.
    device : str, optional
        A GPU, or ``"emulator"``, which counts accesses and measures no times. It is slow: use small
        operands. Default as in ``ado.settings.device``.
    seconds : float
        Time for sampling on a GPU. The proofs take additional time.
    cache : {"cold", "warm"}
        Whether the caches are overwritten before each sample.
    per_line : bool
        Whether the experiment with the largest gain is repeated for each source line alone.
    progress : bool or ProgressDisplay
        Whether to show the progress on a GPU.

    Returns
    -------
    WhatIf
        One row per experiment: the number of rewritten accesses, the count before and after, the
        gain on a GPU, and the reason if it was refused.

    Raises
    ------
    TypeError
        If `work` is neither a variant, a ladder nor a function, or an operand has the wrong type.
    ValueError
        If `work` is a CPU variant, cannot solve the problem or launches no kernels, or if `device`
        is unknown.
    KernelError
        If the emulator finds that a kernel accesses memory that it must not access.
    Unavailable
        If there is no GPU and `device` is not ``"emulator"``; if the emulator cannot execute the
        variant; or if ptxas is missing.

    Notes
    -----
    The launches of a function are recorded on the emulator, and repeated on the GPU with copies of
    the arrays. If the operands of a variant are large, the proof uses smaller operands of the same
    types, provided that the variant launches the same kernels for them.
    """
    timing = Timing(cache, None, seconds)
    if isinstance(work, Variant) and work.device != "cuda":
        raise ValueError(f"work must be a CUDA variant, got {work.label} on {work.device}")
    if device is not None and _core.device_kind(device) != "cuda":
        raise ValueError(f"device must be a GPU or 'emulator', got {device!r}")
    where = device or ("emulator" if _core.device() == "emulator" else "cuda")
    on_gpu = where != "emulator"
    if on_gpu and (reason := _core.why_no_cuda()):
        raise _core.Unavailable(
            f"times need a GPU: {reason}; remedy: device='emulator' counts what experiments change"
        )
    gpu = _core.cuda_properties(where)
    compute = int(gpu["compute"]) if on_gpu else None
    if isinstance(work, Variant | Ladder):
        subject = _call(work, args, options, block, where)
    else:
        require_function(work, block, "work")
        args = args or tuple(getattr(work, "operands", ()))  # of a captured launch
        subject = _function(work, args, options, where, compute)
    shown = on_gpu if progress is True else progress
    with alone(), subject.context, displayed(shown) as display:
        display.phase("proving")
        proof, result, subjects = _first_run(subject)
        experiments = [*EXPERIMENTS, *(doses(subjects) if on_gpu else ())]
        tried = [_trial(e, proof, subjects, result) for e in experiments]
        trials, modules = _compared(subjects, tried, compute)
        measured: dict[str, Any] = {}
        if on_gpu:
            timed_work = subject.on_gpu(subjects, modules)
            each = _with(trials, tried)
            first, trials = timed(timed_work, modules, each, timing, display, subject.others)
            measured = {"cache": cache, "seconds": first}
            if per_line and (best := largest(trials)):
                each = _on_lines(best, tried[trials.index(best)][1])
                lines, modules = _compared(subjects, each, compute)
                _, lines = timed(timed_work, modules, _with(lines, each), timing, display)
                measured["lines"] = tuple(sorted(lines, key=lambda line: -line.gain))
    return WhatIf(
        **subject.about,
        **measured,
        source=str(gpu["name"]) if on_gpu else "emulator",
        kernels=tuple(_core.kernel_name(s.code.kernel.name) for s in subjects),
        trials=tuple(sorted(trials, key=lambda trial: -trial.gain)),
        context=context(where),
    )


#: A trial, and the plans of the kernels that it changes.
_Tried: TypeAlias = tuple[Trial, list[Plan]]


@dataclass(frozen=True)
class _Tested:
    """The kernels under test: how to run them on the emulator and on a GPU.

    `smaller` is the same work with smaller operands, which must launch the kernels of `symbols`.
    `others` are trials that launch the original kernels in another way.
    """

    about: Mapping[str, Any]
    work: Callable[[], EmulatedWork]
    context: AbstractContextManager[Any]
    on_gpu: Callable[[Sequence[Subject], Sequence[Assembled]], GpuWork]
    smaller: EmulatedWork | None = None
    symbols: Sequence[str] = ()
    others: Sequence[tuple[Trial, GpuWork]] = ()


def _first_run(tested: _Tested) -> tuple[EmulatedWork, Any, list[Subject]]:
    """Run the kernels on the emulator, with smaller operands if they launch the same kernels."""
    if tested.smaller:
        with suppress(_core.KernelError, ValueError):
            result, subjects = subjects_of(tested.smaller)
            if [s.code.kernel.name for s in subjects] == tested.symbols:
                return tested.smaller, result, subjects
    work = tested.work()
    return work, *subjects_of(work)


def _call(
    work: Variant | Ladder,
    args: Sequence[Any],
    options: Mapping[str, Any],
    block: tuple[int, ...] | None,
    device: str,
) -> _Tested:
    """A call of a variant. On a GPU, the proof uses operands of at most _PROOF_BYTES if it can."""
    ladder, named = (work, None) if isinstance(work, Ladder) else (work.ladder, work)
    check_options(ladder, args, options, what_if)
    chosen = {"variant": named.name} if named else {}
    problem = ladder.problem(*args, device=device, **chosen, **options)
    name = named.name if named else problem.best()
    about = {"routine": ladder.name, "variant": name, "problem": str(problem), "block": block}
    call = problem.prepare(name, block)
    gpu = GpuWork.of_call(call)
    if device == "emulator":
        return _Tested(about, lambda: EmulatedWork.of_call(call), nullcontext(), lambda *_: gpu)
    host = ladder.problem(*problem.host_arguments, device="emulator", **chosen, **problem.options)
    smaller = None
    if footprint_of(host) > _PROOF_BYTES and (less := scaled(host, _PROOF_BYTES)):
        with suppress(ValueError, _core.Unavailable):  # it cannot solve the smaller problem
            smaller = EmulatedWork.of_call(less.prepare(name, block))
    return _Tested(
        about,
        lambda: EmulatedWork.of_call(host.prepare(name, block)),
        nullcontext(),
        lambda *_: gpu,
        smaller,
        [launches[0].symbol for launches in observed(gpu.computed)],
        list(_with_fewer_resources(problem, call, block)),
    )


def _with_fewer_resources(
    problem: Problem, call: Call, block: tuple[int, ...] | None
) -> Iterator[tuple[Trial, GpuWork]]:
    """A built-in variant with half of the resident blocks, and on half of the multiprocessors."""
    variant = problem.ladder[call.variant]
    if not isinstance(variant, BuiltInVariant):
        return
    problem.load(problem.values)
    for name, make in ((HALF_OCCUPANCY, with_half_occupancy), (HALF_GPU, on_half_the_gpu)):
        if changed := make(variant, call, block):
            trial = Trial(experiment=name, meaning=MEANINGS[name], rewritten=0, accesses=0)
            yield trial, GpuWork.of_call(changed)


def _function(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    device: str,
    compute: int | None,
) -> _Tested:
    """A function that launches kernels, with copies of the arrays in host memory."""
    copies = {id(argument): _copy_on_host(argument) for argument in args}
    given = [copies[id(argument)] for argument in args]
    arrays = [array for g in copies.values() if (array := array_of("", g)) is not None]
    run = partial(function, *given, **options)
    work = EmulatedWork.of_function(name_of(function), run, arrays)
    types = [
        (f"argument {i + 1}", tuple(g.shape), str(g.dtype))
        for i, g in enumerate(given)
        if hasattr(g, "dtype")
    ]
    about = {"routine": "", "variant": work.label, "problem": str(Inputs.of(types)), "block": None}
    launching = emulated(min(compute, LATEST_COMPUTE) if compute else None)

    def on_gpu(subjects: Sequence[Subject], modules: Sequence[Assembled]) -> GpuWork:
        recording = Recording.of(work.run)
        work.forget()
        return recording.on_gpu(subjects, modules, device)

    return _Tested(about, lambda: work, launching, on_gpu)


def _copy_on_host(argument: Any) -> Any:
    """Copy an array to host memory, for torch or NumPy; return other values unchanged."""
    if hasattr(argument, "untyped_storage"):
        return argument.detach().cpu().clone()
    if is_array(argument):
        return np.array(on_host(argument) if is_on_device(argument) else argument)
    return argument


def _with(trials: Sequence[Trial], tried: Sequence[_Tried]) -> list[_Tried]:
    return [(trial, plans) for trial, (_, plans) in zip(trials, tried, strict=True)]


def _on_lines(trial: Trial, plans: Sequence[Plan]) -> list[_Tried]:
    """The trial on the accesses of one source line at a time."""
    found = dict[str, list[Plan]]()
    for plan in plans:
        of_line = dict[str, dict[int, Slot]]()
        for index, slot in plan.slots.items():
            of_line.setdefault(_line(plan, index), {})[index] = slot
        for line, slots in of_line.items():
            found.setdefault(line, []).append(replace(plan, slots=slots))
    return [
        (replace(trial, place=line, rewritten=sum(len(p.slots) for p in own)), own)
        for line, own in found.items()
    ]


def _trial(
    experiment: Experiment, work: EmulatedWork, subjects: Sequence[Subject], result: Any
) -> _Tried:
    """Plan an experiment on all kernels, and prove it on the emulator."""
    deciding = Arrays().union(*(subject.decided_by for subject in subjects))
    plans = [plan_of(experiment, subject, deciding) for subject in subjects]
    facts: dict[str, Any] = {
        "experiment": experiment.name,
        "meaning": experiment.meaning,
        "rewritten": sum(len(plan.slots) for plan in plans),
        "accesses": sum(len(plan.weights) for plan in plans),
    }
    if dose := experiment.dose:
        facts["dose"] = dose.number
    if reason := _why_not(experiment, plans):
        return Trial(**facts | {"rewritten": 0}, reason=reason), []
    changed = [plan for plan in plans if plan.slots]
    if dose:
        executed = [plan.subject.counts[0, "arithmetic", dose.place] for plan in changed]
        pairs = zip(changed, executed, strict=True)
        changed = [plan for plan, own in pairs if own >= _LEAST_DOSED * sum(executed)]
        facts["rewritten"] = sum(len(plan.slots) for plan in changed)
    try:
        after = proved(work, experiment, changed, result)
        old, new = _counted(experiment, changed, after)
        if new >= old and not experiment.dose:
            raise Refused(f"it does not reduce the {experiment.unit}")
    except Refused as error:
        return Trial(**facts, reason=str(error)), []
    facts |= {"count": experiment.unit, "before": old, "after": new}
    if dose:
        facts["added"] = (new - old) / sum(subject.counts[TOTAL] for subject in subjects)
    return Trial(**facts, place=_place(changed)), changed


def _compared(
    subjects: Sequence[Subject],
    tried: Sequence[_Tried],
    compute: int | None,
) -> tuple[list[Trial], list[Assembled]]:
    """Add the differences in machine code to the trials; also return the code of the kernels.

    Without a GPU (`compute` is None), kernels without changes are not assembled.
    """
    found: dict[str, list[str]] = {}
    modules = list[Assembled]()
    for subject in subjects:
        code, kernel = subject.code, subject.code.kernel
        forms = {form_of(t): p for t, plans in tried for p in plans if p.subject is subject}
        if not forms and compute is None:
            continue
        largest_launch = max(subject.launches, key=lambda launch: launch.warps)
        shape = math.prod(largest_launch.block), kernel.shared_bytes + largest_launch.shared_bytes
        texts = {"": code.probe} | {name: p.writer.text() for name, p in forms.items()}
        try:
            if dosed := [name for name, plan in forms.items() if plan.experiment.dose]:
                original = assembled(code.header, {"": code.probe}, kernel.name, compute)
                most = MachineCode(Counter(), original.registers[""]).most_registers(*shape)
                for name in dosed:  # ptxas must not reduce the number of resident blocks
                    texts[name] = texts[name].replace("{", f".maxnreg {most}\n{{", 1)
            modules.append(assembled(code.header, texts, kernel.name, compute))
            machine_code = modules[-1].machine_code
        except _core.Unavailable as error:
            if compute is not None and len(modules) == subject.number:
                raise
            found |= {name: [f"not compared in machine code: {error}"] for name in forms}
            continue
        for name, plan in forms.items():
            differing = differences(machine_code[""], machine_code[name], *shape, plan.added)
            found.setdefault(name, []).extend(differing)
    code_of = ((t, tuple(dict.fromkeys(found.get(form_of(t), ())))) for t, _ in tried)
    return [replace(trial, code=code) for trial, code in code_of], modules


def _why_not(experiment: Experiment, plans: Sequence[Plan]) -> str:
    """Why an experiment is not tried; empty if it is."""
    weights = sum((plan.weights for plan in plans), Counter[int]()).total()
    if not weights:
        return experiment.nothing
    why_not = sum((plan.why_not for plan in plans), Counter[str]())
    if why_not.total() > (1 - _LEAST_COVERED) * weights:
        return f"it cannot change {why_not.most_common(1)[0][0]}"
    return "" if experiment.dose else hazard(experiment, plans)


def _counted(
    experiment: Experiment, plans: Sequence[Plan], after: Sequence[Counts]
) -> tuple[float, float]:
    """The count of the rewritten accesses with the switch off and on."""
    if experiment.dose:
        key = 0, "arithmetic", experiment.dose.kind
        forms = [[plan.subject.counts for plan in plans], after]
        before_and_after = (sum(c[key] for c in counts) for counts in forms)
        return next(before_and_after), next(before_and_after)
    if experiment.change is rewriting.in_l1:
        arrays = {
            place
            for plan in plans
            for launch in plan.subject.launches
            for slot in plan.slots.values()
            for place in [plan.subject.memory(slot, launch)]
        }
        return sum(size for _, size in arrays), len(arrays) * rewriting.LINES * rewriting.LINE
    totals = list[float]()
    for counts in ([plan.subject.counts for plan in plans], after):
        if not experiment.kinds:
            totals.append(sum(c[0, "barriers", ""] for c in counts))
            continue
        sums = Counter[str]()
        for plan, of_plan in zip(plans, counts, strict=True):
            for index in plan.slots:
                sums.update(plan.subject.sums(index, experiment.kinds, of_plan))
        requests = 1 if experiment.counted == "requests" else max(sums["requests"], 1)
        totals.append(max(sums[field] for field in experiment.fields) / requests)
    return totals[0], totals[1]


def _place(plans: Sequence[Plan]) -> str:
    """The source line of the most important rewritten access."""
    weights = Counter[str]()
    for plan in plans:
        for index in plan.slots:
            weights[_line(plan, index)] += plan.weights[index]
    return weights.most_common(1)[0][0] if weights else ""


def _line(plan: Plan, index: int) -> str:
    """The source line of an access; empty if it is unknown."""
    kernel = plan.subject.code.kernel
    at = kernel.body[index].at
    path = kernel.files.get(at.file)
    return f"{Path(path).name}:{at.line}" if path else ""
