"""Records the data of notebooks/03_vector_average_matvec.ipynb beyond the stored ladder, on a GPU.

The controls are the first four variants with plain sums, as CUDA C++ source. The notebook defines
them in its cell with the tag "ladder". The problem is the same as in the series: 1024 sets of 1024
vectors of length 1024, filled with ones and twos, for which sums are exact in any order.

The controls run as peers of the built-in variants, in the same rounds; their results are checked.
ncu counts two of them by source line, and writes average_matvec-plain-ncu.csv, which notebook 05
imports. Two CPU variants are measured for the comparison with the CPU of the series.

It needs the extra ``kernels``, ncu, and about two minutes.

    python benchmarks/course/average_matvec.py FOLDER
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from own_kernels import definitions
from recording import Recorder, launched, run

import adokernels as ado
from adokernels.measuring.nsight_report import recorded, run_ncu
from adokernels.model.cuda_variant import CudaVariant

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "notebooks" / "03_vector_average_matvec.ipynb"
LENGTH = 1024  # of N, L and M
REDUCED = 16  # sets, for a profile of the variants that use one block
SAMPLED_SETS = 264  # sets, for the hot spots: two blocks for each of 132 multiprocessors
ODD = (5, 1000, 1000)  # a problem on which the controls are also checked
COMPARED = ("read", "block_per_set", "warp_average", "warp_shuffle")
SAMPLED = ("plain_block_per_set", "plain_warp_average")
ON_CPU = ("threaded", "blocked")


def ones_and_twos(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The data of the series."""
    count = int(np.prod(shape))
    random = np.frombuffer(np.random.default_rng(16).bytes(-(-count // 8)), np.uint8)
    values = np.unpackbits(random)[:count].astype(np.float32)
    values += 1
    return values.reshape(shape)


def work_of(
    control: CudaVariant, vectors: ado.DeviceArray, matrix: ado.DeviceArray
) -> Callable[[], ado.DeviceArray]:
    """A function that launches a control and returns its result."""
    sets, length, samples = vectors.shape
    out = ado.to_device(np.full((length, sets), np.nan, np.float32))
    assert callable(control.grid)
    grid = control.grid(vectors, matrix)
    return launched(control, grid, (vectors, matrix), out, (sets, length, samples))


def all_counters(control: CudaVariant, operands: tuple[NDArray[np.float32], ...]) -> list[str]:
    """The lines of a report of ncu in base units: names, units, and one line per kernel."""
    with tempfile.TemporaryDirectory() as folder:
        launch = control.source_launch(operands, {}, None)
        report = recorded(launch.save, Path(folder), ["--set", "full"])
        shown = ["--csv", "--page", "raw", "--print-units", "base"]
        page = run_ncu(["--import", str(report), *shown], report)
    return [line for line in page.splitlines() if line.startswith('"')]


def record(recorder: Recorder) -> None:
    """Measure everything that the notebook shows."""
    plain = definitions(NOTEBOOK)["plain"]
    controls = {v.name: v for v in plain if isinstance(v, CudaVariant)}
    for control in controls.values():
        checked = ado.check(
            control, ado.average_matvec, ones_and_twos(ODD), ones_and_twos(ODD[1:]), timed=False
        )
        recorder.require(checked, f"{control.name}: {checked.reason}")

    vectors, matrix = ones_and_twos((LENGTH,) * 3), ones_and_twos((LENGTH,) * 2)
    on_device = ado.to_device(vectors), ado.to_device(matrix)
    works = {name: work_of(control, *on_device) for name, control in controls.items()}
    sweep = ado.sweep(
        ado.average_matvec, *on_device, variants=COMPARED, peers=works, seconds=recorder.seconds,
        ceilings=False, progress=False,
    )  # fmt: skip
    recorder.sweep("average_matvec-plain", sweep, [*COMPARED, *works])

    reduced = vectors[:REDUCED], matrix
    small = ado.to_device(reduced[0]), on_device[1]
    start = time.perf_counter()
    profile = ado.profile(ado.average_matvec["one_block"], *reduced, metrics="light")
    wall = {"wall_seconds": time.perf_counter() - start}
    profile = dataclasses.replace(profile, context=profile.context | wall)
    recorder.save("average_matvec-one_block-reduced", profile)
    # 20 runs of one block with all sets would take half a minute.
    works["plain_one_block-reduced"] = work_of(controls["plain_one_block"], *small)
    del works["plain_one_block"]
    for name, work in works.items():
        recorder.save(f"average_matvec-{name}", ado.profile(work, metrics="light"))

    for name in SAMPLED:
        hot = ado.hotspots(plain[name], vectors[:SAMPLED_SETS], matrix)
        recorder.save(f"average_matvec-{name}-hotspots", hot)
        recorder.require(hot.lines, f"{name}: no samples")
        heat = partial(ado.heatmap, plain[name], vectors, matrix)
        recorder.attempt(f"average_matvec-heatmap-{name}", heat)
    first, second = (all_counters(plain[name], (vectors, matrix)) for name in SAMPLED)
    table = recorder.folder / "average_matvec-plain-ncu.csv"
    table.write_text("\n".join([*first, *second[2:]]) + "\n", encoding="utf-8")
    for name in ON_CPU:
        variant = ado.average_matvec[name]
        m = ado.measure(variant, vectors, matrix, seconds=recorder.seconds)
        recorder.save(f"average_matvec-cpu-{name}", m)


if __name__ == "__main__":
    run(record, __doc__, seconds=5.0)
