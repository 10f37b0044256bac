"""Numba kernels with neighbours, tiles in shared memory, warps and dependences."""

import math

import numba
import numpy as np
from numba import cuda

TILE, PITCH, WIDTH = 16, 17, 64


@cuda.jit
def transpose(x, out):
    tile = cuda.shared.array((TILE, PITCH), numba.float64)
    col, row = cuda.grid(2)
    if row < x.shape[0] and col < x.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = x[row, col]
    cuda.syncthreads()
    row = cuda.blockIdx.x * TILE + cuda.threadIdx.y
    col = cuda.blockIdx.y * TILE + cuda.threadIdx.x
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


def run_transpose(rng):
    x = rng.random((20, 37))[:, ::-1]  # a view with a negative stride
    out = np.empty((37, 20))
    transpose[(3, 2), (TILE, TILE)](x, out)
    return out, x.T


@cuda.jit
def matmul(a, b, out):
    left = cuda.shared.array((TILE, TILE), numba.float32)
    right = cuda.shared.array((TILE, TILE), numba.float32)
    col, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = numba.float32(0)
    for start in range(0, a.shape[1], TILE):
        inside = row < a.shape[0] and start + x < a.shape[1]
        left[y, x] = a[row, start + x] if inside else 0
        inside = start + y < b.shape[0] and col < b.shape[1]
        right[y, x] = b[start + y, col] if inside else 0
        cuda.syncthreads()
        for k in range(TILE):
            total += left[y, k] * right[k, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


def run_matmul(rng):
    a, b = rng.random((20, 40), dtype="f4"), rng.random((40, 18), dtype="f4")
    out = np.empty((20, 18), "f4")
    matmul[(2, 2), (TILE, TILE)](a, b, out)
    return out, a @ b


@cuda.jit
def life(x, out):
    col, row = cuda.grid(2)
    if row < x.shape[0] and col < x.shape[1]:
        count = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                count += x[(row + dy) % x.shape[0], (col + dx) % x.shape[1]]
        out[row, col] = count == 3 or (count == 4 and x[row, col])


def run_life(rng):
    x = rng.integers(0, 2, (20, 30), "u1")
    a, b, expected = x.copy(), np.empty_like(x), x
    for _ in range(3):
        life[(2, 2), (16, 16)](a, b)
        a, b = b, a
        around = [np.roll(expected, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
        count = sum(each.astype("i4") for each in around)
        expected = ((count == 3) | ((count == 4) & (expected == 1))).astype("u1")
    return a, expected


@cuda.jit
def warp_sums(x, out):
    i = cuda.grid(1)
    value = x[i]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if cuda.laneid == 0:
        out[i // 32] = value


def run_warp_sums(rng):
    x, out = rng.integers(0, 99, 256, "i4"), np.empty(8, "i4")
    warp_sums[2, 128](x, out)
    return out, x.reshape(8, 32).sum(1, dtype="i4")


@cuda.jit
def histogram(x, out):
    bins = cuda.shared.array(32, numba.int32)
    if cuda.threadIdx.x < 32:
        bins[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, x[i], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 32:
        cuda.atomic.add(out, cuda.threadIdx.x, bins[cuda.threadIdx.x])


def run_histogram(rng):
    x, out = rng.integers(0, 32, 700, "i4"), np.zeros(32, "i4")
    histogram[2, 64](x, out)
    return out, np.bincount(x, minlength=32)


@cuda.jit
def scan(x, out):
    part = cuda.shared.array(WIDTH, numba.int64)
    i = cuda.threadIdx.x
    part[i] = x[i]
    step = 1
    while step < WIDTH:
        cuda.syncthreads()
        before = part[i - step] if i >= step else 0
        cuda.syncthreads()
        part[i] += before
        step *= 2
    out[i] = part[i]


def run_scan(rng):
    x = rng.integers(-9, 9, WIDTH)
    out = np.empty_like(x)
    scan[1, WIDTH](x, out)
    return out, np.cumsum(x)


@cuda.jit
def sort(x):
    part = cuda.shared.array(WIDTH, numba.float32)
    i = cuda.threadIdx.x
    part[i] = x[i]
    length = 2
    while length <= WIDTH:
        step = length // 2
        while step:
            cuda.syncthreads()
            other = i ^ step
            if other > i and (part[i] > part[other]) == ((i & length) == 0):
                part[i], part[other] = part[other], part[i]
            step //= 2
        length *= 2
    cuda.syncthreads()
    x[i] = part[i]


def run_sort(rng):
    x = rng.random(WIDTH, dtype="f4")
    expected = np.sort(x)
    sort[1, WIDTH](x)
    return x, expected


@cuda.jit
def smith_waterman(s, t, out):
    i = cuda.threadIdx.x
    for step in range(s.size + t.size - 1):
        j = step - i
        if i < s.size and 0 <= j < t.size:
            corner = out[i, j] + (3 if s[i] == t[j] else -3)
            out[i + 1, j + 1] = max(corner, out[i, j + 1] - 2, out[i + 1, j] - 2, 0)
        cuda.syncthreads()


def run_smith_waterman(rng):
    s, t = rng.integers(0, 4, 30, "i1"), rng.integers(0, 4, 40, "i1")
    out, expected = np.zeros((2, 31, 41), "i4")
    smith_waterman[1, 32](s, t, out)
    for i, j in np.ndindex(30, 40):
        corner = expected[i, j] + (3 if s[i] == t[j] else -3)
        expected[i + 1, j + 1] = max(corner, expected[i, j + 1] - 2, expected[i + 1, j] - 2, 0)
    return out, expected


@cuda.jit(device=True)
def acceleration(away, softening):
    square = softening
    for each in away:
        square += each * each
    return 1 / (square * math.sqrt(square))


@cuda.jit
def forces(position, mass, out):
    i = cuda.grid(1)
    if i >= mass.size:
        return
    away = cuda.local.array(3, numba.float64)
    for j in range(mass.size):
        for axis in range(3):
            away[axis] = position[axis, j] - position[axis, i]
        strength = mass[j] * acceleration(away, 0.01)
        for axis in range(3):
            out[axis, i] += strength * away[axis]


def run_forces(rng):
    position, mass = rng.random((3, 40)), rng.random(40)
    out = np.zeros_like(position)
    forces.forall(40)(position, mass, out)
    away = position[:, None] - position[..., None]
    return out, (away * mass * (0.01 + (away**2).sum(0)) ** -1.5).sum(2)


@cuda.jit
def spmv(indptr, indices, data, x, out):
    row = cuda.grid(1)
    if row < out.size:
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * x[indices[k]]
        out[row] = total


def run_spmv(rng):
    dense = rng.random((50, 60)) * (rng.random((50, 60)) < 0.1)
    indptr = np.concatenate([[0], np.cumsum((dense != 0).sum(1))])
    x, out = rng.random(60), np.empty(50)
    spmv[2, 32](indptr, np.nonzero(dense)[1], dense[dense != 0], x, out)
    return out, dense @ x


@cuda.jit
def layer_norm(x, out, eps):
    row = cuda.blockIdx.x
    part = cuda.shared.array(32, numba.float32)
    mean = numba.float32(0)
    for turn in range(2):
        total = numba.float32(0)
        for col in range(cuda.threadIdx.x, x.shape[1], 32):
            away = x[row, col] - mean
            total += away * away if turn else away
        part[cuda.threadIdx.x] = total
        cuda.syncthreads()
        total = numba.float32(0)
        for lane in range(32):
            total += part[lane]
        cuda.syncthreads()
        if turn == 0:
            mean = total / numba.float32(x.shape[1])
    scale = 1 / math.sqrt(total / numba.float32(x.shape[1]) + eps)
    for col in range(cuda.threadIdx.x, x.shape[1], 32):
        out[row, col] = (x[row, col] - mean) * scale


def run_layer_norm(rng):
    x = rng.normal(size=(5, 70)).astype("f4")
    out = np.empty_like(x)
    layer_norm[5, 32](x, out, np.float32(1e-5))
    return out, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


@cuda.jit
def complex_product(x, y, factor, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i].conjugate() * y[i] * factor


def run_complex(rng):
    x, y = rng.random((2, 2, 50)).astype("f4").view("c8").reshape(2, 50)
    out = np.empty(50, "c8")
    complex_product[1, 64](x, y, np.complex64(2 - 1j), out)
    return out, x.conj() * y * (2 - 1j)


CASES = {
    **dict.fromkeys([run_transpose, run_life, run_warp_sums, run_histogram, run_scan], 0),
    **dict.fromkeys([run_sort, run_smith_waterman], 0),
    **dict.fromkeys([run_matmul, run_layer_norm, run_complex], 1e-5),
    **dict.fromkeys([run_forces, run_spmv], 1e-12),
}
