"""Checks of custom variants: on the timed problem, on hostile sizes, and with fresh values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from adokernels.custom.problem import CustomCall, CustomProblem
from adokernels.custom.streams import runs_on_another_stream
from adokernels.measuring.problem import Problem


class CustomChecker:
    """Checks the variants of a custom ladder.

    Attributes
    ----------
    checked : list of str
        The problems on which results were compared, as text.
    """

    def __init__(
        self, problem: CustomProblem, others: Callable[[], Iterable[tuple[Any, ...]]]
    ) -> None:
        self._problem = problem
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
                _checked(other, other.prepare(call.variant, call.block))
        return _checked(self._problem, call, views=False)

    def after(self, call: CustomCall) -> float:
        """Compare its results on the timed problem again, with other values in the same memory.

        First only two elements of each operand differ, so that a result that the variant has kept
        is wrong even if it compares some of the operands' values.
        """
        self._problem.alter()
        _checked(self._problem, call, views=False)
        self._problem.refresh()
        error = _checked(self._problem, call, views=False)
        function_on_gpu = call.device == "cuda" and call.block is None
        if function_on_gpu and runs_on_another_stream(self._problem, call):
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
    where = Problem.of(problem.operands, problem.options)
    try:
        return problem.check(call, views=views)
    except ValueError as error:
        text = str(error)
        if not text.startswith("wrong result"):
            text = f"it fails with ValueError: {text}"
        raise ValueError(f"{text} ({where})") from error
    except Exception as error:  # any error of the user's function
        raise ValueError(f"it fails with {type(error).__name__}: {error} ({where})") from error
