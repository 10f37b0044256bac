"""Records the starters and the solutions of the course's exercises on a GPU.

Each sweep contains the variant that the completed kernel must be faster than, the starter if its
result is correct, and the solution. A starter with a wrong result is in ``skipped``.

    python benchmarks/course/exercises.py FOLDER [--only NAME ...]
"""

from __future__ import annotations

from pathlib import Path

from recording import Recorder, run

import adobook as course
import adokernels as ado

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "exercises"


def measured(name: str, seconds: float) -> ado.records.Sweep:
    """The variants of an exercise, timed in the same rounds, with counters."""
    exercise = course.exercise(name, folder=SOURCES)
    versions = {"starter": exercise.starter, "solution": exercise.solution}
    variants = [
        ado.cuda_variant(version, source=source, **exercise.launch)
        for version, source in versions.items()
    ]
    return ado.sweep(
        exercise.ladder, *exercise.operands(), extra=variants, device="cuda",
        variants=[exercise.faster_than, *versions], seconds=seconds, counters="light",
        progress=False,
    )  # fmt: skip


def record(recorder: Recorder) -> None:
    """Measure the chosen exercises."""
    for name in recorder.names:
        recorder.save(f"exercise-{name}", measured(name, recorder.seconds))


if __name__ == "__main__":
    run(record, __doc__, seconds=3.0, names=list(course.EXERCISES))
