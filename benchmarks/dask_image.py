"""Measure ``ado.edge_detect`` of an image larger than the memory of a worker, from Zarr to Zarr.

    python benchmarks/dask_image.py                          # 32768 x 32768 pixels: 4 GiB
    python benchmarks/dask_image.py --size 16384 --folder /scratch

The script prints JSON with one record per way of computing the result. Each way runs in separate
processes:

- `loop`: without Dask. Bands of chunks are computed one after the other, each with all threads.
- `threads`: a Dask array, computed with Dask's threads.
- `distributed`: two worker processes, each with one thread and limited memory.
- `killed`: as `distributed`, but one worker is killed after a third of the results is stored.

A record contains `cpu_seconds` (user and system, of all its processes), `wall_seconds`,
`peak_gib` (the largest sum of the resident memory of all its processes; shared pages count once per
process), `spilled_bytes` (written to disk by workers whose memory is full, as reported by the
workers at the end of the run), and the `digest` of the result. `cpu_of_loop` is relative to the
loop.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
import psutil
import zarr

import adokernels as ado

#: Time between two samples of the resident memory.
SAMPLE_SECONDS = 0.05


def make_image(path: Path, size: int, chunk: tuple[int, int]) -> None:
    """Store gradients with noise, which compresses like a photograph."""
    image = zarr.open(str(path), mode="w", shape=(size, size, 4), chunks=(*chunk, 4), dtype="u1")
    rng = np.random.default_rng(1)
    height, width = chunk
    for top in range(0, size, height):
        for left in range(0, size, width):
            rows = np.arange(top, min(top + height, size), dtype=np.uint32)[:, None, None]
            cols = np.arange(left, min(left + width, size), dtype=np.uint32)[:, None]
            pixels = ((rows * 3 + cols * 5 + rows * cols // 512) // 16).astype(np.uint8)
            noise = rng.integers(0, 8, (*pixels.shape[:2], 4), np.uint8)
            image[top : top + len(rows), left : left + len(cols)] = pixels + noise


def by_hand(image: Any, result: Any) -> None:
    """Read and write each chunk once. The result of a band is written when it is complete."""
    halo = ado.edge_detect.halo or 0
    rows, cols, channels = image.shape
    height, width = image.chunks[:2]
    window = np.empty((height + 2 * halo, cols, channels), np.uint8)  # rows before the band, band
    band = np.empty((height, cols), np.uint8)
    before = 0
    for top in range(0, rows, height):
        bottom = min(top + height, rows)
        filled = before + bottom - top
        for left in range(0, cols, width):
            right = left + width
            window[before:filled, left:right] = image[top:bottom, left:right]
        edges = ado.edge_detect(window[:filled])
        if top > 0:
            band[height - halo :] = edges[before - halo : before]
            result[top - height : top] = band
        band[: bottom - top] = edges[before:]
        if bottom == rows:
            result[top:bottom] = band[: bottom - top]
        before = 2 * halo
        window[:before] = window[filled - before : filled].copy()


def with_workers(image: Path, result: Any, memory: str, kill: bool) -> int:
    """Compute with two workers of one thread each, and return the bytes that they have spilled."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=memory, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        edges = ado.edge_detect(da.from_zarr(str(image)))
        stored = client.compute(da.store(edges, result, lock=False, compute=False))
        while kill and len(list(Path(result.store.root).rglob("c/*/*"))) < edges.npartitions // 3:
            time.sleep(SAMPLE_SECONDS)
        if kill:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        stored.result()
        spilled = client.run(lambda dask_worker: dask_worker.data.cumulative_metrics)
        return sum(int(metrics["disk-write", "bytes"]) for metrics in spilled.values())


def run_way(way: str, folder: Path, memory: str) -> None:
    """Compute the result in this process, and print the bytes that were spilled."""
    path = folder / "image.zarr"
    image = zarr.open(str(path), mode="r")
    result = zarr.open(
        str(folder / "edges.zarr"),
        mode="w",
        shape=image.shape[:2],
        chunks=image.chunks[:2],
        dtype="u1",
    )
    spilled = 0
    if way == "loop":
        by_hand(image, result)
    elif way == "threads":
        with dask.config.set(scheduler="threads"):
            da.store(ado.edge_detect(da.from_zarr(str(path))), result, lock=False)
    else:
        spilled = with_workers(path, result, memory, way == "killed")
    print(spilled)


def resident_bytes(process: psutil.Process) -> int:
    """Return the resident memory of a process and its descendants."""
    total = 0
    for member in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # the process has ended
            total += member.memory_info().rss
    return total


def digest(path: Path) -> str:
    """Return the SHA-256 digest of the elements of a Zarr array."""
    array = zarr.open(str(path), mode="r")
    sha = hashlib.sha256()
    for top in range(0, array.shape[0], array.chunks[0]):
        sha.update(np.ascontiguousarray(array[top : top + array.chunks[0]]))
    return sha.hexdigest()


def cpu_seconds() -> float:
    """Return the CPU time of all child processes that have ended, and of their children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(way: str, folder: Path, memory: str) -> dict[str, Any]:
    """Run one way in separate processes."""
    command = [sys.executable, __file__, "--way", way, "--memory", memory, "--folder", str(folder)]
    before, start, peak = cpu_seconds(), time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        process = psutil.Process(running.pid)
        while running.poll() is None:
            with contextlib.suppress(psutil.Error):
                peak = max(peak, resident_bytes(process))
            time.sleep(SAMPLE_SECONDS)
        output = running.stdout.read() if running.stdout else ""
    if running.returncode != 0:
        raise SystemExit(f"{way} failed with exit status {running.returncode}")
    return {
        "way": way,
        "cpu_seconds": cpu_seconds() - before,
        "wall_seconds": time.perf_counter() - start,
        "peak_gib": peak / 2**30,
        "spilled_bytes": int(output.split()[-1]),
        "digest": digest(folder / "edges.zarr"),
    }


def main() -> None:
    ways = ("loop", "threads", "distributed", "killed")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=32768, help="rows and columns of the image")
    parser.add_argument("--chunk", default="512x8192", help="rows and columns of its chunks")
    parser.add_argument("--memory", default="1 GiB", help="memory limit of each worker")
    parser.add_argument("--folder", type=Path, default=tempfile.gettempdir())
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways)
    parser.add_argument("--way", choices=ways, help=argparse.SUPPRESS)  # run in this process
    options = parser.parse_args()
    if options.way:
        run_way(options.way, options.folder, options.memory)
        return
    folder = Path(tempfile.mkdtemp(prefix="dask_image", dir=options.folder))
    try:
        height, width = map(int, options.chunk.split("x"))
        make_image(folder / "image.zarr", options.size, (height, width))
        records = [measure(way, folder, options.memory) for way in options.ways]
    finally:
        shutil.rmtree(folder)
    loop = next((r["cpu_seconds"] for r in records if r["way"] == "loop"), None)
    for record in records:
        record["cpu_of_loop"] = record["cpu_seconds"] / loop if loop else None
    report = {
        "size": options.size,
        "chunk": options.chunk,
        "memory_limit": options.memory,
        "processors": os.cpu_count(),
        "same_digest": len({r["digest"] for r in records}) == 1,
        "records": records,
    }
    json.dump(report, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
