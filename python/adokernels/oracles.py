"""What each routine must answer, in NumPy, from the formulas; slow and independent of the core.

``ado.sweep`` checks every rung against these before it times any, and so do the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Oracle:
    """A reference result and how near a variant must come to it.

    Attributes
    ----------
    expected
        Takes the routine's operands and options; gives its result or a tuple of results.
    tolerance
        Largest allowed difference relative to the largest magnitude in the expected result;
        0 demands the same bytes.
    """

    expected: Callable[..., Any]
    tolerance: float = 0.0


def transpose(a: Any) -> NDArray[Any]:
    """``out[col, row] = a[row, col]``."""
    a = np.asarray(a)
    # Copied as plain bytes: NumPy does not copy the padding inside structures.
    raw = a.view(f"V{a.dtype.itemsize}") if a.dtype.names and a.size else a
    return np.array(raw.T, order="C", copy=True).view(a.dtype)


ORACLES: dict[str, Oracle] = {
    "transpose": Oracle(transpose),
}


def difference(result: Any, expected: Any) -> float:
    """Largest difference relative to the largest finite magnitude expected.

    Infinite where shapes or types differ, or where only one of the two is NaN, so that it can be
    compared with ``<=`` and NaN never passes. Types without arithmetic are compared byte by byte.
    """
    if isinstance(expected, tuple):
        if not isinstance(result, tuple) or len(result) != len(expected):
            return np.inf
        return max(difference(r, e) for r, e in zip(result, expected, strict=True))
    got, want = np.asarray(result), np.asarray(expected)
    if got.shape != want.shape or got.dtype != want.dtype:
        return np.inf
    if _same_bytes(got, want):
        return 0.0
    if got.dtype.kind not in "fc":
        return np.inf
    special = ~np.isfinite(want)
    if not np.array_equal(got[special], want[special], equal_nan=True):
        return np.inf
    if not np.isfinite(got[~special]).all():
        return np.inf
    scale = float(np.max(np.abs(want[~special]), initial=0.0)) or 1.0
    error = float(np.max(np.abs(got[~special] - want[~special]), initial=0.0)) / scale
    # The bytes differ, so the difference is not 0, even if the quotient has underflowed.
    return max(error, float(np.nextafter(0.0, 1.0)))


def _same_bytes(got: NDArray[Any], want: NDArray[Any]) -> bool:
    """Compare bit for bit, in pieces: a comparison of gigabytes at once would need as many more."""
    flat = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (got, want)]
    piece = 64 << 20
    return all(
        np.array_equal(flat[0][at : at + piece], flat[1][at : at + piece])
        for at in range(0, flat[0].size, piece)
    )


def check(name: str, result: Any, expected: Any) -> float:
    """The difference, if it is within the routine's tolerance.

    Raises
    ------
    ValueError
        If it is not; the text says where the first wrong element is.
    """
    error = difference(result, expected)
    if error <= ORACLES[name].tolerance:
        return error
    raise ValueError(f"wrong result: {_first_difference(result, expected)}")


def _first_difference(result: Any, expected: Any) -> str:
    for got, want in zip(_as_tuple(result), _as_tuple(expected), strict=True):
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
    return "equal elements, other bytes"


def _as_tuple(value: Any) -> tuple[NDArray[Any], ...]:
    return tuple(np.asarray(v) for v in value) if isinstance(value, tuple) else (np.asarray(value),)
