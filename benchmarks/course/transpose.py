"""Records the data of notebooks/01_transpose.ipynb beyond the stored ladders, on a GPU.

* transpose-naive-blocks: the naive kernel with several block shapes, timed in the same rounds,
  each with the counters of the ladders and the counters of branches.
* transpose-hotspots-VARIANT, transpose-heatmap-VARIANT: samples and stall reasons by
  source line of three variants, and counts; naive with the block shape of the slides.

    python benchmarks/course/transpose.py FOLDER
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from recording import run

import adokernels as ado
from adokernels import _core
from adokernels.records.metrics import METRIC_SETS

SHAPE = (8192, 8192)
#: The block shapes that the notebook compares: from the slides, the default, and a narrow one.
BLOCKS = ((32, 32), (32, 8), (8, 32))
#: Branch instructions, and branches whose lanes take different targets.
BRANCHES = ("smsp__inst_executed_op_branch.sum", "smsp__sass_branch_targets_threads_divergent.avg")


def naive_blocks(a: Any) -> ado.records.Sweep:
    """The naive kernel with each of the blocks, as a sweep with counters."""
    naive = ado.transpose["naive"]
    sweep = ado.tune(naive, a, seconds=2, progress=False).sweep
    metrics = _core.existing_metrics([*METRIC_SETS["default"], *BRANCHES], _core.chip("cuda"))
    by_block = {m.block: m for m in sweep}
    measurements = tuple(
        dataclasses.replace(
            by_block[block],
            variant=f"naive {by_block[block].variant}",
            profile=ado.profile(naive, a, block=block, metrics=metrics),
        )
        for block in BLOCKS
    )
    return dataclasses.replace(sweep, measurements=measurements, machine=ado.machine("cuda"))


def records() -> Iterator[tuple[str, Callable[[], Any]]]:
    a = np.random.default_rng(7).integers(-(2**62), 2**62, SHAPE)
    yield "transpose-naive-blocks", partial(naive_blocks, a)
    for name in ("naive", "tiled", "padded"):
        block, variant = BLOCKS[0] if name == "naive" else None, ado.transpose[name]
        hot = partial(ado.hotspots, variant, a, block=block, seconds=0.3)
        yield f"transpose-hotspots-{name}", hot
        yield f"transpose-heatmap-{name}", partial(ado.heatmap, variant, a, block=block)


if __name__ == "__main__":
    run(records(), __doc__)
