"""Image filters of Dask arrays: each task filters one block with its halo."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import dask.array as da

from adokernels.dask_arrays.blocks import meta_of
from adokernels.model.operands import has_channels

if TYPE_CHECKING:
    from adokernels.dask_arrays.blocks import BlockCall


def image_filter(call: BlockCall, image: da.Array) -> da.Array:
    """Filter images.

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
    blocks = da.overlap.overlap(image, depth, boundary="none") if any(depth.values()) else image
    result = da.map_blocks(
        call,
        blocks,
        drop_axis=channels,
        dtype=image.dtype,
        meta=meta_of(image, image.ndim - len(channels)),
        token=call.routine.name,
    )
    if any(depth.values()):
        result = da.overlap.trim_internal(result, depth, boundary="none")
    return result
