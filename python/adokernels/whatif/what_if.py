"""``ado.what_if``: experiments that each change one property of a kernel's memory accesses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.kernels.emulated import emulated
from adokernels.measuring.context import context
from adokernels.measuring.functions import name_of, require_function
from adokernels.model.ladder import Ladder, Variant, check_options
from adokernels.model.values import as_tuple, same_bytes
from adokernels.records.inputs import Inputs
from adokernels.records.what_if import Trial, WhatIf
from adokernels.whatif import rewriting
from adokernels.whatif.emulation import Work, alone, proved, subjects_of
from adokernels.whatif.experiments import (
    EXPERIMENTS,
    Arrays,
    Counts,
    Experiment,
    Plan,
    Refused,
    Subject,
    hazard,
    plan_of,
)
from adokernels.whatif.machine_proof import assembled, differences

#: The least share of the excess, or of the requests, that an experiment must change.
_LEAST_COVERED = 0.5


def what_if(
    work: Variant | Ladder | Callable[..., Any],
    *args: Any,
    block: tuple[int, ...] | None = None,
    device: str | None = None,
    **options: Any,
) -> WhatIf:
    """Rewrite the kernels of a variant so that exactly one thing changes, and prove the change.

    Each experiment rewrites the PTX of the kernels. A switch selects between the original accesses
    and the changed accesses in the same machine code. On the emulator, the kernel with the switch
    off must have the original result and access counts, and the switch may change only the count
    of the experiment. In machine code, the floating-point, matrix and memory instructions must be
    the same; otherwise, the trial is weak. An experiment that could change control flow or
    addresses is refused.

    Parameters
    ----------
    work
        A CUDA variant, for example ``ado.transpose["naive"]`` or a kernel in CUDA C++ source; a
        ladder, whose choice for the problem is used; or a function that launches kernels, for
        example of Triton or Numba, and reads and writes NumPy arrays among its arguments.
    *args, **options
        Operands and options of a call, or arguments of the function.
    block : tuple of int, optional
        One of the variant's ``blocks``; default the first.
    device : str, optional
        ``"emulator"``, which counts accesses and measures no times; default as in
        ``ado.settings.device``. It is slow: use small operands.

    Returns
    -------
    WhatIf
        One row per experiment: the number of rewritten accesses, the count before and after, and
        the reason if it was refused.

    Raises
    ------
    TypeError
        If `work` is neither a variant, a ladder nor a function, or an operand has the wrong type.
    ValueError
        For a CPU variant, if the variant cannot solve the problem or launches no kernels, or if
        `device` is unknown.
    KernelError
        If the emulator finds that a kernel accesses memory that it must not access.
    Unavailable
        Without ``device="emulator"``. Also if the emulator cannot execute the variant.
    """
    if device not in (None, "cuda", "emulator"):
        raise ValueError(f"device must be 'cuda' or 'emulator', got {device!r}")
    if isinstance(work, Variant) and work.device != "cuda":
        raise ValueError(f"work must be a CUDA variant, got {work.label} on {work.device}")
    device = device or ("emulator" if _core.device() == "emulator" else "cuda")
    if device != "emulator":
        raise _core.Unavailable(
            "experiments are not timed on GPUs yet; remedy: device='emulator' counts what they "
            "change"
        )
    about: dict[str, Any] = {"routine": "", "block": block}
    launching: AbstractContextManager[None] = nullcontext()
    if isinstance(work, Variant | Ladder):
        ladder, named = (work, None) if isinstance(work, Ladder) else (work.ladder, work)
        check_options(ladder, args, options, what_if)
        chosen = {"variant": named.name} if named else {}
        problem = ladder.problem(*args, device=device, **chosen, **options)
        name = named.name if named else problem.best()
        tested = Work.of_call(problem.prepare(name, block))
        about |= {"routine": ladder.name, "variant": name, "problem": str(problem)}
    else:
        require_function(work, block, "work")
        args = args or tuple(getattr(work, "operands", ()))  # of a captured launch
        arrays = [array for array in args if isinstance(array, np.ndarray)]
        run = partial(work, *args, **options)
        tested = Work.of_function(name_of(work), run, arrays)
        types = [(f"argument {i + 1}", a.shape, str(a.dtype)) for i, a in enumerate(arrays)]
        about |= {"variant": tested.label, "problem": str(Inputs.of(types))}
        launching = emulated()
    with alone(), launching:
        result, subjects = subjects_of(tested)
        tried = [_trial(e, tested, subjects, _same_as(result)) for e in EXPERIMENTS]
    return WhatIf(
        **about,
        source="emulator",
        kernels=tuple(_core.kernel_name(s.code.kernel.name) for s in subjects),
        trials=tuple(_compared(subjects, tried)),
        context=context(device),
    )


def _same_as(result: Any) -> Callable[[Any], bool]:
    """A function that compares results with this one bit by bit; ceilings have no result."""
    if result is None:
        return lambda other: other is None
    expected = as_tuple(result)
    return lambda other: all(
        same_bytes(a, b) for a, b in zip(as_tuple(other), expected, strict=True)
    )


def _trial(
    experiment: Experiment, work: Work, subjects: Sequence[Subject], same: Callable[[Any], bool]
) -> tuple[Trial, list[Plan]]:
    """Plan an experiment on all kernels, and prove it on the emulator."""
    deciding = Arrays().union(*(subject.decided_by for subject in subjects))
    plans = [plan_of(experiment, subject, deciding) for subject in subjects]
    facts: dict[str, Any] = {
        "experiment": experiment.name,
        "meaning": experiment.meaning,
        "rewritten": sum(len(plan.slots) for plan in plans),
        "accesses": sum(len(plan.weights) for plan in plans),
    }
    if reason := _why_not(experiment, plans):
        return Trial(**facts | {"rewritten": 0}, reason=reason), []
    changed = [plan for plan in plans if plan.slots]
    try:
        after = proved(work, experiment, changed, same)
        old, new = _counted(experiment, changed, after)
        if new >= old:
            raise Refused(f"it does not reduce the {experiment.unit}")
    except Refused as error:
        return Trial(**facts, reason=str(error)), []
    facts |= {"count": experiment.unit, "before": old, "after": new}
    return Trial(**facts, place=_place(changed)), changed


def _compared(
    subjects: Sequence[Subject], tried: Sequence[tuple[Trial, list[Plan]]]
) -> list[Trial]:
    """Add the differences in machine code to the trials."""
    found: dict[str, list[str]] = {}
    for subject in subjects:
        code, kernel = subject.code, subject.code.kernel
        forms = {
            trial.experiment: p for trial, plans in tried for p in plans if p.subject is subject
        }
        if not forms:
            continue
        largest = max(subject.launches, key=lambda launch: launch.warps)
        shape = math.prod(largest.block), kernel.shared_bytes + largest.shared_bytes
        texts = [code.probe, *(p.writer.text() for p in forms.values())]
        try:
            original, *others = assembled(code.header, texts, kernel.name)
        except _core.Unavailable as error:
            found |= {name: [f"not compared in machine code: {error}"] for name in forms}
            continue
        for name, other in zip(forms, others, strict=True):
            found.setdefault(name, []).extend(differences(original, other, *shape))
    return [replace(t, code=tuple(dict.fromkeys(found.get(t.experiment, ())))) for t, _ in tried]


def _why_not(experiment: Experiment, plans: Sequence[Plan]) -> str:
    """Why an experiment is not tried; empty if it is."""
    weights = sum((plan.weights for plan in plans), Counter[int]()).total()
    if not weights:
        return experiment.nothing
    why_not = sum((plan.why_not for plan in plans), Counter[str]())
    if why_not.total() > (1 - _LEAST_COVERED) * weights:
        return f"it cannot change {why_not.most_common(1)[0][0]}"
    return hazard(experiment, plans)


def _counted(
    experiment: Experiment, plans: Sequence[Plan], after: Sequence[Counts]
) -> tuple[float, float]:
    """The count of the rewritten accesses with the switch off and on."""
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
        kernel = plan.subject.code.kernel
        for index in plan.slots:
            at = kernel.body[index].at
            if path := kernel.files.get(at.file):
                weights[f"{Path(path).name}:{at.line}"] += plan.weights[index]
    return weights.most_common(1)[0][0] if weights else ""
