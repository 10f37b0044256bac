"""Runs every CUDA rung of every routine on small problems, for compute-sanitizer.

for tool in memcheck racecheck initcheck synccheck; do
  compute-sanitizer --tool $tool --error-exitcode 1 python benchmarks/sanitize.py
done
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

import numpy as np

import adokernels as ado
from adokernels._operands import random_operands

SMALL = [(1, 1), (31, 33), (64, 64), (65, 130), (129, 70), (72, 528), (1, 300), (300, 1)]
#: Lengths by routine: small ones, and last one in which kernels may go another way. Few rows of
#: products, which racecheck takes long for.
SHAPES = {
    "average_matvec": [
        *[(1, 1, 1), (3, 5, 7), (33, 4, 1), (2, 65, 129), (40, 3, 64), (5, 1, 2000), (2, 130, 9)],
        *[(1, 33, 300), (50, 36, 260)],
    ],
    "max_plus": [
        *[(0, 3), (1, 1), (3, 33), (64, 130), (17, 1025), (65, 1024), (1000, 3), (4097, 1)],
        (64, 20001),
    ],
    "gpp": [
        *[(0, 2, 3, 1), (1, 1, 1, 1), (2, 3, 5, 2), (33, 3, 65, 2), (5, 33, 31, 3), (70, 1, 34, 1)],
        *[(3, 2, 300, 2), (17, 129, 2, 2)],
        (130, 17, 520, 2),
    ],
}
TYPES = {  # of routines that leave it open
    "transpose": ("u1", "u2", "f4", "f8", "c16"),
    "average_matvec": ("f4", "f8"),
    "max_plus": ("f4", "f8"),
}
#: The values of each option that take another path through a kernel.
OPTIONS = {
    "gaussian_blur": {
        "border": ("constant", "replicate", "reflect101"),
        "taps": ((1, 2, 3, 4, 3, 2, 1), (1, 6, 15, 20, 15, 6, 1)),
    }
}


def shapes_of(routine: ado.Routine) -> list[tuple[int, ...]]:
    return SHAPES.get(routine.name, [*SMALL, (4096, 4112)])


def problems(routine: ado.Routine, shapes: Sequence[tuple[int, ...]]):
    choices = OPTIONS.get(routine.name, {})
    for dtype, shape in itertools.product(TYPES.get(routine.name, (None,)), shapes):
        operands = [ado.to_device(a) for a in random_operands(routine, shape, dtype)]
        for values in itertools.product(*choices.values()):
            yield operands, dict(zip(choices, values, strict=True))


def main() -> None:
    """Only the routines named on the command line, if any are."""
    chosen = [ado.routines[name] for name in sys.argv[1:] or ado.routines]
    runs = 0
    for routine in chosen:
        for operands, options in problems(routine, shapes_of(routine)[:-1]):
            problem = routine._core.problem(tuple(operands), options, "cuda")
            for v in (v for v in routine if v.device == "cuda"):
                if problem.why_refused(v.name):
                    continue
                for block in v.blocks or (None,):
                    routine(*operands, variant=v.name, block=block, **options)
                    runs += 1
    for routine in chosen:
        for operands, options in problems(routine, shapes_of(routine)[-1:]):
            routine(*operands, **options)
    for dtype in TYPES["transpose"] if ado.transpose in chosen else ():
        square = ado.to_device(np.ones((129, 129), dtype))
        ado.transpose(square, out=square)
    ado.synchronize()
    print(f"{runs} launches")


if __name__ == "__main__":
    main()
