"""Operands for any routine, made from what it says of its own shapes and types."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels.oracles import ORACLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from adokernels import _core
    from adokernels._routine import Routine


def operand_types(
    routine: Routine, lengths: Sequence[int] | None = None, dtype: DTypeLike | None = None
) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape and type of each operand of `routine`.

    Parameters
    ----------
    routine
        For example ``ado.transpose``.
    lengths
        One for each name in the shapes of its operands: ``(rows, cols)``, in the order of the
        oracle's ``lengths``. More in front are batch dimensions, where the routine takes them.
        Default: a problem worth measuring.
    dtype
        Of operands whose type is open; default likewise.

    Raises
    ------
    ValueError
        If the number of lengths does not fit, or one is negative.
    TypeError
        If the routine takes only another type.
    """
    usual = ORACLES[routine.name]
    names, lengths = list(usual.lengths), _lengths_of(routine, lengths)
    inputs = [p for p in routine._core.parameters if p.role == "input"]
    shapes = [p.shape.strip("(,)").split(", ") for p in inputs]
    words = [word for shape in shapes for word in shape]
    batched = "..." in words
    extra = len(lengths) - len(names)
    if min(lengths, default=0) < 0:
        raise ValueError(f"{routine.name}: {min(lengths)} is no length")
    if extra < 0 or (extra > 0 and not batched):
        raise ValueError(
            f"{routine.name} takes the lengths {' x '.join(names)}"
            f"{', after those of a batch' if batched else ''}, got {' x '.join(map(str, lengths))}"
        )
    values = dict(zip(names, lengths[extra:], strict=True))

    def of(word: str) -> Sequence[int]:
        if word == "...":
            return lengths[:extra]
        return [values[word] if word in values else int(word.split("|")[-1])]

    return [
        (tuple(n for word in shape for n in of(word)), _type_of(p, usual.dtype, dtype))
        for p, shape in zip(inputs, shapes, strict=True)
    ]


def random_operands(
    routine: Routine, lengths: Sequence[int] | None = None, dtype: DTypeLike | None = None
) -> tuple[NDArray[Any], ...]:
    """Operands with random data; parameters and errors are those of :func:`operand_types`."""
    types = operand_types(routine, lengths, dtype)
    make = ORACLES[routine.name].operands
    return make(_lengths_of(routine, lengths)) if make else tuple(random_array(*t) for t in types)


def _lengths_of(routine: Routine, lengths: Sequence[int] | None) -> Sequence[int]:
    return tuple(ORACLES[routine.name].lengths.values()) if lengths is None else lengths


def empty_operands(routine: Routine) -> tuple[NDArray[Any], ...]:
    """Operands of a problem worth measuring with nothing in them: they take no memory."""
    return tuple(np.empty(*each) for each in operand_types(routine))


def _type_of(operand: _core.Parameter, usual: str, wanted: DTypeLike | None) -> np.dtype[Any]:
    if operand.any_elements:
        return np.dtype(usual if wanted is None else wanted)
    if wanted is not None and np.dtype(wanted) != np.dtype(operand.elements):
        raise TypeError(f"{operand.name} is {operand.elements}, not {np.dtype(wanted)}")
    return np.dtype(operand.elements)


def random_array(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """Random data of any type: zeros would run faster on some machines.

    Floating-point numbers lie between -0.5 and 0.5; of other types every byte is random.
    """
    dtype = np.dtype(dtype)
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"no random data of type {dtype}")
    rng = np.random.default_rng()
    if dtype in (np.float32, np.float64, np.complex64, np.complex128):
        real = np.float32 if dtype in (np.float32, np.complex64) else np.float64
        numbers = rng.random(math.prod(shape) * dtype.itemsize // np.dtype(real).itemsize, real)
        numbers -= 0.5
        return numbers.view(dtype).reshape(shape)
    size = math.prod(shape) * dtype.itemsize
    return rng.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)
