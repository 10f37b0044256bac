"""Operands of custom ladders: their lengths, fresh values, and problems of hostile sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels.arrays.libraries import library_of, on_host

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

#: Lengths at which kernels go wrong: one element, around a warp and a tile, primes, odd blocks.
_HOSTILE = (1, 2, 31, 33, 64, 65, 127, 257)


def is_array(operand: Any) -> bool:
    """Whether an operand is an array with at least one dimension; a scalar is passed by value."""
    return library_of(operand) is not None and len(operand.shape) > 0


def host_operands(operands: Sequence[Any]) -> tuple[Any, ...]:
    """The operands with arrays on the host. Lists become arrays, scalars stay as they are."""
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


def rotated(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """The elements of an array, rotated: fresh data from the same range of values."""
    flat = array.reshape(-1)
    distance = int(rng.integers(1, flat.size)) if flat.size > 1 else 0
    return np.concatenate([flat[distance:], flat[:distance]]).reshape(array.shape)


def exchange(array: NDArray[Any], rng: np.random.Generator) -> None:
    """Exchange two random elements in place, so that results of earlier calls become wrong."""
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
    """Problems like this one, with hostile lengths and values drawn from those of the operands.

    Equal lengths of the operands stay equal. A length up to 4, such as a number of channels, stays
    as it is.
    """
    lengths = sorted({n for o in operands if is_array(o) for n in o.shape if n > 4})
    if not lengths:
        return
    for i, hostile in enumerate(_HOSTILE):
        # The lengths differ from each other, so that an exchange of rows and columns shows.
        new = {n: _HOSTILE[(i + 3 * k) % len(_HOSTILE)] for k, n in enumerate(lengths)}
        new[lengths[0]] = hostile
        yield tuple(
            rng.choice(o.reshape(-1), [new.get(n, n) for n in o.shape]) if is_array(o) else o
            for o in operands
        )
