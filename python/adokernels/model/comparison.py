"""Comparison of a result with the expected result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A tolerance that treats all NaNs as equal, and -0 as equal to 0.
SAME_VALUES = float(np.nextafter(0.0, 1.0))


def difference(result: Any, expected: Any, unit: Any = None) -> float:
    """Largest difference: absolute for integers, else in `unit`, default the largest magnitude.

    It is infinite if shapes or types differ, or if only one of two elements is NaN. It is never
    NaN, so it can be compared with ``<=``. Types without arithmetic are compared byte by byte.
    """
    if isinstance(expected, tuple):
        if not isinstance(result, tuple) or len(result) != len(expected):
            return np.inf
        of_results = unit if isinstance(unit, tuple) else (unit,) * len(expected)
        return max(map(difference, result, expected, of_results))
    got, want = np.asarray(result), np.asarray(expected)
    if got.shape != want.shape or got.dtype != want.dtype:
        return np.inf
    if same_bytes(got, want):
        return 0.0
    if got.dtype.kind in "iu":
        return float(np.max(np.maximum(got, want) - np.minimum(got, want)))
    if got.dtype.kind not in "fc":
        return np.inf
    units = None if unit is None else np.broadcast_to(np.asarray(unit), want.shape)
    special = ~np.isfinite(want)
    if special.any():
        if not np.array_equal(got[special], want[special], equal_nan=True):
            return np.inf
        got, want = got[~special], want[~special]
        units = None if units is None else units[~special]
    if not np.isfinite(got).all():
        return np.inf
    with np.errstate(over="ignore"):
        wrong = np.abs(got - want)
    if not wrong.any():
        return SAME_VALUES
    if units is None:
        scale = float(np.max(np.abs(want), initial=0.0)) or 1.0
        error = float(np.max(wrong, initial=0.0)) / scale
    else:
        differs = wrong > 0
        with np.errstate(divide="ignore"):
            error = float(np.max(wrong[differs] / units[differs], initial=0.0))
    # The values differ even if the quotient has underflowed.
    return max(error, 2 * SAME_VALUES)


def same_bytes(got: NDArray[Any], want: NDArray[Any]) -> bool:
    """Compare all bits of two arrays of one type, in pieces to limit temporary memory."""
    flat = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (got, want)]
    piece = 64 << 20  # bytes
    return all(
        np.array_equal(flat[0][at : at + piece], flat[1][at : at + piece])
        for at in range(0, flat[0].size, piece)
    )


def first_difference(result: Any, expected: Any) -> str:
    """Describe how many elements differ and where the first one is."""
    for got, want in zip(as_tuple(result), as_tuple(expected), strict=True):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
        both_nan = (got != got) & (want != want)
        wrong = ~((got == want) | both_nan)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = int(np.count_nonzero(wrong))
            return (
                f"{count} of {want.size} elements differ, the first at {index}: "
                f"{got[index]!r}, expected {want[index]!r}"
            )
    return "equal values, but different bytes"


def as_tuple(value: Any) -> tuple[NDArray[Any], ...]:
    """The results of a routine as a tuple of arrays, even if there is only one."""
    return tuple(np.asarray(v) for v in value) if isinstance(value, tuple) else (np.asarray(value),)
