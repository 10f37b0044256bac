"""Runs every CUDA rung of every routine on small problems, for compute-sanitizer.

for tool in memcheck racecheck initcheck synccheck; do
  compute-sanitizer --tool $tool --error-exitcode 1 python benchmarks/sanitize.py
done
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

import adokernels as ado
from adokernels._operands import random_operands

SHAPES = [(1, 1), (31, 33), (64, 64), (65, 130), (129, 70), (72, 528), (1, 300), (300, 1)]
LARGE = [(4096, 4112)]
TYPES = {"transpose": ("u1", "u2", "f4", "f8", "c16")}  # of routines that leave it open
#: The values of each option that take another path through a kernel.
OPTIONS = {
    "gaussian_blur": {
        "border": ("constant", "replicate", "reflect101"),
        "taps": ((1, 2, 3, 4, 3, 2, 1), (1, 6, 15, 20, 15, 6, 1)),
    }
}


def problems(routine: ado.Routine, shapes: Sequence[tuple[int, int]] = SHAPES):
    choices = OPTIONS.get(routine.name, {})
    for dtype, shape in itertools.product(TYPES.get(routine.name, (None,)), shapes):
        operands = [ado.to_device(a) for a in random_operands(routine, shape, dtype)]
        for values in itertools.product(*choices.values()):
            yield operands, dict(zip(choices, values, strict=True))


def main() -> None:
    runs = 0
    for routine in ado.routines.values():
        for operands, options in problems(routine):
            problem = routine._core.problem(tuple(operands), options, "cuda")
            for v in (v for v in routine if v.device == "cuda"):
                if problem.why_refused(v.name):
                    continue
                for block in v.blocks or (None,):
                    routine(*operands, variant=v.name, block=block, **options)
                    runs += 1
    for routine in ado.routines.values():  # of which kernels may go another way
        (operands, _), *_ = problems(routine, LARGE)
        routine(*operands)
    for dtype in TYPES["transpose"]:
        square = ado.to_device(np.ones((129, 129), dtype))
        ado.transpose(square, out=square)
    ado.synchronize()
    print(f"{runs} launches")


if __name__ == "__main__":
    main()
