"""Compares ``ado.out_of_core`` with the times of the link to the GPU and of the kernel.

    python benchmarks/stream.py                       # 16 GiB sources
    python benchmarks/stream.py --gib 4 --memory "96 MiB" "8 GiB"

For each routine, the script measures:

- `link`: copies of the same number of bytes to and from the GPU, at the same time, between pinned
  memory and the GPU. No data is copied on the host.
- `kernel`: the calls for all blocks, with arrays in device memory.
- `stream`: ``ado.out_of_core`` between arrays in pageable memory, or in page-locked memory
  (``--pinned``). All pages are mapped before timing. The time with a new sink also contains page
  faults.

The share is the larger of `link` and `kernel`, divided by `stream`. The script needs CuPy.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

import adokernels as ado
from adokernels import _core
from adokernels.large import stream as streaming

#: Columns of the sources; the number of rows follows from their size.
COLUMNS = 32768
CHUNK = 64 << 20


def source_of(name: str, gib: float) -> NDArray[Any]:
    """Return an array of this size, filled with a repeated random tile."""
    tile = np.random.default_rng(0).integers(0, 256, 64 << 20, dtype=np.uint8)
    row = COLUMNS * (4 if name in ("edge_detect", "transpose") else 1)
    source = np.empty(int(gib * 2**30) // row * row, np.uint8)
    for first in range(0, source.size, tile.size):
        part = source[first : first + tile.size]
        part[...] = tile[: part.size]
    if name == "transpose":
        return source.view(np.float32).reshape(-1, COLUMNS)
    return source.reshape(-1, COLUMNS, *((4,) if name == "edge_detect" else ()))


def seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        ado.synchronize()
        start = time.perf_counter()
        work()
        ado.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def link(up: int, down: int) -> Callable[[], None]:
    """Return a function that copies `up` bytes to the GPU and `down` bytes from it in parallel."""
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    host = [cupy.cuda.alloc_pinned_memory(CHUNK) for _ in range(2)]
    device = [cupy.empty(CHUNK, cupy.uint8) for _ in range(2)]

    def copy() -> None:
        runtime = cupy.cuda.runtime
        kinds = (runtime.memcpyHostToDevice, runtime.memcpyDeviceToHost)
        left = [up, down]
        while any(left):
            for i, (stream, kind) in enumerate(zip(streams, kinds, strict=True)):
                count = min(left[i], CHUNK)
                pair = (device[i].data.ptr, host[i].ptr)
                if count:
                    runtime.memcpyAsync(*(pair if i == 0 else pair[::-1]), count, kind, stream.ptr)
                left[i] -= count
        for stream in streams:
            stream.synchronize()

    return copy


def kernels(routine: Any, source: NDArray[Any], memory: int) -> Callable[[], None]:
    """Return a function that makes the calls for all blocks, with arrays in device memory."""
    plan = streaming._plan(routine, source, memory)
    copies = _core.BlockCopies("cuda")
    block = copies.empty(plan.source_shape, source.dtype)
    result = copies.empty(plan.result_shape, source.dtype)

    def call() -> None:
        for _ in plan.blocks:
            routine(block, out=result, stream=copies.stream)

    return call


def measure(name: str, options: argparse.Namespace) -> None:
    routine, source = ado.routines[name], source_of(name, options.gib)
    shape = streaming._result_shape(routine, source.shape)
    if options.pinned:
        pageable, source = source, ado.empty_pinned(source.shape, source.dtype)
        source[...] = pageable
    sink = (ado.empty_pinned if options.pinned else np.empty)(shape, source.dtype)
    sink.fill(1)  # maps the pages
    linked = seconds(link(source.nbytes, sink.nbytes), options.repeats)
    up, down = (array.nbytes / linked / 1e9 for array in (source, sink))
    print(f"{name}: link {linked:.3f} s, {up:.1f} GB/s up, {down:.1f} GB/s down", flush=True)
    for memory in options.memory:

        def streamed(to: NDArray[Any] | None, memory: str = memory) -> None:
            ado.out_of_core(routine, source, to, memory=memory, device="cuda")

        kernel = seconds(kernels(routine, source, streaming._bytes(memory)), options.repeats)
        time_of_stream = seconds(lambda: streamed(sink), options.repeats)
        new_sink = seconds(lambda: streamed(None), 1)
        print(
            f"  memory {memory:>8}: kernel {kernel:.3f} s, stream {time_of_stream:.3f} s, share "
            f"{max(linked, kernel) / time_of_stream:.2f}, new sink {new_sink:.3f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=16.0, help="size of the sources")
    parser.add_argument("--memory", nargs="+", default=["8 GiB"])
    parser.add_argument(
        "--routines", nargs="+", default=["edge_detect", "gaussian_blur", "transpose"]
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pinned", action="store_true", help="source and sink are page-locked")
    options = parser.parse_args()
    for name in options.routines:
        measure(name, options)


if __name__ == "__main__":
    main()
