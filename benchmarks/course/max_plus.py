"""Records the data of notebooks/04_memory_access_tuning.ipynb beyond the stored ladders, on a GPU.

* max_plus-per_multiprocessor.json: the kernels of the tuning post with one block of 1024 threads
  per multiprocessor, and with two blocks of 512, instead of one or two blocks in total. The kernels
  have the same machine code as the variants of the ladder; only the grid differs.
* max_plus-in_flight.json: numbers of loads in flight per thread and of threads per multiprocessor.
* max_plus-launch_bounds.json: the original loop for several block sizes and minimum numbers of
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
from typing import TYPE_CHECKING

import numpy as np
from recording import Recorder, launched, run

import adokernels as ado
from adokernels import _core
from adokernels.machine_code import kernels_of_module
from adokernels.model.cuda_variant import CudaVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "kernels" / "max_plus" / "loops.cu"
#: The problem of the ladder. The other records have a quarter of its points, ten times the L2.
TERMS, POINTS = 64, 4 << 20
#: The kernels of the post: threads per block and blocks per multiprocessor.
OF_POST = {
    **dict.fromkeys(("one_block", "vector_load_small", "vector_load_both"), (1024, 1)),
    **{
        f"{name}_bounded": (1024, 1)
        for name in ("one_block", "vector_load_small", "vector_load_both")
    },
    "two_blocks": (512, 2),
}
#: Threads per block and blocks per multiprocessor.
BOUNDS = ((1024, 1), (512, 1), (512, 2), (256, 2), (256, 4), (128, 8))
#: Loads in flight per thread, and threads per multiprocessor.
LOADS, THREADS = (1, 2, 4, 8), (256, 512, 1024)
#: The variants that every record is compared with.
COMPARED = ("read", "whole_device", "vectorised")

Work = Callable[[], ado.DeviceArray]


def variant(kernel: str, threads: int, *arguments: object) -> CudaVariant:
    """A kernel of the source with these template arguments after the element type."""
    listed = ", ".join(map(str, (threads, *arguments)))
    return ado.cuda_variant(
        f"{kernel}_{threads}",
        source=SOURCE.read_text(encoding="utf-8"),
        kernel=f"{kernel}<{{T}}, {listed}>",
        block=threads,
        file=SOURCE.name,
    )


class Launches:
    """Launches on one pair of operands, with a number of blocks per multiprocessor."""

    def __init__(self, big: ado.DeviceArray, small: ado.DeviceArray) -> None:
        self._operands = big, small
        properties = _core.cuda_properties()
        self._multiprocessors = int(properties["multiprocessors"])
        arch = f"sm_{properties['compute']}"
        self._kernels = kernels_of_module(Path(_core.__file__), arch, "max_plus")

    def built_in(self, name: str, threads: int, blocks: int) -> Work:
        """A variant of the ladder with another grid."""
        big, small = self._operands
        (resources,) = ado.max_plus[name].resources(big, small)
        cubin, kernel = self._kernels[resources.name]
        out = self._result()
        pointers = [a.__cuda_array_interface__["data"][0] for a in (big, small, out)]
        operands = struct.pack("<5q", *pointers, *big.shape)  # MaxPlusOperands
        loaded = _core.CudaModule(cubin).kernel(kernel.symbol)
        launch = loaded.launch((blocks * self._multiprocessors,), (threads,), 0, [operands])

        def work() -> ado.DeviceArray:
            launch.run(0)
            return out

        return work

    def source(self, v: CudaVariant, blocks: int) -> Work:
        """A kernel in source."""
        big, _ = self._operands
        grid = blocks * self._multiprocessors
        return launched(v, grid, self._operands, self._result(), big.shape)

    def _result(self) -> ado.DeviceArray:
        return ado.to_device(np.full(self._operands[0].shape[1], np.nan))


def measured(
    operands: Sequence[ado.DeviceArray], works: Mapping[str, Work], seconds: float
) -> ado.records.Sweep:
    """Time launches in the same rounds as variants, with counters; as variants of one sweep."""
    sweep = ado.sweep(
        ado.max_plus, *operands, variants=COMPARED,
        peers={f"launch of {name}": work for name, work in works.items()}, seconds=seconds,
        counters="light", progress=False,
    )  # fmt: skip
    own = tuple(
        dataclasses.replace(
            m, routine=sweep.routine, variant=m.variant.removeprefix("launch of "),
            kernels=tuple(counted.kernel for counted in m.profile) if m.profile else (),
        )
        for m in sweep.peers
    )  # fmt: skip
    ceiling, *others = sweep.measurements
    return dataclasses.replace(sweep, measurements=(ceiling, *own, *others), peers=())


def of_post(launches: Launches) -> dict[str, Work]:
    """The kernels of the post."""
    return {name: launches.built_in(name, *shape) for name, shape in OF_POST.items()}


def in_flight(launches: Launches) -> dict[str, Work]:
    """Loads in flight per thread x threads per multiprocessor."""
    return {
        f"{loads} x {threads}": launches.source(variant("in_flight", threads, loads), 1)
        for threads in THREADS
        for loads in LOADS
    }


def launch_bounds(launches: Launches) -> dict[str, Work]:
    """Threads per block x minimum blocks per multiprocessor."""
    bounds = {
        f"{threads} x {blocks}": launches.source(variant("scalar", threads, blocks), blocks)
        for threads, blocks in BOUNDS
    }
    constant = launches.source(variant("scalar", 1024, 1, "true"), 1)
    return {**bounds, "1024 x 1, constant": constant}


#: The launches of each record, and the number of points.
RECORDS = {
    "per_multiprocessor": (of_post, POINTS),
    "in_flight": (in_flight, POINTS // 4),
    "launch_bounds": (launch_bounds, POINTS // 4),
}


def made(name: str, seconds: float) -> ado.records.Sweep:
    """One record."""
    works_of, points = RECORDS[name]
    random = np.random.default_rng(7)
    big = ado.to_device(np.resize(random.standard_normal(1 << 20), (TERMS, points)))
    small = ado.to_device(random.standard_normal(TERMS))
    return measured((big, small), works_of(Launches(big, small)), seconds)


def record(recorder: Recorder) -> None:
    """Make the chosen records."""
    for name in recorder.names:
        recorder.attempt(
            f"max_plus-{name}",
            partial(made, name, recorder.seconds),
            lambda sweep: not sweep.skipped and all(m.profile for m in sweep),
        )


if __name__ == "__main__":
    run(record, __doc__, seconds=3.0, names=list(RECORDS))
