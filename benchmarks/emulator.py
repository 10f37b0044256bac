"""Speed of the emulator: warp instructions per second and core, for every CUDA variant.

    python benchmarks/emulator.py [ROUTINE ...]

A variant runs on one thread, best of five, without and with the optional checks. The time is the
processor time of this process, so that other processes disturb it little.
"""

from __future__ import annotations

import statistics
import sys
import time

import adokernels as ado
from adokernels import _core
from adokernels.process import ALL_CHECKS

REPEATS = 5
#: Lengths of problems. Other routines get MATRIX or, with one dimension, VECTOR.
SHAPES = {"average_matvec": (200, 16, 128), "max_plus": (20000, 64), "gpp": (20, 16, 256, 2)}
SHAPES |= {"gather": (1 << 18, 1 << 18), "component": (1 << 18, 3)}
MATRIX, VECTOR = (512, 512), (1 << 18,)
CHECKS = {"none": (), "race": ("racecheck",), "blocks": ("global_racecheck",), "all": ALL_CHECKS}


def seconds_and_instructions(call: _core.Call) -> tuple[float, int]:
    """The shortest time of a call, and its warp instructions."""
    best, instructions = float("inf"), 0
    for _ in range(REPEATS):
        start = time.process_time()
        launches = _core.emulated_counts(call)
        best = min(best, time.process_time() - start)
        instructions = sum(counts["instructions"] for _, counts in launches)
    return best, instructions


def main(names: list[str]) -> None:
    ado.settings.threads = 1
    speeds: dict[str, list[float]] = {name: [] for name in CHECKS}
    print("million warp instructions per second:", *CHECKS, sep="  ")
    for routine in (ado.routines[name] for name in names or ado.routines):
        one_dimension = len(routine.task.lengths) == 1
        shape = SHAPES.get(routine.name, VECTOR if one_dimension else MATRIX)
        operands = routine.task.random_operands(shape)
        problem = routine.problem(*operands, device="emulator")
        for variant in (v for v in routine if v.device == "cuda"):
            try:
                call = problem.prepare(variant.name).timed
            except (ValueError, ado.Unavailable):
                continue
            if not seconds_and_instructions(call)[1]:  # runs a library's kernels
                continue
            found = {}
            for name, checks in CHECKS.items():
                ado.settings.emulator_checks = checks
                spent, instructions = seconds_and_instructions(call)
                found[name] = instructions / spent / 1e6
                speeds[name].append(found[name])
            label = f"{routine.name}[{variant.name}]"
            print(f"{label:45}", *(f"{speed:7.1f}" for speed in found.values()))
    for name, values in speeds.items():
        print(f"{name:5} median {statistics.median(values):.1f}, least {min(values):.1f}")
    slowest = max(a / b for a, b in zip(speeds["none"], speeds["race"], strict=True))
    print(f"race checks: at most {slowest:.1f} times slower")


if __name__ == "__main__":
    main(sys.argv[1:])
