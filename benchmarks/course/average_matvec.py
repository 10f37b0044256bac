"""Records the data of notebooks/03_vector_average_matvec.ipynb beyond the stored ladder, on a GPU.

The controls are the first four variants with plain sums, as CUDA C++ source in notebooks/kernels.
The problem is the same as in the series: 1024 sets of 1024 vectors of length 1024, filled with ones
and twos, for which sums are exact in any order.

The controls run as peers of the built-in variants, in the same rounds; their results are checked.
ncu counts two of them by source line, and writes average_matvec-plain-ncu.csv, which the tests of
``ado.import_ncu`` read. Two CPU variants are measured for the comparison with the CPU of the
series.

It needs the extra ``kernels``, ncu, and about two minutes.

    python benchmarks/course/average_matvec.py FOLDER
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from recording import Records, complete, launched, require, run

import adokernels as ado
from adokernels.measuring.nsight_report import recorded, run_ncu
from adokernels.model.cuda_variant import CudaVariant

KERNELS = Path(__file__).resolve().parents[2] / "notebooks" / "kernels" / "average_matvec"
LENGTH = 1024  # of N, L and M
REDUCED = 16  # sets, for a profile of the variants that use one block
SAMPLED_SETS = 264  # sets, for the hot spots: two blocks for each of 132 multiprocessors
ODD = (5, 1000, 1000)  # a problem on which the controls are also checked
COMPARED = ("read", "block_per_set", "warp_average", "warp_shuffle")
SAMPLED = ("plain_block_per_set", "plain_warp_average")


def control(name: str, block: int | tuple[int, ...], grid: Callable[..., int]) -> CudaVariant:
    """A variant of the series with plain sums."""
    file = KERNELS / f"{name}.cu"
    return ado.cuda_variant(
        f"plain_{name}",
        source=file.read_text(encoding="utf-8"),
        file=file.name,
        kernel=f"{name}<{{T}}>",
        block=block,
        grid=grid,
        bytes=lambda vectors, matrix: vectors.nbytes + len(vectors) * matrix.nbytes,
        refuses=lambda vectors, matrix: "L exceeds 1024" if len(matrix) > 1024 else None,
        changes=f"The variant {name} with plain sums instead of compensated sums.",
    )


def per_set(vectors: np.ndarray, matrix: np.ndarray) -> int:
    """One block per set."""
    return len(vectors)


CONTROLS = (
    control("one_block", 1024, lambda vectors, matrix: 1),
    control("block_per_set", 1024, per_set),
    control("warp_average", (32, 32), per_set),
    control("warp_shuffle", (32, 32), per_set),
)


def ones_and_twos(shape: tuple[int, ...]) -> np.ndarray:
    """The data of the series."""
    count = int(np.prod(shape))
    random = np.frombuffer(np.random.default_rng(16).bytes(-(-count // 8)), np.uint8)
    values = np.unpackbits(random)[:count].astype(np.float32)
    values += 1
    return values.reshape(shape)


def compared(
    works: dict[str, Callable[[], ado.DeviceArray]], on_device: Sequence[ado.DeviceArray]
) -> ado.records.Sweep:
    """The controls and the built-in variants in the same rounds."""
    odd = ones_and_twos(ODD), ones_and_twos(ODD[1:])
    for each in CONTROLS:
        checked = ado.check(each, ado.average_matvec, *odd, timed=False)
        require(checked, f"{each.name}: {checked.reason}")
    sweep = ado.sweep(
        ado.average_matvec, *on_device, variants=COMPARED, peers=works, seconds=5,
        ceilings=False, progress=False,
    )  # fmt: skip
    return complete(sweep, [*COMPARED, *works])


def reduced(*operands: np.ndarray) -> ado.records.Profile:
    """The counters of one block, and the duration of the call of `profile`."""
    start = time.perf_counter()
    profile = ado.profile(ado.average_matvec["one_block"], *operands, metrics="light")
    wall = {"wall_seconds": time.perf_counter() - start}
    return dataclasses.replace(profile, context=profile.context | wall)


class NcuTable:
    """The counters of ncu for kernels, as CSV in base units."""

    def __init__(self, controls: Sequence[CudaVariant], operands: Sequence[np.ndarray]) -> None:
        self._lines: list[str] = []
        for sampled in controls:
            with tempfile.TemporaryDirectory() as folder:
                launch = sampled.source_launch(operands, {}, None)
                report = recorded([launch], Path(folder), ["--set", "full"])
                shown = ["--csv", "--page", "raw", "--print-units", "base"]
                page = run_ncu(["--import", str(report), *shown], report)
            lines = [line for line in page.splitlines() if line.startswith('"')]
            self._lines += lines[2:] if self._lines else lines  # names, units, one per kernel

    def save(self, path: Path) -> None:
        """Write the table with the suffix of CSV files."""
        table = path.with_name(f"{path.name.partition('.')[0]}.csv")
        table.write_text("\n".join(self._lines) + "\n", encoding="utf-8")


def records() -> Records:
    vectors, matrix = ones_and_twos((LENGTH,) * 3), ones_and_twos((LENGTH,) * 2)
    on_device = ado.to_device(vectors), ado.to_device(matrix)
    works = {c.name: launched(c, c.grid(*on_device), on_device, (LENGTH,) * 2) for c in CONTROLS}
    yield "average_matvec-plain", partial(compared, works, on_device)
    yield "average_matvec-one_block-reduced", partial(reduced, vectors[:REDUCED], matrix)
    plain = ado.average_matvec.with_variants(*CONTROLS)
    for name in SAMPLED:
        yield f"average_matvec-{name}", partial(ado.profile, works[name], metrics="light")
        hot = partial(ado.hotspots, plain[name], vectors[:SAMPLED_SETS], matrix)
        yield f"average_matvec-{name}-hotspots", hot
        heat = partial(ado.heatmap, plain[name], vectors, matrix)
        yield f"average_matvec-heatmap-{name}", heat
    yield (
        "average_matvec-plain-ncu",
        partial(NcuTable, [plain[name] for name in SAMPLED], (vectors, matrix)),
    )
    for name in ("threaded", "blocked"):
        cpu = partial(ado.measure, ado.average_matvec[name], vectors, matrix, seconds=5)
        yield f"average_matvec-cpu-{name}", cpu


if __name__ == "__main__":
    run(__doc__, records)
