"""Checks of operands that do not read the operands' memory."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adokernels.ladders.routine import Routine


def has_dask_array(*groups: Iterable[Any]) -> bool:
    """Whether a value is a Dask array. There is none unless Dask is loaded."""
    module = sys.modules.get("dask.array")
    if module is None:
        return False
    dask_array = getattr(module, "Array", ())  # missing while another thread imports the module
    for group in groups:
        for value in group:
            if isinstance(value, dask_array):
                return True
    return False


def refuse_dask_arrays(function: str, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise TypeError if an operand is a Dask array, which NumPy would compute."""
    if has_dask_array(args, options.values()):
        raise TypeError(
            f"{function}: operands must not be Dask arrays; pass the NumPy array of one block"
        )


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
    # that is larger than the memory is no error here.
    with contextlib.suppress(MemoryError):
        routine.variants[0].cost(*arrays, **options)
