"""``ado.distributed.gpp`` on 1 to N ranks: strong and weak scaling, and reproducibility.

    mpirun -n 2 python -m mpi4py benchmarks/distributed_gpp.py            # mpi4py
    torchrun --nproc-per-node 2 benchmarks/distributed_gpp.py             # torch.distributed, gloo
    torchrun --nproc-per-node 2 benchmarks/distributed_gpp.py --backend nccl
    mpirun -n 2 python -m mpi4py benchmarks/distributed_gpp.py --device cpu --size 200x384x2000x2

Rank r uses the GPU with the index of its local rank. On the CPU, set ``OMP_NUM_THREADS`` to the
number of processors per rank. Rank 0 prints JSON with times in seconds. The time of a repetition is
the time of the slowest rank, from a barrier to the results in host memory. The report contains the
medians:

- `serial`: ``ado.gpp`` on one rank with all rows.
- `strong`: ``ado.distributed.gpp`` on the first n ranks with the same rows, and the efficiency
  relative to `serial`.
- `weak`: the first n ranks with all whole tiles of the problem on each rank. The efficiency is the
  time of one rank divided by the time of n ranks.
- `same_bits`: whether all results of `strong` are bitwise identical.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.distributed import TILE_ROWS, communicator_of
from adokernels.model.libraries import on_host
from adokernels.model.tasks.gpp import GPP_SIZES

#: The environment variables in which launchers store the rank within a host.
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def local_rank(rank: int) -> int:
    """The rank within this host, which selects the GPU."""
    return next((int(os.environ[name]) for name in LOCAL_RANKS if name in os.environ), rank)


def groups_of(backend: str) -> tuple[Any, dict[int, Any], Callable[[], None]]:
    """The communicators of all ranks and of the first n ranks, and a function that ends the run.

    n is a power of two or the number of all ranks.
    """

    def sizes(size: int) -> list[int]:
        return sorted({2**i for i in range(size.bit_length()) if 2**i <= size} | {size})

    if "TORCHELASTIC_RUN_ID" in os.environ:  # started by torchrun
        import torch
        import torch.distributed as distributed

        if backend == "nccl":
            torch.cuda.set_device(local_rank(0))
        distributed.init_process_group(backend)
        found = {n: distributed.new_group(range(n)) for n in sizes(distributed.get_world_size())}
        return distributed.group.WORLD, found, distributed.destroy_process_group

    from mpi4py import MPI

    world, none = MPI.COMM_WORLD, MPI.UNDEFINED
    found = {n: world.Split(0 if world.rank < n else none, world.rank) for n in sizes(world.size)}
    return world, found, lambda: None


def barrier(comm: Any) -> None:
    comm.all_gather(np.zeros(1))


def slowest(comm: Any, call: Callable[[], bytes], repeats: int) -> tuple[float, bytes]:
    """The median over repetitions of the time of the slowest rank, and the bits of the result."""
    times, bits = [], b""
    for _ in range(1 + repeats):  # the first call warms up
        barrier(comm)
        start = time.perf_counter()
        bits = call()
        times.append(float(comm.all_gather(np.array([time.perf_counter() - start])).max()))
    return statistics.median(times[1:]), bits


def bits_of(results: Any) -> bytes:
    """Wait for the results, and return their bits."""
    return b"".join(on_host(result).tobytes() for result in results)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", default="si214", help="a name, or BANDSxIGPxIGxFREQUENCIES")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo", help="with torchrun")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    size = options.size if options.size in GPP_SIZES else tuple(map(int, options.size.split("x")))
    world, groups, finish = groups_of(options.backend)
    comm = communicator_of(world)
    device = options.device if options.device == "cpu" else f"cuda:{local_rank(comm.rank)}"
    ado.settings.device = device
    problem = ado.gpp_operands(size, seed=1)

    def on_device(operands: Any) -> Any:
        return operands if device == "cpu" else [ado.to_device(o, device) for o in operands]

    def scaling(share_of: Callable[[Any], Any]) -> dict[int, tuple[float, bytes]]:
        """Times and bits on the first n ranks, each with its share."""
        results = {}
        for n, group in groups.items():
            if comm.rank < n:
                share = on_device(share_of(group))
                results[n] = slowest(
                    communicator_of(group),
                    lambda s=share, g=group: bits_of(ado.distributed.gpp(s, comm=g)),
                    options.repeats,
                )
            barrier(comm)
        return results

    serial = 0.0
    if comm.rank == 0:
        whole, alone = on_device(problem), communicator_of(groups[1])
        serial, _ = slowest(alone, lambda: bits_of(ado.gpp(*whole)), options.repeats)
    barrier(comm)
    strong = scaling(lambda group: ado.distributed.split(problem, group))
    rows = slice(0, max(1, len(problem.wtilde) // TILE_ROWS) * TILE_ROWS)
    tiles = problem._replace(
        **{name: getattr(problem, name)[rows] for name in ("wtilde", "i_eps", "vcoul")},
        aqsm=np.ascontiguousarray(problem.aqsm[:, rows]),
    )
    weak = scaling(lambda _: tiles)

    def efficiencies(times: Any, ideal: Callable[[int], float]) -> dict[int, dict[str, float]]:
        return {n: {"median": t, "efficiency": ideal(n) / t} for n, (t, _) in times.items()}

    if comm.rank == 0:
        report = {
            "device": ado.machine(device).title,
            "ranks": comm.size,
            "shape": [len(problem.wx), *problem.wtilde.shape, problem.wx.shape[1]],
            "serial": serial,
            "strong": efficiencies(strong, lambda n: serial / n),
            "same_bits": len({bits for _, bits in strong.values()}) == 1,
            "weak": efficiencies(weak, lambda _: weak[1][0]),
        }
        print(json.dumps(report, indent=1))
    finish()


if __name__ == "__main__":
    main()
