"""Records the data of notebooks/01_transpose.ipynb beyond the stored ladders, on a GPU.

* transpose-naive-blocks.json: the naive kernel with several block shapes, timed in the same rounds,
  each with the counters of the ladders and the counters of branches.
* transpose-hotspots-VARIANT.json, transpose-heatmap-VARIANT.json: samples and stall reasons by
  source line of three variants, and counts; naive with the block shape of the slides.

    python benchmarks/course/transpose.py FOLDER
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from recording import Recorder, run

import adokernels as ado
from adokernels import _core
from adokernels.records.metrics import METRIC_SETS

SHAPE = (8192, 8192)
#: The block shapes that the notebook compares: from the slides, the default, and a narrow one.
BLOCKS = ((32, 32), (32, 8), (8, 32))
#: Branch instructions, and branches whose lanes take different targets.
BRANCHES = ("smsp__inst_executed_op_branch.sum", "smsp__sass_branch_targets_threads_divergent.avg")
SAMPLED = ("naive", "tiled", "padded")


def counters(a: Any, block: tuple[int, ...]) -> ado.records.Profile:
    """The counters of the naive kernel with a block shape."""
    names = _core.existing_metrics([*METRIC_SETS["default"], *BRANCHES], _core.chip("cuda"))
    return ado.profile(ado.transpose["naive"], a, block=block, metrics=names)


def naive_blocks(a: Any, seconds: float) -> ado.records.Sweep:
    """The naive kernel with each of the blocks, as a sweep with counters."""
    tuning = ado.tune(ado.transpose["naive"], a, seconds=seconds, progress=False)
    by_block = {m.block: m for m in tuning.sweep}
    measurements = tuple(
        dataclasses.replace(m, variant=f"naive {m.variant}", profile=counters(a, block))
        for block in BLOCKS
        for m in [by_block[block]]
    )
    return dataclasses.replace(tuning.sweep, measurements=measurements, machine=ado.machine("cuda"))


def record(recorder: Recorder) -> None:
    """Measure the block shapes, and sample the variants."""
    a = np.random.default_rng(7).integers(-(2**62), 2**62, SHAPE)
    recorder.save("transpose-naive-blocks", naive_blocks(a, recorder.seconds))
    for name in SAMPLED:
        block = BLOCKS[0] if name == "naive" else None
        hot = ado.hotspots(ado.transpose[name], a, block=block, seconds=0.3)
        recorder.save(f"transpose-hotspots-{name}", hot)
        heat = ado.heatmap(ado.transpose[name], a, block=block)
        recorder.save(f"transpose-heatmap-{name}", heat)


if __name__ == "__main__":
    run(record, __doc__, seconds=2.0)
