"""Values of operands and results: random numbers, changes, edge-case sizes, comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from adokernels.model.libraries import library_of, on_host
from adokernels.records.forms import LARGEST

#: Lengths at which kernels often fail: one element, powers of 2, such as the sizes of blocks, and
#: lengths just below or above them.
_HOSTILE = (1, 2, 31, 33, 64, 65, 127, 128, 256, 257)
#: Further lengths of vectors that are not shorter, because one-dimensional blocks are larger.
_HOSTILE_VECTORS = (512, 1024)
#: A tolerance that treats all NaNs as equal, and -0 as equal to 0.
SAME_VALUES = float(np.nextafter(0.0, 1.0))
_SMALLEST = float(np.finfo(np.float64).tiny)
#: Elements out of tolerance that an error message describes.
_SHOWN = 3
#: Maps the type of a reference to the narrower type of its result.
_NARROWER = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in (
        (np.float64, np.float32),
        (np.longdouble, np.float64),
        (np.clongdouble, np.complex128),
    )
}


def is_array(operand: Any) -> bool:
    """Whether an operand is an array with at least one dimension. Scalars are passed by value."""
    return library_of(operand) is not None and len(operand.shape) > 0


def host_operands(operands: Sequence[Any]) -> tuple[Any, ...]:
    """Copy arrays to the host, in its byte order, and convert lists to arrays.

    Scalars do not change. TypeError is raised for arrays of Python objects and for masked arrays.
    """
    converted = (np.asarray(o) if isinstance(o, list | tuple) else o for o in operands)
    found = tuple(on_host(o) if is_array(o) else o for o in converted)
    for i, operand in enumerate(found):
        if is_array(operand):
            refuse_objects(f"operand {i + 1}", operand.dtype)
        if isinstance(operand, np.ma.MaskedArray):
            raise TypeError(
                f"operand {i + 1} must not be a masked array; fill it first (.filled())"
            )
    return tuple(map(in_host_order, found))


def in_host_order(operand: Any) -> Any:
    """Copy a NumPy array to the host's byte order; return other operands unchanged."""
    swapped = isinstance(operand, np.ndarray) and not operand.dtype.isnative
    return operand.astype(operand.dtype.newbyteorder("=")) if swapped else operand


def refuse_objects(who: str, dtype: np.dtype[Any]) -> None:
    """Raise TypeError if elements are Python objects: copies of references crash the process."""
    if dtype.hasobject:
        raise TypeError(
            f"{who} must hold numbers or bytes, got references to Python objects ({dtype})"
        )


def random_array(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """Random data of any type. With zeros, some machines run faster.

    Floating-point numbers are between -0.5 and 0.5. For other types, every byte is random.
    """
    dtype = np.dtype(dtype)
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"dtype must have a fixed size and contain no Python objects, got {dtype}")
    rng = np.random.default_rng()
    if dtype in (np.float32, np.float64, np.complex64, np.complex128):
        real = np.float32 if dtype in (np.float32, np.complex64) else np.float64
        numbers = rng.random(math.prod(shape) * dtype.itemsize // np.dtype(real).itemsize, real)
        numbers -= 0.5
        return numbers.view(dtype).reshape(shape)
    size = math.prod(shape) * dtype.itemsize
    return rng.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


def rotated(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """The elements of an array, rotated by a random distance."""
    distance = int(rng.integers(1, array.size)) if array.size > 1 else 0
    return Renewal(distance, 1.0, 0).of(array)


class Renewal(NamedTuple):
    """A change that gives an array new values; sparsity and order remain.

    The array is rotated by `distance` elements. Floating-point numbers are then multiplied.
    """

    distance: int
    factor: float
    mask: int  # the inverted bits of integers; 0 for integers that can be indices

    @classmethod
    def drawn(cls, array: NDArray[Any], rng: np.random.Generator, indices: bool) -> Renewal:
        """A random change of an array."""
        distance = int(rng.integers(array.size)) if array.size else 0
        return cls(distance, rng.uniform(0.98, 1), 0 if indices else int(rng.integers(1, 128)))

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """A changed copy."""
        flat = array.reshape(-1)
        other = np.concatenate([flat[self.distance :], flat[: self.distance]])
        if other.dtype.kind in "fc":
            real = other.view(f"f{other.itemsize // (1 + (other.dtype.kind == 'c'))}")
            np.multiply(real, real.dtype.type(self.factor), out=real, where=real == real)
        elif other.dtype.kind in "iu":
            other ^= other.dtype.type(self.mask)
        return other.reshape(array.shape)


def smaller_lengths(rng: np.random.Generator, lengths: Sequence[int]) -> list[int]:
    """Lengths below other ones, but of the same order of magnitude."""
    return [max(int(n * rng.uniform(0.4, 0.95)), 1) for n in lengths]


def scaled_problems(operands: Sequence[Any], rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Problems of edge-case lengths, with values drawn at random from the operands.

    Equal lengths of the operands stay equal. A length up to 4, for example a number of channels,
    does not change.
    """
    lengths = sorted({n for o in operands if is_array(o) for n in o.shape if n > 4})
    if not lengths:
        return
    # The lengths differ from each other, so that exchanged rows and columns are detected.
    sizes = [
        {n: _HOSTILE[(i + 3 * k) % len(_HOSTILE)] for k, n in enumerate(lengths)}
        for i in range(len(_HOSTILE))
    ]
    sizes += [{lengths[0]: n} for n in _HOSTILE_VECTORS if len(lengths) == 1 and n <= lengths[0]]
    small = [rng.permutation(_HOSTILE[-1] - 1)[: len(lengths)] + 1 for _ in range(2)]
    smaller = smaller_lengths(rng, lengths)
    while len(set(smaller)) < len(smaller):
        smaller = smaller_lengths(rng, lengths)
    drawn = [*(new.tolist() for new in small), smaller]
    sizes += [dict(zip(lengths, new, strict=True)) for new in drawn]
    for new in sizes:
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
    return 0.0 if same_bytes(got, want) else float(np.max(element_errors(got, want, unit)))


def element_errors(got: NDArray[Any], want: NDArray[Any], unit: Any = None) -> NDArray[Any]:
    """The error of each element, as :func:`difference` defines it; 0 only for the same bytes."""
    if got.dtype.kind in "iu":
        unsigned = f"u{got.dtype.itemsize}"  # the difference of signed integers can overflow
        most, least = np.maximum(got, want), np.minimum(got, want)
        return np.asarray(most.view(unsigned) - least.view(unsigned))
    other_bytes = _bytes_of(got) != _bytes_of(want)
    differs = other_bytes.reshape(*got.shape, got.dtype.itemsize).any(axis=-1)
    if got.dtype.kind not in "fc":
        return np.where(differs, np.inf, 0.0)
    same = (got == want) | ((got != got) & (want != want))
    with np.errstate(all="ignore"):
        errors = np.abs(got - want) / _unit_of(want, unit)
    # Comparisons with NaN are false. The values differ even if the quotient has underflowed.
    errors = np.where(errors >= 0, np.maximum(errors, 2 * SAME_VALUES), np.inf)
    return np.where(same, np.where(differs, SAME_VALUES, 0.0), errors)


def _unit_of(want: NDArray[Any], unit: Any) -> Any:
    """The unit of the errors of floating-point numbers, by default their largest magnitude."""
    if unit is not None:
        return np.asarray(unit)
    return float(np.max(np.abs(want[np.isfinite(want)]), initial=0.0)) or 1.0


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def same_bytes(got: NDArray[Any], want: NDArray[Any]) -> bool:
    """Compare all bits of two arrays of one type, in pieces to limit temporary memory."""
    flat = [_bytes_of(x) for x in (got, want)]
    piece = 64 << 20  # bytes
    return all(
        np.array_equal(flat[0][at : at + piece], flat[1][at : at + piece])
        for at in range(0, flat[0].size, piece)
    )


class Sample(NamedTuple):
    """Elements of an array: its shape, and the flat indices of the elements."""

    shape: tuple[int, ...]
    flat: NDArray[np.int64]

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """Select these elements from an array of this shape."""
        return np.asarray(array[np.unravel_index(self.flat, self.shape)])


def worst_elements(
    got: NDArray[Any],
    want: NDArray[Any],
    unit: Any = None,
    allowed: float = 0.0,
    sample: Sample | None = None,
) -> str:
    """Count the elements out of tolerance and describe the worst ones, the worst first.

    `got` and `want` have the same shape and type. `allowed` is the largest error in `unit`, as
    :func:`difference` defines it. `sample` states which elements of a result they are.
    """
    errors = element_errors(got, want, unit).reshape(-1)
    outside = np.flatnonzero(~(errors <= allowed))
    left = errors[outside].astype(float)
    units = np.broadcast_to(_unit_of(want, unit) if want.dtype.kind in "fc" else 1, want.shape)
    lines = []
    for _ in range(min(_SHOWN, outside.size)):
        worst = int(np.argmax(left))
        left[worst] = -1
        i = int(outside[worst])
        at = np.unravel_index(i, want.shape)
        place = np.unravel_index(sample.flat[i], sample.shape) if sample else at
        index = ", ".join(str(int(n)) for n in place)
        detail = _detail(got[at], want[at], allowed * float(units[at]))
        lines.append(f"at [{index}] is {got[at]}, expected {want[at]}{detail}")
    verb = "is" if outside.size == 1 else "are"
    elements = "randomly chosen elements" if sample else "elements"
    count = f"{outside.size} of {want.size} {elements} {verb} out of tolerance"
    return f"{count}: the worst " + "; the next ".join(lines)


def _detail(got: Any, want: Any, allowed: float) -> str:
    """The error of one element and its bound."""
    if want.dtype.kind not in "iufc" or not (np.isfinite(got) and np.isfinite(want)):
        return ""
    if got == want:
        return " (the same value, other bytes)"
    if want.dtype.kind in "iu":
        return f" (error {abs(int(got) - int(want))}, allowed {allowed:g})"
    return f" (error {abs(got - want):.3g}, allowed {0 if allowed < _SMALLEST else allowed:.3g})"


class Errors(NamedTuple):
    """The largest errors of a result.

    `in_unit` is in the task's unit. `ulp` and `relative` refer to the reference result in higher
    precision, see :func:`largest_errors`; they are None if they do not apply.
    """

    in_unit: float
    ulp: float | None = None
    relative: float | None = None

    def combined(self, other: Errors) -> Errors:
        """The larger of each error; None if neither is known."""
        known = ([v for v in pair if v is not None] for pair in zip(self, other, strict=True))
        return Errors(*(max(values, default=None) for values in known))  # type: ignore[arg-type]


def largest_errors(
    got: NDArray[Any], exact: NDArray[Any], at: NDArray[Any] | None = None
) -> tuple[float, float | None]:
    """The largest difference from a reference in higher precision: in ulp, and relative.

    Both refer to the magnitude of the reference, or to the root mean square of its row (the last
    axis) if this is larger: the error of an element near 0 that remains after cancellation is not
    meaningful. One ulp is the distance between neighbouring numbers of the result's type there; for
    integers, it is 1, and the relative error is None. Elements that are not finite are omitted.
    With `at`, both refer to these numbers instead of the reference. Neither error exceeds the
    largest number that a record can store.
    """
    with np.errstate(all="ignore"):
        wide = got.astype(exact.dtype, copy=False)
        if got.dtype.kind in "iu":
            integers = exact.dtype.kind in "iu"
            steps = element_errors(wide, exact) if integers else np.abs(wide - exact)
            return float(np.max(steps, initial=0)), None
        if not got.size:
            return 0.0, 0.0
        magnitudes, errors = np.abs(exact if at is None else at), np.abs(wide - exact)
        finite = np.isfinite(magnitudes) & np.isfinite(errors)
        magnitudes = np.where(finite, magnitudes, 0)
        largest = np.max(magnitudes, initial=0) or 1  # its square does not overflow
        squares = (magnitudes / largest) ** 2
        of_row = largest * np.sqrt(np.mean(squares, axis=-1, keepdims=True)) if squares.ndim else 0
        scale = np.maximum(magnitudes, of_row)
        scale = np.where(scale == 0, largest, scale)
        ulps = np.spacing(scale.astype(np.finfo(got.dtype).dtype)).astype(magnitudes.dtype)
        known = finite & np.isfinite(ulps)
        both = (np.max(errors[known] / unit[known], initial=0) for unit in (ulps, scale))
        ulp, relative = (min(float(value), LARGEST) for value in both)
    return ulp, relative


def narrowed(array: Any) -> NDArray[Any]:
    """Round a reference result, computed in the next higher precision, to the result's type."""
    array = np.asarray(array)
    with np.errstate(over="ignore"):
        return np.asarray(array.astype(_NARROWER[array.dtype]))


def as_tuple(value: Any) -> tuple[NDArray[Any], ...]:
    """The results of a routine as a tuple of arrays, even if there is only one."""
    return tuple(np.asarray(v) for v in value) if isinstance(value, tuple) else (np.asarray(value),)
