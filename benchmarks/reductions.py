"""Compares ``ado.average_matvec`` and ``ado.max_plus`` with their peers, in one run, as ratios.

    python benchmarks/reductions.py                 # NumPy, on the CPU
    python benchmarks/reductions.py --device cuda   # torch and CuPy, on the GPU

The script prints one table per routine, with one row per shape (N x L x M, or K x P) and type: the
default variant's time, its share of the plain read measured in the same rounds, and its speed-up
over each peer. Before a peer is timed, its result is compared with the reference. A peer that
cannot run here, or is wrong, is reported and left out. Products of float32 remain float32: TF32 is
off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from beside_peers import Peers, Problem, compare, correct, made, parser
from image_peers import host
from torch_compile import COMPILER

import adokernels as ado
from adokernels.model.tasks import TASKS, difference

CASES = {
    "average_matvec": [((1024, 1024, 1024), "float32"), ((512, 1024, 1024), "float64")],
    "max_plus": [((64, 4 << 20), "float64"), ((64, 8 << 20), "float32")],
}
LENGTHS = {name: len(cases[0][0]) for name, cases in CASES.items()}

Array = Any  # array of any library; peers return their result


# average_matvec: reading the vectors takes most of the time. All arrays are preallocated, unless
# `new_results` is set.


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

    torch.backends.cuda.matmul.allow_tf32 = False
    x, factor = (torch.as_tensor(a, device="cuda") for a in (vectors, matrix))
    sets, length, samples = x.shape
    rows = x.view(-1, samples)
    average = torch.full((sets, length), torch.nan, dtype=x.dtype, device="cuda")
    out = torch.full((length, sets), torch.nan, dtype=x.dtype, device="cuda")
    weights = torch.full((samples,), 1 / samples, dtype=x.dtype, device="cuda")

    def eager() -> Array:
        torch.mean(x, 2, out=average)
        return torch.mm(factor, average.t(), out=out)

    def gemv() -> Array:
        torch.mv(rows, weights, out=average.view(-1))
        return torch.mm(factor, average.t(), out=out)

    return {"torch": eager, "torch gemv + gemm": gemv}


def compiled_averages(vectors: ado.DeviceArray, matrix: ado.DeviceArray) -> Peers:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    operands = (torch.as_tensor(a, device="cuda") for a in (vectors, matrix))
    return COMPILER.peers(averages_formula, *operands)


def averages_formula(x: Array, factor: Array) -> Array:
    return factor @ x.mean(2).t()


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

BLOCK = 1 << 14  # number of points that fit in a core's cache with their sums
MOST_ROWS = 100_000  # maximum for Python loops, which take 2 us per row


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

    def rows_of(best: Array, some: slice) -> None:
        best, sums_of_row = best[some], row[some]
        best.fill(0)
        for numbers, term in zip(big[:, some], small, strict=True):
            np.maximum(best, np.add(numbers, term, out=sums_of_row), out=best)

    def by_rows() -> Array:
        best = np.empty_like(row) if out is None else out
        rows_of(best, slice(None))
        return best

    def by_blocks() -> Array:
        best = np.empty_like(row) if out is None else out
        for first in range(0, points, BLOCK):
            rows_of(best, slice(first, first + BLOCK))
        return best

    if len(small) > MOST_ROWS:
        return {"numpy": whole}
    return {"numpy": whole, "numpy rows": by_rows, "numpy blocks": by_blocks}


def torch_max_plus(big: ado.DeviceArray, small: ado.DeviceArray) -> Peers:
    import torch

    x, terms = torch.as_tensor(big, device="cuda"), torch.as_tensor(small, device="cuda")[:, None]
    sums = torch.empty_like(x)
    out = torch.full(x.shape[1:], torch.nan, dtype=x.dtype, device="cuda")

    def eager() -> Array:
        torch.add(x, terms, out=sums)
        return torch.amax(sums, 0, out=out).clamp_(min=0)

    return {"torch": eager}


def compiled_max_plus(big: ado.DeviceArray, small: ado.DeviceArray) -> Peers:
    import torch

    x, terms = torch.as_tensor(big, device="cuda"), torch.as_tensor(small, device="cuda")[:, None]
    return COMPILER.peers(max_plus_formula, x, terms)


def max_plus_formula(x: Array, terms: Array) -> Array:
    return (x + terms).amax(0).clamp(min=0)


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

    def fused() -> Array:
        return kernel(x, terms, out, axis=0)

    return {"cupy": whole, "cupy ReductionKernel": fused}


PEERS: dict[tuple[str, str], dict[str, Callable[..., Peers]]] = {
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


def checked(
    name: str, device: str, args: tuple[Array, ...], on_host: tuple[np.ndarray, ...]
) -> Peers:
    """The peers whose results are correct; the others are reported."""
    task = TASKS[name]
    expected = task.expected(*on_host)
    unit = task.error_unit(*on_host) if task.error_unit else None
    peers, missing = made(PEERS[name, device], args)
    allowed = tolerance(name, on_host[0].shape)
    kept, failed, wrong = correct(
        peers, lambda _, result: difference(host(result), expected, unit), allowed
    )
    for peer, reason in (missing | failed | wrong).items():
        print(f"left out {peer} of {name}: {reason}")
    return kept


def tolerance(name: str, shape: Sequence[int]) -> float:
    """The task's tolerance, plus M roundings if a peer may sum M numbers sequentially."""
    if name != "average_matvec":
        return TASKS[name].tolerance
    _, length, samples = shape
    return TASKS[name].tolerance + samples / length


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--routines", nargs="+", choices=list(CASES), default=list(CASES))
    arguments.add_argument(
        "--dtypes",
        nargs="+",
        choices=("float32", "float64"),
        default=["float32", "float64"],
        help="types for --shapes; three lengths select average_matvec, two max_plus",
    )
    options = arguments.parse_args()
    chosen = {
        name: [
            (s, t) for s in options.shapes or () if len(s) == LENGTHS[name] for t in options.dtypes
        ]
        for name in CASES
    }
    cases = chosen if options.shapes else CASES
    roof = ado.machine(options.device, refresh=True)

    def problems(name: str) -> Iterator[Problem]:
        for shape, dtype in cases[name]:
            on_host = ado.routines[name].task.random_operands(shape, dtype)
            on_cuda = options.device == "cuda"
            args = tuple(map(ado.to_device, on_host)) if on_cuda else on_host
            size = "x".join(map(str, shape))
            peers = checked(name, options.device, args, on_host)
            yield Problem((size, dtype), args, peers, f"{name}-{size}-{dtype}")

    for name in options.routines:
        if cases[name]:
            compare(ado.routines[name], ("shape", "dtype"), problems(name), roof, options)


if __name__ == "__main__":
    main()
