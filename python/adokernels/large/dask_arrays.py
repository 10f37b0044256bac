"""Calls of routines with Dask arrays: checks, then a lazy array with one task per block.

Only a call with a Dask array imports this module, because it imports Dask.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from adokernels import _core
from adokernels.model.ladder import has_dask_array
from adokernels.model.routine import check_types, has_channels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adokernels.model.routine import Routine


def lazy_call(
    routine: Routine,
    *args: Any,
    variant: str | None = None,
    block: tuple[int, ...] | None = None,
    device: str | None = None,
    out: Any = None,
    stream: Any = None,
    **options: Any,
) -> da.Array:
    """Return the result of a routine as a lazy Dask array.

    `variant`, `block` and `device` apply to the call of each block. `out` and `stream` must be
    None. The errors are the same as with NumPy arrays. TypeError is also raised if the routine
    does not support Dask arrays, and ValueError if the chunk sizes are unknown.

    The blocks may still raise errors, for example if the device is missing or the variant does not
    support `block`.
    """
    if routine.name == "gpp":
        raise TypeError(
            "gpp does not support Dask arrays; ado.distributed.gpp divides it among processes"
        )
    compute = _image_filter if routine.halo is not None else _MATRICES.get(routine.name)
    if compute is None:
        raise TypeError(
            f"{routine.name} does not support Dask arrays: pass NumPy arrays, for example the "
            "results of compute()"
        )
    for name, value in (("out", out), ("stream", stream)):
        if value is not None:
            raise TypeError(
                f"{routine.name}: {name} must be None for Dask arrays, because the result is lazy"
            )
    _check_device(routine, variant, device)
    names = [p.name for p in routine.parameters if p.role == "input"]
    given = dict(zip(names, args, strict=False)) | {n: options[n] for n in names if n in options}
    for name, operand in given.items():
        if isinstance(operand, da.Array) and any(map(math.isnan, operand.shape)):
            raise ValueError(
                f"{routine.name}: {name} must have known chunk sizes, got shape {operand.shape}: "
                "call its compute_chunk_sizes() first"
            )
    for name in set(options) - set(names):
        if has_dask_array((options[name],)):
            raise TypeError(f"{routine.name}: {name} must not be a Dask array")
    check_types(routine, args, options)
    # Copies, because the caller may change a list before the blocks are computed.
    options = {name: copy.deepcopy(options[name]) for name in routine.options if name in options}
    arrays = [a if hasattr(a, "dtype") else np.asarray(a) for a in map(given.get, names)]
    operands = [a if isinstance(a, da.Array) else da.from_array(a, chunks=-1) for a in arrays]
    return compute(BlockCall(routine, variant, block, device, options), *operands)


def _check_device(routine: Routine, variant: str | None, device: str | None) -> None:
    """Check names only: other processes may compute the blocks on a device that is missing here."""
    if device is not None:
        if not isinstance(device, str):
            raise TypeError(f"{routine.name}: device must be a string, got {type(device).__name__}")
        with contextlib.suppress(_core.Unavailable):
            _core.resolve_device(device)
    if variant is None:
        return
    own = routine[variant].device
    if device is not None and _core.device_kind(device) != own:
        raise ValueError(f"{routine.name}[{variant}] runs on {own}, got device={device!r}")


@dataclass(frozen=True)
class BlockCall:
    """A function that computes the result of one block. It can be pickled for other processes."""

    routine: Routine
    variant: str | None
    block: tuple[int, ...] | None
    device: str | None
    options: Mapping[str, Any]

    def __call__(self, *operands: Any) -> Any:
        """Compute the result of one block, as an array of the library of the operands."""
        result = self.routine(
            *operands, variant=self.variant, block=self.block, device=self.device, **self.options
        )
        if isinstance(result, _core.DeviceArray):
            # The operands are CuPy arrays, so CuPy is loaded.
            return sys.modules["cupy"].from_dlpack(result)
        return result

    def expression_of(self, operand: da.Array, ndim: int) -> dict[str, Any]:
        """The name, dtype and library of a result with the dtype and library of an operand."""
        meta = meta_from_array(operand, ndim=ndim, dtype=operand.dtype)
        return {"token": self.routine.name, "dtype": operand.dtype, "meta": meta}


def _image_filter(call: BlockCall, image: da.Array) -> da.Array:
    """Filter blocks with their halos.

    Blocks have no halo at the edges of the image. The kernel applies its own border there.
    """
    halo = call.routine.halo or 0
    channels = [image.ndim - 1] if has_channels(call.routine) else []
    image = image.rechunk(dict.fromkeys(channels, -1))
    cols = image.ndim - len(channels) - 1
    axes = [cols - 1, cols]
    # Dask merges chunks that are smaller than the halo. It requires axes longer than the halo, so
    # shorter axes become one chunk without a halo.
    image = image.rechunk({axis: -1 for axis in axes if image.shape[axis] <= halo})
    depth = {axis: halo if image.numblocks[axis] > 1 else 0 for axis in axes}
    if "batch" in call.routine.options:
        # The shape of the whole image has been checked. A block with 3 or 4 columns is valid.
        call = replace(call, options={**call.options, "batch": True})
    overlap = any(depth.values())
    blocks = da.overlap.overlap(image, depth, boundary="none") if overlap else image
    expression = call.expression_of(image, image.ndim - len(channels))
    result = da.map_blocks(call, blocks, drop_axis=channels, **expression)
    return da.overlap.trim_internal(result, depth, boundary="none") if overlap else result


def _transpose(call: BlockCall, a: da.Array) -> da.Array:
    return da.blockwise(call, "ji", a, "ij", **call.expression_of(a, 2))


def _row_of(call: BlockCall, big: Any, small: Any) -> Any:
    """The largest sums of one block, as a matrix with one row."""
    return call(big, small)[None]


def _largest(sums: Any, axis: Any, keepdims: bool) -> Any:
    return np.max(sums, axis=axis, keepdims=keepdims)  # for NumPy and CuPy arrays; NaN propagates


def _max_plus(call: BlockCall, big: da.Array, small: da.Array) -> da.Array:
    """Compute the largest sums per block, then a tree of maxima. Maxima are exact in any order."""
    small = small.rechunk((big.chunks[0],))
    row_of = functools.partial(_row_of, call)
    expression = call.expression_of(big, 2)
    sums = da.blockwise(row_of, "kp", big, "kp", small, "k", adjust_chunks={"k": 1}, **expression)
    meta = call.expression_of(big, 1)["meta"]
    return da.reduction(
        sums, _largest, _largest, axis=0, dtype=big.dtype, meta=meta, concatenate=True
    )


def _average_matvec(call: BlockCall, vectors: da.Array, matrix: da.Array) -> da.Array:
    """Compute whole sets per block.

    Each column of the result depends on all samples and all elements of its set. Sums of parts of a
    set would be rounded before they are added.
    """
    if vectors.numblocks[1:] != (1, 1):
        vectors = vectors.rechunk({0: "auto", 1: -1, 2: -1})
    matrix = matrix.rechunk(-1)
    expression = call.expression_of(vectors, 2)
    return da.blockwise(call, "in", vectors, "nlm", matrix, "il", concatenate=True, **expression)


_MATRICES: Mapping[str, Callable[..., da.Array]] = {
    "transpose": _transpose,
    "max_plus": _max_plus,
    "average_matvec": _average_matvec,
}
