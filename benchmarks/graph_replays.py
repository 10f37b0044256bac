"""Measure calls with out=, and replays of a CUDA graph that has captured them.

    python benchmarks/graph_replays.py
    python benchmarks/graph_replays.py --only gpp sobel --rounds 9

The operands are arrays of torch on the GPU, and their values do not matter. Each round takes the
time of 1000 calls ("call"), of 1000 replays of a graph with one call ("replay"), and of 10 replays
of a graph with 100 calls ("in graph"), until the GPU has finished. The table shows medians per
call in microseconds. The last line is JSON with times in seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import torch

import adokernels as ado

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = {"average_matvec": (2, 64, 64), "gpp": (8, 8, 8, 2), "max_plus": (16, 256)}
LENGTHS |= {"strided_copy": (4096,), "gather": (256, 1024), "component": (1024, 3)}
LENGTHS |= {"branch": (4096,), "instruction_parallelism": (4096,)}


def seconds_of(work: Callable[[], Any], repetitions: int) -> float:
    """Return the seconds per repetition."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repetitions):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repetitions


def captured(work: Callable[[], Any], times: int) -> torch.cuda.CUDAGraph:
    """Return a graph that calls work() several times."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            work()
    return graph


def times_of(routine: ado.Routine, rounds: int) -> dict[str, float]:
    """Return the median seconds per call."""
    host = routine.task.random_operands(LENGTHS.get(routine.name, (64, 64)))
    operands = [torch.from_numpy(a).cuda() for a in host]
    results = routine(*host, device="cpu")
    given = results if isinstance(results, tuple) else (results,)
    outs = tuple(torch.from_numpy(a).cuda() for a in given)

    def call() -> None:
        routine(*operands, out=outs if len(outs) > 1 else outs[0])

    call()  # loads the kernels
    one, hundred = captured(call, 1), captured(call, 100)
    samples: dict[str, list[float]] = {"call": [], "replay": [], "in graph": []}
    for _ in range(rounds + 1):
        samples["call"].append(seconds_of(call, 1000))
        samples["replay"].append(seconds_of(one.replay, 1000))
        samples["in graph"].append(seconds_of(hundred.replay, 10) / 100)
    return {name: statistics.median(taken[1:]) for name, taken in samples.items()}


def main() -> None:
    """Print a table of all routines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", metavar="ROUTINE", help="default: all routines")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, microseconds per call")
    print(f"{'routine':24}{'call':>9}{'replay':>9}{'in graph':>9}")
    found = {}
    for name in options.only or ado.routines:
        found[name] = times_of(ado.routines[name], options.rounds)
        print(f"{name:24}" + "".join(f"{1e6 * t:9.2f}" for t in found[name].values()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
