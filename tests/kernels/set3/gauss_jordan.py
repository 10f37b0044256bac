"""Inverses of small matrices: Anzt et al. (2017), "Batched Gauss-Jordan Elimination".

In full: "Batched Gauss-Jordan Elimination for Block-Jacobi Preconditioner Generation on GPUs".
"""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(a):
    """The inverse of each matrix after adding 16 to its diagonal, which then dominates."""
    return np.linalg.inv(a + 16 * np.eye(16))


def matrices(rng, count):
    """Random matrices."""
    return (rng.random((count, 16, 16), dtype=np.float32),)


def operands(rng, small=False):
    """The operands of a problem."""
    return matrices(rng, 9 if small else 1 << 17)


def per_block(count):
    """The grid for blocks of `count` matrices."""
    return lambda a: -(-a.shape[0] // count)


ladder = ado.ladder(
    "gauss_jordan",
    reference=reference,
    dtype="float32",
    flops=lambda a: 2 * 16**3 * a.shape[0],
    tolerance=1e-5,
    signature="(count,order,order)->(count,order,order)",
    problems=lambda rng: [matrices(rng, count) for count in (1, 9, 130)],
)
_common = {"source": SOURCE, "file": "gauss_jordan.cu"}
_by_thread = _common | {"block": 128, "grid": per_block(128)}
_by_warp = _common | {"block": 256, "grid": per_block(8)}
_by_half_warp = _common | {"block": 256, "grid": per_block(16)}
ladder.cuda_variant(
    "global_memory", kernel="gauss_jordan_global", **_by_thread,
    changes="One matrix per thread, inverted in place in global memory.",
)  # fmt: skip
ladder.cuda_variant(
    "private", kernel="gauss_jordan_private", **_by_thread,
    changes="Unrolls all loops to keep the matrix of a thread in registers, as far as possible.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "block_per_matrix", kernel="gauss_jordan_block", block=256, grid=per_block(1), **_common,
    changes="One block per matrix in shared memory, and one thread per element.",
    steps=["avoid spills", "coalesce accesses", "more work in parallel", "raise occupancy"],
)  # fmt: skip
ladder.cuda_variant(
    "warp_per_matrix", kernel="gauss_jordan_warp", **_by_warp,
    changes="One warp per matrix, which divides once per row and needs no block-wide barriers.",
    steps=["fewer barriers", "fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "padded", kernel="gauss_jordan_padded", **_by_warp,
    changes="Pads the rows in shared memory to 17 elements.",
    steps=["avoid bank conflicts"],
)  # fmt: skip
ladder.cuda_variant(
    "registers", kernel="gauss_jordan_registers", **_by_half_warp,
    changes="Half a warp per matrix, with one column per lane in registers, exchanged by shuffles.",
    steps=["fewer barriers", "reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "intrinsics", kernel="gauss_jordan_intrinsics", **_by_half_warp,
    changes="Uses the fast intrinsic function for division.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
