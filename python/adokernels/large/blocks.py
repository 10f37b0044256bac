"""Blocks of an image or a matrix that can be computed one after the other.

All blocks have the same shape, so that the arrays on the device can be reused. The last block along
an axis ends where the axis ends, so it overlaps with the previous block.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The number of block arrays and of result arrays on the device. While the kernel uses one of each,
#: the next block is uploaded and the previous result is downloaded. The third array of each kind
#: lets the following copy begin without a gap.
SLOTS = 3
#: The largest number of bytes of a block and its result together, unless the smallest block is
#: larger. Larger blocks only lengthen the first upload and the last download, which do not overlap
#: with other work.
LARGEST_BLOCK = 128 << 20
#: The smallest number of rows and columns of a tile, unless the matrix has fewer.
SMALLEST_TILE = 64
#: The numbers of rows and columns of larger tiles are multiples of this number, so that the rows
#: of tiles begin at sector boundaries for all types.
TILE_ALIGNMENT = 64


class Block(NamedTuple):
    """One block: what to read and where to write its results."""

    #: The part of the source array that the block reads.
    source: tuple[slice, ...]
    #: The index of the first stored element of the block's result. The stored elements are
    #: contiguous.
    first: int
    #: The part of the sink array that the block writes.
    sink: tuple[slice, ...]


class Plan(NamedTuple):
    """The blocks of an array and their common shapes."""

    source_shape: tuple[int, ...]
    result_shape: tuple[int, ...]
    blocks: tuple[Block, ...]


def _windows(length: int, extent: int, halo: int = 0) -> list[tuple[slice, slice]]:
    """Windows of `extent` indices along an axis: what is read, and which results are stored."""
    if extent == length:
        return [(slice(0, length), slice(0, length))]
    windows = []
    for first in range(0, length, extent - 2 * halo):
        start = min(max(first - halo, 0), length - extent)
        last = min(first + extent - 2 * halo, length)
        windows.append((slice(start, start + extent), slice(first, last)))
    return windows


def _bytes_per_block(memory: int, smallest: int) -> int:
    """The number of bytes of a block and its result, at least `smallest`."""
    if memory < SLOTS * smallest:
        raise ValueError(
            f"stream: memory must be at least {SLOTS * smallest} bytes for these arrays, "
            f"got {memory}"
        )
    return max(smallest, min(memory // SLOTS, LARGEST_BLOCK))


def image_plan(
    images: Sequence[int], pixels: tuple[int, int], channels: int | None, halo: int, memory: int
) -> Plan:
    """Divide images into bands of rows, or a batch of images into smaller batches.

    Parameters
    ----------
    images
        The batch dimensions.
    pixels
        Rows and columns.
    channels
        The length of the last axis of the source, or None if the source has no channels.
    halo
        A result pixel depends on the pixels up to this distance.
    memory
        Bytes of memory for SLOTS blocks and their results. Elements have one byte. ValueError is
        raised if the smallest blocks do not fit.
    """
    rows, cols = pixels
    row_bytes = cols * ((channels or 1) + 1)
    block_bytes = _bytes_per_block(memory, min(rows, 2 * halo + 1) * row_bytes)
    band = min(rows, block_bytes // row_bytes)
    extents: list[int] = []
    left = block_bytes // (rows * row_bytes)  # images per block
    for length in reversed(images):
        extents.insert(0, max(1, min(length, left)))
        left //= length
    axes = [_windows(length, extent) for length, extent in zip(images, extents, strict=True)]
    blocks = []
    for *batch, (read, kept) in itertools.product(*axes, _windows(rows, band, halo)):
        outer = tuple(window for window, _ in batch)
        blocks.append(Block((*outer, read), (kept.start - read.start) * cols, (*outer, kept)))
    result_shape = (*extents, band, cols)
    source_shape = result_shape if channels is None else (*result_shape, channels)
    return Plan(source_shape, result_shape, tuple(blocks))


def transpose_plan(shape: tuple[int, int], itemsize: int, memory: int) -> Plan:
    """Divide a matrix into approximately square tiles; `memory` is as for :func:`image_plan`."""
    rows, cols = shape
    smallest = min(rows, SMALLEST_TILE) * min(cols, SMALLEST_TILE)
    elements = _bytes_per_block(memory, 2 * itemsize * smallest) // (2 * itemsize)
    side = math.isqrt(elements)
    tile_rows = _aligned(min(rows, max(side, elements // cols)), rows)
    tile_cols = _aligned(min(cols, elements // tile_rows), cols)
    tiles = itertools.product(_windows(rows, tile_rows), _windows(cols, tile_cols))
    blocks = [Block((down, across), 0, (across, down)) for (down, _), (across, _) in tiles]
    return Plan((tile_rows, tile_cols), (tile_cols, tile_rows), tuple(blocks))


def _aligned(extent: int, length: int) -> int:
    """Round down to a multiple of TILE_ALIGNMENT, except for short extents and the whole axis."""
    if extent == length or extent < TILE_ALIGNMENT:
        return extent
    return extent - extent % TILE_ALIGNMENT
