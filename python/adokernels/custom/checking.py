"""Checks of custom variants: on the timed problem, on edge-case sizes, and with other values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from adokernels.custom.problem import CustomCall, CustomProblem
from adokernels.custom.streams import runs_on_another_stream
from adokernels.records.inputs import Inputs

_ELSEWHERE = "it launches work on a stream other than the timed one"


class CustomChecker:
    """Checks the variants of a custom ladder.

    Parameters
    ----------
    problem
        The problem on which results are checked: the timed one, or a sparsified one of the same
        size.
    others
        Returns operands of further problems.
    rotate
        Whether the check after timing ends with rotated values.
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
        """Check the results of a variant on all problems; return its error on the timed one.

        Raises
        ------
        ValueError
            If a result is wrong, or the variant raises an exception.
        """
        for other in self._others:
            if not other.why_not(call.variant):
                self._checked(other, call)
        return self._checked(self._problem, call, views=False)

    def after(self, call: CustomCall) -> float:
        """Check its results on the timed problem again, with other values in the same memory.

        First, only two elements of each operand are exchanged. This detects a variant that reuses
        an earlier result after comparing only some values of the operands. Then all elements are
        rotated, unless the operands are sparsified: the reference would be too slow.
        """
        self._problem.alter()
        error = self._checked(self._problem, call, views=False)
        if not self._rotate:
            return error
        self._problem.refresh()
        error = self._checked(self._problem, call, views=False)
        if self._is_elsewhere(call):
            raise ValueError(_ELSEWHERE)
        return error

    def peer(self, returned: Any) -> float | None:
        """The error of a result that another function returned."""
        self._problem.require_no_view(returned)
        return self._problem.compare(returned)

    def _like(self, operands: tuple[Any, ...]) -> CustomProblem | None:
        """The problem with these operands; None if the reference rejects them."""
        try:
            return self._problem.like(operands)
        except (ValueError, IndexError, TypeError):
            return None

    def _checked(self, problem: CustomProblem, call: CustomCall, *, views: bool = True) -> float:
        """The error of a variant's results on a problem; every failure is raised as ValueError."""
        where = Inputs.of(problem.operands, problem.options)
        try:
            if call.problem is not problem:
                call = problem.prepare(call.variant, call.block)
            try:
                return problem.check(call, views=views)
            except ValueError as error:
                # If nothing waits for the other stream, results are read before they are computed.
                if _is_wrong(error) and self._is_elsewhere(call):
                    raise ValueError(f"wrong result: {_ELSEWHERE}") from error
                raise
        except Exception as error:  # any error of the user's code
            text = str(error)
            if not _is_wrong(error):
                text = f"it fails with {type(error).__name__}: {text}"
            raise ValueError(f"{text} ({where})") from error

    def _is_elsewhere(self, call: CustomCall) -> bool:
        """Return whether a function computes its results on another stream.

        Sparsified operands are not tested: the test rotates their values, and the reference for
        rotated values would take too long.
        """
        function_on_gpu = call.device == "cuda" and call.block is None
        sparsified = call.problem is self._problem and not self._rotate
        return function_on_gpu and not sparsified and runs_on_another_stream(call)


def _is_wrong(error: Exception) -> bool:
    return isinstance(error, ValueError) and str(error).startswith("wrong result")
