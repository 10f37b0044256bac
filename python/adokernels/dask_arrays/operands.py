"""Checks of operands before a graph is built."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adokernels.ladders.routine import Routine


def checked_operands(
    routine: Routine, args: Sequence[Any], options: Mapping[str, Any]
) -> list[da.Array]:
    """Return all operands in the routine's order, as Dask arrays with known shapes.

    Parameters
    ----------
    routine, args, options
        The routine, its positional operands, and its keyword operands and options.

    Raises
    ------
    TypeError
        If an operand is missing or given twice.
    ValueError
        If the chunk sizes of an operand are unknown.
    """
    names = [p.name for p in routine.parameters if p.role == "input"]
    if len(args) > len(names) or any(name in options for name in names[: len(args)]):
        routine.variants[0].cost(*args, **options)  # raises TypeError
    given = dict(zip(names, args, strict=False)) | {n: options[n] for n in names if n in options}
    if missing := [name for name in names if name not in given]:
        raise TypeError(f"{routine.name}() needs the operand {missing[0]}")
    operands = [_as_dask_array(given[name]) for name in names]
    for name, operand in zip(names, operands, strict=True):
        if any(math.isnan(length) for length in operand.shape):
            raise ValueError(
                f"{routine.name}: {name} must have known chunk sizes, got shape {operand.shape}: "
                "call its compute_chunk_sizes() first"
            )
    return operands


def _as_dask_array(operand: Any) -> da.Array:
    if isinstance(operand, da.Array):
        return operand
    if not (hasattr(operand, "shape") and hasattr(operand, "dtype")):
        operand = np.asarray(operand)
    return da.from_array(operand, chunks=-1)


def check(routine: Routine, operands: Sequence[da.Array], options: Mapping[str, Any]) -> None:
    """Raise the error of a call with NumPy arrays of the same shapes and types, if there is one.

    The calculation of costs checks operands and options like a call, but does not read elements.
    Each array for it therefore has the memory of one element.
    """
    arrays = [np.broadcast_to(np.zeros((), operand.dtype), operand.shape) for operand in operands]
    # The calculation allocates the results after all checks, without writing to them. A result
    # larger than the memory is not an error here.
    with contextlib.suppress(MemoryError):
        routine.variants[0].cost(*arrays, **options)
