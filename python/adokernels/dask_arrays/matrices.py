"""Matrix routines of Dask arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from adokernels.dask_arrays.blocks import meta_of

if TYPE_CHECKING:
    from adokernels.dask_arrays.blocks import BlockCall


def transpose(call: BlockCall, a: da.Array) -> da.Array:
    """Transpose each block."""
    return da.blockwise(
        call, "ji", a, "ij", token=call.routine.name, dtype=a.dtype, meta=meta_of(a, 2)
    )


@dataclass(frozen=True)
class _AsRow:
    """A function that computes the largest sums of one block, as a matrix with one row."""

    call: BlockCall

    def __call__(self, big: Any, small: Any) -> Any:
        return self.call(big, small)[None]


def _largest(sums: Any, axis: Any, keepdims: bool) -> Any:
    return np.max(sums, axis=axis, keepdims=keepdims)  # for NumPy and CuPy arrays; NaN propagates


def max_plus(call: BlockCall, big: da.Array, small: da.Array) -> da.Array:
    """Compute the largest sums per block, then a tree of maxima. Maxima are exact in any order."""
    small = small.rechunk((big.chunks[0],))
    sums = da.blockwise(
        _AsRow(call),
        "kp",
        big,
        "kp",
        small,
        "k",
        adjust_chunks={"k": 1},
        token=call.routine.name,
        dtype=big.dtype,
        meta=meta_of(big, 2),
    )
    return da.reduction(
        sums, _largest, _largest, axis=0, dtype=big.dtype, meta=meta_of(big, 1), concatenate=True
    )


def average_matvec(call: BlockCall, vectors: da.Array, matrix: da.Array) -> da.Array:
    """Compute whole sets per block.

    Each column of the result depends on all samples and all elements of its set. Sums of parts of a
    set would be rounded before they are added.
    """
    if vectors.numblocks[1:] != (1, 1):
        vectors = vectors.rechunk({0: "auto", 1: -1, 2: -1})
    return da.blockwise(
        call,
        "in",
        vectors,
        "nlm",
        matrix.rechunk(-1),
        "il",
        concatenate=True,
        token=call.routine.name,
        dtype=vectors.dtype,
        meta=meta_of(vectors, 2),
    )
