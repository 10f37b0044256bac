"""The check that a function launches its work on the stream that is timed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from adokernels import _core
from adokernels.tasks import as_tuple

if TYPE_CHECKING:
    from adokernels.custom.problem import CustomCall

#: Kernels of other streams have this time to finish while the timed stream is blocked.
_WAIT_SECONDS = 0.05


def runs_on_another_stream(call: CustomCall) -> bool:
    """Whether the results of a call appear although the timed stream is blocked.

    The time between two events on the timed stream is then not the time of the work. The operands
    are replaced first, so that results of earlier calls do not count. If the function waits for the
    device, the block ends after 250 ms, and the answer is no.
    """
    problem = call.problem
    problem.refresh()
    with _core.BlockedStream(0) as blocked:
        arrays = problem.launch(call)
        time.sleep(_WAIT_SECONDS)
        memory = [
            blocked.copy(array.__cuda_array_interface__["data"][0], expected.nbytes)
            for array, expected in zip(arrays, as_tuple(problem.expected), strict=True)
        ]
        if not blocked.still_blocked:
            return False
    found = tuple(
        np.frombuffer(each, expected.dtype).reshape(expected.shape)
        for each, expected in zip(memory, as_tuple(problem.expected), strict=True)
    )
    try:
        problem.compare(found if isinstance(problem.expected, tuple) else found[0])
    except ValueError:
        return False
    return True
