"""Code shared by the tasks of element-wise formulas with many operations per element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The largest number of elements that the reference result computes within a few seconds.
MAX_ELEMENTS = 1 << 19
#: Elements that a sparsified operand keeps at each end: more than one block of any kernel computes.
ENDS = 1 << 13
#: Elements evaluated at a time, so that temporary arrays stay in the cache.
_PIECE = 1 << 13

Formula = Callable[[NDArray[Any]], NDArray[Any]]


def wider(dtype: np.dtype[Any]) -> Any:
    """The floating-point type of the reference results of operands of this type."""
    return np.float64 if dtype == np.float32 else np.longdouble


def horner(coefficients: Any, x: NDArray[Any]) -> NDArray[Any]:
    """The polynomial with these coefficients, from the constant on, in the type of x."""
    y = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        y *= x
        y += x.dtype.type(coefficient)
    return y


def evaluate(x: NDArray[Any], formula: Formula, dtype: Any) -> NDArray[Any]:
    """Evaluate a formula for each element; for all zeros, evaluate it only once.

    Parameters
    ----------
    x
        A one-dimensional array.
    formula
        Maps an array of type `dtype` to an array of the same length.
    dtype
        The type of the computation and of the result.
    """
    result = np.empty(x.shape, dtype)
    with np.errstate(all="ignore"):
        result[...] = formula(np.zeros(1, dtype))
        for at in _pieces(np.flatnonzero(x)):
            result[at] = formula(x[at].astype(dtype))
    return result


def _pieces(indices: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for first in range(0, indices.size, _PIECE):
        yield indices[first : first + _PIECE]


def sparsified(x: Any) -> tuple[NDArray[Any], ...] | None:
    """Zero all elements but a random sample and both ends; None if x is small enough."""
    x = np.asarray(x)
    if x.size <= MAX_ELEMENTS:
        return None
    kept = np.random.default_rng().integers(0, x.size, MAX_ELEMENTS // 2)
    ends = np.arange(ENDS)
    kept = np.concatenate([kept, ends, x.size - 1 - ends])
    sparse = np.zeros(x.size, x.dtype)
    sparse[kept] = x.reshape(-1)[kept] if x.flags.c_contiguous else x.flat[kept]
    return (sparse.reshape(x.shape),)
