"""Routines on arrays that are larger than the memory of a device.

An array is divided into blocks of the same shape, so that the arrays on the device can be reused.
The last block along an axis ends where the axis ends, so it overlaps with the previous block.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import re
import shutil
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adokernels import _core
from adokernels.model.libraries import address_range, shares_elements
from adokernels.model.registry import routines, transpose
from adokernels.model.routine import BuiltInVariant, Routine, check_types, has_channels
from adokernels.text import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: The number of block arrays and of result arrays on the device. While the kernel uses one of each,
#: the next block is uploaded and the previous result is downloaded. The third array of each kind
#: lets the following copy begin without a gap.
SLOTS = 3
#: Maximum bytes of a block and its result together, unless the smallest block is larger. Larger
#: blocks only lengthen the first upload and the last download, which do not overlap with other
#: work.
LARGEST_BLOCK = 128 << 20
#: The smallest number of rows and columns of a tile, unless the matrix has fewer. Larger numbers
#: are multiples of it, so that the rows of tiles begin at sector boundaries for all types.
_TILE = 64
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_UNITS |= {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def out_of_core(
    routine: Routine | BuiltInVariant | str,
    source: NDArray[Any],
    sink: NDArray[Any] | None = None,
    *,
    memory: int | str = "8 GiB",
    device: str | None = None,
    **options: Any,
) -> NDArray[Any]:
    """Compute an image filter or a transpose of an array larger than the memory of the device.

    The array is computed in blocks. While a kernel computes one block, the next block is copied to
    the GPU and the previous result is copied to the host. The result has the same bits as
    the result of one call. Source and sink can be memory-mapped files (``numpy.memmap``,
    ``numpy.load(..., mmap_mode="r")``).

    Parameters
    ----------
    routine : Routine, BuiltInVariant or str
        An image filter (``grayscale``, ``gaussian_blur``, ``sobel``, ``edge_detect``),
        ``transpose``, or one of their variants.
    source : ndarray
        The image, batch of images or matrix, as for a call of the routine.
    sink : ndarray, optional
        The result is stored here. Default: a new array. It must not share memory with `source`,
        not even through two maps of a file. The disk space of a memory-mapped file is reserved
        first.
    memory : int or str, default "8 GiB"
        Bytes of device memory for three blocks and their results, for example ``"512 MiB"``.
        Variants that store intermediate results need additional memory.
    device : str, optional
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. Default: the device of `routine` if it is a variant,
        else the default device.
    **options
        Options of the routine.

    Returns
    -------
    ndarray
        `sink`, or the new array.

    Raises
    ------
    TypeError
        If the routine is not an image filter or ``transpose``, or if `source` or `sink` is not a
        NumPy array.
    ValueError
        If `memory` cannot hold the smallest blocks, if `sink` has the wrong shape or type, or if it
        shares memory with `source`.
    Unavailable
        If the device is not available, or is the emulator.
    OSError
        If the disk does not have the space for a memory-mapped `sink`. Nothing is computed.

    Examples
    --------
    >>> image = np.lib.format.open_memmap("scan.npy", mode="r")  # doctest: +SKIP
    >>> edges = np.lib.format.open_memmap(
    ...     "edges.npy", mode="w+", dtype=np.uint8, shape=image.shape[:2]
    ... )  # doctest: +SKIP
    >>> ado.out_of_core(ado.edge_detect, image, edges, memory="2 GiB")  # doctest: +SKIP
    """
    for name in ("out", "stream", "variant"):
        if name in options:
            raise TypeError(
                f"out_of_core: {name}= is not supported; pass a variant as routine, and out= as "
                "sink"
            )
    call = routines[routine] if isinstance(routine, str) else routine
    ladder = call.routine if isinstance(call, BuiltInVariant) else call
    if ladder is not transpose and getattr(ladder, "halo", None) is None:
        raise TypeError(
            "out_of_core: the routine must be an image filter or transpose, "
            f"got {getattr(ladder, 'name', kind_of(ladder))}"
        )
    _check_array("source", source)
    if sink is not None:
        _check_array("sink", sink)
    if device is None:
        device = call.device if isinstance(call, BuiltInVariant) else _core.device()
    elif not isinstance(device, str):
        raise TypeError(f"out_of_core: device must be a string, got {type(device).__name__}")
    if device != "cpu" and _core.resolve_device(device) == "emulator":
        raise _core.Unavailable(
            "out_of_core: copies overlap on streams, which the emulator lacks; pass device='cpu'"
        )
    budget = _bytes(memory)
    check_types(ladder, [source], {name: v for name, v in options.items() if name != "block"})
    plan = _plan(ladder, source, budget)
    shape = _result_shape(ladder, source.shape)
    if sink is None:
        sink = np.empty(shape, source.dtype)
    else:
        _check_sink(sink, shape, source)
        _reserve(sink)
    if device == "cpu":
        _in_turn(call, plan, source, sink, options)
    else:
        _overlapped(call, _core.BlockCopies(device), plan, source, sink, options)
    return sink


def _check_array(name: str, array: Any) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"out_of_core: {name} must be a NumPy array, got {type(array).__name__}")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"out_of_core: {name} must not be a masked array; fill it first (.filled())"
        )


def _result_shape(ladder: Routine, shape: tuple[int, ...]) -> tuple[int, ...]:
    if ladder is transpose:
        return shape[::-1]
    return shape[:-1] if has_channels(ladder) else shape


def _plan(ladder: Routine, source: NDArray[Any], memory: int) -> Blocking:
    if source.size == 0:
        return Blocking(source.shape, _result_shape(ladder, source.shape), ())
    if ladder.halo is None:
        rows, cols = source.shape
        return transpose_plan((rows, cols), source.itemsize, memory)
    *images, rows, cols = _result_shape(ladder, source.shape)
    channels = source.shape[-1] if has_channels(ladder) else None
    return image_plan(images, (rows, cols), channels, ladder.halo, memory)


def _check_sink(sink: NDArray[Any], shape: tuple[int, ...], source: NDArray[Any]) -> None:
    if sink.shape != shape or sink.dtype != source.dtype:
        raise ValueError(
            f"out_of_core: sink must have shape {shape} and type {source.dtype}, "
            f"got {sink.shape} and {sink.dtype}"
        )
    if not sink.flags.writeable:
        raise ValueError("out_of_core: sink must be writeable, got a read-only array")
    if shares_elements(sink.shape, sink.strides, sink.itemsize):
        raise ValueError("out_of_core: sink has internal overlap (elements share memory)")
    if _share_memory(source, sink):
        raise ValueError("out_of_core: sink must not share memory with source")


def _share_memory(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether arrays share memory; true if the exact answer takes too long."""
    limit = 10_000  # candidate solutions
    try:
        if np.shares_memory(a, b, max_work=limit):  # type: ignore[arg-type]  # error in the stubs
            return True
    except RuntimeError:  # TooHardError
        return True
    if np.may_share_memory(a, b):  # interleaved parts of one map
        return False
    return _core.writes_through_file(address_range(b), address_range(a))


def _reserve(sink: NDArray[Any]) -> None:
    """Reserve the disk space of a memory-mapped sink.

    Without it, a store to a page for which the disk has no space ends the process (SIGBUS).
    """
    array: Any = sink
    while isinstance(array, np.ndarray) and getattr(array, "filename", None) is None:
        array = array.base
    if not isinstance(array, np.memmap):
        return
    path = str(array.filename)
    for inode, begin, end, shared in _core.mapped_parts(*address_range(sink)):
        if not shared:
            continue
        with open(path, "r+b") as file:
            if os.fstat(file.fileno()).st_ino != inode:  # the name belongs to another file now
                continue
            try:
                os.posix_fallocate(file.fileno(), begin, end - begin)
            except OSError as error:
                number = error.errno or errno.EIO
                if number in (errno.EOPNOTSUPP, errno.EINVAL):  # not supported here
                    return
                raise OSError(
                    number,
                    f"out_of_core: sink must fit on its disk, got {end - begin} bytes to reserve "
                    f"and {shutil.disk_usage(path).free} bytes free: {os.strerror(number)}",
                    path,
                ) from error


def _bytes(memory: int | str) -> int:
    """Convert an integer, or a string of a number and a unit, to a number of bytes."""
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", memory)
        unit = _UNITS.get(found[2] or "B") if found else None
        if found is None or unit is None:
            raise ValueError(
                f"out_of_core: memory must be a number of bytes or a string like '8 GiB', "
                f"got {memory!r}"
            )
        return round(min(float(found[1]) * unit, sys.float_info.max))
    if isinstance(memory, bool) or not isinstance(memory, (int, np.integer)):
        raise TypeError(f"out_of_core: memory must be an integer or a string, got {memory!r}")
    return int(memory)


def _in_turn(
    call: Any, plan: Blocking, source: NDArray[Any], sink: NDArray[Any], options: dict[str, Any]
) -> None:
    """Compute the blocks on the CPU, one after the other."""
    result = np.empty(plan.result_shape, sink.dtype)
    for block in plan.blocks:
        call(source[block.source], out=result, device="cpu", **options)
        stored = sink[block.sink]
        last = block.first + stored.size
        stored[...] = result.reshape(-1)[block.first : last].reshape(stored.shape)


def _overlapped(
    call: Any,
    copies: _core.BlockCopies,
    plan: Blocking,
    source: NDArray[Any],
    sink: NDArray[Any],
    options: dict[str, Any],
) -> None:
    """Compute the blocks on the GPU.

    Before a step waits for a copy, it begins the next copy in the same direction. The link
    therefore has work in both directions at all times.
    """
    count = len(plan.blocks)
    uploads: deque[_core.PendingCopy] = deque()
    downloads: deque[_core.PendingCopy] = deque()
    try:
        blocks = [copies.empty(plan.source_shape, source.dtype) for _ in range(min(SLOTS, count))]
        results = [copies.empty(plan.result_shape, sink.dtype) for _ in blocks]
        for step in range(count + 2):
            loaded, computed, stored = step, step - 1, step - 2
            if loaded < count:
                part = source[plan.blocks[loaded].source]
                uploads.append(copies.upload(blocks[loaded % SLOTS], part))
            if 0 <= computed < count:
                slot = computed % SLOTS
                uploads.popleft().wait()
                if computed >= SLOTS:
                    downloads.popleft().wait()  # the previous result in this slot
                call(blocks[slot], out=results[slot], stream=copies.stream, **options)
            if stored >= 0:
                block = plan.blocks[stored]
                result = results[stored % SLOTS]
                downloads.append(copies.download(sink[block.sink], result, block.first))
        for download in downloads:
            download.wait()
    finally:
        copies.close()


class Block(NamedTuple):
    """One block: what to read and where to write its results."""

    #: The part of the source array that the block reads.
    source: tuple[slice, ...]
    #: The index of the first stored element of the block's result. The stored elements are
    #: contiguous.
    first: int
    #: The part of the sink array that the block writes.
    sink: tuple[slice, ...]


class Blocking(NamedTuple):
    """The blocks of an array and their common shapes."""

    source_shape: tuple[int, ...]
    result_shape: tuple[int, ...]
    blocks: tuple[Block, ...]


def _windows(length: int, extent: int, halo: int = 0) -> list[tuple[slice, slice]]:
    """Windows of `extent` indices along an axis: indices to read, and results to store."""
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
            f"out_of_core: memory must be at least {SLOTS * smallest} bytes for these arrays, "
            f"got {memory}"
        )
    return max(smallest, min(memory // SLOTS, LARGEST_BLOCK))


def image_plan(
    images: Sequence[int], pixels: tuple[int, int], channels: int | None, halo: int, memory: int
) -> Blocking:
    """Divide images into bands of rows, or a batch of images into smaller batches.

    `pixels` are rows and columns, and `channels` is the length of the last axis of the source, or
    None. A result pixel depends on the pixels up to the distance `halo`. Elements have one byte.
    `memory` is for SLOTS blocks and their results; ValueError is raised if the smallest blocks do
    not fit.
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
    return Blocking(source_shape, result_shape, tuple(blocks))


def transpose_plan(shape: tuple[int, int], itemsize: int, memory: int) -> Blocking:
    """Divide a matrix into approximately square tiles; `memory` is as for :func:`image_plan`."""
    rows, cols = shape
    smallest = min(rows, _TILE) * min(cols, _TILE)
    elements = _bytes_per_block(memory, 2 * itemsize * smallest) // (2 * itemsize)
    side = math.isqrt(elements)
    tile_rows = _aligned(min(rows, max(side, elements // cols)), rows)
    tile_cols = _aligned(min(cols, elements // tile_rows), cols)
    tiles = itertools.product(_windows(rows, tile_rows), _windows(cols, tile_cols))
    blocks = [Block((down, across), 0, (across, down)) for (down, _), (across, _) in tiles]
    return Blocking((tile_rows, tile_cols), (tile_cols, tile_rows), tuple(blocks))


def _aligned(extent: int, length: int) -> int:
    """Round down to a multiple of _TILE, except for short extents and the whole axis."""
    if extent == length or extent < _TILE:
        return extent
    return extent - extent % _TILE
