"""Exact sums of float64 numbers over ranks, as integers.

A sum of float64 numbers is an integer multiple of 2^-1074. Each rank stores the sum of its numbers
in limbs of 32 bits. An all-reduce adds the limbs of all ranks as 64-bit integers, which is exact in
any order. The result is the correctly rounded sum, with the same bits as ``math.fsum`` of the
numbers of all ranks. The size of the message does not depend on the number of ranks or of numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: The smallest positive float64 is 2^-_SCALE.
_SCALE = 1074
#: Number of 32-bit limbs for sums of up to 2^64 numbers. The highest limb contains the sign.
_LIMBS = (_SCALE + 1024 + 64) // 32 + 1
#: Length of a sum: the limbs, then the counts of positive infinities, negative infinities and NaNs.
LIMBS_PER_SUM = _LIMBS + 3


def to_limbs(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The sum of each column: limbs, and the counts of infinities and NaNs."""
    columns = numbers.T.tolist()
    limbs = np.zeros((len(columns), LIMBS_PER_SUM), np.int64)
    finite = np.isfinite(numbers)
    if not finite.all():
        kinds = (np.isposinf(numbers), np.isneginf(numbers), np.isnan(numbers))
        limbs[:, _LIMBS:] = np.transpose([kind.sum(axis=0) for kind in kinds])
        columns = np.where(finite, numbers, 0).T.tolist()
    for row, column in zip(limbs, columns, strict=True):
        data = _exact_sum(column).to_bytes(4 * _LIMBS, "little", signed=True)
        row[: _LIMBS - 1] = np.frombuffer(data, "<u4")[:-1]
        row[_LIMBS - 1] = np.frombuffer(data, "<i4")[-1]
    return limbs


def from_limbs(limbs: NDArray[np.int64]) -> NDArray[np.float64]:
    """The correctly rounded sums, from limbs that have been added over all ranks."""
    return np.array([_number(row) for row in limbs], np.float64)


def _exact_sum(numbers: list[float]) -> int:
    """The sum of finite numbers, in units of 2^-_SCALE."""
    rest, total = list(numbers), 0
    try:
        while part := math.fsum(rest):  # two or three iterations, for numbers of similar size
            total += _units(part)
            rest.append(-part)
    except OverflowError:
        return sum(map(_units, numbers))
    return total


def _units(number: float) -> int:
    numerator, denominator = number.as_integer_ratio()  # the denominator is a power of two
    return numerator << _SCALE - (denominator.bit_length() - 1)


def _number(row: NDArray[np.int64]) -> float:
    positive, negative, undefined = row[_LIMBS:].tolist()
    if undefined or (positive and negative):
        return math.nan
    if positive or negative:
        return math.inf if positive else -math.inf
    lower = row[: _LIMBS - 1]  # not negative
    low = int.from_bytes((lower & 0xFFFFFFFF).astype("<u4").tobytes(), "little")
    carries = int.from_bytes((lower >> 32).astype("<u4").tobytes(), "little")
    highest = int(row[_LIMBS - 1])
    total = low + (carries << 32) + (highest << 32 * (_LIMBS - 1))
    try:
        return total / (1 << _SCALE)  # the division of integers is correctly rounded
    except OverflowError:
        return math.inf if total > 0 else -math.inf
