"""Task of ``ado.max_plus``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.comparison import SAME_VALUES
from adokernels.model.task import SanitizerCases, Task


def expected(big: Any, small: Any) -> NDArray[Any]:
    """``maximum(0, (big + small[:, None]).max(axis=0))``; NaN propagates, and a zero is +0."""
    big, small = np.asarray(big), np.asarray(small)
    best = np.zeros(big.shape[1], big.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        for row, term in zip(big, small, strict=True):
            np.maximum(best, row + term, out=best)
    return np.asarray(best + best.dtype.type(0))


TASK = Task(
    expected,
    tolerance=SAME_VALUES,
    lengths={"K": 64, "P": 256 * 1024},
    dtype="float64",
    sanitizer=SanitizerCases(
        shapes=(
            *((0, 3), (1, 1), (3, 33), (64, 130)),
            *((17, 1025), (65, 1024), (1000, 3), (4097, 1)),
        ),
        large=(64, 20001),
        dtypes=("f4", "f8"),
    ),
    benchmark_problems={
        "float64": "--shape 64x4194304 --seconds 1",
        "float32": "--shape 64x8388608 --dtype float32",
    },
)
