"""``ado.distributed.gpp`` on 1 to N ranks: strong and weak scaling, reproducibility, projection.

    mpirun -n 2 python -m mpi4py benchmarks/distributed_gpp.py            # mpi4py
    torchrun --nproc-per-node 2 benchmarks/distributed_gpp.py             # torch.distributed, gloo
    torchrun --nproc-per-node 2 benchmarks/distributed_gpp.py --backend nccl
    mpirun -n 2 python -m mpi4py benchmarks/distributed_gpp.py --device cpu --size 200x384x2000x2

Rank r uses the GPU with the index of its local rank. On the CPU, set ``OMP_NUM_THREADS`` to the
number of processors per rank. Rank 0 prints JSON with times in seconds. The time of a repetition is
the time of the slowest rank, from a barrier to the results in host memory. The report
contains these times and their medians:

- `serial`: ``ado.gpp`` on one rank with all rows.
- `strong`: ``ado.distributed.gpp`` on the first n ranks with the same rows, and the efficiency
  relative to `serial`.
- `weak`: the first n ranks with all whole tiles of the problem on each rank. The efficiency is the
  time of one rank divided by the time of n ranks.
- `same_bits`: whether all results of `strong` are bitwise identical.
- `terms`: `fixed` and `per_tile` are the intercept and the slope of the line fitted to the times of
  one rank with different numbers of tiles. `exchange` is the time of the collective operations and
  of the exact sum on all ranks.
- `projection`: the times of ``projected_seconds`` for strong and weak scaling, and the share of the
  FP64 peak with weak scaling. BerkeleyGW's published share is for a whole calculation.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import adokernels as ado
from adokernels.distributed import TILE_ROWS
from adokernels.large.communicators import Communicator, communicator_of, on_all_ranks
from adokernels.large.exact_sums import from_limbs, to_limbs
from adokernels.model.libraries import on_host
from adokernels.model.registry import gpp_tiles
from adokernels.model.tasks.gpp import GPP_SIZES

#: Share of the FP64 peak that BerkeleyGW reached on 9,408 nodes of Frontier (arXiv:2509.23018).
PUBLISHED_SHARE, PUBLISHED_RANKS = 0.5945, 9408
#: Ranks of the projection.
RANKS = (1, 2, 4, 8, PUBLISHED_RANKS)
#: The environment variables in which launchers store the rank within a host.
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


class World(NamedTuple):
    """The ranks of this run. groups[n] is the communicator of the first n ranks."""

    comm: Any
    groups: dict[int, Any]
    finish: Callable[[], None]


def world_of(backend: str) -> World:
    """Connect the ranks: through torch.distributed if torchrun started them, else through MPI."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        import torch
        import torch.distributed as distributed

        if backend == "nccl":
            torch.cuda.set_device(local_rank(0))
        distributed.init_process_group(backend)
        size = distributed.get_world_size()
        groups = {n: distributed.new_group(range(n)) for n in group_sizes(size)}
        return World(distributed.group.WORLD, groups, distributed.destroy_process_group)

    from mpi4py import MPI

    world = MPI.COMM_WORLD
    sizes = group_sizes(world.size)
    groups = {n: world.Split(0 if world.rank < n else MPI.UNDEFINED, world.rank) for n in sizes}
    return World(world, groups, lambda: None)


def group_sizes(size: int) -> list[int]:
    """The sizes of the groups: powers of two, and the number of all ranks."""
    return sorted({2**i for i in range(size.bit_length()) if 2**i <= size} | {size})


def local_rank(rank: int) -> int:
    """The rank within this host, which selects the GPU."""
    return next((int(os.environ[name]) for name in LOCAL_RANKS if name in os.environ), rank)


def barrier(comm: Communicator) -> None:
    comm.all_gather(np.zeros(1))


def slowest(comm: Communicator, call: Callable[[], Any], repeats: int) -> list[float]:
    """The time of the slowest rank in each repetition, after one untimed warm-up call."""
    times = []
    for _ in range(1 + repeats):
        barrier(comm)
        start = time.perf_counter()
        call()
        own = np.array([time.perf_counter() - start])
        times.append(float(comm.all_gather(own).max()))
    return times[1:]


def to_host(results: Iterable[Any]) -> bytes:
    """Wait for the results, and return their bits."""
    return b"".join(on_host(result).tobytes() for result in results)


class Terms(NamedTuple):
    """Measured terms of the time of a call, in seconds."""

    fixed: float  # sorting and gathering the bands, launches, copies of results
    per_tile: float
    exchange: float  # of `ranks` ranks
    ranks: int


def projected_seconds(terms: Terms, tiles: int, ranks: int) -> float:
    """The time of a call with `tiles` tiles on all ranks together.

    The exchange is proportional to log2 of the number of ranks, as for tree algorithms. Its
    messages have the same size for any number of ranks, except for 64 bytes per rank. The model
    assumes no network contention and equally fast ranks.
    """
    exchange = 0.0
    if ranks > 1:
        exchange = terms.exchange * math.log2(ranks) / math.log2(max(terms.ranks, 2))
    return terms.fixed + terms.per_tile * math.ceil(tiles / ranks) + exchange


class Benchmark:
    """The measurements of this rank."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.world = world_of(options.backend)
        self.comm = communicator_of(self.world.comm)
        self.repeats = options.repeats
        self.device = options.device
        if self.device == "cuda":
            self.device = f"cuda:{local_rank(self.comm.rank)}"
        ado.settings.device = self.device
        self.problem = ado.gpp_operands(options.size, seed=1)
        #: The number of tiles of the problem with all their rows.
        self.whole_tiles = max(1, len(self.problem.wtilde) // TILE_ROWS)

    @property
    def alone(self) -> Communicator:
        """The communicator of rank 0 only."""
        return communicator_of(self.world.groups[1])

    def on_device(self, operands: Any) -> Any:
        """Copy the operands to the GPU of this rank, if it uses one."""
        if self.device == "cpu":
            return operands
        return [ado.to_device(operand, self.device) for operand in operands]

    def on_rank_0(self, call: Callable[[], Any]) -> Any:
        """Call a function on rank 0 while the other ranks wait. Returns None on the other ranks."""
        result = call() if self.comm.rank == 0 else None
        barrier(self.comm)
        return result

    def serial(self) -> list[float]:
        """Times of ``ado.gpp`` with all rows on this rank."""
        whole = self.on_device(self.problem)
        return slowest(self.alone, lambda: to_host(ado.gpp(*whole)), self.repeats)

    def scaling(self, share_of: Callable[[Any], Any]) -> dict[int, tuple[list[float], bytes]]:
        """Times and bits on the first n ranks, each with its share."""
        results = {}
        for n, group in self.world.groups.items():
            if self.comm.rank < n:
                results[n] = self.times(group, self.on_device(share_of(group)))
            barrier(self.comm)
        return results

    def times(self, comm: Any, share: Any) -> tuple[list[float], bytes]:
        """Times and bits of ``ado.distributed.gpp``."""
        bits = b""

        def call() -> None:
            nonlocal bits
            bits = b"".join(a.tobytes() for a in ado.distributed.gpp(share, comm=comm))

        return slowest(communicator_of(comm), call, self.repeats), bits

    def share_of_tiles(self, tiles: int) -> Any:
        """The operands of the first tiles."""
        rows = slice(0, tiles * TILE_ROWS)
        whole = self.problem
        return whole._replace(
            wtilde=whole.wtilde[rows],
            i_eps=whole.i_eps[rows],
            aqsm=np.ascontiguousarray(whole.aqsm[:, rows]),
            vcoul=whole.vcoul[rows],
        )

    def terms(self) -> Terms:
        """The terms of the projection. Rank 0 measures the terms without communication."""

        def compute() -> tuple[float, float]:
            counts = sorted({max(1, self.whole_tiles // parts) for parts in (1, 2, 4, 8)})
            if len(counts) < 2:
                rows = len(self.problem.wtilde)
                raise SystemExit(f"the problem must have at least 16 rows, got {rows}")
            medians = []
            for count in counts:
                share = self.on_device(self.share_of_tiles(count))
                times = slowest(self.alone, lambda s=share: to_host(gpp_tiles(*s)), self.repeats)
                medians.append(statistics.median(times))
            slope, intercept = np.polyfit(counts, medians, 1)
            return max(0.0, float(intercept)), float(slope)

        fixed, per_tile = self.on_rank_0(compute) or (0.0, 0.0)
        frequencies = self.problem.wx.shape[1]
        tiles = np.random.default_rng(1).random((self.whole_tiles, 4 * frequencies))

        def exchange() -> None:
            on_all_ranks(self.comm, lambda: None)
            self.comm.all_gather(np.zeros(8))
            limbs = on_all_ranks(self.comm, lambda: to_limbs(tiles))
            self.comm.all_sum(limbs)
            from_limbs(limbs)

        times = slowest(self.comm, exchange, 10 * self.repeats)
        return Terms(fixed, per_tile, statistics.median(times), self.comm.size)

    def peak(self) -> float | None:
        """Theoretical FLOPs per second of FP64 FMAs of the device of rank 0."""
        return self.on_rank_0(lambda: ado.machine(self.device)["FP64 fma"].theoretical)


def projection(terms: Terms, tiles: int, flops: float, peak: float | None) -> list[dict[str, Any]]:
    """Strong scaling of the problem, and weak scaling with the problem per rank."""
    rows = []
    for ranks in RANKS:
        strong, weak = (projected_seconds(terms, n, ranks) for n in (tiles, tiles * ranks))
        one = projected_seconds(terms, tiles, 1)
        row = {
            "ranks": ranks,
            "strong": strong,
            "strong_efficiency": one / (strong * ranks),
            "weak": weak,
            "weak_efficiency": one / weak,
        }
        if peak:
            row["weak_share_of_peak"] = flops / weak / peak
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", default="si214", help="a name, or BANDSxIGPxIGxFREQUENCIES")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo", help="with torchrun")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    if options.size not in GPP_SIZES:
        options.size = tuple(map(int, options.size.split("x")))
    run = Benchmark(options)
    serial = run.on_rank_0(run.serial)
    strong = run.scaling(lambda group: ado.distributed.split(run.problem, group))
    weak = run.scaling(lambda _: run.share_of_tiles(run.whole_tiles))
    terms, peak = run.terms(), run.peak()
    if run.comm.rank == 0:
        one = statistics.median(serial)
        medians = {n: statistics.median(times) for n, (times, _) in strong.items()}
        of_weak = {n: statistics.median(times) for n, (times, _) in weak.items()}
        variant = "sorted_by_occupation" if run.device == "cpu" else "moments"
        flops = ado.gpp[variant].cost(*run.problem).executed_flops
        bands, frequencies = run.problem.wx.shape
        report = {
            "device": ado.machine(run.device).title,
            "ranks": run.comm.size,
            "launcher": type(run.comm).__name__.strip("_"),
            "shape": [bands, *run.problem.wtilde.shape, frequencies],
            "tiles": -(-len(run.problem.wtilde) // TILE_ROWS),
            "serial": {"median": one, "times": serial},
            "strong": {
                n: {
                    "median": median,
                    "of_serial": median / one,
                    "efficiency": one / (n * median),
                    "times": strong[n][0],
                }
                for n, median in medians.items()
            },
            "same_bits": len({bits for _, bits in strong.values()}) == 1,
            "weak": {
                n: {"median": median, "efficiency": of_weak[1] / median, "times": weak[n][0]}
                for n, median in of_weak.items()
            },
            "terms": terms._asdict(),
            "share_of_peak": flops / one / peak if peak else None,
            "published": {"ranks": PUBLISHED_RANKS, "share_of_peak": PUBLISHED_SHARE},
            "projection": projection(terms, run.whole_tiles, flops, peak),
        }
        json.dump(report, sys.stdout, indent=1)
        print()
    run.world.finish()


if __name__ == "__main__":
    main()
