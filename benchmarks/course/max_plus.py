"""Records the data of notebooks/04_memory_access_tuning.ipynb beyond the stored ladders, on a GPU.

* max_plus-per_multiprocessor: the kernels of the tuning post with one block of 1024 threads per
  multiprocessor, and with two blocks of 512. The kernels have the same machine code as the
  variants of the ladder, which has one or two blocks in total; only the grid differs.
* max_plus-in_flight: numbers of loads in flight per thread and of threads per multiprocessor.
* max_plus-launch_bounds: the original loop for several block sizes and minimum numbers of
  blocks per multiprocessor. The kernels of the last two records are in
  notebooks/kernels/max_plus/loops.cu.

    python benchmarks/course/max_plus.py FOLDER
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from recording import launched, require, run

import adokernels as ado
from adokernels import _core
from adokernels.machine_code import kernels_of_module

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "kernels" / "max_plus" / "loops.cu"
#: The problem of the ladder. The other records have a quarter of its points, ten times the L2.
TERMS, POINTS = 64, 4 << 20
#: The kernels of the post: threads per block and blocks per multiprocessor.
LOADS_OF_POST = ("one_block", "vector_load_small", "vector_load_both")
OF_POST = {
    **dict.fromkeys(LOADS_OF_POST, (1024, 1)),
    **dict.fromkeys((f"{name}_bounded" for name in LOADS_OF_POST), (1024, 1)),
    "two_blocks": (512, 2),
}
#: Threads per block and blocks per multiprocessor.
BOUNDS = ((1024, 1), (512, 1), (512, 2), (256, 2), (256, 4), (128, 8))
#: Loads in flight per thread, and threads per multiprocessor.
LOADS, THREADS = (1, 2, 4, 8), (256, 512, 1024)
#: The variants that every record is compared with.
COMPARED = ("read", "whole_device", "vectorised")

Work = Callable[[], ado.DeviceArray]


class Launches:
    """Launches on one pair of operands, with a number of blocks per multiprocessor."""

    def __init__(self, points: int) -> None:
        random = np.random.default_rng(7)
        big = np.resize(random.standard_normal(1 << 20), (TERMS, points))
        small = random.standard_normal(TERMS)
        self.operands = ado.to_device(big), ado.to_device(small)
        properties = _core.cuda_properties()
        self._multiprocessors = int(properties["multiprocessors"])
        arch = f"sm_{properties['compute']}"
        self._kernels = kernels_of_module(Path(_core.__file__), arch, "max_plus")

    def built_in(self, name: str, threads: int, blocks: int) -> Work:
        """A variant of the ladder with another grid."""
        (resources,) = ado.max_plus[name].resources(*self.operands)
        cubin, kernel = self._kernels[resources.name]
        big = self.operands[0]
        out = ado.to_device(np.full(big.shape[1], np.nan, big.dtype))
        pointers = [a.__cuda_array_interface__["data"][0] for a in (*self.operands, out)]
        operands = struct.pack("<5q", *pointers, *self.operands[0].shape)  # MaxPlusOperands
        loaded = _core.CudaModule(cubin).kernel(kernel.symbol)
        launch = loaded.launch((blocks * self._multiprocessors,), (threads,), 0, [operands])

        def work() -> ado.DeviceArray:
            launch.run(0)
            return out

        return work

    def source(self, kernel: str, threads: int, blocks: int, *arguments: object) -> Work:
        """A kernel of the source with these template arguments after the number of threads."""
        listed = ", ".join(map(str, (threads, *arguments)))
        variant = ado.cuda_variant(
            f"{kernel}_{threads}", source=SOURCE.read_text(encoding="utf-8"), file=SOURCE.name,
            kernel=f"{kernel}<{{T}}, {listed}>", block=threads,
        )  # fmt: skip
        grid, points = blocks * self._multiprocessors, self.operands[0].shape[1:]
        return launched(variant, grid, self.operands, points)


def of_post(launches: Launches) -> dict[str, Work]:
    """The kernels of the post."""
    return {name: launches.built_in(name, *shape) for name, shape in OF_POST.items()}


def in_flight(launches: Launches) -> dict[str, Work]:
    """Loads in flight per thread x threads per multiprocessor."""
    return {
        f"{loads} x {threads}": launches.source("in_flight", threads, 1, loads)
        for threads in THREADS
        for loads in LOADS
    }


def launch_bounds(launches: Launches) -> dict[str, Work]:
    """Threads per block x minimum blocks per multiprocessor."""
    works = {f"{t} x {b}": launches.source("scalar", t, b, b) for t, b in BOUNDS}
    return works | {"1024 x 1, constant": launches.source("scalar", 1024, 1, 1, "true")}


def measured(works_of: Callable[[Launches], Mapping[str, Work]], points: int) -> ado.records.Sweep:
    """Time launches in the same rounds as variants, with counters; as variants of one sweep."""
    launches = Launches(points)
    works = {f"launch of {name}": work for name, work in works_of(launches).items()}
    sweep = ado.sweep(
        ado.max_plus, *launches.operands, variants=COMPARED, peers=works, seconds=3,
        counters="light", progress=False,
    )  # fmt: skip
    complete = not sweep.skipped and all(m.profile for m in (*sweep, *sweep.peers))
    require(complete, f"every launch must be counted, skipped {sweep.skipped}")
    own = (
        dataclasses.replace(
            m, routine=sweep.routine, variant=m.variant.removeprefix("launch of "),
            kernels=tuple(counted.kernel for counted in m.profile),
        )
        for m in sweep.peers
    )  # fmt: skip
    ceiling, *others = sweep.measurements
    return dataclasses.replace(sweep, measurements=(ceiling, *own, *others), peers=())


RECORDS = {
    "max_plus-per_multiprocessor": partial(measured, of_post, POINTS),
    "max_plus-in_flight": partial(measured, in_flight, POINTS // 4),
    "max_plus-launch_bounds": partial(measured, launch_bounds, POINTS // 4),
}

if __name__ == "__main__":
    run(__doc__, RECORDS.items)
