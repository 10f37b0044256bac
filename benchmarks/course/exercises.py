"""Records the starters and the solutions of the course's exercises on a GPU.

Each sweep contains the variant that the completed kernel must be faster than, the starter if its
result is correct, and the solution. A starter with a wrong result is in ``skipped``.

    python benchmarks/course/exercises.py FOLDER [--only exercise-NAME ...]
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from recording import run

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "book"))
import adobook as course
import adokernels as ado

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "exercises"


def measured(name: str) -> ado.records.Sweep:
    """The variants of an exercise, timed in the same rounds, with counters."""
    exercise = course.exercise(name, folder=SOURCES)
    versions = {"starter": exercise.starter, "solution": exercise.solution}
    variants = [ado.cuda_variant(v, source=s, **exercise.launch) for v, s in versions.items()]
    return ado.sweep(
        exercise.ladder, *exercise.operands(), extra=variants, device="cuda", seconds=3,
        variants=[exercise.faster_than, *versions], counters="light", progress=False,
    )  # fmt: skip


if __name__ == "__main__":
    run(((f"exercise-{name}", partial(measured, name)) for name in course.EXERCISES), __doc__)
