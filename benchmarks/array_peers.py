"""Other libraries' transpose, average_matvec and max_plus, and the formulas of gpp with arrays.

Peers return their result. It is preallocated on the GPU, and on the CPU unless `new_results` is
set. Products of float32 remain float32: TF32 is off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from beside_peers import COMPILER, Peers

import adokernels as ado
from adokernels.model.libraries import on_host
from adokernels.model.problem import Values
from adokernels.model.tasks import TASKS
from adokernels.model.tasks.gpp import GppTerms

if TYPE_CHECKING:
    import torch

Array = Any

BLOCK = 1 << 14  # points of max_plus that fit in a core's cache with their sums
MOST_ROWS = 100_000  # maximum for Python loops, which take 2 us per row


def tensors(*arrays: Any) -> list[torch.Tensor]:
    """The arrays as tensors in the same memory."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    return [torch.as_tensor(array, device="cuda") for array in arrays]


# transpose


class Signed:
    """An array with signed instead of unsigned integers, which torch supports less well."""

    def __init__(self, a: ado.DeviceArray) -> None:
        self.owner = a
        interface = a.__cuda_array_interface__
        self.__cuda_array_interface__ = {
            **interface, "typestr": interface["typestr"].replace("u", "i")
        }  # fmt: skip


def numpy_transpose(a: np.ndarray, *, new_results: bool = False) -> Peers:
    out = np.empty(a.shape[::-1], a.dtype)

    def copied() -> np.ndarray:
        np.copyto(out, a.T)
        return out

    def new() -> np.ndarray:
        return a.T.copy()

    return {"numpy": new if new_results else copied}


def cv2_transpose(a: np.ndarray, *, new_results: bool = False) -> Peers:
    import cv2

    if a.dtype.kind == "c":
        raise TypeError("OpenCV has no complex type")
    out = None if new_results else np.empty(a.shape[::-1], a.dtype)
    return {"cv2": lambda: cv2.transpose(a, out)}


def transpose_formula(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return out.copy_(x.t())


def torch_transpose(a: ado.DeviceArray, *, compiled: bool = False) -> Peers:
    if compiled and a.dtype.kind == "c":
        raise TypeError("torch.compile generates no code for complex numbers")
    result = ado.to_device(np.empty(a.shape[::-1], a.dtype))
    x, out = tensors(Signed(a), Signed(result))
    call = COMPILER.call(transpose_formula, x, out) if compiled else lambda: out.copy_(x.t())

    def run() -> ado.DeviceArray:
        call()
        return result

    return {"torch.compile" if compiled else "torch": run}


def cupy_transpose(a: ado.DeviceArray) -> Peers:
    import cupy
    from cupy_backends.cuda.libs import cublas

    x = cupy.asarray(a)
    out = cupy.empty(a.shape[::-1], a.dtype)

    def transpose() -> cupy.ndarray:
        out[...] = x.T
        return out

    peers: Peers = {"cupy": transpose}
    geam = {"f4": "sgeam", "f8": "dgeam", "c8": "cgeam", "c16": "zgeam"}.get(a.dtype.str[1:])
    if geam:
        call, handle = getattr(cublas, geam), cupy.cuda.device.get_cublas_handle()
        one, zero = np.ones(1, a.dtype), np.zeros(1, a.dtype)
        target = cupy.empty(a.shape[::-1], a.dtype)
        (rows, cols), trans, keep = a.shape, 1, 0

        def run() -> cupy.ndarray:  # column-major: the (cols, rows) matrix x, transposed
            scale = one.ctypes.data, zero.ctypes.data
            call(
                handle, trans, keep, rows, cols, scale[0], x.data.ptr, cols,
                scale[1], target.data.ptr, rows, target.data.ptr, rows,
            )  # fmt: skip
            return target

        peers["geam"] = run
    return peers


# average_matvec: reading the vectors takes most of the time.


def numpy_averages(vectors: np.ndarray, matrix: np.ndarray, *, new_results: bool = False) -> Peers:
    """The plain formula; einsum, which sums faster than mean; a matrix-vector product."""
    sets, length, samples = vectors.shape
    rows = vectors.reshape(-1, samples)
    weights = np.full(samples, 1 / samples, vectors.dtype)
    average = out = flat = None
    if not new_results:
        average = np.full((sets, length), np.nan, vectors.dtype)
        out = np.full((length, sets), np.nan, vectors.dtype)
        flat = average.reshape(-1)

    def mean() -> Array:
        return np.matmul(matrix, vectors.mean(axis=2, out=average).T, out=out)

    def einsum() -> Array:
        sums = np.einsum("nlm->nl", vectors, out=average)
        np.divide(sums, samples, out=sums)
        return np.matmul(matrix, sums.T, out=out)

    def gemv() -> Array:
        averages = np.matmul(rows, weights, out=flat).reshape(sets, length)
        return np.matmul(matrix, averages.T, out=out)

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


def compiled_averages(vectors: ado.DeviceArray, matrix: ado.DeviceArray) -> Peers:
    return {"torch.compile": COMPILER.call(averages_formula, *tensors(vectors, matrix))}


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


# max_plus


def numpy_max_plus(big: np.ndarray, small: np.ndarray, *, new_results: bool = False) -> Peers:
    """The plain formula; row by row; row by row in blocks that fit in the cache."""
    points = big.shape[1]
    sums = out = None
    if not new_results:
        sums = np.empty_like(big)
        out = np.full(points, np.nan, big.dtype)
    row = np.empty(points, big.dtype)

    def whole() -> Array:
        best = np.max(np.add(big, small[:, None], out=sums), axis=0, out=out)
        return np.maximum(best, 0, out=best)

    def by_rows(length: int) -> Array:
        result = np.empty_like(row) if out is None else out
        for first in range(0, points, length):
            some = slice(first, first + length)
            best, sums_of_row = result[some], row[some]
            best.fill(0)
            for numbers, term in zip(big[:, some], small, strict=True):
                np.maximum(best, np.add(numbers, term, out=sums_of_row), out=best)
        return result

    if len(small) > MOST_ROWS:
        return {"numpy": whole}
    return {
        "numpy": whole,
        "numpy rows": lambda: by_rows(points),
        "numpy blocks": lambda: by_rows(BLOCK),
    }


def torch_max_plus(big: ado.DeviceArray, small: ado.DeviceArray) -> Peers:
    import torch

    x, terms = tensors(big, small)
    column = terms[:, None]
    sums, out = torch.empty_like(x), x.new_full(x.shape[1:], torch.nan)

    def eager() -> Array:
        torch.add(x, column, out=sums)
        return torch.amax(sums, 0, out=out).clamp_(min=0)

    return {"torch": eager}


def max_plus_formula(x: Array, terms: Array) -> Array:
    return (x + terms).amax(0).clamp(min=0)


def compiled_max_plus(big: ado.DeviceArray, small: ado.DeviceArray) -> Peers:
    x, terms = tensors(big, small)
    return {"torch.compile": COMPILER.call(max_plus_formula, x, terms[:, None])}


def cupy_max_plus(big: ado.DeviceArray, small: ado.DeviceArray) -> Peers:
    """The formula literally, and a single kernel that CuPy compiles from an expression."""
    import cupy

    x, terms = cupy.asarray(big), cupy.asarray(small)[:, None]
    sums = cupy.empty_like(x)
    out = cupy.full(x.shape[1], cupy.nan, x.dtype)
    kernel = cupy.ReductionKernel(
        "T x, T term", "T y", "x + term", "max(a, b)", "y = a", "0", "max_plus"
    )

    def whole() -> Array:
        cupy.add(x, terms, out=sums)
        cupy.amax(sums, axis=0, out=out)
        return cupy.maximum(out, 0, out=out)

    return {"cupy": whole, "cupy ReductionKernel": lambda: kernel(x, terms, out, axis=0)}


# gpp


def gpp_formulas(operands: Sequence[Array], library: Any) -> tuple[Array, Array]:
    """Evaluate the formulas literally, for all pairs of plane waves at once."""
    wtilde, i_eps, aqsn, aqsm, wx, vcoul, occ = operands
    terms = GppTerms(np.float64)
    asx, ach = library.zeros((2, wx.shape[1]), wtilde.dtype)
    with np.errstate(all="ignore"):
        for band in range(len(wx)):
            m = (vcoul * aqsm[band].conj())[:, None] * aqsn[band]
            for f in range(wx.shape[1]):
                sch, ssx, _ = terms(wx[band, f], wtilde, i_eps)
                asx[f] -= occ[band] * (ssx * m).sum()
                ach[f] += (sch * m).sum() / 2
    return asx, ach


def gpp(name: str, *operands: Array) -> Peers:
    """Check and return a peer: comparisons do not check the results for large problems."""
    library = __import__(name)
    arrays = tuple(map(library.asarray, operands))
    values = Values(TASKS["gpp"], tuple(map(on_host, operands)), {})
    results = (gpp_formulas(list(map(library.asarray, v.operands)), library) for v in values.runs)
    values.check(*(tuple(map(on_host, result)) for result in results))
    return {name: lambda: gpp_formulas(arrays, library)}


#: Functions that make a library's peers, by routine, device and library.
PEERS: dict[tuple[str, str], dict[str, Callable[..., Peers]]] = {
    ("transpose", "cpu"): {"numpy": numpy_transpose, "cv2": cv2_transpose},
    ("transpose", "cuda"): {
        "torch": torch_transpose,
        "torch.compile": lambda a: torch_transpose(a, compiled=True),
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
    ("gpp", "cpu"): {"numpy": lambda *operands: gpp("numpy", *operands)},
    ("gpp", "cuda"): {"cupy": lambda *operands: gpp("cupy", *operands)},
}


def tolerance(name: str, shape: Sequence[int]) -> float:
    """The task's tolerance, plus M roundings if a peer may sum M numbers sequentially."""
    allowed = TASKS[name].tolerance or 0.0
    return allowed + shape[2] / shape[1] if name == "average_matvec" else allowed
