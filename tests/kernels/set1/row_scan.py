"""Inclusive scan of rows: GPU Gems 3, chapter 39; then scans with warp shuffles."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(x):
    """The sums of each row up to each element."""
    return np.cumsum(x, axis=1, dtype=np.int32)


def rows_of(rng, rows):
    """Random rows."""
    return (rng.integers(-1000, 1000, (rows, 1024), dtype=np.int32),)


def operands(rng, small=False):
    """The operands of a problem."""
    return rows_of(rng, 3 if small else 65536)


ladder = ado.ladder(
    "row_scan",
    reference=reference,
    signature="(rows,cols)->(rows,cols)",
    problems=lambda rng: [rows_of(rng, rows) for rows in (1, 7, 130)],
)
_common = {"source": SOURCE, "file": "row_scan.cu", "grid": lambda x: x.shape[0]}
ladder.cuda_variant(
    "naive", kernel="scan_naive", block=1024, **_common,
    changes="One element per thread; log2(n) steps in two buffers of shared memory.",
)  # fmt: skip
ladder.cuda_variant(
    "work_efficient", kernel="scan_work_efficient", block=512, **_common,
    changes="Sums up a tree and down again, with O(n) additions; two elements per thread.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "conflict_free", kernel="scan_conflict_free", block=512, **_common,
    changes="Pads the indices of shared memory, and loads both halves of a row contiguously.",
    steps=["avoid bank conflicts", "coalesce accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "shuffle", kernel="scan_shuffle", block=1024, **_common,
    changes="Scans in registers by warp shuffles; shared memory only holds the sums of the warps.",
    steps=["fewer barriers", "reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "four_per_thread", kernel="scan_four_per_thread", block=256, **_common,
    changes="Four elements per thread, loaded and stored as vectors.",
    steps=["fewer or cheaper operations", "wider accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "warp_per_row", kernel="scan_warp_per_row", block=256,
    **_common | {"grid": lambda x: -(-x.shape[0] // 8)},
    changes="One warp per row: no barriers, and eight loads in flight per lane.",
    steps=["fewer barriers", "more loads in flight"],
)  # fmt: skip
