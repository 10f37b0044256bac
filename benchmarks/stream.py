"""Compares ``ado.out_of_core`` with the times of the link to the GPU and of the kernel.

    python benchmarks/stream.py                       # 16 GiB sources
    python benchmarks/stream.py --gib 4 --memory "96 MiB" "8 GiB"

For each routine, the script measures:

- `link`: copies of the same number of bytes to and from the GPU, at the same time, between pinned
  memory and the GPU. No data is copied on the host.
- `kernel`: the calls for all blocks, with arrays in device memory.
- `stream`: ``ado.out_of_core`` between arrays in pageable memory, or in page-locked memory
  (``--pinned``). All pages are mapped before timing.

The share is the larger of `link` and `kernel`, divided by `stream`. The script needs CuPy.
"""

from __future__ import annotations

import argparse
import statistics
import timeit
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

import adokernels as ado
from adokernels import _core
from adokernels.large import stream as streaming

COLUMNS = 32768  # of the sources; the number of rows follows from their size
CHUNK = 64 << 20
ROUTINES = ("edge_detect", "gaussian_blur", "transpose")


def source_of(name: str, gib: float) -> np.ndarray:
    """An array of this size, filled with a repeated random tile."""
    tile = np.random.default_rng(0).integers(0, 256, COLUMNS * 2048, np.uint8)
    row = COLUMNS * (1 if name == "gaussian_blur" else 4)
    source = np.resize(tile, int(gib * 2**30) // row * row)
    if name == "transpose":
        return source.view(np.float32).reshape(-1, COLUMNS)
    return source.reshape(-1, COLUMNS, *((4,) if name == "edge_detect" else ()))


def seconds(work: Callable[[], object], repeats: int) -> float:
    def finished() -> None:
        work()
        ado.synchronize()

    return statistics.median(timeit.repeat(finished, ado.synchronize, number=1, repeat=repeats))


def link(up: int, down: int) -> Callable[[], None]:
    """A function that copies `up` bytes to the GPU and `down` bytes from it in parallel."""
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    host = [cupy.cuda.alloc_pinned_memory(CHUNK) for _ in range(2)]
    device = [cupy.empty(CHUNK, cupy.uint8) for _ in range(2)]
    runtime = cupy.cuda.runtime
    ways = (
        (device[0].data.ptr, host[0].ptr, runtime.memcpyHostToDevice, up),
        (host[1].ptr, device[1].data.ptr, runtime.memcpyDeviceToHost, down),
    )

    def copy(keep: object = (host, device)) -> None:
        for first in range(0, max(up, down), CHUNK):
            for stream, (to, origin, kind, total) in zip(streams, ways, strict=True):
                if first < total:
                    count = min(total - first, CHUNK)
                    runtime.memcpyAsync(to, origin, count, kind, stream.ptr)
        for stream in streams:
            stream.synchronize()

    return copy


def kernels(routine: Any, source: np.ndarray, memory: int) -> Callable[[], None]:
    """A function that makes the calls for all blocks, with arrays in device memory."""
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
        kernel = seconds(kernels(routine, source, streaming._bytes(memory)), options.repeats)
        streamed = seconds(
            lambda m=memory: ado.out_of_core(routine, source, sink, memory=m, device="cuda"),
            options.repeats,
        )
        share = max(linked, kernel) / streamed
        text = f"kernel {kernel:.3f} s, stream {streamed:.3f} s, share {share:.2f}"
        print(f"  memory {memory:>8}: {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=16.0, help="size of the sources")
    parser.add_argument("--memory", nargs="+", default=["8 GiB"])
    parser.add_argument("--routines", nargs="+", choices=ROUTINES, default=ROUTINES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pinned", action="store_true", help="source and sink are page-locked")
    options = parser.parse_args()
    for name in options.routines:
        measure(name, options)


if __name__ == "__main__":
    main()
