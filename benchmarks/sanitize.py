"""Runs every CUDA variant of every routine on small problems under compute-sanitizer.

    python benchmarks/sanitize.py [ROUTINE ...]

The four tools run at the same time. `adokernels.model.tasks` defines the problems.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import adokernels as ado
from adokernels.model.tasks import TASKS

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
#: The environment variable of the processes that the tools run.
CHILD = "ADOKERNELS_SANITIZED"


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
    for operands, options in problems(name, cases.shapes):
        problem = routine.problem(*operands, device="cuda", **options)
        for variant in (v for v in routine if v.device == "cuda" and not problem.why_not(v.name)):
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


def main() -> int:
    """Run the routines named on the command line, or all, in one process per tool."""
    names = sys.argv[1:] or TASKS
    if CHILD in os.environ:
        print(f"{sum(map(run, names))} calls")
        ado.synchronize()
        return 0
    tool, child = ["compute-sanitizer", "--error-exitcode", "1", "--tool"], [sys.executable]
    commands = [[*tool, name, *child, __file__, *names] for name in TOOLS]
    checked = [subprocess.Popen(c, env=os.environ | {CHILD: "1"}) for c in commands]
    return int(any([process.wait() for process in checked]))


if __name__ == "__main__":
    sys.exit(main())
