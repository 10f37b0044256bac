"""Warps as arrays: a row per warp and a column per lane, and which lanes are active."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels.records.metrics import WARP

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: Rows that are processed at a time, so that temporary arrays stay small.
_ROWS = 1 << 16


def by_warp(
    values: ArrayLike, active: ArrayLike | None, name: str
) -> tuple[Any, NDArray[np.bool_]]:
    """Arrange one value per lane in rows of 32 lanes.

    Parameters
    ----------
    values
        One dimension: consecutive lanes, 32 per warp. Two dimensions: one warp per row, with at
        most 32 lanes. Missing lanes are inactive.
    active
        Which of the lanes are active; by default all.
    name
        Name of the argument, for errors.

    Returns
    -------
    tuple
        The values and whether the lane is active, both of shape (warps, 32).
    """
    array = np.asarray(values)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions, got {array.ndim}")
    if array.ndim == 2 and array.shape[1] > WARP:
        raise ValueError(f"{name} must have at most {WARP} lanes per row, got {array.shape[1]}")
    mask = _mask(active, array.shape, name)
    if not mask.any():
        raise ValueError(f"{name} must have at least one active lane, got none")
    if array.ndim == 1:
        missing = -len(array) % WARP
        array, mask = (np.pad(part, (0, missing)).reshape(-1, WARP) for part in (array, mask))
    else:
        missing = WARP - array.shape[1]
        array, mask = (np.pad(part, ((0, 0), (0, missing))) for part in (array, mask))
    return array, mask


def _mask(active: ArrayLike | None, shape: tuple[int, ...], name: str) -> NDArray[np.bool_]:
    if active is None:
        return np.ones(shape, dtype=bool)
    mask = np.asarray(active)
    if mask.dtype != bool:
        raise TypeError(f"active must be boolean, got {mask.dtype}")
    if mask.shape != shape:
        raise ValueError(f"active must have the shape of {name}, {shape}, got {mask.shape}")
    return mask


def distinct(ids: NDArray[Any], active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the different values of the active lanes in each row."""
    counts = np.zeros(len(ids), dtype=np.int64)
    for start in range(0, len(ids), _ROWS):
        rows = slice(start, start + _ROWS)
        counts[rows] = firsts(ids[rows], active[rows])[1].sum(axis=1)
    return counts


def firsts(ids: NDArray[Any], active: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Sort each row, and mark the first occurrence of each value of an active lane.

    Inactive lanes get the value of an active lane of their row, so they add no value.
    """
    some = np.take_along_axis(ids, active.argmax(axis=1, keepdims=True), axis=1)
    ordered = np.sort(np.where(active, ids, some), axis=1)
    first = np.ones(ordered.shape, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return ordered, first & active.any(axis=1, keepdims=True)
