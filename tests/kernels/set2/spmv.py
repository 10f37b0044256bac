"""Sparse matrix times vector: Bell and Garland, "Efficient Sparse Matrix-Vector Multiplication"."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(values, columns, offsets, x):
    """The sum of the products of each row of at most 64 elements."""
    products = values.astype(np.float64) * x[columns]
    sums = np.concatenate([[0.0], np.cumsum(products)])
    first = offsets[:-1]
    last = np.minimum(offsets[1:], first + 64)
    return np.where(last > first, sums[last] - sums[first], 0.0)


def matrix(rng, rows):
    """A random matrix with 0 to 64 elements per row, near the diagonal, and a vector."""
    lengths = rng.integers(0, 65, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    row = np.repeat(np.arange(rows), lengths)
    columns = np.clip(row + rng.integers(-2000, 2001, row.size), 0, rows - 1).astype(np.int32)
    values = rng.random(row.size, dtype=np.float32)
    return values, columns, offsets, rng.random(rows, dtype=np.float32)


def operands(rng, small=False):
    """The operands of a problem."""
    return matrix(rng, 300 if small else 1 << 19)


def arguments(values, columns, offsets, x, y):
    """The arguments of the kernels."""
    return [values, columns, offsets, x, y, x.shape[0]]


def lanes(count):
    """The grid of blocks of 256 threads with this number of lanes per row."""
    return lambda values, columns, offsets, x: -(-x.shape[0] * count // 256)


ladder = ado.ladder(
    "spmv",
    reference=reference,
    dtype="float32",
    flops=lambda values, columns, offsets, x: 2 * values.size,
    problems=lambda rng: [matrix(rng, rows) for rows in (2, 100, 1000)],
)
_common = {"source": SOURCE, "file": "spmv.cu", "block": 256, "arguments": arguments}
ladder.cuda_variant(
    "scalar", kernel="spmv_scalar", grid=lanes(1), **_common,
    changes="One thread per row.",
)  # fmt: skip
ladder.cuda_variant(
    "vector", kernel="spmv_vector", grid=lanes(32), **_common,
    changes="One warp per row, which adds up in shared memory.",
    steps=["coalesce accesses", "more work in parallel"],
)  # fmt: skip
ladder.cuda_variant(
    "shuffle", kernel="spmv_shuffle", grid=lanes(32), **_common,
    changes="Adds up by warp shuffles.",
    steps=["fewer barriers", "fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "eight_lanes", kernel="spmv_eight_lanes", grid=lanes(8), **_common,
    changes="Eight lanes per row, so that fewer lanes are idle at the end of a short row.",
    steps=["avoid divergence"],
)  # fmt: skip
ladder.cuda_variant(
    "unrolled", kernel="spmv_unrolled", grid=lanes(8), **_common,
    changes="Each lane has the loads of four elements in flight.",
    steps=["more loads in flight"],
)  # fmt: skip
