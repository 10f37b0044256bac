"""Checks of an own variant: its correctness, and its speed relative to a ladder."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from numbers import Real
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.isolation.calls import TIMEOUT, Isolation
from adokernels.isolation.process import Missing
from adokernels.measuring.emulating import all_checks
from adokernels.measuring.functions import name_of
from adokernels.measuring.pipeline import Selected, measure_ladder
from adokernels.measuring.profiling import emulator_hint
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.sampling import Timing, require_finite
from adokernels.model.checker import Checker
from adokernels.model.compiler import UnknownKernel
from adokernels.model.cuda_variant import CudaVariant
from adokernels.model.ladder import Ladder, check_options
from adokernels.model.own_ladder import extended
from adokernels.model.own_ladder import ladder as own_ladder
from adokernels.model.own_variant import OwnVariant
from adokernels.model.problem import Broken
from adokernels.model.values import is_array
from adokernels.records.checked import CheckResult
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.statistics import FEWEST_SAMPLES
from adokernels.text import kind_of, quantity, require

#: A time is impossible if it needs more than this multiple of the bandwidth of the memory.
_MARGIN = 1.2
#: One of three variants may be sampled for this multiple of the whole time, to reach 11 samples.
_OVERTIME = 4 / 3
#: The largest length of the smallest default problem.
_SMALLEST = 64


def check(
    variant: Any,
    ladder: Ladder | Callable[..., Any],
    *args: Any,
    device: str | None = None,
    against: Iterable[str] | None = None,
    timed: bool = True,
    seconds: float = 3.0,
    ceilings: bool = True,
    isolated: bool = True,
    timeout: float = TIMEOUT,
    progress: bool | ProgressDisplay = True,
    **options: Any,
) -> CheckResult:
    """Check an own variant: its correctness, then its speed relative to a ladder.

    The results are compared with the reference on small, odd and random sizes,
    and on the operands. By default, the variant runs in a process of its own. Each of its calls has
    new operands and an output full of sentinel bytes, and randomly chosen timed calls are
    verified. ``docs/grading.md`` in the repository describes the protocol and its limits.

    Parameters
    ----------
    variant
        A function, or a variant made by :func:`adokernels.variant` or
        :func:`adokernels.cuda_variant`. It can belong to `ladder`.
    ladder
        The routine that it computes, an own ladder, or a function of the operands that returns the
        expected result. With a function, pass `args`, and on a GPU also ``timed=False``.
    *args, **options
        Operands and options. Default: random operands of the routine's default problem, or of a
        smaller one if a call takes too long for 11 samples in `seconds`. For an own ladder, the
        first of its ``problems``.
    against
        The variants with which its speed is compared. Default: the first variant on the same
        device, and the variant that a call runs.
    timed
        Whether to time it.
    seconds
        The time for the timing of all variants.
    ceilings, progress
        See :func:`adokernels.sweep`.
    isolated
        Whether it runs in a process of its own. Otherwise, its times are trusted, and it can end
        this process.
    timeout
        Seconds that a call of an isolated variant, or its compilation, may take.

    Returns
    -------
    CheckResult
        True if the variant is correct; contains the first failing problem or the comparisons. A
        crash, a timeout, an impossible time and source that does not compile are failures, too.

    Raises
    ------
    Unavailable
        If the variant cannot run here or on `device`.
    CompilationError
        If its source does not contain the kernel.
    TypeError
        If it cannot be sent to another process.
    ValueError
        If the ladder has no variant with which its time can be compared, or if the reference fails
        on the operands or on a problem of ``problems=``.
    """
    if inspect.isroutine(ladder):
        ladder = own_ladder(name_of(ladder), reference=ladder)
    if not isinstance(ladder, Ladder):
        raise TypeError(
            f"ladder must be a routine, a ladder or a function, got {kind_of(ladder)}: for example "
            "ado.check(v, ado.transpose, a) for a variant v and an operand a"
        )
    check_options(ladder, args, options, check)
    if not args and ladder.task.problems:
        args = next(iter(ladder.task.edge_cases((), np.random.default_rng(0))))
    if not ladder.task.core and ladder.keywords is not None:
        try:
            inspect.signature(ladder.task.expected).bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"check needs the operands of {ladder.name}: {error}") from error
    require((Iterable, type(None)), "names of variants", against=against)
    require(Real, "a number", timeout=timeout)
    require_finite(timeout=timeout)
    if not timeout > 0:
        raise ValueError(f"timeout must be positive, got {timeout!r}")
    is_member = isinstance(variant, OwnVariant) and variant.owner is ladder
    whole = extended(ladder, [] if is_member else [variant])
    if is_member:
        whole.replace(variant)  # it can differ from the member of this name
    ours = whole[variant.name] if is_member else whole.variants[-1]
    emulated = device == "emulator"
    names = ladder.name, ours.name
    with Isolation(timeout) if isolated else nullcontext() as isolation:
        facts: dict[str, Any] = {"isolated": isolated}
        used = isolation.ladder(whole) if isolation else whole
        if why := ours.why_unavailable_on(device or ours.device):
            # The compiler does not need a GPU.
            tested = used[ours.name]
            if isinstance(tested, CudaVariant) and (args or ladder.task.core):
                arrays = filter(is_array, args or ladder.task.empty_operands())
                try:
                    tested.compiled(next(arrays).dtype.name)
                except Broken as error:
                    return CheckResult(*names, False, str(error), **facts)
            hint = "; remedy: device='emulator' checks kernels without a GPU"
            can_emulate = not emulated and emulator_hint()
            raise _core.Unavailable(f"{ours.label}: {why}{hint if can_emulate else ''}")
        default = not args and ladder.task.core is not None
        others = [v for v in ladder if v.name != ours.name and not v.ceiling]
        usable = [v for v in others if v.device == ours.device and v.available]
        operands: Sequence[Any] = args
        if default and emulated:
            operands = ladder.task.random_operands(ladder.task.sanitizer.shapes[0])
        elif default:
            operands = _fast_enough(ladder, usable[0].name, seconds, options)
        problem = used.problem(*operands, device=device, variant=ours.name, **options)
        able = [v.name for v in usable if not problem.why_not(v.name)]
        if timed and not emulated and against is None and not is_member and not able:
            raise ValueError(
                f"{ladder.name} must have a variant on {ours.device} that accepts these operands, "
                f"got none to compare with {ours.name}; pass timed=False to check only its results"
            )
        checker = Checker(problem)
        try:
            call = problem.prepare(ours.name)
            facts["refused"] = checker.refused(ours.name)
            if isolated:
                checker.sizes(call)
            if emulated or not timed:
                with all_checks():
                    checker.before(call)
                    checker.after(call)
                return CheckResult(*names, True, **facts)
        except (Missing, UnknownKernel):
            raise
        except ValueError as error:
            return CheckResult(*names, False, str(error), **facts)
        if against is None:
            best = ladder.choose(*operands, device=ours.device, **options).variant
            against = dict.fromkeys([*able[:1], *({best}.intersection(able))])
        runs = {used[name].name: Selected(name) for name in (*against, ours.name)}
        title = f"{ladder.name} on {problem.device_id}, cold"
        with displayed(progress) as display, display.measurement(title):
            timing = Timing("cold", None, seconds)
            timings = measure_ladder(checker, runs, timing, display, ceilings=ceilings)
    if timings.interrupted:
        raise KeyboardInterrupt
    wrong = timings.skipped.get(ours.name, "")
    if not wrong and timings.machine:
        wrong = _impossible(timings[ours.name], timings.machine)
    if wrong:
        return CheckResult(*names, False, wrong, **facts)
    return CheckResult.of_sweep(timings, ours.name, **facts)


def _fast_enough(ladder: Ladder, name: str, seconds: float, options: dict[str, Any]) -> Any:
    """Operands of the default problem, or of a smaller one that allows 11 samples.

    The size grows until the next one would take too long, because a call can take minutes.
    """
    sizes = [tuple(ladder.task.lengths.values())]
    while max(sizes[-1]) > _SMALLEST:
        sizes.append(tuple(max(n // 2, min(n, 2)) for n in sizes[-1]))
    while True:
        size = sizes.pop()
        operands = ladder.task.random_operands(size)
        if not sizes:
            return operands
        call = ladder.problem(*operands, variant=name, **options).prepare(name)
        growth = math.prod(sizes[-1]) / math.prod(size)
        if growth * call.sample(False, 1)[0] * FEWEST_SAMPLES > _OVERTIME * seconds:
            return operands


def _impossible(found: Measurement, machine: Machine) -> str:
    """Why the time of a cold measurement is impossible on a machine; empty if it is possible.

    Compulsory bytes that no cache holds come from DRAM, at most at the bandwidth of the data sheet.
    If it is unknown or a cache holds them, the limit is the fastest measured level. FLOPs do not
    count, because a variant can need fewer.
    """
    levels = machine.of_kind("bandwidth")
    limit = max((c.measured for c in levels), default=math.inf)
    stated = max((c.theoretical or 0.0 for c in levels if c.level == "DRAM"), default=0.0)
    if stated and found.bytes > max(
        found.context.get("cache_bytes", {}).values(), default=math.inf
    ):
        limit = stated
    least = found.bytes / (_MARGIN * limit)
    if found.seconds >= least:
        return ""
    return (
        f"its time of {quantity(found.seconds, 's')} is impossible: {quantity(found.bytes, 'B')} "
        f"take at least {quantity(least, 's')}"
    )
