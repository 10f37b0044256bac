"""Numba kernels with scalars, records, tuples and shared memory."""

import math

import numba
import numpy as np
from numba import cuda

THREADS = 64


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


def run_saxpy(rng):
    x, y = rng.random((2, 300), dtype="f4")
    expected = y + np.float32(2) * x
    saxpy[5, THREADS](np.float32(2), x, y)
    return y, expected


@cuda.jit
def block_sum(x, out):
    part = cuda.shared.array(THREADS, numba.float64)
    thread = cuda.threadIdx.x
    i = cuda.grid(1)
    part[thread] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    step = THREADS // 2
    while step:
        if thread < step:
            part[thread] += part[thread + step]
        cuda.syncthreads()
        step //= 2
    if thread == 0:
        cuda.atomic.add(out, 0, part[0])


def run_block_sum(rng):
    x, out = rng.random(500), np.zeros(1)
    block_sum[math.ceil(500 / THREADS), THREADS](x, out)
    return out, x.sum(keepdims=True)


@cuda.jit
def mandelbrot(corner, step, out):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        c = corner + complex(col * step, row * step)
        z, count = c, 0
        while abs(z) < 2 and count < 30:
            z = z * z + c
            count += 1
        out[row, col] = count


def run_mandelbrot(rng):
    out = np.zeros((10, 20), "i4")
    mandelbrot[(3, 2), (8, 8)](-2 - 1j, 0.15, out)
    expected = np.zeros_like(out)
    for row, col in np.ndindex(out.shape):
        z = c = complex(-2 + col * 0.15, -1 + row * 0.15)
        while abs(z) < 2 and expected[row, col] < 30:
            z, expected[row, col] = z * z + c, expected[row, col] + 1
    return out, expected


CASES = {run_saxpy: 1e-6, run_block_sum: 1e-12, run_mandelbrot: 0}
