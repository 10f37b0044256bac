"""Checks of custom variants: on the timed problem, on hostile sizes, and with fresh values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from adokernels.custom.problem import CustomCall, CustomProblem
from adokernels.custom.streams import runs_on_another_stream
from adokernels.measuring.problem import Problem


class CustomChecker:
    """Checks the variants of a custom ladder.

    Parameters
    ----------
    problem
        The problem to check results on: the timed one, or a sparsified one of the same size.
    others
        Returns operands of further problems.
    rotate
        Whether the last check uses rotated values.
    """

    def __init__(
        self,
        problem: CustomProblem,
        others: Callable[[], Iterable[tuple[Any, ...]]],
        *,
        rotate: bool = True,
    ) -> None:
        self._problem, self._rotate = problem, rotate
        self._others = [p for p in map(self._like, others()) if p is not None]

    def before(self, call: CustomCall) -> float:
        """Compare the results of a variant on all problems; return its error on the timed one.

        Raises
        ------
        ValueError
            If a result is wrong, or the variant fails.
        """
        for other in self._others:
            if not other.why_not(call.variant):
                _checked(other, call)
        return _checked(self._problem, call, views=False)

    def after(self, call: CustomCall) -> float:
        """Compare its results on the timed problem again, with other values in the same memory.

        First only two elements of each operand differ, so that a result that the variant has kept
        is wrong even if it compares some of the operands' values. Then all elements are rotated,
        unless the operands are sparsified.
        """
        self._problem.alter()
        error = _checked(self._problem, call, views=False)
        if self._rotate:
            self._problem.refresh()
            error = _checked(self._problem, call, views=False)
        function_on_gpu = call.device == "cuda" and call.block is None
        if function_on_gpu and runs_on_another_stream(call):
            raise ValueError("it launches its work on another stream than the one that is timed")
        return error

    def peer(self, returned: Any) -> float | None:
        """The error of a result that another function returned."""
        self._problem.require_no_view(returned)
        return self._problem.compare(returned)

    def _like(self, operands: tuple[Any, ...]) -> CustomProblem | None:
        """The problem of these operands; None if the reference refuses them."""
        try:
            return self._problem.like(operands)
        except (ValueError, IndexError, TypeError):
            return None


def _checked(problem: CustomProblem, call: CustomCall, *, views: bool = True) -> float:
    """The error of a variant's results on a problem; any failure is a ValueError."""
    where = Problem.of(problem.operands, problem.options)
    try:
        if call.problem is not problem:
            call = problem.prepare(call.variant, call.block)
        return problem.check(call, views=views)
    except Exception as error:  # any error of the user's code
        text = str(error)
        if not (isinstance(error, ValueError) and text.startswith("wrong result")):
            text = f"it fails with {type(error).__name__}: {text}"
        raise ValueError(f"{text} ({where})") from error
