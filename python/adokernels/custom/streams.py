"""Detection of functions that launch work on a stream other than the timed one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.arrays.libraries import address_range

if TYPE_CHECKING:
    from adokernels.custom.memory import GuardedArray
    from adokernels.custom.problem import CustomCall

#: Time for kernels on other streams to finish while the timed stream is blocked.
_WAIT_SECONDS = 0.05


def runs_on_another_stream(call: CustomCall) -> bool:
    """Whether a call writes correct results while the timed stream is blocked.

    If so, the time between two events on the timed stream is not the time of the work. The values
    of the operands are replaced first, so that results of earlier calls are wrong. If the function
    waits for the device, the stream is released after 250 ms, and the function returns False.
    """
    problem = call.problem
    problem.refresh()
    # Fill the results before the stream is blocked, because copies to the device wait for it.
    problem.poison()
    _core.synchronize()
    with _core.BlockedStream(0) as blocked:
        arrays = problem.launch(call)
        time.sleep(_WAIT_SECONDS)
        pointers = _pointers(arrays, problem.guarded_results)
        if pointers is None:
            return False
        found = tuple(
            np.frombuffer(blocked.copy(pointer, result.nbytes), result.dtype).reshape(result.shape)
            for pointer, result in zip(pointers, problem.guarded_results, strict=True)
        )
        if not blocked.still_blocked:
            return False
    try:
        problem.compare(found if isinstance(problem.expected, tuple) else found[0])
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
