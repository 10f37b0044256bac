"""Measures what isolation changes: medians of the same code, and the cost of a check.

Each function and kernel is measured twice in the same rounds: in this process, and isolated. Each
line states both medians and their ratio, isolated to not isolated, with its 99.9 % interval.

    python benchmarks/isolation.py [SECONDS] [cpu | cuda]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.model.isolation import Isolation
from adokernels.model.ladder import Ladder
from adokernels.model.own_variant import OwnVariant

CACHES = "warm", "cold"
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


def max_plus(big: Any, small: Any) -> Any:
    """Return the largest sum in each column."""
    return (big + small[:, None]).max(axis=0)


def average_matvec(vectors: Any, matrix: Any) -> Any:
    """Average the vectors, then multiply by the matrix."""
    return np.ascontiguousarray((vectors.mean(axis=2) @ matrix.T).T)


def floats(*shape: int) -> Any:
    """Return random numbers."""
    return np.random.default_rng().random(shape, dtype=np.float32)


def own(function: Any, **settings: Any) -> Ladder:
    """Return a ladder whose reference is a function."""
    return ado.ladder(function.__name__, reference=function, **settings)


#: A ladder, an implementation, a function that makes operands of a length, and the lengths.
Case = tuple[Ladder, Any, Callable[[int], tuple[Any, ...]], tuple[int, ...]]
CASES: dict[str, list[Case]] = {
    "cpu": [
        (ado.transpose, transpose, lambda n: (floats(n, n),), (450, 1000, 2000)),
        (own(max_plus), max_plus, lambda n: (floats(n, n), floats(n)), (300, 700, 2000)),
        (
            own(average_matvec, tolerance=1e-5),
            average_matvec,
            lambda n: (floats(n, n, 16), floats(n, n)),
            (40, 120, 300),
        ),
    ],
    "cuda": [(ado.transpose, KERNEL, lambda n: (floats(n, n),), (512, 2048, 4096))],
}


def variant(name: str, code: Any) -> OwnVariant:
    """Return a variant of a function, or of the source of a kernel."""
    if isinstance(code, str):
        launch: dict[str, Any] = {"kernel": "mine<{T}>", "block": (32, 8), "tile": (32, 32)}
        return ado.cuda_variant(name, source=code, **launch)
    made: OwnVariant = ado.variant(code, name=name)
    return made


def main(seconds: float, device: str) -> None:
    """Measure each variant in this process and isolated, in the same rounds; print lines."""
    cases = [(*case[:3], n, cache) for case in CASES[device] for n in case[3] for cache in CACHES]
    for ladder, code, operands, n, cache in cases:
        start, label = time.perf_counter(), f"{ladder.name} {n}"
        with Isolation(60.0) as isolation:
            both = isolation.ladder(ladder.with_variants(variant("isolated", code)))
            found = ado.sweep(
                both, *operands(n), extra=[variant("here", code)], variants=["here", "isolated"],
                device=device, cache=cache, seconds=2 * seconds, ceilings=False, progress=False,
                limiter=False,
            )  # fmt: skip
        if found.skipped:
            print(label, cache, found.skipped, flush=True)
            continue
        here, isolated = found["here"], found["isolated"]
        low, high = here.compare(isolated).interval
        print(
            f"{label:20} {cache:5} here {1e6 * here.seconds:9.1f} us, isolated "
            f"{1e6 * isolated.seconds:9.1f} us, ratio {isolated.seconds / here.seconds:.3f} "
            f"({low:.3f} to {high:.3f}), samples {len(here.samples)} and {len(isolated.samples)}, "
            f"{time.perf_counter() - start:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main(float((sys.argv[1:2] or ["1"])[0]), (sys.argv[2:3] or ["cpu"])[0])
