"""Overhead of a call: the transpose of a 64x64 array, compared with ``a.T.copy()``.

python benchmarks/call_overhead.py
"""

from __future__ import annotations

import timeit

import numpy as np

import adokernels as ado

CALLS, REPEATS = 20_000, 7


def microseconds(call: object) -> float:
    return 1e6 * min(timeit.repeat(call, number=CALLS, repeat=REPEATS)) / CALLS  # type: ignore[arg-type]


def main() -> None:
    a = np.random.default_rng().random((64, 64))
    b = np.zeros((1, 1))
    ours, numpy = microseconds(lambda: ado.transpose(a, device="cpu")), microseconds(a.T.copy)
    print(f"ado.transpose of 64x64 float64: {ours:.2f} us, a.T.copy(): {numpy:.2f} us")
    print(f"difference {ours - numpy:+.2f} us, ratio {ours / numpy:.2f}")
    empty = microseconds(lambda: ado.transpose(b, device="cpu"))
    print(f"of which the call itself (1x1): {empty:.2f} us")


if __name__ == "__main__":
    main()
