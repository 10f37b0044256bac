"""Task of ``ado.strided_copy``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SanitizerCases, Task


def expected(x: Any, *, stride: int = 2, offset: int = 0) -> NDArray[Any]:
    """``x[offset::stride].copy()``."""
    return np.asarray(x)[offset::stride].copy()


TASK = Task(
    expected,
    lengths={"N": 64 << 20},
    dtype="float32",
    sanitizer=SanitizerCases(
        shapes=((1,), (2,), (33,), (300,), (1025,), (4099,), (20_001,)),
        large=(1 << 20,),
        dtypes=("u1", "u2", "f4", "f8", "c16"),
        options={"stride": (1, 2, 3, 8, 32, 700), "offset": (0, 1, 5, 1100)},
    ),
    benchmark_problems={
        "stride2": "--shape 67108864 --set stride=2",
        "stride32": "--shape 67108864 --set stride=32",
    },
)
