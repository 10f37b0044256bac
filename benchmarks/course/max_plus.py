"""Records the data of notebooks/04_memory_access_tuning.ipynb beyond the stored ladders, on a GPU.

The kernels are in notebooks/kernels/max_plus/loops.cu, which the notebook shows.

* max_plus-per_multiprocessor.json: the loops of the tuning post with one block of 1024 threads per
  multiprocessor, and with two blocks of 512, in the same rounds as one block in total.
* max_plus-launch_bounds.json: the original loop for several block sizes and minimum numbers of
  blocks per multiprocessor.
* max_plus-in_flight.json: numbers of loads in flight per thread and of threads per multiprocessor.

    python benchmarks/course/max_plus.py FOLDER
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from recording import Recorder, launched, run

import adokernels as ado
from adokernels import _core
from adokernels.model.cuda_variant import CudaVariant

SOURCE = (
    Path(__file__).resolve().parents[2] / "notebooks" / "kernels" / "max_plus" / "loops.cu"
)
TERMS, POINTS = 64, 4 << 20
#: Kernels by name: their template arguments after the element type, and blocks per multiprocessor.
KERNELS = {
    "one_block": ("scalar", 1024, 0, 1),
    "vector_load_small": ("wide_small", 1024, 0, 1),
    "vector_load_both": ("wide_both", 1024, 0, 1),
    "one_block_bounded": ("scalar", 1024, 1, 1),
    "vector_load_small_bounded": ("wide_small", 1024, 1, 1),
    "vector_load_both_bounded": ("wide_both", 1024, 1, 1),
    "two_blocks": ("scalar", 512, 2, 2),
}
#: Threads per block and blocks per multiprocessor.
BOUNDS = ((1024, 1), (768, 1), (512, 1), (512, 2), (384, 2), (256, 2), (256, 4), (128, 8), (64, 16))
#: Loads in flight per thread, and threads per multiprocessor.
LOADS, THREADS = (1, 2, 4, 8, 16), (256, 512, 1024)


def variant(name: str, kernel: str, threads: int, *arguments: object) -> CudaVariant:
    """A kernel of the source with these template arguments after the element type."""
    listed = ", ".join(map(str, (threads, *arguments)))
    return ado.cuda_variant(
        name,
        source=SOURCE.read_text(encoding="utf-8"),
        kernel=f"{kernel}<{{T}}, {listed}>",
        block=threads,
        file=SOURCE.name,
    )


def works_of(
    variants: dict[str, tuple[CudaVariant, int]], big: ado.DeviceArray, small: ado.DeviceArray
) -> dict[str, Callable[[], ado.DeviceArray]]:
    """Launches of kernels, each with its number of blocks per multiprocessor."""
    terms, points = big.shape
    multiprocessors = int(_core.cuda_properties()["multiprocessors"])
    return {
        name: launched(
            v, blocks * multiprocessors, (big, small), ado.to_device(np.full(points, np.nan)),
            (terms, points),
        )
        for name, (v, blocks) in variants.items()
    }  # fmt: skip


def measured(
    variants: dict[str, tuple[CudaVariant, int]],
    big: ado.DeviceArray,
    small: ado.DeviceArray,
    seconds: float,
    compared: tuple[str, ...] = (),
) -> ado.records.Sweep:
    """Time kernels in the same rounds as the read, with counters, as variants of one sweep."""
    works = works_of(variants, big, small)
    sweep = ado.sweep(
        ado.max_plus, big, small, variants=["read", *compared],
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


def record(recorder: Recorder) -> None:
    """Measure the kernels, and store the machine code of those with the names of the post."""
    random = np.random.default_rng(7)
    big = ado.to_device(np.resize(random.standard_normal(1 << 20), (TERMS, POINTS)))
    small = ado.to_device(random.standard_normal(TERMS))
    of_post = {
        name: (variant(name, *arguments), blocks) for name, (*arguments, blocks) in KERNELS.items()
    }
    bounds = {
        f"{threads} x {blocks}": (variant("bounds", "scalar", threads, blocks), blocks)
        for threads, blocks in BOUNDS
    }
    bounds["1024 x 1, constant"] = (variant("constant", "scalar", 1024, 1, "true"), 1)
    in_flight = {
        f"{loads} x {threads}": (variant("in_flight", "in_flight", threads, loads), 1)
        for threads in THREADS
        for loads in LOADS
    }
    compared = ("whole_device", "vectorised")
    for name, kernels, others in (
        ("per_multiprocessor", of_post, compared),
        ("in_flight", in_flight, ()),
        ("launch_bounds", bounds, ()),
    ):
        recorder.attempt(
            f"max_plus-{name}",
            partial(measured, kernels, big, small, recorder.seconds, others),
            lambda sweep: not sweep.skipped and all(m.profile for m in sweep),
        )
    for name, (v, _) in of_post.items():
        recorder.attempt(
            f"max_plus-per_multiprocessor-{name}-sass",
            partial(v.sass, np.zeros((TERMS, 2)), arch="sm_90"),
        )


if __name__ == "__main__":
    run(record, __doc__, seconds=0.3)
