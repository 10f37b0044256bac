"""The check of a variant's results: red zones, sentinels, and other values in the same memory.

Before timing, the results are filled with sentinel bytes. After a run, they must be within the
task's bound, and the operands and all red zones must be unchanged. After timing, the check is
repeated with other values in the same memory, which detects results that were computed earlier.

The other values and their expected result are computed once per sweep and are the same for all
variants, because each variant sees them only after it was timed. A check leaves its values in the
memory: load the values to be timed afterwards.

If the reference is too slow for the whole result, a random part of it is checked: the task's spot
check. The operands are always the ones that are timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.model.guarded import GuardedArray, require_host_memory
from adokernels.model.libraries import address_range, require_no_view, result_on_host
from adokernels.model.problem import Block, Broken, Call, Problem, Values, changed_values
from adokernels.model.values import Errors, as_tuple, is_array, rotated
from adokernels.text import failure

#: Time for kernels on other streams to finish while the timed stream is blocked.
_WAIT_SECONDS = 0.05
ELSEWHERE = "it launches work on a stream other than the timed one"


class Checker:
    """Checks the variants of a ladder on the problem on which they are timed.

    Methods raise ValueError if a result is wrong, or if a variant changes other memory or raises an
    exception. For an own ladder, errors of the reference and of ``problems=`` are raised at once,
    so that they are not attributed to a variant.
    """

    def __init__(self, problem: Problem) -> None:
        self.ladder, self.problem = problem.ladder, problem
        #: The variants that were checked on edge cases, with their block shapes.
        self.sized = set[tuple[str, Block | None]]()
        self._rng = np.random.default_rng()
        self._rejected: list[str] = []  # drawn problems that the reference rejects
        try:
            types = problem.result_types
        except Exception as error:  # raised by the reference of an own ladder
            raise _of_reference(error, problem.ladder.name, str(problem)) from error
        arrays = sum(o.nbytes for o in problem.host_arguments if is_array(o))
        results = sum(math.prod(r.shape) * r.dtype.itemsize for r in types)
        # Other operands, two expected results, and a temporary copy of a result. An expected result
        # in higher precision takes twice the memory.
        copies = 7 if problem.task.exact and not problem.task.spot_check else 3
        require_host_memory(arrays + copies * results, f"checks of {problem.ladder.name}")
        if not problem.task.core:
            _ = self._edge_cases

    def before(self, call: Call) -> Errors | None:
        """Check a variant before timing; return its errors, or None for a ceiling.

        Own variants are first checked on edge cases. The built-in ones have the contract tests.
        """
        if not call.built_in and (call.variant, call.block) not in self.sized:
            self.sizes(call)
        return self._check(self.problem, call, self.problem.values)

    def sizes(self, call: Call) -> None:
        """Check an own variant on edge cases, before the reference of the large problem runs."""
        for problem in self._edge_cases:
            if not problem.why_not(call.variant):
                self._check(problem, call, problem.values, views=True)
        self.sized.add((call.variant, call.block))

    def refused(self, variant: str) -> tuple[str, ...]:
        """The edge cases that a variant or the reference refuses, with its reasons."""
        reasons = ((problem, problem.why_not(variant)) for problem in self._edge_cases)
        refused = tuple(f"{problem}: {reason}" for problem, reason in reasons if reason)
        return (*refused, *self._rejected)

    def after(self, call: Call) -> Errors | None:
        """Check a variant after timing, with other values in the memory that was timed."""
        error = self._check(self.problem, call, self._second)
        if self._is_elsewhere(call):
            raise ValueError(ELSEWHERE)
        call.conclude()
        return error

    def peer(self, returned: Any) -> Errors | None:
        """The errors of a result of another function, which must not share memory with an operand.

        They are None if the check needs results for other operands, which a peer cannot compute.
        """
        values = self.problem.values
        if len(values.runs) > 1:
            return None
        require_no_view(returned, self.problem.arguments)
        return values.check(result_on_host(returned))

    # --- Values -----------------------------------------------------------------------------------

    @cached_property
    def _second(self) -> Values:
        """The values with which variants are checked after timing."""
        return changed_values(self.problem, lambda array: rotated(array, self._rng))

    @cached_property
    def _edge_cases(self) -> list[Problem]:
        """Problems of other sizes, without drawn ones that the reference rejects."""
        found, own = [], self.problem
        cases = own.task.edge_cases(own.host_arguments, self._rng)
        for i, operands in enumerate(cases, 1):
            try:
                problem = self.ladder.problem(*operands, device=own.device_id, **own.options)
                problem.values.expected  # noqa: B018
            except Exception as error:  # raised by the reference
                shapes = "shapes " + ", ".join(str(np.shape(o)) for o in operands)
                if own.task.problems:
                    where = f"problem {i} of problems=, {shapes}"
                    raise _of_reference(error, self.ladder.name, where) from error
                self._rejected.append(f"{shapes}: the reference {_fails(error)}")
                continue
            found.append(problem)
        return found

    # --- One check --------------------------------------------------------------------------------

    def _check(
        self, problem: Problem, call: Call, values: Values, *, views: bool = False
    ) -> Errors | None:
        """The errors of a variant's results; every failure is raised as ValueError."""
        try:
            if call.problem is not problem:
                call = problem.prepare(call.variant, call.block or None)
            results: list[Any] = []
            try:
                results += (call.computed(each, views=views) for each in values.runs)
                return None if self.ladder[call.variant].ceiling else values.check(*results)
            except ValueError as error:
                # If nothing waits for the other stream, results are read before they are computed.
                if _is_wrong(error) and self._is_elsewhere(call):
                    raise ValueError(f"wrong result: {ELSEWHERE}") from error
                if results and (words := self._not_written(call, values.runs[0], results[0])):
                    text = str(error).removeprefix("wrong result: ")
                    raise ValueError(f"wrong result: {words}; {text}") from error
                raise
        except MemoryError:
            raise
        except Exception as error:  # any error of the user's code
            task, pairs = problem.task, zip(problem.names, problem.host_arguments, strict=True)
            strided = [n for n, o in pairs if is_array(o) and not o.flags.c_contiguous]
            strides = f"; not contiguous: {', '.join(strided)}" if strided else ""
            drawn = problem is not self.problem and not (task.core or task.problems)
            hint = "; a drawn size: problems= or refuses= limits the sizes" if drawn else ""
            raise ValueError(f"{reason(error)} ({problem}{strides}{hint})") from error

    def _not_written(self, call: Call, values: Values, result: Any) -> str:
        """Describe the elements that a variant does not write; empty if there are none.

        These elements keep the sentinel bytes in two runs with different sentinels. One run is not
        enough, because a variant can compute the value of one sentinel.
        """
        memory = call.memory
        first = [
            _kept(*pair) for pair in zip(as_tuple(result), memory.guarded_results, strict=False)
        ]
        if not any(map(np.any, first)):
            return ""
        try:
            memory.change_sentinels()
            second = as_tuple(call.computed(values, views=True))
            kept = [_kept(*pair) for pair in zip(second, memory.guarded_results, strict=False)]
        except Exception:  # the variant fails at random
            return ""
        finally:
            memory.change_sentinels()
        words: list[str] = []
        for i, (a, b) in enumerate(zip(first, kept, strict=False)):
            places = np.argwhere(a & b if a.shape == b.shape else np.zeros(0, bool))
            if len(places):
                name = f"result {i + 1}" if len(first) > 1 else "the result"
                index = ", ".join(map(str, places[0]))
                count = f"{len(places)} of {a.size} elements of {name}"
                verb = "was" if len(places) == 1 else "were"
                one = f"{count} {verb} not written, the first at [{index}]"
                words.append(f"{name} was never written" if len(places) == a.size else one)
        return "; ".join(words)

    def _is_elsewhere(self, call: Call) -> bool:
        """Whether a function on a GPU computes its results on another stream."""
        if not call.selects_stream:
            return False
        problem = call.problem
        problem.load(changed_values(problem, lambda array: rotated(array, self._rng)))
        problem.poison()
        try:
            return computes_early(call.run, problem.guarded_results)
        finally:
            problem.forget()


def _kept(array: NDArray[Any], memory: GuardedArray) -> NDArray[np.bool_]:
    """Whether each element of a result has the sentinel bytes of the memory for the result."""
    elements = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = (elements == memory.poison_byte).reshape(*array.shape, array.dtype.itemsize)
    return np.asarray(whole.all(axis=-1))


def computes_early(run: Callable[[], Any], results: Sequence[Any]) -> bool:
    """Whether a function writes its results while the timed stream is blocked.

    `results` have the memory that functions use (``memory``), its shape and its number of bytes.
    If so, the time between two events on the timed stream is not the time of the work. The operands
    must be new, and copied to the device before. If the function waits for the device, the stream
    is released after 250 ms, and the function returns False.
    """
    _core.synchronize()
    with _core.BlockedStream(0) as blocked:
        returned = run()
        time.sleep(_WAIT_SECONDS)
        if returned is None:
            returned = tuple(result.memory for result in results)
        pointers = _pointers(returned if isinstance(returned, tuple) else (returned,), results)
        if pointers is None:
            return False
        places = [(pointer, r.nbytes) for pointer, r in zip(pointers, results, strict=True)]
        early = [blocked.copy(*place) for place in places]
        if not blocked.still_blocked:
            return False
    _core.synchronize()
    with _core.BlockedStream(0) as blocked:
        return early == [blocked.copy(*place) for place in places]


def _pointers(arrays: Sequence[Any], results: Sequence[Any]) -> list[int] | None:
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


def reason(error: Exception) -> str:
    """Describe a failed check, or an error of the user's code."""
    described = _is_wrong(error) or isinstance(error, Broken)
    return str(error) if described else failure(error)


def _of_reference(error: Exception, ladder: str, where: str) -> Exception:
    """The error to raise if the reference of a ladder fails on operands that the user gave."""
    if isinstance(error, MemoryError):
        return error
    return ValueError(f"the reference of {ladder} {_fails(error)} ({where})")


def _fails(error: Exception) -> str:
    return failure(error).removeprefix("it ")


def _is_wrong(error: Exception) -> bool:
    return isinstance(error, ValueError) and str(error).startswith("wrong result")
