"""A Triton kernel, its reference, and a better kernel; all of it runs without a GPU.

adokernels check examples/triton/luma.py --ladder luma --device emulator
"""

import numpy as np
import triton
import triton.language as tl

import adokernels as ado


@triton.jit
def naive_kernel(rgba, out, n, BLOCK: tl.constexpr):
    """Three loads per pixel."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    r = tl.load(rgba + 4 * i, mask=inside)
    g = tl.load(rgba + 4 * i + 1, mask=inside)
    b = tl.load(rgba + 4 * i + 2, mask=inside)
    tl.store(out + i, 0.299 * r + 0.587 * g + 0.114 * b, mask=inside)


@triton.jit
def vector_kernel(rgba, out, n, BLOCK: tl.constexpr):
    """One load per pixel, of all its channels."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, 4)
    weight = tl.where(c == 0, 0.299, tl.where(c == 1, 0.587, tl.where(c == 2, 0.114, 0.0)))
    pixels = tl.load(rgba + 4 * i[:, None] + c, mask=i[:, None] < n, other=0.0)
    tl.store(out + i, tl.sum(pixels * weight, axis=1), mask=i < n)


def naive(rgba, out):
    """One load per channel."""
    naive_kernel[(triton.cdiv(out.size, 256),)](rgba, out, out.size, BLOCK=256)


def vector(rgba, out):
    """One load per pixel."""
    vector_kernel[(triton.cdiv(out.size, 256),)](rgba, out, out.size, BLOCK=256)


def pixels(rng):
    """Problems: small and odd sizes, and one for counts."""
    return [(rng.random((*shape, 4), np.float32),) for shape in ((100, 100), (1, 1), (17, 31))]


luma = ado.ladder(
    "luma",
    reference=lambda rgba: rgba @ np.float32([0.299, 0.587, 0.114, 0.0]),
    problems=pixels,
)
luma.add(ado.variant(naive), ado.variant(vector, steps=["coalesce accesses"]))
