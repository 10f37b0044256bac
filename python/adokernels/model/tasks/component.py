"""Task of ``ado.component``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SanitizerCases, Task


def expected(points: Any, *, c: int = 0) -> NDArray[Any]:
    """``points[:, c].copy()``."""
    return np.asarray(points)[:, c].copy()


TASK = Task(
    expected,
    lengths={"N": 64 << 20, "C": 3},
    dtype="float32",
    sanitizer=SanitizerCases(
        shapes=(
            *((1, 3), (2, 4), (31, 3), (33, 3), (300, 3), (300, 4)),
            *((1025, 3), (1024, 4), (4099, 3), (1003, 8), (257, 33), (70, 513)),
        ),
        large=(1 << 18, 3),
        dtypes=("u1", "u2", "f4", "f8", "c16"),
        options={"c": (0, 2)},
    ),
    benchmark_problems={"xyz": "--shape 67108864x3", "xyzw": "--shape 67108864x4"},
)
