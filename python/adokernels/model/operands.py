"""Operands for any routine, created from its task and its declared shapes and types."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from adokernels.model.routine import Routine
    from adokernels.model.task import ArrayType


def operand_types(
    routine: Routine, lengths: Sequence[int] | None = None, dtype: DTypeLike | None = None
) -> list[ArrayType]:
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
    return routine.task.operand_types(lengths, dtype)


def random_operands(
    routine: Routine, lengths: Sequence[int] | None = None, dtype: DTypeLike | None = None
) -> tuple[NDArray[Any], ...]:
    """Operands with random data; parameters and errors as for :func:`operand_types`."""
    return routine.task.random_operands(lengths, dtype)


def empty_operands(routine: Routine) -> tuple[NDArray[Any], ...]:
    """Uninitialised operands of the task's default problem; they occupy no physical memory."""
    return routine.task.empty_operands()


def batch_option(routine: Routine, operand: Any) -> dict[str, Any]:
    """The option ``batch=True`` if a filter of gray images needs it for a batch, else no option.

    Without this option, the filter rejects images with 3 or 4 columns, because a colour image has
    the same shape.
    """
    shape = np.shape(operand)
    narrow = len(shape) > 2 and shape[-1] in (3, 4)
    return {"batch": True} if narrow and "batch" in routine.options else {}


def has_channels(routine: Routine) -> bool:
    """Whether the last axis of the first operand contains the channels of colour images."""
    return routine.parameters[0].shape.endswith("3|4)")


def check_types(routine: Routine, operands: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise the error of a call with NumPy arrays of these shapes and types, if there is one.

    Costs depend on shapes and types only, and their calculation checks operands and options like a
    call. The arrays for it contain one element each.
    """
    arrays = [np.broadcast_to(np.zeros((), operand.dtype), operand.shape) for operand in operands]
    # The calculation allocates the results after all checks, without writing to them. A result
    # that is larger than the memory is not an error here.
    with contextlib.suppress(MemoryError):
        routine.variants[0].cost(*arrays, **options)
