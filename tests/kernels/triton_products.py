"""Triton kernels with matrix products: several types, attention, convolution."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, m, n, k, SIZE: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr = "ieee"
):
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    cols = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), ACC)
    for start in range(0, k, SIZE):
        deep = start + tl.arange(0, SIZE)
        x = tl.load(a + rows[:, None] * k + deep, mask=(rows[:, None] < m) & (deep < k), other=0.0)
        y = tl.load(b + deep[:, None] * n + cols, mask=(deep[:, None] < k) & (cols < n), other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION, out_dtype=ACC)
    place = c + rows[:, None] * n + cols
    tl.store(place, total.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (cols < n))


def product(a, b, result="f4", dtype=None, precision="ieee", acc=tl.float32):
    (m, k), n = a.shape, b.shape[1]
    c = np.empty((m, n), result)
    given = [triton.reinterpret(Bits(each), dtype) if dtype else each for each in (a, b)]
    grid = triton.cdiv(m, 32), triton.cdiv(n, 32)
    matmul[grid](*given, c, m, n, k, SIZE=32, ACC=acc, PRECISION=precision)
    return c


class Bits(np.ndarray):
    """An array of integers that hold the bits of a type that NumPy lacks."""

    def __new__(cls, array):
        return array.view(cls)

    def data_ptr(self):
        return self.ctypes.data

    @property
    def device(self):
        return "cpu"


def small(rng, *shape):
    """Numbers with few bits, whose products and sums are exact."""
    return rng.integers(-4, 5, shape).astype("f4")


def run_matmul_fp16(rng):
    a, b = small(rng, 40, 50).astype("f2"), small(rng, 50, 33).astype("f2")
    return product(a, b), a.astype("f4") @ b.astype("f4")


def run_matmul_fp32(rng):
    a, b = rng.random((33, 40), dtype="f4"), rng.random((40, 32), dtype="f4")
    return product(a, b), a @ b


def run_matmul_tf32(rng):
    a, b = small(rng, 32, 64), small(rng, 64, 32)
    return product(a, b, precision="tf32"), a @ b


def run_matmul_bf16(rng):
    a, b = small(rng, 32, 48), small(rng, 48, 40)
    bits = [(each.view("u4") >> 16).astype("u2") for each in (a, b)]
    return product(*bits, dtype=tl.bfloat16), a @ b


def run_matmul_int8(rng):
    a, b = rng.integers(-128, 128, (32, 70), "i1"), rng.integers(-128, 128, (70, 32), "i1")
    return product(a, b, "i4", acc=tl.int32), a.astype("i4") @ b.astype("i4")


def fp8_product(rng, codes, dtype):
    values, codes = np.array([0, 0.5, 1, 1.5, 2, -1, -2, -3], "f4"), np.array(codes, "u1")
    a, b = rng.integers(0, 8, (32, 64)), rng.integers(0, 8, (64, 32))
    return product(codes[a], codes[b], dtype=dtype), values[a] @ values[b]


def run_matmul_fp8(rng):
    return fp8_product(rng, [0, 0x38, 0x3C, 0x3E, 0x40, 0xBC, 0xC0, 0xC2], tl.float8e5)


def run_matmul_fp8e4(rng):
    """On compute capability 9.0."""
    return fp8_product(rng, [0, 0x30, 0x38, 0x3C, 0x40, 0xB8, 0xC0, 0xC4], tl.float8e4nv)


@triton.jit
def attention(q, k, v, out, lse, n, scale, SIZE: tl.constexpr, DIM: tl.constexpr):
    row, dim = tl.program_id(0) * SIZE + tl.arange(0, SIZE), tl.arange(0, DIM)
    query = tl.load(q + row[:, None] * DIM + dim, mask=row[:, None] < n, other=0.0)
    top = tl.full((SIZE,), -float("inf"), tl.float32)
    total = tl.zeros((SIZE,), tl.float32)
    found = tl.zeros((SIZE, DIM), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * SIZE, SIZE):  # causal
        key = start + tl.arange(0, SIZE)
        keys = tl.load(k + key[None, :] * DIM + dim[:, None], mask=key[None, :] < n, other=0.0)
        score = tl.dot(query, keys) * scale
        score = tl.where((row[:, None] >= key) & (key < n), score, -float("inf"))
        new = tl.maximum(top, tl.max(score, 1))
        share, shrink = tl.exp(score - new[:, None]), tl.exp(top - new)
        values = tl.load(v + key[:, None] * DIM + dim, mask=key[:, None] < n, other=0.0)
        found = tl.dot(share.to(values.dtype), values, found * shrink[:, None])
        total, top = total * shrink + tl.sum(share, 1), new
    tl.store(out + row[:, None] * DIM + dim, found / total[:, None], mask=row[:, None] < n)
    tl.store(lse + row, top + tl.log(total), mask=row < n)


@triton.jit
def attention_backward(
    q, k, v, grad, lse, delta, dq, dk, dv, n, scale, SIZE: tl.constexpr, DIM: tl.constexpr
):
    key, dim = tl.program_id(0) * SIZE + tl.arange(0, SIZE), tl.arange(0, DIM)
    at, mask = key[:, None] * DIM + dim, key[:, None] < n
    keys, values = tl.load(k + at, mask=mask, other=0.0), tl.load(v + at, mask=mask, other=0.0)
    sum_k, sum_v = tl.zeros((SIZE, DIM), tl.float32), tl.zeros((SIZE, DIM), tl.float32)
    for start in range(tl.program_id(0) * SIZE, n, SIZE):
        row = start + tl.arange(0, SIZE)
        at_row, inside = row[:, None] * DIM + dim, row[:, None] < n
        query = tl.load(q + at_row, mask=inside, other=0.0)
        g = tl.load(grad + at_row, mask=inside, other=0.0)
        score = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale
        share = tl.exp(score - tl.load(lse + row, mask=row < n, other=0.0)[:, None])
        share = tl.where((row[:, None] >= key) & inside & (key < n), share, 0.0)
        sum_v = tl.dot(tl.trans(share), g, sum_v, input_precision="ieee")
        d = tl.dot(g, tl.trans(values), input_precision="ieee")
        d = share * (d - tl.load(delta + row, mask=row < n, other=0.0)[:, None]) * scale
        sum_k = tl.dot(tl.trans(d), query, sum_k, input_precision="ieee")
        tl.atomic_add(dq + at_row, tl.dot(d, keys, input_precision="ieee"), mask=inside)
    tl.store(dk + at, sum_k, mask=mask)
    tl.store(dv + at, sum_v, mask=mask)


def softmax_of_scores(q, k):
    n, dim = q.shape
    score = np.where(np.tri(n, dtype=bool), q @ k.T / dim**0.5, -np.inf)
    top = score.max(1, keepdims=True)
    total = np.exp(score - top).sum(1, keepdims=True)
    return np.exp(score - top) / total, (top + np.log(total))[:, 0]


def run_attention(rng):
    q, k, v = rng.normal(size=(3, 50, 16)).astype("f2")
    out, lse = np.empty((50, 16), "f4"), np.empty(50, "f4")
    attention[(4,)](q, k, v, out, lse, 50, 0.25, SIZE=16, DIM=16)
    share, expected = softmax_of_scores(*(each.astype("f8") for each in (q, k)))
    return np.column_stack([out, lse]), np.column_stack([share @ v.astype("f8"), expected])


def run_attention_backward(rng):
    q, k, v, g = rng.normal(size=(4, 40, 16)).astype("f4")
    share, lse = softmax_of_scores(q, k)
    delta, lse = (g * (share @ v)).sum(1).astype("f4"), lse.astype("f4")
    dq, dk, dv = np.zeros((3, 40, 16), "f4")
    attention_backward[(3,)](q, k, v, g, lse, delta, dq, dk, dv, 40, 0.25, SIZE=16, DIM=16)
    d = share * (g @ v.T - delta[:, None]) * 0.25
    return np.stack([dq, dk, dv]), np.stack([d @ k, d.T @ q, share.T @ g])


@triton.jit
def conv2d(x, w, out, height, width, channels, RADIUS: tl.constexpr, BLOCK: tl.constexpr):
    row, to = tl.program_id(0), tl.program_id(1)
    col = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for channel in range(channels):
        for dy in tl.static_range(-RADIUS, RADIUS + 1):
            for dx in tl.static_range(-RADIUS, RADIUS + 1):
                y, at = row + dy, col + dx
                inside = (y >= 0) & (y < height) & (at >= 0) & (at < width)
                tap = (to * channels + channel) * (2 * RADIUS + 1) + dy + RADIUS
                value = tl.load(x + (channel * height + y) * width + at, mask=inside, other=0.0)
                total += value * tl.load(w + tap * (2 * RADIUS + 1) + dx + RADIUS)
    tl.store(out + (to * height + row) * width + col, total, mask=col < width)


def run_conv2d(rng):
    x, w = rng.random((2, 6, 20), dtype="f4"), rng.random((3, 2, 3, 3), dtype="f4")
    out = np.empty((3, 6, 20), "f4")
    conv2d[(6, 3)](x, w, out, 6, 20, 2, RADIUS=1, BLOCK=32)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return out, np.einsum("chwyx,ocyx->ohw", windows, w)


@triton.jit
def batched(a, b, c, K: tl.constexpr, N: tl.constexpr):
    batch, i, j = tl.program_id(0), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + batch * N * K + i[:, None] * K + j)
    y = tl.load(b + batch * N * K + j[:, None] * N + i)
    tl.store(c + batch * N * N + i[:, None] * N + i, tl.dot(x, y, input_precision="tf32x3"))


def run_batched(rng):
    a, b = rng.random((3, 16, 32), dtype="f4"), rng.random((3, 32, 16), dtype="f4")
    c = np.empty((3, 16, 16), "f4")
    batched[(3,)](a, b, c, K=32, N=16)
    return c, a @ b


CASES = {
    **dict.fromkeys([run_matmul_fp16, run_matmul_tf32, run_matmul_bf16], 0),
    **dict.fromkeys([run_matmul_int8, run_matmul_fp8], 0),
    **dict.fromkeys([run_matmul_fp32, run_batched, run_conv2d], 1e-5),
    **{run_attention: 2e-3, run_attention_backward: 1e-4},
}
