"""Sort of rows by the bitonic network: CUDA sample sortingNetworks; then in registers."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(x):
    """Each row in ascending order."""
    return np.sort(x, axis=1)


def rows_of(rng, rows):
    """Random rows."""
    return (rng.integers(-(2**31), 2**31 - 1, (rows, 1024), dtype=np.int32),)


def operands(rng, small=False):
    """The operands of a problem."""
    return rows_of(rng, 3 if small else 16384)


ladder = ado.ladder(
    "bitonic",
    reference=reference,
    signature="(rows,cols)->(rows,cols)",
    problems=lambda rng: [rows_of(rng, rows) for rows in (1, 7, 130)],
)
_common = {"source": SOURCE, "file": "bitonic.cu", "grid": lambda x: x.shape[0]}
ladder.cuda_variant(
    "global_memory", kernel="bitonic_global", block=512, **_common,
    changes="One block per row, which compares and exchanges in global memory.",
)  # fmt: skip
ladder.cuda_variant(
    "shared", kernel="bitonic_shared", block=512, **_common,
    changes="Keeps the row in shared memory.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "shuffle", kernel="bitonic_shuffle", block=1024, **_common,
    changes="One element per thread in a register; warps exchange by shuffles without barriers.",
    steps=["fewer barriers", "reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "hybrid", kernel="bitonic_hybrid", block=128, **_common,
    changes="Eight elements per thread, so that most exchanges are within a thread or a warp.",
    steps=["fewer barriers", "reuse in registers or shared memory", "wider accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "registers", kernel="bitonic_registers", block=128,
    **_common | {"grid": lambda x: -(-x.shape[0] // 4)},
    changes="One warp per row, which is kept in registers: no barriers and no shared memory.",
    steps=["fewer barriers"],
)  # fmt: skip
