"""Exact sums of float64 numbers over ranks, as integers.

Every float64 is an integer multiple of 2^-1126 with 53 significant bits. Each rank adds its numbers
in limbs of 32 bits. An all-reduce adds the limbs of all ranks as 64-bit integers, which is exact in
any order. The result is the correctly rounded sum, with the same bits as ``math.fsum`` of the
numbers of all ranks. The size of the message does not depend on the number of ranks or of numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: Limbs are sums of multiples of 2^-_SCALE. 53 bits end there for the smallest float64, 2^-1074.
_SCALE = 1074 + 52
#: Number of 32-bit limbs for numbers below 2^1024. Sums of up to 2^29 numbers fit into 64 bits.
_LIMBS = (_SCALE + 1024) // 32 + 1
_MASK = (1 << 32) - 1


def to_limbs(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The sum of each column: limbs, then the counts of positive and negative infinities and NaNs.

    The number of rows over all ranks must be at most 2^29.
    """
    limbs = np.zeros((numbers.shape[1], _LIMBS + 3), np.int64)
    kinds = (np.isposinf(numbers), np.isneginf(numbers), np.isnan(numbers))
    limbs[:, _LIMBS:] = np.transpose([kind.sum(axis=0) for kind in kinds])
    fractions, exponents = np.frexp(np.where(np.isfinite(numbers), numbers, 0))
    integers = np.ldexp(fractions, 53).astype(np.int64)
    first, shift = np.divmod(exponents.astype(np.int64) + (_SCALE - 53), 32)
    low, high = (integers & _MASK) << shift, (integers >> 32) << shift
    index = first + limbs.shape[1] * np.arange(len(limbs))
    for place, part in enumerate((low & _MASK, (low >> 32) + (high & _MASK), high >> 32)):
        np.add.at(limbs.reshape(-1), (index + place).ravel(), part.ravel())
    return limbs


def from_limbs(limbs: NDArray[np.int64]) -> NDArray[np.float64]:
    """The correctly rounded sums, from limbs that have been added over all ranks."""
    return np.array([_number(row.tolist()) for row in limbs], np.float64)


def _number(row: list[int]) -> float:
    positive, negative, undefined = row[_LIMBS:]
    if undefined or (positive and negative):
        return math.nan
    if positive or negative:
        return math.inf if positive else -math.inf
    total = sum(limb << 32 * place for place, limb in enumerate(row[:_LIMBS]))
    try:
        return total / (1 << _SCALE)  # the division of integers is correctly rounded
    except OverflowError:
        return math.inf if total > 0 else -math.inf
