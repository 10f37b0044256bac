"""Seven-point stencil: Programming Massively Parallel Processors, chapter 8; Micikevicius 2009."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(a):
    """The weighted sum of each point and its six neighbours; the border does not change."""
    out = a.copy()
    neighbours = a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:]
    for part in (a[1:-1, :-2, 1:-1], a[1:-1, 2:, 1:-1], a[:-2, 1:-1, 1:-1], a[2:, 1:-1, 1:-1]):
        neighbours += part
    neighbours *= np.float32(0.1)
    out[1:-1, 1:-1, 1:-1] *= np.float32(0.4)
    out[1:-1, 1:-1, 1:-1] += neighbours
    return out


def field(rng, *shape):
    """A random field."""
    return (rng.random(shape, dtype=np.float32),)


def operands(rng, small=False):
    """The operands of a problem."""
    return field(rng, 18, 34, 36) if small else field(rng, 128, 320, 384)


def cover(*tile):
    """The grid of tiles, x first."""
    return lambda a: tuple(-(-n // t) for n, t in zip(reversed(a.shape), tile, strict=True))


ladder = ado.ladder(
    "stencil",
    reference=reference,
    flops=lambda a: 8 * a.size,
    signature="(depth,height,width)->(depth,height,width)",
    problems=lambda rng: [field(rng, *s) for s in ((1, 1, 4), (3, 5, 8), (17, 40, 64))],
)
_common = {"source": SOURCE, "file": "stencil.cu"}
ladder.cuda_variant(
    "cubes", kernel="stencil_cubes", block=(8, 8, 8), grid=cover(8, 8, 8), **_common,
    changes="One point per thread, in blocks of 8 x 8 x 8.",
)  # fmt: skip
ladder.cuda_variant(
    "rows", kernel="stencil_cubes", block=(32, 4, 4), grid=cover(32, 4, 4), **_common,
    changes="Blocks of 32 points along x, so that a warp covers part of one row.",
    steps=["coalesce accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "tile", kernel="stencil_tile", block=(8, 8, 8), grid=cover(6, 6, 6), **_common,
    changes="Loads cubes with their halo into shared memory once.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "coarsened", kernel="stencil_coarsened", block=(32, 32), grid=cover(30, 30, 16), **_common,
    changes="A block walks along z and keeps three planes in shared memory, with a smaller halo.",
    steps=["coalesce accesses", "less DRAM traffic", "reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "registers", kernel="stencil_registers", block=(32, 32), grid=cover(30, 30, 16), **_common,
    changes="Keeps the neighbours along z in registers and only one plane in shared memory.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "columns", kernel="stencil_columns", block=(32, 8), grid=cover(32, 8, 16), **_common,
    changes="Takes the neighbours along x and y from L1, without shared memory and barriers.",
    steps=["fewer barriers"],
)  # fmt: skip
ladder.cuda_variant(
    "vectors", kernel="stencil_vectors", block=(32, 8), grid=cover(128, 8, 16), **_common,
    changes="Four points per thread along x, loaded and stored as vectors.",
    steps=["more loads in flight", "wider accesses"],
)  # fmt: skip
