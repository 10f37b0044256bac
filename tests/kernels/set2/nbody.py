"""Gravity of all pairs of bodies: GPU Gems 3, chapter 31."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(bodies):
    """The acceleration of each body: x, y, z and 0."""
    place, mass = bodies[:, :3].astype(np.float64), bodies[:, 3].astype(np.float64)
    out, norms = np.zeros(bodies.shape), np.einsum("ij,ij->i", place, place)
    for first in range(0, len(place), 256):
        some = slice(first, first + 256)
        square = norms[some, None] + norms[None] - 2 * (place[some] @ place.T)
        factor = mass / (square + np.float64(np.float32(0.01))) ** 1.5
        out[some, :3] = factor @ place - factor.sum(axis=1)[:, None] * place[some]
    return out


def bodies_of(rng, count):
    """Random bodies in a cube: place and mass."""
    return (rng.random((count, 4), dtype=np.float32),)


def operands(rng, small=False):
    """The operands of a problem."""
    return bodies_of(rng, 256 if small else 6144)


def each(count):
    """The grid of blocks with this number of bodies."""
    return lambda bodies: bodies.shape[0] // count


ladder = ado.ladder(
    "nbody",
    reference=reference,
    dtype="float32",
    flops=lambda bodies: 20 * bodies.shape[0] ** 2,
    tolerance=1e-4,
    signature="(n,4)->(n,4)",
    problems=lambda rng: [bodies_of(rng, n) for n in (256, 768)],
)
_common = {
    "source": SOURCE,
    "file": "nbody.cu",
    "arguments": lambda b, out: [b, out, b.shape[0], 4],
}
_one = _common | {"block": 128, "grid": each(128)}
ladder.cuda_variant(
    "naive", kernel="nbody_naive", **_one,
    changes="One body per thread, which reads all bodies, with square root and division.",
)  # fmt: skip
ladder.cuda_variant(
    "reciprocal", kernel="nbody_reciprocal", **_one,
    changes="The reciprocal square root replaces square root and division.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "tiled", kernel="nbody_tiled", **_one,
    changes="Loads tiles of bodies into shared memory.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "unrolled", kernel="nbody_unrolled", **_one,
    changes="Unrolls the inner loop.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "four_threads", kernel="nbody_four_threads", block=256, grid=each(64), **_common,
    changes="Four threads per body, for problems that do not fill the device.",
    steps=["more work in parallel"],
)  # fmt: skip
ladder.cuda_variant(
    "two_bodies", kernel="nbody_two_bodies", block=256, grid=each(128), **_common,
    changes="Two bodies per thread share each load from shared memory.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
