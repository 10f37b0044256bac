"""Sums of columns, the gradient of a bias: llm.c, dev/cuda/matmul_backward_bias.cu."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(x):
    """The sum of each column."""
    return x.sum(axis=0, dtype=np.float64)


def matrix(rng, rows, cols):
    """A random matrix."""
    return (rng.random((rows, cols), dtype=np.float32),)


def operands(rng, small=False):
    """The operands of a problem."""
    return matrix(rng, 70, 36) if small else matrix(rng, 16384, 3072)


def groups(cols, rows_per_block):
    """The grid: a block per `cols` columns and `rows_per_block` rows, at most 64 along the rows."""
    return lambda x: (-(-x.shape[1] // cols), min(-(-x.shape[0] // rows_per_block), 64))


ladder = ado.ladder(
    "column_sum",
    reference=reference,
    dtype="float32",
    flops=lambda x: x.size,
    tolerance=2e-5,
    signature="(rows,cols)->(cols)",
    problems=lambda rng: [matrix(rng, *s) for s in ((1, 4), (33, 132), (300, 260), (2049, 12))],
)
_common = {"source": SOURCE, "file": "column_sum.cu"}
ladder.cuda_variant(
    "block_per_column", kernel="column_sum_block", block=256, grid=lambda x: x.shape[1],
    **_common,
    changes="One block per column, which adds up in shared memory.",
)  # fmt: skip
ladder.cuda_variant(
    "warp_per_column", kernel="column_sum_warp", block=256, grid=lambda x: -(-x.shape[1] // 8),
    **_common,
    changes="One warp per column, which adds up by warp shuffles without barriers.",
    steps=["fewer barriers"],
)  # fmt: skip
ladder.cuda_variant(
    "coalesced", kernel="column_sum_coalesced", block=1024, grid=lambda x: -(-x.shape[1] // 32),
    **_common,
    changes="One block per 32 columns, so that the lanes of a warp read neighbouring elements.",
    steps=["coalesce accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "split_rows", kernel="column_sum_split", block=256, grid=groups(32, 64), **_common,
    changes="Splits the rows among up to 64 blocks, which add their sums by atomic operations.",
    steps=["more work in parallel"],
)  # fmt: skip
ladder.cuda_variant(
    "vectors", kernel="column_sum_vectors", block=256, grid=groups(128, 64), **_common,
    changes="Four columns per lane, loaded as a vector.",
    steps=["more loads in flight", "wider accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "unrolled", kernel="column_sum_unrolled", block=256, grid=groups(128, 64), **_common,
    changes="Loads the vectors of eight rows before adding them.",
    steps=["more loads in flight"],
)  # fmt: skip
