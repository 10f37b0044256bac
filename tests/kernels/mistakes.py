"""Kernels of Triton and Numba with one mistake each, at the line with the comment "here"."""

import numba
import numpy as np
import triton
import triton.language as tl
from numba import cuda


@triton.jit
def unmasked_load(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)  # here
    tl.store(out + at, value, mask=at < n)


@triton.jit
def unmasked_store(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n))  # here


@triton.jit
def one_too_many(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at <= n)  # here
    tl.store(out + at, value, mask=at < n)


@triton.jit
def before_the_first(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + at - 1, mask=at < n)  # here
    tl.store(out + at, left, mask=at < n)


@triton.jit
def wrong_stride(x, out, n, BLOCK: tl.constexpr):
    row, col = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * (n + 1) + col, mask=col < n)  # here
    tl.store(out + row * n + col, value, mask=col < n)


@triton.jit
def misaligned(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    words = (x + 1).to(tl.pointer_type(tl.int32))
    value = tl.load(words + at, mask=at < n // 8)  # here
    tl.store(out.to(tl.pointer_type(tl.int32)) + at, value, mask=at < n // 8)


@triton.jit
def load_of(x, at):
    return tl.load(x + at)  # here


@triton.jit
def in_a_helper(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, load_of(x, at), mask=at < n)


@triton.jit
def bad_atomic(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    bins = tl.load(x + at, mask=at < n, other=0).to(tl.int32) + n
    tl.atomic_add(out + bins, 1, mask=at < n)  # here


@cuda.jit
def one_too_many_threads(x, out):
    i = cuda.grid(1)
    if i <= x.size:
        out[i] = x[i]  # here


@cuda.jit
def swapped_indices(x, out):
    row, col = cuda.grid(2)
    if row < x.shape[0] and col < x.shape[1]:
        out[col, row] = x[row, col]  # here


@cuda.jit
def without_barrier(x, out):
    part = cuda.shared.array(64, numba.uint8)
    i = cuda.threadIdx.x
    part[i] = x[i]  # here
    out[i] = part[63 - i]


@cuda.jit
def overlapping_stores(x, out):
    part = cuda.shared.array(64, numba.uint8)
    i = cuda.threadIdx.x
    part[i // 2] = i  # here
    cuda.syncthreads()
    out[i] = part[i // 2]


@cuda.jit
def barrier_in_a_branch(x, out):
    part = cuda.shared.array(64, numba.uint8)
    i = cuda.threadIdx.x
    part[i] = x[i]
    if i < 40:
        cuda.syncthreads()  # here
    out[i] = part[i]


@cuda.jit
def one_barrier_for_two_steps(x, out):
    part = cuda.shared.array(64, numba.uint8)
    i = cuda.threadIdx.x
    part[i] = x[i]
    step = 32
    cuda.syncthreads()
    while step:
        if i < step:
            part[i] += part[i + step]  # here
        step //= 2
    out[i] = part[0]


@cuda.jit
def unwritten_shared_memory(x, out):
    part = cuda.shared.array(64, numba.uint8)
    i = cuda.threadIdx.x
    if i < 60:
        part[i] = x[i]
    cuda.syncthreads()
    out[i] = part[63 - i]  # here


@cuda.jit
def shared_array_too_small(x, out):
    part = cuda.shared.array(32, numba.uint8)
    i = cuda.threadIdx.x
    part[i] = x[i]  # here
    cuda.syncthreads()
    out[i] = part[i]


def triton_run(kernel, programs=2, size=100):
    def run():
        x, out = np.arange(size, dtype="u1"), np.zeros(size, "u1")
        if kernel is bad_atomic:
            out = np.zeros(size, "i4")
        kernel[(programs,)](x, out, size // (programs if kernel is wrong_stride else 1), BLOCK=64)

    return run


def numba_run(kernel, grid=1, block=64, shape=64):
    def run():
        x = np.zeros(shape, "u1")
        kernel[grid, block](x, x.copy())

    return run


def cases():
    """The kind of the error, the kernel with its line, and a function that launches it."""
    for kernel in (
        *(unmasked_load, unmasked_store, one_too_many, before_the_first, wrong_stride),
        *(in_a_helper, bad_atomic),
    ):
        yield "out of bounds", load_of if kernel is in_a_helper else kernel, triton_run(kernel)
    yield "misaligned", misaligned, triton_run(misaligned, 1)
    yield "out of bounds", one_too_many_threads, numba_run(one_too_many_threads, 2)
    grid = (2, 2), (8, 8), (10, 16)
    yield "out of bounds", swapped_indices, numba_run(swapped_indices, *grid)
    yield "race", without_barrier, numba_run(without_barrier)
    yield "race", overlapping_stores, numba_run(overlapping_stores)
    yield "divergent barrier", barrier_in_a_branch, numba_run(barrier_in_a_branch)
    yield "race", one_barrier_for_two_steps, numba_run(one_barrier_for_two_steps)
    yield "uninitialised", unwritten_shared_memory, numba_run(unwritten_shared_memory)
    yield "out of bounds", shared_array_too_small, numba_run(shared_array_too_small)
