"""Tasks of ``ado.average_matvec`` and ``ado.max_plus``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SanitizerCases, Task
from adokernels.model.values import SAME_VALUES, narrowed


def average_matvec(vectors: Any, matrix: Any) -> NDArray[Any]:
    """``matrix @ vectors.mean(axis=2).T`` in the next higher precision."""
    vectors = np.asarray(vectors)
    with np.errstate(all="ignore"):
        averages = _averages(vectors, lambda some: some)
        return np.asarray(np.asarray(matrix).astype(averages.dtype) @ averages.T)


def average_matvec_unit(vectors: Any, matrix: Any) -> NDArray[Any]:
    """Allowed error of each element: L + 32 roundings of the sum of its terms' magnitudes.

    For averages that underflow, it is the same number of roundings of the smallest subnormal.
    """
    vectors, magnitudes = np.asarray(vectors), np.abs(np.asarray(matrix))
    kind = np.finfo(vectors.dtype)
    with np.errstate(all="ignore"):
        averages = _averages(vectors, np.abs)
        wide = magnitudes.astype(averages.dtype)
        rounding = float(kind.epsneg) * (wide @ averages.T)
        underflow = float(kind.smallest_subnormal) * (1 + wide.sum(axis=1, keepdims=True))
        return np.asarray((32 + len(matrix)) * (rounding + underflow))


def _averages(vectors: NDArray[Any], of: Callable[..., Any]) -> NDArray[Any]:
    """Averages over the last axis in the next higher precision, a few sets at a time.

    The sets are made contiguous first, because NumPy sums pairwise only along contiguous data.
    """
    wide = np.float64 if vectors.dtype == np.float32 else np.longdouble
    averages = np.empty(vectors.shape[:2], wide)
    together = max(1, 4_000_000 // max(1, vectors[:1].size))
    for first in range(0, len(vectors), together):
        some = np.ascontiguousarray(vectors[first : first + together])
        averages[first : first + together] = of(some).mean(axis=2, dtype=wide)
    return averages


def max_plus(big: Any, small: Any) -> NDArray[Any]:
    """``maximum(0, (big + small[:, None]).max(axis=0))``; NaN propagates, and a zero is +0."""
    big, small = np.asarray(big), np.asarray(small)
    best = np.zeros(big.shape[1], big.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        for row, term in zip(big, small, strict=True):
            np.maximum(best, row + term, out=best)
    return np.asarray(best + best.dtype.type(0))


TASKS = {
    "average_matvec": Task(
        lambda vectors, matrix: narrowed(average_matvec(vectors, matrix)),
        exact=average_matvec,
        tolerance=1,
        error_unit=average_matvec_unit,
        lengths={"N": 128, "L": 256, "M": 1024},
        dtype="float32",
        sanitizer=SanitizerCases(
            # Few rows in the product, because racecheck is slow on products.
            shapes=(
                *((1, 1, 1), (3, 5, 7), (33, 4, 1), (2, 65, 129)),
                *((40, 3, 64), (5, 1, 2000), (2, 130, 9), (1, 33, 300)),
            ),
            large=(50, 36, 260),
            dtypes=("f4", "f8"),
        ),
        benchmark_problems={
            "1024": "--shape 1024x1024x1024 --seconds 50",
            "float64-512": "--shape 512x1024x1024 --dtype float64 --counters light",
        },
    ),
    "max_plus": Task(
        max_plus,
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
            "float64": "--shape 64x4194304 --seconds 10",
            "float32": "--shape 64x8388608 --dtype float32",
        },
    ),
}
