"""Task of ``ado.grayscale``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import Task
from adokernels.model.tasks._images import BENCHMARK_PROBLEMS, luminance


def expected(rgba: Any) -> NDArray[np.uint8]:
    """``(298839 R + 586811 G + 114350 B) // 1000000``, exactly."""
    return luminance(rgba, (298839, 586811, 114350), 1_000_000)


TASK = Task(expected, tolerance=1, benchmark_problems=BENCHMARK_PROBLEMS)
