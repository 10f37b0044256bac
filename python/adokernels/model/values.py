"""Values of operands and results: random numbers, changes, edge-case sizes, comparison."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels.model.libraries import library_of, on_host

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray

#: Lengths at which kernels often fail: one element, and lengths just below or above a power of 2.
_HOSTILE = (1, 2, 31, 33, 64, 65, 127, 257)
#: A tolerance that treats all NaNs as equal, and -0 as equal to 0.
SAME_VALUES = float(np.nextafter(0.0, 1.0))


def is_array(operand: Any) -> bool:
    """Whether an operand is an array with at least one dimension. Scalars are passed by value."""
    return library_of(operand) is not None and len(operand.shape) > 0


def host_operands(operands: Sequence[Any]) -> tuple[Any, ...]:
    """Copy arrays to the host, and convert lists to arrays; scalars do not change."""
    converted = (np.asarray(o) if isinstance(o, list | tuple) else o for o in operands)
    return tuple(on_host(o) if is_array(o) else o for o in converted)


def random_array(shape: Sequence[int], dtype: DTypeLike, magnitude: float = 0.5) -> NDArray[Any]:
    """Random data of any type. With zeros, some machines run faster.

    Floating-point numbers are between -magnitude and magnitude. For other types, every byte is
    random.
    """
    dtype = np.dtype(dtype)
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"dtype must have a fixed size and contain no Python objects, got {dtype}")
    rng = np.random.default_rng()
    if dtype in (np.float32, np.float64, np.complex64, np.complex128):
        real = np.float32 if dtype in (np.float32, np.complex64) else np.float64
        numbers = rng.random(math.prod(shape) * dtype.itemsize // np.dtype(real).itemsize, real)
        numbers -= 0.5
        numbers *= 2 * real(magnitude)
        return numbers.view(dtype).reshape(shape)
    size = math.prod(shape) * dtype.itemsize
    return rng.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


def rotated(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """The elements of an array, rotated by a random distance."""
    flat = array.reshape(-1)
    distance = int(rng.integers(1, flat.size)) if flat.size > 1 else 0
    return np.concatenate([flat[distance:], flat[:distance]]).reshape(array.shape)


def exchange(array: NDArray[Any], rng: np.random.Generator) -> None:
    """Exchange two random elements in place, so that results of earlier calls are wrong."""
    if array.size < 2:
        return
    first, second = (
        np.unravel_index(int(i), array.shape) for i in rng.integers(array.size, size=2)
    )
    array[first], array[second] = array[second].copy(), array[first].copy()


def exchanged(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """A copy of an array with two elements exchanged."""
    other = array.copy()
    exchange(other, rng)
    return other


def scaled_problems(operands: Sequence[Any], rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Problems of edge-case lengths, with values drawn at random from the operands.

    Equal lengths of the operands stay equal. A length up to 4, for example a number of channels,
    does not change.
    """
    lengths = sorted({n for o in operands if is_array(o) for n in o.shape if n > 4})
    if not lengths:
        return
    for i, hostile in enumerate(_HOSTILE):
        # The lengths differ from each other, so that exchanged rows and columns are detected.
        new = {n: _HOSTILE[(i + 3 * k) % len(_HOSTILE)] for k, n in enumerate(lengths)}
        new[lengths[0]] = hostile
        yield tuple(
            rng.choice(o.reshape(-1), [new.get(n, n) for n in o.shape]) if is_array(o) else o
            for o in operands
        )


# --- Comparison of results ------------------------------------------------------------------------


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
