"""Access patterns: the element that each lane accesses, by name or as an array.

Warps are arrays with one row per warp and one column per lane, and a mask of the active lanes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.table import Table

from adokernels.records.metrics import WARP
from adokernels.records.shown import Plotted, ShownAsTables
from adokernels.tables.rendering import new_table
from adokernels.text import number

#: Bytes per lane that one instruction can access.
SIZES = (1, 2, 4, 8, 16)
#: The pattern "random" draws elements below this number.
_EXTENT = 1 << 26
#: Offsets are below this number, so that addresses of 16-byte elements are 64-bit integers.
_LARGEST = 1 << 56

_NAMES = "'aligned', 'shifted n', 'stride n', 'random', 'same word' or 'column of RxC'"
_SHIFTED = re.compile(r"shifted(?: by)?(?: (-?\d{1,16}|one))?")
_STRIDE = re.compile(r"stride (-?\d{1,16})")
_COLUMN = re.compile(r"column of (\d{1,16})x(\d{1,16})")


@dataclass(frozen=True, eq=False)
class WarpAccesses:
    """The elements that the lanes of one or more warps access with one instruction.

    Elements are relative to an address that is a multiple of 128 bytes. Arrays have the shape
    (requests, 32).
    """

    pattern: str  # its name, or "indices" for an array
    itemsize: int
    offsets: NDArray[np.int64]  # the element of each lane
    active: NDArray[np.bool_]  # whether the lane is active

    @classmethod
    def of(cls, offsets: str | ArrayLike, itemsize: int, active: ArrayLike | None) -> WarpAccesses:
        """Check the arguments of a function, and arrange them by request."""
        if isinstance(itemsize, bool) or not isinstance(itemsize, int | np.integer):
            raise TypeError(f"itemsize must be an integer, got {type(itemsize).__name__}")
        if itemsize not in SIZES:
            raise ValueError(f"itemsize must be 1, 2, 4, 8 or 16 bytes, got {itemsize}")
        if isinstance(offsets, str):
            pattern = " ".join(offsets.split())
            array = _named(pattern)
        else:
            pattern, array = "indices", np.asarray(offsets)
        if array.size == 0:
            raise ValueError("offsets must contain at least one lane, got none")
        if array.dtype.kind not in "iu":
            raise TypeError(f"offsets must be integers, got {array.dtype}")
        if array.max() > _LARGEST or array.min() < -_LARGEST:
            raise ValueError("offsets must be between -2**56 and 2**56")
        rows, mask = by_warp(array.astype(np.int64), active, "offsets")
        used = mask.any(axis=1)
        return cls(pattern, int(itemsize), rows[used], mask[used])

    @property
    def requests(self) -> int:
        """Number of requests: one per warp that has active lanes."""
        return len(self.offsets)

    def __str__(self) -> str:
        return f"{self.pattern}, {self.itemsize}-byte elements"


def _named(name: str) -> NDArray[np.int64]:
    """Offsets of one warp that accesses memory in a named pattern."""
    lane = np.arange(WARP)
    if name == "aligned":
        return lane
    if name == "same word":
        return np.zeros_like(lane)
    if name == "random":
        return np.random.default_rng(0).integers(0, _EXTENT, WARP)
    if found := _SHIFTED.fullmatch(name):
        return lane + (1 if found[1] in (None, "one") else int(found[1]))
    if found := _STRIDE.fullmatch(name):
        return lane * int(found[1])
    if found := _COLUMN.fullmatch(name):
        return lane[: int(found[1])] * int(found[2])
    raise ValueError(f"offsets must be an array of integers, or {_NAMES}, got {name!r}")


def by_warp(values: ArrayLike, active: ArrayLike | None, name: str) -> tuple[Any, Any]:
    """Arrange values and active lanes (by default all) in arrays of shape (warps, 32).

    One dimension: consecutive lanes, 32 per warp. Two dimensions: one warp per row, with at most 32
    lanes. Missing lanes are inactive. Errors contain the name of the argument.
    """
    array = np.asarray(values)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions, got {array.ndim}")
    if array.ndim == 2 and array.shape[1] > WARP:
        raise ValueError(f"{name} must have at most {WARP} lanes per row, got {array.shape[1]}")
    mask = np.ones(array.shape, dtype=bool) if active is None else np.asarray(active)
    if mask.dtype != bool:
        raise TypeError(f"active must be boolean, got {mask.dtype}")
    if mask.shape != array.shape:
        raise ValueError(f"active must have the shape of {name}, {array.shape}, got {mask.shape}")
    if not mask.any():
        raise ValueError(f"{name} must have at least one active lane, got none")
    padding = [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % WARP)]
    array, mask = (np.pad(part, padding).reshape(-1, WARP) for part in (array, mask))
    return array, mask


def distinct(ids: NDArray[Any], active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the different values of the active lanes in each row."""
    counts: NDArray[np.int64] = firsts(ids, active)[1].sum(axis=1)
    return counts


def firsts(ids: NDArray[Any], active: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Sort each row, and mark the first occurrence of each value of an active lane."""
    # Inactive lanes get the value of an active lane of their row.
    some = np.take_along_axis(ids, active.argmax(axis=1, keepdims=True), axis=1)
    ordered = np.sort(np.where(active, ids, some), axis=1)
    first = np.diff(ordered, axis=1, prepend=ordered[:, :1] - 1) != 0
    return ordered, first & active.any(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False, repr=False)
class OfAccesses(ShownAsTables, Plotted):
    """Base class of results about the requests of an access pattern."""

    accesses: WarpAccesses

    @property
    def requests(self) -> int:
        """Number of requests: one per load or store instruction of a warp."""
        return self.accesses.requests


def share(value: float) -> str:
    """Format a fraction as a percentage with three digits."""
    return f"{number(100 * value)} %"


def quantities_table(title: str, rows: Mapping[str, str]) -> Table:
    """Build a table with the name and the value of each quantity."""
    table = new_table(title, ["quantity", "value"], widths={0: None})
    for row in rows.items():
        table.add_row(*row)
    return table
