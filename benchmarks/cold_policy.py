"""Compares two ways to make caches cold before a sample: overwrite them, or read through them.

    python benchmarks/cold_policy.py benchmarks/results/cold-cuda.json --device cuda
    python benchmarks/cold_policy.py benchmarks/results/cold-cpu.json --device cpu
    python benchmarks/cold_policy.py benchmarks/results/cold-*.json --chart docs/cold.png

Overwritten caches are full of dirty lines, which a sample writes back. After reading, all lines are
clean, and lines that the sample writes can stay in the caches when it ends. For operands from 1 MiB
to 256 MiB, the script times a copy, a transpose and a reduction after each of the two, in
alternation, and fits a constant plus bytes/bandwidth. The policy whose times deviate less from this
line is better. GPU measurements need CuPy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import adokernels as ado
from adokernels import _core
from adokernels.measuring.context import context
from adokernels.text import percent, quantity

POLICIES = ("overwritten", "read")
WORKS = ("copy", "transpose", "reduction")
MIB = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
COLUMNS = 1024
COPY = {"cpu": "stream_copy", "cuda": "copy"}
#: The flush covers this multiple of the last-level cache.
FLUSHED = 3


def calls(device: str, mib: float) -> dict[str, Any]:
    """Prepare each work for a matrix of this size."""
    a = np.random.default_rng(1).random((int(mib * 2**18) // COLUMNS, COLUMNS), np.float32)
    moved = ado.transpose.problem(a, device=device)
    matrix = np.ones((64, 64), np.float32)
    summed = ado.average_matvec.problem(a.reshape(16, 64, -1), matrix, device=device)
    return {
        "copy": moved.prepare(COPY[device]),
        "transpose": moved.prepare(moved.best()),
        "reduction": summed.prepare(summed.best()),
    }


def flushes_of_cpu() -> dict[str, Callable[[], None]]:
    """Write or read a buffer with as many threads as a call uses."""
    threads = _core.max_threads()
    parts = np.array_split(np.ones(FLUSHED * _core.last_level_cache_bytes() // 8), threads)
    pool = ThreadPoolExecutor(threads)

    def overwrite() -> None:
        list(pool.map(lambda part: part.fill(1.0), parts))

    def read() -> None:
        list(pool.map(np.sum, parts))

    return {"overwritten": overwrite, "read": read}


def flushes_of_gpu() -> dict[str, Callable[[], None]]:
    """Write or read a buffer on the default stream."""
    import cupy

    buffer = cupy.zeros(FLUSHED * _core.cuda_properties()["l2_bytes"] // 4, cupy.float32)
    return {"overwritten": lambda: buffer.data.memset(0, buffer.nbytes), "read": buffer.sum}


def measure(device: str, rounds: int) -> dict[str, Any]:
    flushes = flushes_of_cpu() if device == "cpu" else flushes_of_gpu()
    found: dict[str, dict[str, list[list[float]]]] = {w: {p: [] for p in POLICIES} for w in WORKS}
    order = np.random.default_rng()
    for mib in MIB:
        for name, call in calls(device, mib).items():
            seconds: dict[str, list[float]] = {policy: [] for policy in POLICIES}
            for _ in range(rounds + 2):
                for policy in order.permutation(POLICIES):
                    flushes[policy]()
                    seconds[policy].append(call.sample(False, 1)[0])
            size = call.cost.bytes
            for policy, samples in seconds.items():
                found[name][policy].append([size, float(np.median(samples[2:]))])
    machine = ado.machine(device)
    about = {"device": device, "name": machine.name, "roof": machine.roof}
    return {**about, "context": context(device), "works": found}


class Line(NamedTuple):
    """A constant in seconds plus bytes over a bandwidth, and the deviations from it."""

    constant: float
    bandwidth: float
    deviations: NDArray[np.float64]

    @property
    def rms(self) -> float:
        """The root mean square of the deviations."""
        return float(np.sqrt(np.mean(self.deviations**2)))


def fit(points: NDArray[np.float64]) -> Line:
    """Minimise the sum of the squared relative deviations."""
    size, seconds = points.T
    terms = np.stack((1 / seconds, size / seconds), axis=1)
    (constant, slope), *_ = np.linalg.lstsq(terms, np.ones(len(points)))
    return Line(constant, 1 / slope, seconds / (constant + slope * size) - 1)


def deviations(record: Mapping[str, Any]) -> dict[str, float]:
    """The root mean square deviation of each policy, over all works and sizes."""
    works = record["works"].values()
    return {
        p: float(np.sqrt(np.mean([fit(np.array(w[p])).rms ** 2 for w in works]))) for p in POLICIES
    }


def show(record: Mapping[str, Any]) -> None:
    print(f"{record['name']}, DRAM copy {quantity(record['roof'], 'B/s')}")
    for work, of_policy in record["works"].items():
        for policy, points in of_policy.items():
            line = fit(np.array(points))
            words = [f"{work:10} {policy:12} {quantity(line.constant, 's')}"]
            words += [f"+ bytes / {quantity(line.bandwidth, 'B/s')}:", f"rms {percent(line.rms)},"]
            print(*words, f"largest {percent(np.abs(line.deviations).max())}")
    print("all:", ", ".join(f"{p} {percent(d)}" for p, d in deviations(record).items()))


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """One row per device and one column per work: the deviation from the line against the size."""
    figure, axes = plt.subplots(
        len(records), len(WORKS), sharex=True, sharey="row", squeeze=False, layout="constrained"
    )
    figure.set_size_inches(10, 3 * len(records))
    for row, record in zip(axes, records, strict=True):
        for plot, work in zip(row, WORKS, strict=True):
            for policy, style in zip(POLICIES, ("C3o-", "C0s-"), strict=True):
                points = np.array(record["works"][work][policy])
                line = fit(points)
                label = f"{policy}: rms {percent(line.rms)}"
                plot.semilogx(points[:, 0] / 2**20, 100 * line.deviations, style, label=label, ms=3)
            plot.axhline(0, color="grey", lw=0.8)
            plot.set_title(f"{record['name']}: {work}", fontsize=9)
            plot.set_xlabel("compulsory bytes [MiB]", fontsize=8)
            plot.legend(fontsize=8)
        row[0].set_ylabel("deviation from\nconstant + bytes/bandwidth [%]", fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="records to write or to draw")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="measure, and write one record")
    parser.add_argument("--rounds", type=int, default=30, help="samples per point and policy")
    parser.add_argument("--chart", type=Path, help="draw the records")
    options = parser.parse_args()
    if options.device:
        (path,) = options.files
        path.write_text(json.dumps(measure(options.device, options.rounds)) + "\n")
    records = [json.loads(path.read_text()) for path in options.files]
    for record in records:
        show(record)
    if options.chart:
        draw(records, options.chart)


if __name__ == "__main__":
    main()
