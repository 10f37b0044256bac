"""Finds the size from which a GPU pays off for NumPy arrays, for each routine.

    python benchmarks/break_even.py FOLDER                       # all routines
    python benchmarks/break_even.py FOLDER --limit 30 transpose gpp

The script scans each routine with copies, from small to large problems, and writes
FOLDER/ROUTINE.json.xz. After its time limit, a routine ends with the sizes measured until then.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

import adokernels as ado
from adokernels.measuring.scanning import default_shapes

MOST_SIZES = 10
#: Problems larger than the task's problem: lengths are doubled at most this number of times.
DOUBLINGS = 4


def shapes_of(routine: ado.Routine) -> list[tuple[int, ...]]:
    """The largest problem and at most nine smaller ones, from small to large."""
    found = default_shapes(routine, None, {}, DOUBLINGS)
    step = -(-len(found) // MOST_SIZES)
    return found[::step][::-1]


def measure(routine: ado.Routine, seconds: float, limit: int) -> ado.records.Scan:
    """Scan a routine for at most `limit` seconds."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(limit)
    try:
        shapes = shapes_of(routine)
        seconds *= len(shapes)
        return ado.scan(routine, shapes=shapes, copies=True, seconds=seconds, progress=False)
    finally:
        signal.alarm(0)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("routines", nargs="*", default=list(ado.routines))
    options.add_argument("--seconds", type=float, default=0.5, help="per problem")
    options.add_argument("--limit", type=int, default=60, help="seconds per routine")
    given = options.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    ado.machine("cuda")  # outside of the time limits
    for name in given.routines:
        try:
            found = measure(ado.routines[name], given.seconds, given.limit)
        except KeyboardInterrupt:
            print(f"{name}: no problem in {given.limit} s", flush=True)
            continue
        found.save(given.folder / f"{name}.json.xz")
        print(f"{name}, {len(found)} sizes: {found.finding}", flush=True)


if __name__ == "__main__":
    main()
