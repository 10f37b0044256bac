"""Triton kernels without communication between threads."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


def run_add(rng):
    x, y = rng.random((2, 1000), dtype="f4")
    out = np.empty_like(x)
    add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, BLOCK=128)
    return out, x + y


@triton.jit
def gelu(z):
    return 0.5 * z * (1 + tl.math.erf(z * 0.7071067811865476))


@triton.jit
def bias_gelu(x, bias, out, rows, cols, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    mask = col < cols
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        z = tl.load(x + row * cols + col, mask=mask) + tl.load(bias + col, mask=mask)
        tl.store(out + row * cols + col, gelu(z), mask=mask)


def run_bias_gelu(rng):
    from math import erf

    x, bias = rng.normal(size=(7, 50)).astype("f4"), rng.normal(size=50).astype("f4")
    out = np.empty_like(x)
    bias_gelu[(3,)](x, bias, out, *x.shape, BLOCK=64)
    z = (x + bias).astype("f8")
    return out, 0.5 * z * (1 + np.vectorize(erf)(z * 0.5**0.5))


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=mask) / (1 - p), 0.0), mask=mask)


def philox(seed, counter):
    """The first number of Philox 4x32-10, as a float in [0, 1), in the way of Triton."""
    c0, c1 = counter.astype("u8"), np.zeros(counter.size, "u8")
    c2, c3 = c1.copy(), c1.copy()
    k0, k1, low = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c2 = (
            (b >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            (a >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
        )
        c1, c3 = b & low, a & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    signed = c0.astype("u4").view("i4").astype("i8")
    return np.where(signed < 0, -signed - 1, signed).astype("f4") * np.float32(4.6566127342e-10)


def run_dropout(rng):
    x = rng.random(500, dtype="f4")
    out = np.empty_like(x)
    dropout[(4,)](x, out, 500, 0.25, 1234, BLOCK=128)
    keep = philox(1234, np.arange(500)) > np.float32(0.25)
    assert 0.6 < keep.mean() < 0.9
    return out, np.where(keep, x / 0.75, 0)


@triton.autotune(configs=[triton.Config({"BLOCK": n}, num_warps=2) for n in (64, 256)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def scale_tuned(x, factor, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x + at, factor * tl.load(x + at))
    else:
        mask = at < n
        tl.store(x + at, factor * tl.load(x + at, mask=mask), mask=mask)


@triton.jit
def copy_strided(x, out, rows, cols, row_step, col_step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    value = tl.load(x + row * row_step + col * col_step, mask=col < cols)
    tl.store(out + row * cols + col, value, mask=col < cols)


def run_copy_strided(rng):
    x = rng.integers(0, 99, (8, 30), "i2")[::-2, 1::3].T  # negative strides
    out = np.empty(x.shape, x.dtype)
    copy_strided[(x.shape[0],)](x, out, *x.shape, *(s // 2 for s in x.strides), BLOCK=16)
    return out, x


CASES = {run_add: 0, run_bias_gelu: 1e-6, run_dropout: 1e-7, run_copy_strided: 0}
