"""Task of ``ado.transpose``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SMALL_SHAPES, SanitizerCases, Task


def expected(a: Any) -> NDArray[Any]:
    """``out[col, row] = a[row, col]``."""
    a = np.asarray(a)
    # Copies plain bytes, because NumPy does not copy the padding inside structures.
    raw = a.view(f"V{a.dtype.itemsize}") if a.dtype.names and a.size else a
    return np.array(raw.T, order="C", copy=True).view(a.dtype)


TASK = Task(
    expected,
    lengths={"rows": 8192, "cols": 8192},
    dtype="float32",
    sanitizer=SanitizerCases(
        # Three larger shapes, with interior tiles and with aligned rows.
        shapes=(*SMALL_SHAPES, (160, 192), (144, 160), (131, 261)),
        dtypes=("u1", "u2", "f4", "f8", "c16"),
        in_place=((129, 129), (160, 160)),
    ),
    benchmark_problems={
        "int64-8192": "--shape 8192x8192 --dtype int64",
        "float32-8192": "--shape 8192x8192 --dtype float32",
        "float32-odd": "--shape 8191x8193 --dtype float32",
    },
)
