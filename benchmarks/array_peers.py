"""Other libraries' transpose, average_matvec and max_plus, and the compiler of torch formulas.

Peers return their result, which is preallocated. Products of float32 remain float32: TF32 is off.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.model.libraries import DeviceView

Array = Any
Peers = dict[str, Callable[[], Any]]

BLOCK = 1 << 14  # points of max_plus that fit in a core's cache with their sums
MOST_ROWS = 100_000  # maximum for Python loops, which take 2 us per row


class Compiler:
    """Compiles torch formulas at their first call."""

    def __init__(self) -> None:
        #: Whether a formula is compiled once for all shapes, except for lengths of 1, instead of
        #: once per shape. Set it before the first formula is compiled.
        self.dynamic = False
        self.budget = float("inf")  # remaining seconds for compilation
        self._formulas: dict[Callable[..., Any], Callable[..., Any]] = {}

    def call(self, formula: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        """A call of the compiled formula, after the first one, if the budget allows it."""
        if self.budget <= 0:
            raise TimeoutError("the time for compilation is used up")
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # more take seconds to start
        import torch

        start = time.perf_counter()
        if formula not in self._formulas:
            for limit in ("recompile_limit", "cache_size_limit", "accumulated_cache_size_limit"):
                if hasattr(torch._dynamo.config, limit):  # beyond it, torch uses eager mode
                    setattr(torch._dynamo.config, limit, 1024)
            self._formulas[formula] = torch.compile(formula, dynamic=self.dynamic)
        function = partial(self._formulas[formula], *args)
        function()
        self.budget -= time.perf_counter() - start
        return function


COMPILER = Compiler()


def tensors(*arrays: Any) -> list[Any]:
    """The arrays as tensors in the same memory."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    return [torch.as_tensor(array, device="cuda") for array in arrays]


# --- transpose ------------------------------------------------------------------------------------


def signed(a: ado.DeviceArray) -> DeviceView:
    """A packed array with signed instead of unsigned integers, which torch supports less well."""
    return DeviceView(a, 0, a.shape, np.dtype(a.dtype.str.replace("u", "i")))


def numpy_transpose(a: np.ndarray) -> Peers:
    out = np.empty(a.shape[::-1], a.dtype)

    def copied() -> np.ndarray:
        np.copyto(out, a.T)
        return out

    return {"numpy": copied}


def transpose_formula(x: Array, out: Array) -> Array:
    return out.copy_(x.t())


def torch_transpose(a: ado.DeviceArray, *, compiled: bool = False) -> Peers:
    if compiled and a.dtype.kind == "c":
        raise TypeError("torch.compile generates no code for complex numbers")
    result = ado.to_device(np.empty(a.shape[::-1], a.dtype))
    x, out = tensors(signed(a), signed(result))
    call = COMPILER.call(transpose_formula, x, out) if compiled else lambda: out.copy_(x.t())

    def run() -> ado.DeviceArray:
        call()
        return result

    return {"torch.compile" if compiled else "torch": run}


def cupy_transpose(a: ado.DeviceArray) -> Peers:
    import cupy
    from cupy_backends.cuda.libs import cublas

    x = cupy.asarray(a)
    out, target = (cupy.empty(a.shape[::-1], a.dtype) for _ in range(2))

    def transpose() -> cupy.ndarray:
        out[...] = x.T
        return out

    geam = {"f4": "sgeam", "f8": "dgeam", "c8": "cgeam", "c16": "zgeam"}.get(a.dtype.str[1:])
    if not geam:
        return {"cupy": transpose}
    call, handle = getattr(cublas, geam), cupy.cuda.device.get_cublas_handle()
    one, zero = np.ones(1, a.dtype), np.zeros(1, a.dtype)
    (rows, cols), trans, keep = a.shape, 1, 0

    def run() -> cupy.ndarray:  # column-major: the (cols, rows) matrix x, transposed
        call(
            handle, trans, keep, rows, cols, one.ctypes.data, x.data.ptr, cols,
            zero.ctypes.data, target.data.ptr, rows, target.data.ptr, rows,
        )  # fmt: skip
        return target

    return {"cupy": transpose, "geam": run}


# --- average_matvec: reading the vectors takes most of the time -----------------------------------


def numpy_averages(vectors: np.ndarray, matrix: np.ndarray) -> Peers:
    """The plain formula; einsum, which sums faster than mean; a matrix-vector product."""
    sets, length, samples = vectors.shape
    rows = vectors.reshape(-1, samples)
    weights = np.full(samples, 1 / samples, vectors.dtype)
    average = np.full((sets, length), np.nan, vectors.dtype)
    out = np.full((length, sets), np.nan, vectors.dtype)

    def mean() -> Array:
        return np.matmul(matrix, vectors.mean(axis=2, out=average).T, out=out)

    def einsum() -> Array:
        np.einsum("nlm->nl", vectors, out=average)
        np.divide(average, samples, out=average)
        return np.matmul(matrix, average.T, out=out)

    def gemv() -> Array:
        np.matmul(rows, weights, out=average.reshape(-1))
        return np.matmul(matrix, average.T, out=out)

    return {"numpy": mean, "numpy einsum": einsum, "numpy gemv + gemm": gemv}


def torch_averages(vectors: ado.DeviceArray, matrix: ado.DeviceArray) -> Peers:
    import torch

    x, factor = tensors(vectors, matrix)
    sets, length, samples = x.shape
    rows = x.view(-1, samples)
    average, out = (x.new_full(shape, torch.nan) for shape in ((sets, length), (length, sets)))
    weights = x.new_full((samples,), 1 / samples)

    def eager() -> Array:
        torch.mean(x, 2, out=average)
        return torch.mm(factor, average.t(), out=out)

    def gemv() -> Array:
        torch.mv(rows, weights, out=average.view(-1))
        return torch.mm(factor, average.t(), out=out)

    return {"torch": eager, "torch gemv + gemm": gemv}


def averages_formula(x: Array, factor: Array) -> Array:
    return factor @ x.mean(2).t()


def compiled_averages(*operands: ado.DeviceArray) -> Peers:
    return {"torch.compile": COMPILER.call(averages_formula, *tensors(*operands))}


def cupy_averages(vectors: ado.DeviceArray, matrix: ado.DeviceArray) -> Peers:
    import cupy

    x, factor = cupy.asarray(vectors), cupy.asarray(matrix)
    sets, length, _ = x.shape
    average = cupy.full((sets, length), cupy.nan, x.dtype)
    out = cupy.full((length, sets), cupy.nan, x.dtype)

    def mean() -> Array:
        cupy.mean(x, axis=2, out=average)
        return cupy.matmul(factor, average.T, out=out)

    return {"cupy": mean}


# --- max_plus -------------------------------------------------------------------------------------


def numpy_max_plus(big: np.ndarray, small: np.ndarray) -> Peers:
    """The plain formula; row by row; row by row in blocks that fit in the cache."""
    points = big.shape[1]
    sums, row = np.empty_like(big), np.empty(points, big.dtype)
    out = np.full(points, np.nan, big.dtype)

    def whole() -> Array:
        np.max(np.add(big, small[:, None], out=sums), axis=0, out=out)
        return np.maximum(out, 0, out=out)

    def by_rows(length: int) -> Array:
        for first in range(0, points, length):
            some = slice(first, first + length)
            best, sums_of_row = out[some], row[some]
            best.fill(0)
            for numbers, term in zip(big[:, some], small, strict=True):
                np.maximum(best, np.add(numbers, term, out=sums_of_row), out=best)
        return out

    if len(small) > MOST_ROWS:
        return {"numpy": whole}
    blocks = {"numpy rows": partial(by_rows, points), "numpy blocks": partial(by_rows, BLOCK)}
    return {"numpy": whole} | blocks


def torch_max_plus(big: ado.DeviceArray, small: ado.DeviceArray) -> Peers:
    import torch

    x, terms = tensors(big, small)
    sums, out = torch.empty_like(x), x.new_full(x.shape[1:], torch.nan)

    def eager() -> Array:
        torch.add(x, terms[:, None], out=sums)
        return torch.amax(sums, 0, out=out).clamp_(min=0)

    return {"torch": eager}


def max_plus_formula(x: Array, terms: Array) -> Array:
    return (x + terms).amax(0).clamp(min=0)


def compiled_max_plus(big: ado.DeviceArray, small: ado.DeviceArray) -> Peers:
    x, terms = tensors(big, small)
    return {"torch.compile": COMPILER.call(max_plus_formula, x, terms[:, None])}


def cupy_max_plus(big: ado.DeviceArray, small: ado.DeviceArray) -> Peers:
    """A kernel that CuPy compiles from an expression. Separate calls were never the fastest."""
    import cupy

    x, terms = cupy.asarray(big), cupy.asarray(small)[:, None]
    out = cupy.full(x.shape[1], cupy.nan, x.dtype)
    kernel = cupy.ReductionKernel(
        "T x, T term", "T y", "x + term", "max(a, b)", "y = a", "0", "max_plus"
    )
    return {"cupy ReductionKernel": partial(kernel, x, terms, out, axis=0)}


#: Functions that make a library's peers, by routine, device and library.
PEERS: dict[tuple[str, str], dict[str, Callable[..., Peers]]] = {
    ("transpose", "cpu"): {"numpy": numpy_transpose},
    ("transpose", "cuda"): {
        "torch": torch_transpose,
        "torch.compile": partial(torch_transpose, compiled=True),
        "cupy": cupy_transpose,
    },
    ("average_matvec", "cpu"): {"numpy": numpy_averages},
    ("average_matvec", "cuda"): {
        "torch": torch_averages,
        "torch.compile": compiled_averages,
        "cupy": cupy_averages,
    },
    ("max_plus", "cpu"): {"numpy": numpy_max_plus},
    ("max_plus", "cuda"): {
        "torch": torch_max_plus,
        "torch.compile": compiled_max_plus,
        "cupy": cupy_max_plus,
    },
}
