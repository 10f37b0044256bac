"""Sum with atomics: "Optimizing Parallel Reduction in CUDA" (Harris), Luitjens 2014."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(x):
    """The sum of all elements, modulo 2**32."""
    return np.array([x.sum(dtype=np.int64)]).astype(np.int32)


def numbers(rng, count):
    """Random integers."""
    return (rng.integers(-1000, 1000, count, dtype=np.int32),)


def operands(rng, small=False):
    """The operands of a problem."""
    return numbers(rng, 5003 if small else 1 << 24)


def blocks(each):
    """The grid of blocks of 256 threads with this number of elements per thread."""
    return lambda x: -(-x.shape[0] // (256 * each))


ladder = ado.ladder(
    "reduction",
    reference=reference,
    problems=lambda rng: [numbers(rng, n) for n in (1, 255, 4096, 70001)],
)
_common = {"source": SOURCE, "file": "reduction.cu", "block": 256}
_few = _common | {"grid": lambda x: min(-(-x.shape[0] // 1024), 132 * 8)}
ladder.cuda_variant(
    "atomics", kernel="reduce_atomics", grid=blocks(1), **_common,
    changes="Each thread adds one element to the result by an atomic operation.",
)  # fmt: skip
ladder.cuda_variant(
    "interleaved", kernel="reduce_interleaved", grid=blocks(1), **_common,
    changes="Adds up in shared memory, with one atomic operation per block.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "strided", kernel="reduce_strided", grid=blocks(1), **_common,
    changes="The first threads are active instead of every second one: no divergent branches.",
    steps=["avoid divergence"],
)  # fmt: skip
ladder.cuda_variant(
    "sequential", kernel="reduce_sequential", grid=blocks(1), **_common,
    changes="Sequential addressing, which is free of bank conflicts.",
    steps=["avoid bank conflicts"],
)  # fmt: skip
ladder.cuda_variant(
    "first_add", kernel="reduce_first_add", grid=blocks(2), **_common,
    changes="Each thread adds two elements during the load, with half as many blocks.",
    steps=["fewer or cheaper operations", "more loads in flight"],
)  # fmt: skip
ladder.cuda_variant(
    "shuffle", kernel="reduce_shuffle", grid=blocks(2), **_common,
    changes="Adds up in registers by warp shuffles.",
    steps=["fewer barriers", "fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "many_per_thread", kernel="reduce_many", **_few,
    changes="Each thread adds many elements in a loop before the reduction of the block.",
    steps=["fewer barriers", "fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "vectors", kernel="reduce_vectors", **_few,
    changes="Loads four elements at a time.",
    steps=["more loads in flight", "wider accesses"],
)  # fmt: skip
