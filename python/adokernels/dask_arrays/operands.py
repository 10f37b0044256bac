"""Checks of operands before a graph is built."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adokernels.model.routine import Routine


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
        given_twice = {name: np.empty(0) for name in names if name in options}
        routine.variants[0].cost(*[np.empty(0) for _ in args], **given_twice)  # raises TypeError
    given = dict(zip(names, args, strict=False)) | {n: options[n] for n in names if n in options}
    if missing := [name for name in names if name not in given]:
        raise TypeError(f"{routine.name}() needs the operand {missing[0]}")
    operands = [_as_dask_array(f"{routine.name}: {name}", given[name]) for name in names]
    for name, operand in zip(names, operands, strict=True):
        if any(math.isnan(length) for length in operand.shape):
            raise ValueError(
                f"{routine.name}: {name} must have known chunk sizes, got shape {operand.shape}: "
                "call its compute_chunk_sizes() first"
            )
    return operands


def _as_dask_array(who: str, operand: Any) -> da.Array:
    if isinstance(operand, da.Array):
        return operand
    if operand is None or isinstance(operand, (str, bytes)):
        raise TypeError(f"{who} must be an array, not {type(operand).__name__}")
    if not (hasattr(operand, "shape") and hasattr(operand, "dtype")):
        operand = np.asarray(operand)
    return da.from_array(operand, chunks=-1)
