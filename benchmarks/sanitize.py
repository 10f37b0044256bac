"""Runs every CUDA variant of every routine on small problems, for compute-sanitizer.

for tool in memcheck racecheck initcheck synccheck; do
  compute-sanitizer --tool $tool --error-exitcode 1 python benchmarks/sanitize.py
done

Each routine's task file (`python/adokernels/tasks/`) holds the shapes, types and options.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import adokernels as ado
from adokernels.arrays.operands import random_operands
from adokernels.tasks import TASKS


def problems(
    routine: ado.Routine, shapes: Iterable[tuple[int, ...]]
) -> Iterator[tuple[list[ado.DeviceArray], dict[str, Any]]]:
    cases = TASKS[routine.name].sanitizer
    for dtype, shape in itertools.product(cases.dtypes, shapes):
        operands = [ado.to_device(a) for a in random_operands(routine, shape, dtype)]
        for values in itertools.product(*cases.options.values()):
            yield operands, dict(zip(cases.options, values, strict=True))


def main() -> None:
    """Only the routines named on the command line, if any are."""
    named = [ado.routines[name] for name in sys.argv[1:] or ado.routines]
    chosen = {r.name: r for r in named if any(v.device == "cuda" for v in r)}
    runs = 0
    for name, routine in chosen.items():
        for operands, options in problems(routine, TASKS[name].sanitizer.shapes):
            problem = routine.problem(*operands, device="cuda", **options)
            for v in (v for v in routine if v.device == "cuda"):
                if problem.why_not(v.name):
                    continue
                for block in v.blocks or (None,):
                    routine(*operands, variant=v.name, block=block, **options)
                    runs += 1
    for name, routine in chosen.items():
        cases = TASKS[name].sanitizer
        for operands, options in problems(routine, [cases.large]):
            routine(*operands, **options)
        for operands, options in problems(routine, cases.in_place):
            routine(*operands, out=operands[0], **options)
    ado.synchronize()
    print(f"{runs} launches")


if __name__ == "__main__":
    main()
