"""Checks of an own variant: its correctness, and its speed relative to a ladder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adokernels import _core
from adokernels.measuring.emulating import all_checks
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.protocol import sweep
from adokernels.model.checker import Checker
from adokernels.model.ladder import Ladder, check_options
from adokernels.records.checked import CheckResult
from adokernels.text import require


def check(
    variant: Any,
    ladder: Ladder,
    *args: Any,
    device: str | None = None,
    against: Iterable[str] | None = None,
    timed: bool = True,
    seconds: float = 1.0,
    ceilings: bool = True,
    progress: bool | ProgressDisplay = True,
    **options: Any,
) -> CheckResult:
    """Check an own variant: its correctness, then its speed relative to a ladder.

    Output arrays are filled with sentinel bytes before each check. The results are compared with
    the reference on small and odd sizes, on the operands, and after timing with other values.

    Parameters
    ----------
    variant
        A function, or a variant made by :func:`adokernels.variant` or
        :func:`adokernels.cuda_variant`.
    ladder
        The routine that it computes, or an own ladder.
    *args, **options
        Operands and options. Default: random operands of the routine's default problem; on the
        emulator, of a small one.
    device
        ``"emulator"`` checks a kernel without a GPU, with all checks of the emulator, and does not
        time it. Default: the variant's device.
    against
        The variants with which its speed is compared. Default: the first variant on the same
        device, and the variant that a call runs.
    timed
        Whether to time it.
    seconds
        Upper limit of the sampling time per variant.
    ceilings, progress
        See :func:`adokernels.sweep`.

    Returns
    -------
    CheckResult
        It is true if the variant is correct, and contains the first failing problem or the
        comparisons.

    Raises
    ------
    Unavailable
        If the variant cannot run here or on `device`.
    CompilationError
        If its source does not compile.
    """
    if not isinstance(ladder, Ladder):
        raise TypeError(f"ladder must be a routine or a ladder, got {type(ladder).__name__}")
    check_options(ladder, args, options, check)
    require((Iterable, type(None)), "names of variants", against=against)
    extended = ladder.with_variants(variant)
    ours = extended.variants[-1]
    emulated = device == "emulator"
    if reason := ours.why_unavailable_on(device or ours.device):
        raise _core.Unavailable(f"{ours.label}: {reason}")
    if not args and ladder.task.core:
        args = ladder.task.random_operands(ladder.task.sanitizer.shapes[0] if emulated else None)
    problem = extended.problem(*args, device=device, variant=ours.name, **options)
    call = problem.prepare(ours.name)
    if emulated or not timed:
        checker = Checker(extended, problem)
        try:
            with all_checks():
                checker.before(call)
                checker.after(call)
        except ValueError as error:
            return CheckResult(ladder.name, ours.name, False, str(error))
        return CheckResult(ladder.name, ours.name, True)
    if against is None:
        usable = [v for v in ladder if v.device == ours.device and v.available and not v.ceiling]
        others = [v.name for v in usable if not problem.why_not(v.name)]
        best = ladder.choose(*args, device=ours.device, **options).variant if others else None
        against = dict.fromkeys([*others[:1], *([best] if best else [])])
    names = [*against, ours.name]
    common: dict[str, Any] = {"seconds": seconds, "ceilings": ceilings, "progress": progress}
    common["limiter"] = False
    timings = sweep(extended, *args, device=ours.device, variants=names, **common, **options)
    if timings.interrupted:
        raise KeyboardInterrupt
    if ours.name in timings.skipped:
        return CheckResult(ladder.name, ours.name, False, timings.skipped[ours.name])
    return CheckResult(ladder.name, ours.name, True, sweep=timings)
