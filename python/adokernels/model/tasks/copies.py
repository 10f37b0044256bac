"""Tasks of the routines that copy elements: reference results by NumPy's indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SMALL_SHAPES, SanitizerCases, Task


def transpose(a: Any) -> NDArray[Any]:
    """``out[col, row] = a[row, col]``."""
    a = np.asarray(a)
    # Copies plain bytes, because NumPy does not copy the padding inside structures.
    raw = a.view(f"V{a.dtype.itemsize}") if a.dtype.names and a.size else a
    return np.array(raw.T, order="C", copy=True).view(a.dtype)


def strided_copy(x: Any, *, stride: int = 2, offset: int = 0) -> NDArray[Any]:
    """``x[offset::stride].copy()``."""
    return np.asarray(x)[offset::stride].copy()


def gather(x: Any, index: Any) -> NDArray[Any]:
    """``x[index]``; indices outside x select the first or the last element."""
    return np.take(np.asarray(x), np.asarray(index), mode="clip")


def within(x: NDArray[Any], index: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Operands with every index inside x, uniformly distributed."""
    return x, index % max(len(x), 1)


def component(points: Any, *, c: int = 0) -> NDArray[Any]:
    """``points[:, c].copy()``."""
    return np.asarray(points)[:, c].copy()


TASKS = {
    "transpose": Task(
        transpose,
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
    ),
    "strided_copy": Task(
        strided_copy,
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
    ),
    "gather": Task(
        gather,
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
    ),
    "component": Task(
        component,
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
    ),
}
