"""Task of ``ado.gather``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SanitizerCases, Task


def expected(x: Any, index: Any) -> NDArray[Any]:
    """``x[index]``; indices outside x select the first or the last element."""
    return np.take(np.asarray(x), np.asarray(index), mode="clip")


def within(x: NDArray[Any], index: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Operands with every index inside x, uniformly distributed."""
    return x, index % max(len(x), 1)


TASK = Task(
    expected,
    lengths={"N": 16 << 20, "M": 16 << 20},
    dtype="float32",
    adjusted=within,
    sanitizer=SanitizerCases(
        shapes=(
            *((1, 1), (33, 31), (5, 300), (300, 5), (1025, 4099)),
            *((1, 1024), (4099, 1025), (20_000, 1003)),
        ),
        large=(1 << 16, 1 << 20),
        # Indices are int32 if the elements are, otherwise int64.
        dtypes=("u1", "u2", "i4", "f4", "i8", "c16"),
    ),
    benchmark_problems={"random": "--shape 67108864x67108864"},
)
