"""Records the starters and the solutions of the course's exercises on a GPU.

Each sweep contains the variant that the completed kernel must be faster than, the starter if its
result is correct, and the solution. A starter with a wrong result is in ``skipped``.

    python benchmarks/course/exercises.py FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

import adokernels as ado
from adokernels import course

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "exercises"


def measured(name: str, seconds: float) -> ado.Sweep:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="output folder, which is created")
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="upper limit of the time per variant"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in course.EXERCISES:
        sweep = measured(name, options.seconds)
        sweep.save(options.folder / f"exercise-{name}.json")
        print(f"== {name}\n{sweep!r}\n", flush=True)


if __name__ == "__main__":
    main()
