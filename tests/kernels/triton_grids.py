"""Triton kernels with neighbours, dependences, tuples, descriptors and several launches."""

import numpy as np
import triton
import triton.language as tl
from kernels.triton_products import Bits
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def transpose(x, out, rows, cols, SIZE: tl.constexpr):
    row = tl.program_id(0) * SIZE + tl.arange(0, SIZE)[:, None]
    col = tl.program_id(1) * SIZE + tl.arange(0, SIZE)[None, :]
    tile = tl.load(x + row * cols + col, mask=(row < rows) & (col < cols))
    to_row, to_col = tl.trans(col), tl.trans(row)
    inside = (to_row < cols) & (to_col < rows)
    tl.store(out + to_row * rows + to_col, tl.trans(tile), mask=inside)


def run_transpose(rng):
    x = rng.integers(0, 1 << 40, (20, 33))
    out = np.empty((33, 20), x.dtype)
    transpose[(2, 3)](x, out, *x.shape, SIZE=16)
    return out, x.T


@triton.jit
def heat(x, out, rows, cols, BLOCK: tl.constexpr):
    row, col = tl.program_id(0), tl.arange(0, BLOCK)
    at = row * cols + col
    inside = (row > 0) & (row < rows - 1) & (col > 0) & (col < cols - 1)
    around = tl.load(x + at - cols, mask=inside) + tl.load(x + at + cols, mask=inside)
    around += tl.load(x + at - 1, mask=inside) + tl.load(x + at + 1, mask=inside)
    here = tl.load(x + at, mask=col < cols)
    tl.store(out + at, tl.where(inside, 0.5 * here + 0.125 * around, here), mask=col < cols)


def run_stencil(rng):
    x = rng.random((9, 50), dtype="f4")
    a, b, expected = x.copy(), np.empty_like(x), x.copy()
    for _ in range(3):  # several launches
        heat[(9,)](a, b, 9, 50, BLOCK=64)
        a, b = b, a
        inner = expected[:-2, 1:-1] + expected[2:, 1:-1] + expected[1:-1, :-2] + expected[1:-1, 2:]
        expected[1:-1, 1:-1] = 0.5 * expected[1:-1, 1:-1] + 0.125 * inner
    return a, expected


@triton.jit
def align(s, t, before, last, out, m, n, step, GAP: tl.constexpr, BLOCK: tl.constexpr):
    """One anti-diagonal of the matrix of Smith and Waterman."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = step - i
    inside = (i < m) & (j >= 0) & (j < n)
    same = tl.load(s + i, mask=inside) == tl.load(t + j, mask=inside)
    corner = tl.load(before + i, mask=inside) + tl.where(same, 3, -3)
    side = tl.maximum(tl.load(last + i, mask=inside), tl.load(last + i + 1, mask=inside)) - GAP
    tl.store(out + i + 1, tl.maximum(tl.maximum(corner, side), 0), mask=inside)


def run_smith_waterman(rng):
    s, t = rng.integers(0, 4, 30, "i1"), rng.integers(0, 4, 40, "i1")
    diagonals, found = np.zeros((3, 31), "i4"), np.zeros((31, 41), "i4")
    for step in range(69):
        before, last, out = (diagonals[(step + i) % 3] for i in range(3))
        out[:] = 0
        align[(2,)](s, t, before, last, out, 30, 40, step, GAP=2, BLOCK=16)
        i = np.arange(max(0, step - 39), min(30, step + 1))
        found[i + 1, step - i + 1] = out[i + 1]
    expected = np.zeros((31, 41), "i4")
    for i, j in np.ndindex(30, 40):
        corner = expected[i, j] + (3 if s[i] == t[j] else -3)
        expected[i + 1, j + 1] = max(corner, expected[i, j + 1] - 2, expected[i + 1, j] - 2, 0)
    return found, expected


@triton.jit
def add_tuple(pair, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, factor = pair
    tl.store(out + at, factor * tl.load(x + at, mask=at < n), mask=at < n)


def run_tuple(rng):
    x = rng.random(100)
    out = np.empty_like(x)
    add_tuple[(1,)]((x, 2.5), out, 100, BLOCK=128)
    return out, 2.5 * x


@triton.jit
def convert(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=at < n)


def run_convert(rng):
    x = rng.normal(scale=50, size=300).astype("f4")
    halves, whole = np.empty(300, "f2"), np.empty(300, "i8")
    convert[(3,)](x, halves, 300, BLOCK=128)
    convert[(3,)](x, whole, 300, BLOCK=128)
    return np.stack([halves, whole]), np.stack([x.astype("f2"), x.astype("i8")])


@triton.jit
def sum_in_order(x, total, lock, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at, mask=at < n, other=0.0))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def run_lock(rng):
    x, total, lock = rng.random(500), np.zeros(1), np.zeros(1, "i4")
    sum_in_order[(4,)](x, total, lock, 500, BLOCK=128)
    return total, x.sum(keepdims=True)


@triton.jit
def gather(x, index, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    place = tl.load(index + at, mask=at < n, other=0)
    tl.store(out + at, tl.gather(value, place, 0), mask=at < n)


def run_gather(rng):
    x, index = rng.random(64, dtype="f4"), rng.integers(0, 64, 50, "i4")
    out = np.empty(50, "f4")
    gather[(1,)](x, index, out, 50, BLOCK=64)
    return out, x[index]


@triton.jit
def copy_tiles(x, out, SIZE: tl.constexpr):
    row = tl.program_id(0) * SIZE
    out.store([row, 0], x.load([row, 0]))


def run_descriptors(rng):
    x, out = rng.random((40, 16), dtype="f4"), np.zeros((40, 16), "f4")
    made = [TensorDescriptor(Bits(a), [40, 16], [16, 1], [16, 16]) for a in (x, out)]
    copy_tiles[(3,)](*made, SIZE=16)
    return out, x


@triton.jit
def double_tiles(x, out, rows, SIZE: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, 64], [64, 1], [SIZE, 64])
    target = tl.make_tensor_descriptor(out, [rows, 64], [64, 1], [SIZE, 64])
    row = tl.program_id(0) * SIZE
    target.store([row, 0], source.load([row, 0]) * 2)


def run_made_descriptors(rng):
    x, out = rng.random((40, 64), dtype="f4"), np.zeros((40, 64), "f4")
    triton.set_allocator(lambda size, alignment, stream: np.zeros(size, "u1"))
    double_tiles[(3,)](x, out, 40, SIZE=16)
    return out, 2 * x


CASES = {
    **dict.fromkeys([run_transpose, run_smith_waterman, run_tuple, run_convert, run_gather], 0),
    run_descriptors: 0,
    run_made_descriptors: 0,
    **{run_stencil: 1e-6, run_lock: 1e-12},
}
