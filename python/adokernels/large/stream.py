"""Routines on arrays that are larger than the memory of a device."""

from __future__ import annotations

import re
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.large.blocks import SLOTS, Plan, image_plan, transpose_plan
from adokernels.model.operands import check_types, has_channels
from adokernels.model.registry import routines, transpose
from adokernels.model.routine import BuiltInVariant, Routine

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    the GPU and the previous result is copied to the host. The result has the same bits as that of
    one call. Source and sink can be memory-mapped files (``numpy.memmap``,
    ``numpy.load(..., mmap_mode="r")``).

    Parameters
    ----------
    routine : Routine, BuiltInVariant or str
        An image filter (``grayscale``, ``gaussian_blur``, ``sobel``, ``edge_detect``),
        ``transpose``, or one of their variants.
    source : ndarray
        The image, batch of images or matrix, as for a call of the routine.
    sink : ndarray, optional
        The result is stored here. Default: a new array. It must not share memory with `source`. Two
        maps of the same file are not recognised.
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
        If the routine is neither an image filter nor ``transpose``, or if `source` or `sink` is not
        a NumPy array.
    ValueError
        If `memory` cannot hold the smallest blocks, if `sink` has the wrong shape or type, or if it
        shares memory with `source`.
    Unavailable
        If the device is not available.

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
                f"stream: {name}= is not supported; pass a variant as routine, and out= as sink"
            )
    call = routines[routine] if isinstance(routine, str) else routine
    ladder = call.routine if isinstance(call, BuiltInVariant) else call
    if ladder is not transpose and getattr(ladder, "halo", None) is None:
        raise TypeError(
            "stream: the routine must be an image filter or transpose, "
            f"got {getattr(ladder, 'name', type(ladder).__name__)}"
        )
    _check_array("source", source)
    if sink is not None:
        _check_array("sink", sink)
    if device is None:
        device = call.device if isinstance(call, BuiltInVariant) else _core.device()
    elif not isinstance(device, str):
        raise TypeError(f"stream: device must be a string, got {type(device).__name__}")
    budget = _bytes(memory)
    check_types(ladder, [source], {name: v for name, v in options.items() if name != "block"})
    plan = _plan(ladder, source, budget)
    shape = _result_shape(ladder, source.shape)
    if sink is None:
        sink = np.empty(shape, source.dtype)
    else:
        _check_sink(sink, shape, source)
    if device == "cpu":
        _in_turn(call, plan, source, sink, options)
    else:
        _overlapped(call, _core.BlockCopies(device), plan, source, sink, options)
    return sink


def _check_array(name: str, array: Any) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"stream: {name} must be a NumPy array, got {type(array).__name__}")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"stream: {name} must not be a masked array; fill it first (.filled())")


def _result_shape(ladder: Routine, shape: tuple[int, ...]) -> tuple[int, ...]:
    if ladder is transpose:
        return shape[::-1]
    return shape[:-1] if has_channels(ladder) else shape


def _plan(ladder: Routine, source: NDArray[Any], memory: int) -> Plan:
    if source.size == 0:
        return Plan(source.shape, _result_shape(ladder, source.shape), ())
    if ladder.halo is None:
        rows, cols = source.shape
        return transpose_plan((rows, cols), source.itemsize, memory)
    *images, rows, cols = _result_shape(ladder, source.shape)
    channels = source.shape[-1] if has_channels(ladder) else None
    return image_plan(images, (rows, cols), channels, ladder.halo, memory)


def _check_sink(sink: NDArray[Any], shape: tuple[int, ...], source: NDArray[Any]) -> None:
    if sink.shape != shape or sink.dtype != source.dtype:
        raise ValueError(
            f"stream: sink must have shape {shape} and type {source.dtype}, "
            f"got {sink.shape} and {sink.dtype}"
        )
    if not sink.flags.writeable:
        raise ValueError("stream: sink must be writeable, got a read-only array")
    if _has_internal_overlap(sink):
        raise ValueError("stream: sink has internal overlap (elements share memory)")
    if _share_memory(source, sink):
        raise ValueError("stream: sink must not share memory with source")


def _has_internal_overlap(array: NDArray[Any]) -> bool:
    """Whether elements share memory, or are interleaved in a way that this test cannot resolve."""
    extent = array.itemsize
    for stride, length in sorted(
        (abs(stride), length)
        for stride, length in zip(array.strides, array.shape, strict=True)
        if length > 1
    ):
        if stride < extent:
            return array.size > 0
        extent += stride * (length - 1)
    return False


def _share_memory(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether arrays share memory; true if the exact answer takes too long."""
    limit = 10_000  # candidate solutions
    try:
        return np.shares_memory(a, b, max_work=limit)  # type: ignore[arg-type]  # of the stubs
    except RuntimeError:  # TooHardError
        return True


def _bytes(memory: int | str) -> int:
    """Convert an integer, or a string of a number and a unit, to a number of bytes."""
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", memory)
        unit = _UNITS.get(found[2] or "B") if found else None
        if found is None or unit is None:
            raise ValueError(
                f"stream: memory must be a number of bytes or a string like '8 GiB', got {memory!r}"
            )
        return round(min(float(found[1]) * unit, sys.float_info.max))
    if isinstance(memory, bool) or not isinstance(memory, (int, np.integer)):
        raise TypeError(f"stream: memory must be an integer or a string, got {memory!r}")
    return int(memory)


def _in_turn(
    call: Any, plan: Plan, source: NDArray[Any], sink: NDArray[Any], options: dict[str, Any]
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
    plan: Plan,
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
