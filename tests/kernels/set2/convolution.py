"""Convolution: Programming Massively Parallel Processors, chapter 7; convolutionSeparable."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(a, taps):
    """The weighted sum of 7 x 7 pixels; pixels outside the image are 0."""
    rows, cols = a.shape
    padded = np.pad(a.astype(np.float64), 3)
    along = sum(taps[j].astype(np.float64) * padded[:, j : j + cols] for j in range(7))
    return sum(taps[i].astype(np.float64) * along[i : i + rows] for i in range(7))


def image(rng, rows, cols):
    """A random image and random taps."""
    return rng.random((rows, cols), dtype=np.float32), rng.random(7, dtype=np.float32)


def operands(rng, small=False):
    """The operands of a problem."""
    return image(rng, 40, 68) if small else image(rng, 4096, 4096)


def cover(*tile):
    """The grid of tiles, columns first."""
    return lambda a, taps: tuple(-(-n // t) for n, t in zip(reversed(a.shape), tile, strict=True))


ladder = ado.ladder(
    "convolution",
    reference=reference,
    dtype="float32",
    flops=lambda a, taps: 28 * a.size,
    signature="(rows,cols),(taps)->(rows,cols)",
    problems=lambda rng: [image(rng, *shape) for shape in ((1, 4), (33, 36), (70, 132))],
)
_common = {"source": SOURCE, "file": "convolution.cu"}
_common["arguments"] = lambda a, taps, out: [a, taps, out, *a.shape]
ladder.cuda_variant(
    "naive", kernel="convolution_naive", block=(16, 16), **_common,
    grid=lambda a, taps: tuple(-(-n // 16) for n in a.shape),
    changes="One pixel per thread; neighbouring threads compute neighbouring rows.",
)  # fmt: skip
ladder.cuda_variant(
    "coalesced", kernel="convolution_coalesced", block=(32, 8), grid=cover(32, 8), **_common,
    changes="A warp computes neighbouring pixels of one row.",
    steps=["coalesce accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "shared", kernel="convolution_shared", block=(32, 8), grid=cover(32, 32), **_common,
    changes="Loads the pixels of a tile and its halo into shared memory once.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "separable", kernel="convolution_separable", block=(32, 8), grid=cover(32, 32), **_common,
    changes="Sums seven taps along the rows, then seven along the columns.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "window", kernel="convolution_window", block=128, grid=cover(128, 32), **_common,
    changes="Walks down the columns with a window of sums in registers, without shared memory.",
    steps=["fewer barriers", "reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "vectors", kernel="convolution_vectors", block=128, grid=cover(512, 32), **_common,
    changes="Four neighbouring columns per thread, loaded and stored as vectors.",
    steps=["wider accesses"],
)  # fmt: skip
