"""Task of ``ado.edge_detect``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import Task
from adokernels.model.tasks._images import BENCHMARK_PROBLEMS, luminance
from adokernels.model.tasks.gaussian_blur import expected as blurred
from adokernels.model.tasks.sobel import expected as gradient


def expected(rgba: Any) -> NDArray[np.uint8]:
    """Apply the filters in sequence; each result is rounded to bytes.

    The luminance has the weights of ``ado.grayscale``, in units of 1/65536. With the exact weights
    of that routine's reference result, it would differ by up to one level and change the edges.
    """
    gray = luminance(rgba, (19585, 38457, 7494), 65536)
    return gradient(blurred(gray))


TASK = Task(expected, benchmark_problems=BENCHMARK_PROBLEMS)
