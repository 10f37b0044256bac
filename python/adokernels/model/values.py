"""Values of operands: random numbers, conversion, changes, and edge-case sizes."""

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


def is_array(operand: Any) -> bool:
    """Whether an operand is an array with at least one dimension. Scalars are passed by value."""
    return library_of(operand) is not None and len(operand.shape) > 0


def host_operands(operands: Sequence[Any]) -> tuple[Any, ...]:
    """Copy arrays to the host, and convert lists to arrays; scalars do not change."""
    converted = (np.asarray(o) if isinstance(o, list | tuple) else o for o in operands)
    return tuple(on_host(o) if is_array(o) else o for o in converted)


def described(
    names: Sequence[str], operands: Sequence[Any]
) -> list[tuple[str, tuple[int, ...], str]]:
    """Name, shape and dtype of each operand; for a scalar, its type."""
    return [
        (name, tuple(o.shape), str(o.dtype)) if is_array(o) else (name, (), type(o).__name__)
        for name, o in zip(names, operands, strict=True)
    ]


def random_array(shape: Sequence[int], dtype: DTypeLike, magnitude: float = 0.5) -> NDArray[Any]:
    """Random data of any type. With zeros, some machines run faster.

    Floating-point numbers lie between -magnitude and magnitude. For other types, every byte is
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
    """Problems of edge-case lengths, with values drawn at random from those of the operands.

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
