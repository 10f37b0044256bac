"""Make one call of a case, and check what it does."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from cases import Case, packed_copies

import adokernels as ado
from adokernels import _core
from adokernels.model.tasks import TASKS

#: Errors of keywords that all routines have; they do not depend on the routine.
KEYWORDS = r"(variant|device|block) (must|is not valid)"


class Wrong(Exception):
    """A call that did not do what it must."""


def check(case: Case) -> str:
    """Return "result" or "error"; raise Wrong if the call did neither correctly."""
    copies = packed_copies(case) if case.compare else []
    try:
        with np.errstate(all="ignore"):
            given = case.routine(*case.arguments, **case.keywords)
    except Exception as error:
        check_error(case, error)
        if not case.shared_out:
            require_untouched(case, "raised")
        return "error"
    if case.errors:
        raise Wrong(f"no error, expected {' or '.join(e.__name__ for e in case.errors)}")
    check_result(case, given, copies)
    return "result"


def check_error(case: Case, error: Exception) -> None:
    kinds = (*case.errors, *((ValueError, TypeError) if case.may_fail and not case.errors else ()))
    if kinds:
        # Any of several faults of a call may be reported: a change, or operands without a result.
        if not isinstance(error, kinds) and str(error) != reason_of_operands(case):
            raise Wrong(f"{error!r}, expected {[k.__name__ for k in kinds]}") from error
    elif not case.compare and str(error).endswith("]: out is not packed"):
        pass  # a ceiling, which copies bytes
    elif str(error) != reason_of(case):
        raise Wrong(f"{error!r} for a valid call") from error
    if isinstance(error, KeyError | MemoryError | ado.Unavailable):
        return
    name = rf"{case.routine.name}(\[\w+\])?"
    if not re.match(rf"{name}(: |\(\) | has no option )|{KEYWORDS}", str(error)):
        raise Wrong(f"message without the name of the routine: {error!r}") from error


def reason_of(case: Case) -> str:
    """The message of the error that the call must raise, if it is valid but cannot be computed."""
    routine, variant = case.routine, case.keywords.get("variant")
    if reason := reason_of_operands(case):
        return reason
    if variant is None:
        return ""
    operands = [operand.array for operand in case.operands]
    problem = routine.problem(*operands, variant=variant, **case.options)
    return f"{routine.name}[{variant}]: {problem.why_not(variant)}"


def reason_of_operands(case: Case) -> str:
    """The message of the error that operands and options cause for every variant, or ""."""
    try:
        case.routine.problem(*packed_copies(case), device="cpu", **case.options)
    except (ValueError, TypeError) as error:
        return str(error)
    return ""


def check_result(case: Case, given: Any, copies: list[Any]) -> None:
    out = case.keywords.get("out")
    for result, passed in zip(as_given(given), as_given(out), strict=False):
        if passed is not None and result is not passed:
            raise Wrong("the call did not return out")
    if case.compare:
        compare(case, given, copies)
    if case.outs:
        for operand, initial in zip(case.outs, case.initial, strict=True):
            if not operand.only_elements_changed(initial):
                raise Wrong("memory outside of out was written")
    if not case.shared_out:
        require_untouched(case, "wrote", outs=False)


def as_given(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def compare(case: Case, given: Any, copies: list[Any]) -> None:
    task = TASKS[case.routine.name]
    with np.errstate(all="ignore"):
        expected = task.expected(*copies, **case.options)
        unit = task.error_unit(*copies, **case.options) if task.error_unit else None
    results = tuple(np.array(r, order="C") for r in as_given(given))
    try:
        task.check(results if isinstance(expected, tuple) else results[0], expected, unit)
    except ValueError as error:
        raise Wrong(str(error)) from error


def require_untouched(case: Case, did: str, *, outs: bool = True) -> None:
    if not all(operand.unchanged() for operand in case.operands):
        raise Wrong(f"the call {did} and changed an operand")
    if outs and not all(operand.unchanged() for operand in case.outs):
        raise Wrong(f"the call {did} and changed out")


def run(case: Case) -> str:
    """Set instruction set and threads, make the call and check it."""
    ado.settings.isa = case.isa
    _core.set_max_threads(case.threads, at_any_size=True)
    return check(case)
