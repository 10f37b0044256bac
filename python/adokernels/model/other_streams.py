"""Detection of functions that launch work on a stream other than the timed one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.model.libraries import address_range

if TYPE_CHECKING:
    from adokernels.model.guarded import GuardedArray
    from adokernels.model.problem import Call, Values

#: Time for kernels on other streams to finish while the timed stream is blocked.
_WAIT_SECONDS = 0.05


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
    """The addresses of returned arrays; None if they do not have the layout of the results."""
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
