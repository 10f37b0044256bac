"""Layer normalisation: llm.c, dev/cuda/layernorm_forward.cu."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(x, weight, bias):
    """Each row, normalised to mean 0 and variance 1, times a weight plus a bias per column."""
    out = x - x.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
    squares = np.einsum("ij,ij->i", out, out, dtype=np.float64) / x.shape[1]
    out *= (1 / np.sqrt(squares + 1e-5)).astype(np.float32)[:, None]
    out *= weight
    out += bias
    return out


def rows_of(rng, rows):
    """Random rows, weights and biases."""
    x = rng.standard_normal((rows, 768), dtype=np.float32)
    weight, bias = rng.random((2, 768), dtype=np.float32)
    return x, weight, bias


def operands(rng, small=False):
    """The operands of a problem."""
    return rows_of(rng, 9 if small else 32768)


ladder = ado.ladder(
    "layernorm",
    reference=reference,
    dtype="float32",
    flops=lambda x, weight, bias: 8 * x.size,
    signature="(rows,cols),(cols),(cols)->(rows,cols)",
    problems=lambda rng: [rows_of(rng, rows) for rows in (1, 7, 130)],
)
_common = {"source": SOURCE, "file": "layernorm.cu", "block": 256}
_by_warp = _common | {"grid": lambda x, weight, bias: -(-x.shape[0] // 8)}
ladder.cuda_variant(
    "thread_per_row", kernel="layernorm_row",
    grid=lambda x, weight, bias: -(-x.shape[0] // 256), **_common,
    changes="One thread per row, which reads the row three times.",
)  # fmt: skip
ladder.cuda_variant(
    "warp_per_row", kernel="layernorm_warp", **_by_warp,
    changes="One warp per row, whose lanes read neighbouring elements.",
    steps=["coalesce accesses", "more work in parallel"],
)  # fmt: skip
ladder.cuda_variant(
    "one_pass", kernel="layernorm_one_pass", **_by_warp,
    changes="Computes the variance from the mean of the squares, which saves one of three reads.",
    steps=["fewer or cheaper operations", "reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "block_per_row", kernel="layernorm_block",
    **_common | {"grid": lambda x, weight, bias: x.shape[0]},
    changes="One block per row instead of one warp.",
    steps=["more work in parallel"],
)  # fmt: skip
ladder.cuda_variant(
    "shared", kernel="layernorm_shared", **_by_warp,
    changes="One warp per row again; vectors are staged in shared memory and read once.",
    steps=["fewer barriers", "reuse in registers or shared memory", "wider accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "registers", kernel="layernorm_registers", **_by_warp,
    changes="Keeps the row in registers, with six loads in flight per lane.",
    steps=["more loads in flight", "reuse in registers or shared memory"],
)  # fmt: skip
