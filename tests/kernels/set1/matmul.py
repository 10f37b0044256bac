"""Matrix product: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance" (Boehm)."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(a, b):
    """The product of two matrices."""
    return a.astype(np.float64) @ b.astype(np.float64)


def matrices(rng, m, k, n):
    """Random matrices."""
    return rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)


def operands(rng, small=False):
    """The operands of a problem."""
    return matrices(rng, 128, 32, 128) if small else matrices(rng, 2048, 1024, 2048)


def cover(rows, cols):
    """The grid of tiles of the result, along columns first."""
    return lambda a, b: (b.shape[1] // cols, a.shape[0] // rows)


ladder = ado.ladder(
    "matmul",
    reference=reference,
    dtype="float32",
    flops=lambda a, b: 2 * a.shape[0] * a.shape[1] * b.shape[1],
    signature="(m,k),(k,n)->(m,n)",
    problems=lambda rng: [matrices(rng, 128, 32, 128), matrices(rng, 256, 96, 128)],
)
_common = {"source": SOURCE, "file": "matmul.cu"}
ladder.cuda_variant(
    "naive", kernel="matmul_naive", block=(32, 32),
    grid=lambda a, b: (a.shape[0] // 32, b.shape[1] // 32), **_common,
    changes="One result per thread; neighbouring threads compute neighbouring rows.",
)  # fmt: skip
ladder.cuda_variant(
    "coalesced", kernel="matmul_coalesced", block=(32, 32), grid=cover(32, 32), **_common,
    changes="Neighbouring threads compute neighbouring columns (global memory coalescing).",
    steps=["coalesce accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "shared", kernel="matmul_shared", block=(32, 32), grid=cover(32, 32), **_common,
    changes="Caches tiles of both matrices in shared memory.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "column", kernel="matmul_column", block=512, grid=cover(64, 64), **_common,
    changes="Each thread computes eight results of a column (1D block tiling).",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "square", kernel="matmul_square", block=256, grid=cover(128, 128), **_common,
    changes="Each thread computes 8 x 8 results (2D block tiling).",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "vectors", kernel="matmul_vectors", block=256, grid=cover(128, 128), **_common,
    changes="Accesses shared and global memory in vectors; the tile of a is transposed.",
    steps=["wider accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "double_buffer", kernel="matmul_double_buffer", block=256, grid=cover(128, 128), **_common,
    changes="Loads the next tiles while the current ones are multiplied, with one barrier.",
    steps=["fewer barriers", "more loads in flight"],
)  # fmt: skip
