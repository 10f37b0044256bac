"""Histogram of bytes: Programming Massively Parallel Processors, chapter 9; CUDA sample."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(x):
    """The number of bytes per value."""
    return np.bincount(x, minlength=256).astype(np.uint32)


def bytes_of(rng, count):
    """Random bytes."""
    return (rng.integers(0, 256, count, dtype=np.uint8),)


def operands(rng, small=False):
    """The operands of a problem."""
    return bytes_of(rng, 5000 if small else 1 << 25)


ladder = ado.ladder(
    "histogram",
    reference=reference,
    problems=lambda rng: [bytes_of(rng, n) for n in (1, 1000, 4096, 70001)],
)
_common = {"source": SOURCE, "file": "histogram.cu"}
_few = _common | {"block": 256, "grid": lambda x: min(-(-x.shape[0] // 256), 132 * 8)}
ladder.cuda_variant(
    "global_atomics", kernel="histogram_global", block=1024, **_common,
    grid=lambda x: -(-x.shape[0] // 1024),
    changes="One byte per thread, which is counted by an atomic operation in global memory.",
)  # fmt: skip
ladder.cuda_variant(
    "private", kernel="histogram_private", block=1024, **_common,
    grid=lambda x: -(-x.shape[0] // 1024),
    changes="Counts in a private histogram per block in shared memory, and adds it to the total.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "contiguous", kernel="histogram_contiguous", **_few,
    changes="Each thread counts a contiguous part, so that fewer blocks add their histograms.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "interleaved", kernel="histogram_interleaved", **_few,
    changes="Neighbouring threads read neighbouring bytes.",
    steps=["coalesce accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "aggregated", kernel="histogram_aggregated", **_few,
    changes="Counts runs of equal bytes in a register, with one atomic operation per run.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "vectors", kernel="histogram_vectors", **_few,
    changes="Loads 16 bytes at a time, without the runs.",
    steps=["more loads in flight", "wider accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "per_warp", kernel="histogram_per_warp", **_few,
    changes="One histogram per warp in shared memory, so that fewer threads hit the same word.",
    steps=["avoid bank conflicts"],
)  # fmt: skip
