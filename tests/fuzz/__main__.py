"""Call routines with random operands and options, valid and invalid ones, at inaccessible pages.

    python tests/fuzz --cases 10000                      # every suite
    python tests/fuzz sobel records --cases 10000 --seed 7
    python tests/fuzz sobel --seed 7 --first 123 --cases 1   # one case again

A suite is a routine, or one of the suites in `inputs.py`, such as `records` and `maps`. The cases
run in other processes. If a case ends its process, the case is reported and the next one
follows. See docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

#: Maximum number of failures per suite and process. The remaining cases are then skipped.
MOST_FAILURES = 20


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="default: all")
    parser.add_argument("--cases", type=int, default=1000, help="number of cases per suite")
    parser.add_argument("--total", type=int, help="number of cases of all suites; replaces --cases")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="limit per suite")
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="Python threads that call at once")
    parser.add_argument("--processes", type=int, default=1, help="0: one per processor")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.seed is None:
        given.seed = secrets.randbelow(1 << 32)
    return given


def again(given: argparse.Namespace, name: str, number: int) -> str:
    device = "" if given.device == "cpu" else f" --device {given.device}"
    return f"python tests/fuzz {name} --seed {given.seed} --first {number} --cases 1{device}"


# --- A process that runs cases --------------------------------------------------------------------


def work(given: argparse.Namespace, part: int, file: Path) -> None:
    """Run every n-th case of n processes; keep the case that runs, and the counts, in a file.

    If the file exists, a process has ended in the case that it names, and the next case follows.
    """
    from check import Wrong
    from inputs import MAKERS

    import adokernels as ado

    sys.stdout.reconfigure(errors="backslashreplace")
    state: dict[str, Any] = {"suite": "", "number": -1, "counts": {}}
    if file.exists():
        state = json.loads(file.read_text(encoding="utf-8"))
    names = given.suites or [*ado.routines, *MAKERS]
    if given.total:
        given.cases = -(-given.total // len(names))
    resumed = state["suite"]
    for name in names[names.index(resumed) :] if resumed else names:
        counts = Counter({"result": 0, "error": 0, "failure": 0}, **state["counts"].get(name, {}))
        first = state["number"] + 1 if name == resumed else given.first
        end, step = given.first + given.cases, given.processes * given.threads
        own = range(given.first + part * given.threads, end, step)
        make, run = suite(given, name)
        start = time.monotonic()
        for number in (n for n in own if n >= first):
            state |= {"suite": name, "number": number}
            file.write_text(json.dumps(state), encoding="utf-8")

            def outcome(number: int, name: str = name, make: Any = make, run: Any = run) -> str:
                case = make(number)
                try:
                    return run(case)
                except Wrong as wrong:
                    print(f"{case}\n  {wrong}\n  {again(given, name, number)}", flush=True)
                    return "failure"

            numbers = range(number, min(number + given.threads, end))
            if given.threads == 1:
                counts.update(map(outcome, numbers))
            else:
                with ThreadPoolExecutor(given.threads) as pool:
                    counts.update(pool.map(outcome, numbers))
            state["counts"][name] = dict(counts)
            late = time.monotonic() - start > given.seconds
            if late or counts["failure"] >= MOST_FAILURES:
                break
    file.write_text(json.dumps(state), encoding="utf-8")


def suite(given: argparse.Namespace, name: str) -> tuple[Any, Any]:
    """A function that makes the case with a number, and a function that runs it."""
    import cases
    import check
    import inputs

    import adokernels as ado

    if name not in ado.routines:
        return lambda number: inputs.make_input(name, given.seed, number), inputs.run
    use = check.run if given.threads == 1 else check.check
    routine = ado.routines[name]
    return lambda number: cases.make_case(routine, given.seed, number, given.device), use


# --- The process that reports ---------------------------------------------------------------------


def supervise(given: argparse.Namespace) -> int:
    """Run the cases in other processes; after a crash, go on with the next case."""
    given.processes = given.processes or len(os.sched_getaffinity(0))
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.processes) as pool:
        files = [Path(folder) / str(part) for part in range(given.processes)]
        states = list(
            pool.map(lambda part: supervise_one(given, part, files[part]), range(len(files)))
        )
    total: dict[str, Counter[str]] = {}
    for state in states:
        for name, counts in state["counts"].items():
            total.setdefault(name, Counter()).update(counts)
    for name, counts in total.items():
        found = ", ".join(f"{counts[kind]} {kind}s" for kind in ("result", "error", "failure"))
        print(f"{name}: {counts.total()} cases, {found}")
    everything = sum(total.values(), Counter())
    print(
        f"{everything.total()} cases, {everything['failure']} failures, "
        f"{time.monotonic() - start:.0f} s, {given.processes} processes, seed {given.seed}"
    )
    return int(everything["failure"] > 0 or not everything)


def supervise_one(given: argparse.Namespace, part: int, file: Path) -> dict[str, Any]:
    """Run one process until it exits normally; return its counts."""
    options = [*sys.argv[1:], "--processes", str(given.processes), "--seed", str(given.seed)]
    options += ["--worker", str(part), str(file)]
    while True:
        code = subprocess.run([sys.executable, __file__, *options], check=False).returncode
        state: dict[str, Any] = {"suite": "", "number": -1, "counts": {}}
        if file.exists():
            state = json.loads(file.read_text(encoding="utf-8"))
        if code == 0:
            return state
        name, number = state["suite"], state["number"]
        counts = Counter(state["counts"].get(name or "start", {}))
        state["counts"][name or "start"] = counts + Counter(failure=1)
        ended = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        print(f"{name}: the process ended ({ended})\n  {again(given, name, number)}", flush=True)
        if not name or code > 0:
            return state
        file.write_text(json.dumps(state), encoding="utf-8")


if __name__ == "__main__":
    arguments = parse()
    if arguments.worker:
        work(arguments, int(arguments.worker[0]), Path(arguments.worker[1]))
    else:
        sys.exit(supervise(arguments))
