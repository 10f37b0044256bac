"""Measures what isolation changes: medians of the same code, and the cost of a check.

Each function and kernel is measured twice in the same rounds: in this process, and isolated. The
result is the ratio of the medians, isolated to not isolated, with its 99.9 % interval.

    python benchmarks/isolation.py isolation.json [SECONDS]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import adokernels as ado
from adokernels import _core
from adokernels.model.isolation import Isolation
from adokernels.model.own_variant import OwnVariant

KERNEL = """
template <class T>
__global__ void mine(const T* a, T* out, int rows, int cols) {
  __shared__ T tile[32][33];
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (col < cols && row + j < rows) tile[threadIdx.y + j][threadIdx.x] = a[(row + j) * 1ll * cols + col];
  __syncthreads();
  col = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (col < rows && row + j < cols) out[(row + j) * 1ll * rows + col] = tile[threadIdx.x][threadIdx.y + j];
}
"""  # noqa: E501


def kernel(name: str) -> OwnVariant:
    """A tiled transpose."""
    launch: dict[str, Any] = {"kernel": "mine<{T}>", "block": (32, 8), "tile": (32, 32)}
    return ado.cuda_variant(name, source=KERNEL, **launch)


def functions() -> dict[str, tuple[Any, Any]]:
    """Functions by name, with ladders."""
    rows = ado.ladder("rows", reference=lambda x: np.sort(x, axis=1))
    waves = ado.ladder("waves", reference=lambda x: np.sin(x) * np.exp(x), tolerance=1e-6)

    def into(x: Any, out: Any) -> None:
        np.sin(x, out=out)
        out *= np.exp(x)

    return {
        "transpose": (ado.transpose, lambda a: a.T.copy()),
        "sort": (rows, lambda x: np.sort(x, axis=1)),
        "waves": (waves, into),
    }


def compared(
    ladder: Any, make: Any, operand: Any, device: str, cache: Any, seconds: float
) -> dict[str, Any]:
    """Measure a variant in this process and isolated, in the same rounds."""
    start = time.perf_counter()
    with Isolation(60.0) as isolation:
        both = isolation.ladder(ladder.with_variants(make("isolated"))).with_variants(make("here"))
        names = ["here", "isolated"]
        how: dict[str, Any] = {"seconds": 2 * seconds, "ceilings": False, "progress": False}
        found = ado.sweep(both, operand, variants=names, device=device, cache=cache, **how)
    if found.skipped:
        return {"skipped": found.skipped}
    comparison = found["here"].compare(found["isolated"])
    return {
        "here": found["here"].seconds,
        "isolated": found["isolated"].seconds,
        "ratio": found["isolated"].seconds / found["here"].seconds,
        "interval": list(comparison.interval),
        "samples": [len(found[name].samples) for name in names],
        "flags": [list(found[name].flags) for name in names],
        "wall": time.perf_counter() - start,
    }


def cost(ladder: Any, variant: Any, operand: Any, **how: Any) -> dict[str, Any]:
    """Seconds of a check, with and without isolation."""
    found: dict[str, Any] = {}
    for isolated in (False, True):
        start = time.perf_counter()
        result = ado.check(variant, ladder, operand, isolated=isolated, **how)
        name = "isolated" if isolated else "here"
        found[name] = {"seconds": time.perf_counter() - start, "correct": result.correct}
        if not result:
            found[name]["reason"] = result.reason
    return found


def main(path: Path, seconds: float) -> None:
    """Measure everything, and write the file after each part."""
    rng = np.random.default_rng()
    found: dict[str, Any] = {"load": __import__("os").getloadavg()[0]}

    def keep(name: str, value: Any) -> None:
        found[name] = value
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(name, json.dumps(value), flush=True)

    if not _core.why_no_cuda():
        for size in (512, 2048, 4096):
            operand = rng.random((size, size), dtype=np.float32)
            for cache in ("cold", "warm"):
                result = compared(ado.transpose, kernel, operand, "cuda", cache, seconds)
                keep(f"kernel {size} {cache}", result)
        how = {"seconds": 0.5, "ceilings": False, "progress": False}
        keep("cost of a kernel", cost(ado.transpose, kernel("mine"), operand, **how))
    for size in (100, 300, 1000, 3000):
        operand = rng.random((size, size), dtype=np.float32)
        for name, (ladder, function) in functions().items():

            def make(label: str, function: Any = function) -> OwnVariant:
                variant: OwnVariant = ado.variant(function, name=label)
                return variant

            for cache in ("cold", "warm"):
                result = compared(ladder, make, operand, "cpu", cache, seconds)
                keep(f"{name} {size} {cache}", result)
    untimed = {"timed": False}
    keep(
        "cost of a function, not timed",
        cost(ado.transpose, lambda a: a.T.copy(), operand, **untimed),
    )
    how = {"seconds": 0.5, "ceilings": False, "progress": False}
    keep("cost of a function", cost(ado.transpose, lambda a: a.T.copy(), operand, **how))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
