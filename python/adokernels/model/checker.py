"""The check of a variant's results: red zones, sentinels, and other values in the same memory.

Before timing, the results are filled with sentinel bytes. After a run, they must be within the
task's bound, and the operands and all red zones must be unchanged. After timing, the check is
repeated with other values in the same memory, which detects results that were computed earlier.

The other values and their expected result are computed once per sweep and are the same for all
variants, because each variant sees them only after it was timed. A check leaves its values in the
memory: load the values to be timed afterwards.
"""

from __future__ import annotations

import math
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.model.guarded import GuardedArray, require_host_memory
from adokernels.model.libraries import address_range, library_of, on_host, share_memory
from adokernels.model.problem import Values
from adokernels.model.values import exchanged, is_array, rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adokernels.model.ladder import Ladder
    from adokernels.model.problem import Call, Problem

#: Time for kernels on other streams to finish while the timed stream is blocked.
_WAIT_SECONDS = 0.05
_ELSEWHERE = "it launches work on a stream other than the timed one"


class Checker:
    """Checks the variants of a ladder on the problem on which they are timed.

    Methods raise ValueError if a result is wrong, or if a variant changes other memory or raises an
    exception.
    """

    def __init__(self, ladder: Ladder, problem: Problem) -> None:
        self._ladder, self._problem = ladder, problem
        self._rng = np.random.default_rng()
        arrays = sum(o.nbytes for o in problem.host_arguments if is_array(o))
        results = sum(math.prod(r.shape) * r.dtype.itemsize for r in problem.result_types)
        # Other operands, two expected results, and a temporary copy of a result.
        require_host_memory(arrays + 3 * results, f"checks of {ladder.name}")
        self._first = self._sparse() or problem.values
        self._first.expected  # noqa: B018

    @property
    def sparsified(self) -> bool:
        """Whether checks use sparsified operands, because the reference is too slow."""
        return self._first is not self._problem.values

    def before(self, call: Call) -> float | None:
        """Check a variant before timing; return its error, or None for a ceiling.

        Own variants are also checked on edge cases. The built-in ones have the contract tests.
        """
        if not call.built_in:
            for problem in self._edge_cases:
                if not problem.why_not(call.variant):
                    self._check(problem, call, problem.values, views=True)
        return self._check(self._problem, call, self._first)

    def after(self, call: Call) -> float | None:
        """Check a variant after timing, with other values in the memory that was timed.

        For own variants, two elements of each operand are exchanged first. This detects a variant
        that reuses an earlier result after comparing only some values of the operands. The elements
        differ for each variant, because variants can share the earlier results.
        """
        if not call.built_in:
            self._check(self._problem, call, self._changed(exchanged))
        error = self._check(self._problem, call, self._second)
        if self._is_elsewhere(call):
            raise ValueError(_ELSEWHERE)
        return error

    def peer(self, returned: Any) -> float | None:
        """The error of a result of another function, which must not share memory with an operand.

        It is None if the expected result was computed from sparsified operands.
        """
        if self.sparsified:
            return None
        _require_no_view(returned, self._problem.arguments)
        return self._error(returned, self._problem.values)

    # --- Values -----------------------------------------------------------------------------------

    @cached_property
    def _second(self) -> Values:
        """The values with which variants are checked after timing."""
        return self._sparse() or self._changed(rotated)

    def _sparse(self) -> Values | None:
        """A random sample of the terms, or None if the reference is fast enough for all of them."""
        problem, sparsify = self._problem, self._problem.task.sparsified
        operands = sparsify(*problem.host_arguments, **problem.options) if sparsify else None
        return Values(problem.task, operands, problem.options) if operands else None

    def _changed(self, change: Callable[[Any, np.random.Generator], Any]) -> Values:
        """A changed copy of the first values."""
        problem, base = self._problem, self._first.operands
        operands = []
        for array, guarded in zip(base, problem.guarded_operands, strict=True):
            other = change(array, self._rng) if is_array(array) else array
            if isinstance(guarded, GuardedArray) and guarded.shares_elements:
                other = guarded.copy_with_layout(other)
            operands.append(other)
        return Values(problem.task, operands, problem.options)

    @cached_property
    def _edge_cases(self) -> list[Problem]:
        """Problems of other sizes, without those that the reference rejects."""
        found, own = [], self._problem
        for operands in own.task.edge_cases(own.host_arguments, self._rng):
            try:
                problem = self._ladder.problem(*operands, device=own.device_id, **own.options)
                problem.values.expected  # noqa: B018
            except (ValueError, IndexError, TypeError):
                continue
            found.append(problem)
        return found

    # --- One check --------------------------------------------------------------------------------

    def _check(
        self, problem: Problem, call: Call, values: Values, *, views: bool = False
    ) -> float | None:
        """The error of a variant's results; every failure is raised as ValueError."""
        try:
            if call.problem is not problem:
                call = problem.prepare(call.variant, call.block if call.block else None)
            try:
                return self._run(call, values, views)
            except ValueError as error:
                # If nothing waits for the other stream, results are read before they are computed.
                if _is_wrong(error) and self._is_elsewhere(call):
                    raise ValueError(f"wrong result: {_ELSEWHERE}") from error
                raise
        except MemoryError:
            raise
        except Exception as error:  # any error of the user's code
            text = str(error)
            if not _is_wrong(error):
                text = f"it fails with {type(error).__name__}: {text}"
            raise ValueError(f"{text} ({problem})") from error

    def _run(self, call: Call, values: Values, views: bool) -> float | None:
        problem = call.problem
        ceiling = self._ladder[call.variant].ceiling
        problem.load(values)
        try:
            problem.poison()
            returned, error = call.run(), None
            if not ceiling:
                error = self._error(problem.results() if returned is None else returned, values)
            if returned is not None and not views:
                arrays = (g.memory for g in problem.guarded_operands if isinstance(g, GuardedArray))
                _require_no_view(returned, list(arrays))
            problem.require_intact(values, results=ceiling or returned is not None)
        except BaseException:
            problem.forget()
            raise
        return error

    def _error(self, returned: Any, values: Values) -> float:
        """The error of results, which can be arrays of any library."""
        for array in returned if isinstance(returned, tuple) else (returned,):
            if library_of(array) is None and not np.isscalar(array):
                raise ValueError(f"wrong result: it returns a {type(array).__name__}, not an array")
        several = isinstance(returned, tuple)
        result = tuple(map(on_host, returned)) if several else on_host(returned)
        return self._problem.task.check(result, values.expected, values.unit)

    def _is_elsewhere(self, call: Call) -> bool:
        """Whether a function on a GPU computes its results on another stream.

        Sparsified operands are not tested, because the expected result of rotated values would take
        too long.
        """
        if not call.selects_stream or (call.problem is self._problem and self.sparsified):
            return False
        problem = call.problem
        changed = [rotated(o, self._rng) if is_array(o) else o for o in problem.host_arguments]
        return runs_on_another_stream(call, Values(problem.task, changed, problem.options))


def runs_on_another_stream(call: Call, values: Values) -> bool:
    """Whether a call writes correct results while the timed stream is blocked.

    If so, the time between two events on the timed stream is not the time of the work. `values`
    must be new, so that results of earlier calls are wrong. If the function waits for the device,
    the stream is released after 250 ms, and the function returns False.
    """
    problem = call.problem
    # The copies to the device are made before the stream is blocked, because they wait for it.
    problem.load(values)
    problem.poison()
    _core.synchronize()
    try:
        with _core.BlockedStream(0) as blocked:
            returned = call.run()
            time.sleep(_WAIT_SECONDS)
            if returned is None:
                returned = tuple(result.memory for result in problem.guarded_results)
            arrays = returned if isinstance(returned, tuple) else (returned,)
            pointers = _pointers(arrays, problem.guarded_results)
            if pointers is None:
                return False
            found = tuple(
                np.frombuffer(blocked.copy(pointer, r.nbytes), r.dtype).reshape(r.shape)
                for pointer, r in zip(pointers, problem.guarded_results, strict=True)
            )
            if not blocked.still_blocked:
                return False
    finally:
        problem.forget()
    try:
        problem.task.check(found, values.expected, values.unit)
    except ValueError:
        return False
    return True


def _pointers(arrays: Sequence[Any], results: Sequence[GuardedArray]) -> list[int] | None:
    """The addresses of returned arrays, or None if they do not have the layout of the results."""
    if len(arrays) != len(results):
        return None
    pointers = []
    for array, result in zip(arrays, results, strict=True):
        facts = getattr(array, "__cuda_array_interface__", None)
        low, high = address_range(array)
        if facts is None or tuple(facts["shape"]) != result.shape or high - low != result.nbytes:
            return None
        pointers.append(facts["data"][0])
    return pointers


def _require_no_view(returned: Any, operands: Sequence[Any]) -> None:
    """Raise ValueError if a result shares memory with an operand: returning a view does no work."""
    for array in returned if isinstance(returned, tuple) else (returned,):
        if any(share_memory(array, operand) for operand in operands):
            raise ValueError("wrong result: it returns a view of an operand, not data")


def _is_wrong(error: Exception) -> bool:
    return isinstance(error, ValueError) and str(error).startswith("wrong result")
