"""Overhead per call: each routine on its smallest operands, compared with a NumPy expression.

python benchmarks/call_overhead.py

The target is at most 1.5 us per call more than NumPy. Times are minima over interleaved rounds.
"named" is the same call with ``variant=``.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.arrays.operands import random_operands
from adokernels.tasks import TASKS

CALLS, ROUNDS = 100, 300
SMALLEST = {"average_matvec": (1, 1, 1), "gpp": (1, 1, 1, 1), "strided_copy": (1,)}
# Other routines are compared with their references, which are also written in NumPy.
EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "transpose": lambda a: a.T.copy(),
    "average_matvec": lambda vectors, matrix: matrix @ vectors.mean(axis=2).T,
    "max_plus": lambda big, small: np.maximum(0, (big + small[:, None]).max(axis=0)),
}


def microseconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the minimum time per call of each function, in microseconds."""
    timers = {name: timeit.Timer(call) for name, call in calls.items()}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            best[name] = min(best[name], timer.timeit(CALLS) / CALLS)
    return {name: 1e6 * seconds for name, seconds in best.items()}


def main() -> None:
    ado.set_device("cpu")
    print(f"{'routine':<16}{'NumPy':>9}{'call':>9}{'named':>9}{'call - NumPy':>14}   (us)")
    for name, routine in ado.routines.items():
        operands = random_operands(routine, SMALLEST.get(name, (1, 1)))
        expression = EXPRESSIONS.get(name, TASKS[name].expected)
        variant = routine.problem(*operands).best()
        us = microseconds(
            {
                "NumPy": lambda f=expression, a=operands: f(*a),
                "call": lambda f=routine, a=operands: f(*a),
                "named": lambda f=routine, a=operands, v=variant: f(*a, variant=v),
            }
        )
        row = "".join(f"{us[column]:9.2f}" for column in ("NumPy", "call", "named"))
        print(f"{name:<16}{row}{us['call'] - us['NumPy']:+14.2f}")


if __name__ == "__main__":
    main()
