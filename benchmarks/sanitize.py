"""Runs every CUDA variant of every routine on small problems, for compute-sanitizer.

    for tool in memcheck racecheck initcheck synccheck; do
      compute-sanitizer --tool $tool --error-exitcode 1 python benchmarks/sanitize.py
    done

`adokernels.model.tasks` defines the problems. Arguments select routines by name.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import adokernels as ado
from adokernels.model.tasks import TASKS


def problems(name: str, shapes: Sequence[tuple[int, ...]]) -> Iterator[tuple[list[Any], dict]]:
    """Yield operands on the GPU and options, for all combinations of shape, dtype and options."""
    cases = TASKS[name].sanitizer
    for dtype, shape in itertools.product(cases.dtypes, shapes):
        operands = [ado.to_device(a) for a in ado.routines[name].task.random_operands(shape, dtype)]
        for values in itertools.product(*cases.options.values()):
            yield operands, dict(zip(cases.options, values, strict=True))


def run(name: str) -> int:
    """Run all problems of a routine; return the number of calls."""
    routine, cases, calls = ado.routines[name], TASKS[name].sanitizer, 0
    variants = [v for v in routine if v.device == "cuda"]
    if not variants:
        return 0
    for operands, options in problems(name, cases.shapes):
        problem = routine.problem(*operands, device="cuda", **options)
        for variant in variants:
            if problem.why_not(variant.name):
                continue
            for block in variant.blocks or (None,):
                variant(*operands, block=block, **options)
                calls += 1
    for operands, options in problems(name, [cases.large]):
        routine(*operands, **options)
        calls += 1
    for operands, options in problems(name, cases.in_place):
        routine(*operands, out=operands[0], **options)
        calls += 1
    return calls


def main() -> None:
    """Run the routines named on the command line, or all."""
    calls = sum(run(name) for name in sys.argv[1:] or TASKS)
    ado.synchronize()
    print(f"{calls} calls")


if __name__ == "__main__":
    main()
