"""Measures what isolation changes: medians of the same code, and the cost of a check.

Each function and kernel is measured twice in the same rounds: in this process, and isolated. Each
line states both medians and their ratio, isolated to not isolated, with its 99.9 % interval.

    python benchmarks/isolation.py [SECONDS] [cpu | cuda]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.model.isolation import Isolation
from adokernels.model.ladder import Ladder
from adokernels.model.own_variant import OwnVariant

KERNEL = """
template <class T>
__global__ void mine(const T* a, T* out, int rows, int cols) {
  __shared__ T tile[32][33];
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (col < cols && row + j < rows)
      tile[threadIdx.y + j][threadIdx.x] = a[(row + j) * 1ll * cols + col];
  __syncthreads();
  col = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (col < rows && row + j < cols)
      out[(row + j) * 1ll * rows + col] = tile[threadIdx.x][threadIdx.y + j];
}
"""


def transpose(a: Any, out: Any) -> None:
    """Transpose."""
    out[...] = a.T


def blur(gray: Any) -> Any:
    """Blur in two separable passes; pixels at the edge are replicated."""
    padded = np.pad(gray, 2, mode="edge").astype(np.int32)
    rows = np.zeros((len(gray), padded.shape[1]), np.int32)
    total = np.zeros(gray.shape, np.int32)
    for i, weight in enumerate((1, 4, 6, 4, 1)):
        rows += weight * padded[i : i + len(gray)]
    for i, weight in enumerate((1, 4, 6, 4, 1)):
        total += weight * rows[:, i : i + gray.shape[1]]
    return ((total + 128) >> 8).astype(np.uint8)


def max_plus(big: Any, small: Any) -> Any:
    """Return the largest sum in each column."""
    return (big + small[:, None]).max(axis=0)


def average_matvec(vectors: Any, matrix: Any) -> Any:
    """Average the vectors, then multiply by the matrix."""
    return np.ascontiguousarray((vectors.mean(axis=2) @ matrix.T).T)


def square(n: int) -> tuple[Any, ...]:
    """Return a random square matrix."""
    return (np.random.default_rng().random((n, n), dtype=np.float32),)


#: Ladders, functions, and the shapes of their problems.
FUNCTIONS: dict[str, tuple[Ladder, Any, Any, tuple[int, ...]]] = {
    "transpose": (ado.transpose, transpose, square, (450, 1000, 2000)),
    "max_plus": (
        ado.ladder("max_plus", reference=max_plus),
        max_plus,
        lambda n: (*square(n), square(n)[0][0]),
        (300, 700, 2000),
    ),
    "average_matvec": (
        ado.ladder("average_matvec", reference=average_matvec, tolerance=1e-5),
        average_matvec,
        lambda n: (np.random.default_rng().random((n, n, 16), dtype=np.float32), *square(n)),
        (40, 120, 300),
    ),
    "blur": (
        ado.ladder("blur", reference=blur),
        blur,
        lambda n: (np.random.default_rng().integers(0, 256, (n, n), np.uint8),),
        (60, 250, 800),
    ),
}


def compare(label: str, ladder: Ladder, make: Any, operands: Any, device: str, how: Any) -> None:
    """Measure a variant in this process and isolated, in the same rounds, and print a line."""
    start = time.perf_counter()
    with Isolation(60.0) as isolation:
        both = isolation.ladder(ladder.with_variants(make("isolated"))).with_variants(make("here"))
        chosen = {"variants": ["here", "isolated"], "device": device, **how}
        found = ado.sweep(both, *operands, **chosen, ceilings=False, progress=False, limiter=False)
    if found.skipped:
        print(label, how["cache"], found.skipped, flush=True)
        return
    here, isolated = found["here"], found["isolated"]
    low, high = here.compare(isolated).interval
    print(
        f"{label:20} {how['cache']:5} here {1e6 * here.seconds:9.1f} us, isolated "
        f"{1e6 * isolated.seconds:9.1f} us, ratio {isolated.seconds / here.seconds:.3f} "
        f"({low:.3f} to {high:.3f}), samples {len(here.samples)} and {len(isolated.samples)}, "
        f"{time.perf_counter() - start:.1f} s",
        flush=True,
    )


def main(seconds: float, device: str) -> None:
    """Print the comparisons."""
    how = [{"cache": cache, "seconds": 2 * seconds} for cache in ("warm", "cold")]
    if device == "cuda":

        def kernel(name: str) -> OwnVariant:
            launch: dict[str, Any] = {"kernel": "mine<{T}>", "block": (32, 8), "tile": (32, 32)}
            return ado.cuda_variant(name, source=KERNEL, **launch)

        for size in (512, 2048, 4096):
            for each in how:
                compare(f"kernel {size}", ado.transpose, kernel, square(size), device, each)
        return
    for name, (ladder, function, operands, sizes) in FUNCTIONS.items():

        def make(label: str, function: Any = function) -> Any:
            return ado.variant(function, name=label)

        for size in sizes:
            for each in how:
                compare(f"{name} {size}", ladder, make, operands(size), device, each)


if __name__ == "__main__":
    main(float((sys.argv[1:2] or ["1"])[0]), (sys.argv[2:3] or ["cpu"])[0])
