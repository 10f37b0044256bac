"""Operands for any routine, created from its task and its declared shapes and types."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from adokernels.ladders.routine import Routine

#: Shape and type of an operand.
OperandType = tuple[tuple[int, ...], np.dtype[Any]]


def operand_types(
    routine: Routine, lengths: Sequence[int] | None = None, dtype: DTypeLike | None = None
) -> list[OperandType]:
    """Shape and type of each operand of `routine`.

    Parameters
    ----------
    routine
        For example ``ado.transpose``.
    lengths
        One length per name in the task's ``lengths``, in the same order, for example
        ``(rows, cols)``. Additional leading lengths are batch dimensions, if the routine is
        batched. Default: the lengths of the task.
    dtype
        Element type of operands that accept several types. Default: the type of the task.

    Raises
    ------
    ValueError
        If the number of lengths is wrong, or a length is negative.
    TypeError
        If the routine does not accept that type.
    """
    task = TASKS[routine.name]
    given = _lengths_or_default(routine, lengths)
    extra = len(given) - len(task.lengths)
    if extra < 0 or (extra > 0 and not routine.batched):
        batch = ", optionally after batch dimensions" if routine.batched else ""
        raise ValueError(
            f"lengths of {routine.name} must be {' x '.join(task.lengths)}{batch},"
            f" got {' x '.join(map(str, given))}"
        )
    named = dict(zip(task.lengths, given[extra:], strict=True))
    types = routine.operand_types(named, given[:extra], task.dtype if dtype is None else dtype)
    return [(shape, np.dtype(kind)) for _, shape, kind in types]


def batch_option(routine: Routine, operand: Any) -> dict[str, Any]:
    """The option ``batch=True`` if a filter of gray images needs it for a batch, else no option.

    Without this option, the filter rejects images with 3 or 4 columns, because a colour image has
    the same shape.
    """
    shape = np.shape(operand)
    narrow = len(shape) > 2 and shape[-1] in (3, 4)
    return {"batch": True} if narrow and "batch" in routine.options else {}


def random_operands(
    routine: Routine, lengths: Sequence[int] | None = None, dtype: DTypeLike | None = None
) -> tuple[NDArray[Any], ...]:
    """Operands with random data; parameters and errors as for :func:`operand_types`."""
    types = operand_types(routine, lengths, dtype)
    task = TASKS[routine.name]
    if task.operands:
        return task.operands(_lengths_or_default(routine, lengths))
    operands = tuple(random_array(*each, task.magnitude) for each in types)
    return task.adjusted(*operands) if task.adjusted else operands


def empty_operands(routine: Routine) -> tuple[NDArray[Any], ...]:
    """Uninitialised operands of the task's default problem; they occupy no physical memory."""
    return tuple(np.empty(*each) for each in operand_types(routine))


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


def _lengths_or_default(routine: Routine, lengths: Sequence[int] | None) -> tuple[int, ...]:
    return tuple(TASKS[routine.name].lengths.values() if lengths is None else lengths)
