"""Call routines with random operands and options, valid and invalid ones, at inaccessible pages.

    python tests/fuzz --cases 10000                      # every routine
    python tests/fuzz sobel gpp --cases 10000 --seed 7
    python tests/fuzz sobel --seed 7 --first 123 --cases 1   # one case again

The calls run in another process. If a call ends that process, the case is reported and the next
one follows. See docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Maximum number of failures per routine. The remaining cases are then skipped.
MOST_FAILURES = 20


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("routines", nargs="*", metavar="ROUTINE", help="default: all")
    parser.add_argument("--cases", type=int, default=1000, help="number of cases per routine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="Python threads that call at once")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--after", nargs=2, default=["", "-1"], help=argparse.SUPPRESS)
    return parser.parse_args()


def again(given: argparse.Namespace, name: str, number: int) -> str:
    device = "" if given.device == "cpu" else f" --device {given.device}"
    return f"python tests/fuzz {name} --seed {given.seed} --first {number} --cases 1{device}"


# --- The process that makes the calls -------------------------------------------------------------


def work(given: argparse.Namespace) -> int:
    """Run the cases; write the case that runs, and the counts, to a file."""
    from concurrent.futures import ThreadPoolExecutor

    from cases import make_case
    from check import Wrong, check, run

    import adokernels as ado

    sys.stdout.reconfigure(errors="backslashreplace")
    failures = 0
    names = given.routines or list(ado.routines)
    crashed, last = given.after
    for name in names[names.index(crashed) :] if crashed else names:
        first = int(last) + 1 if name == crashed else given.first
        routine, start = ado.routines[name], time.perf_counter()
        counts = {"result": 0, "error": 0, "failure": 0}
        for number in range(first, given.first + given.cases, given.threads):
            Path(given.worker).write_text(json.dumps([name, number]), encoding="utf-8")
            cases = [
                make_case(routine, given.seed, number + i, given.device)
                for i in range(given.threads)
            ]

            def outcome(case, call=run if given.threads == 1 else check):
                try:
                    return call(case)
                except Wrong as wrong:
                    print(f"{case}\n  {wrong}\n  {again(given, case.routine.name, case.number)}")
                    return "failure"

            if given.threads == 1:
                outcomes = [outcome(case) for case in cases]
            else:
                with ThreadPoolExecutor(given.threads) as pool:
                    outcomes = list(pool.map(outcome, cases))
            for each in outcomes:
                counts[each] += 1
            if counts["failure"] >= MOST_FAILURES:
                break
        seconds = time.perf_counter() - start
        print(
            f"{name}: {sum(counts.values())} cases, {counts['result']} results, "
            f"{counts['error']} errors, {counts['failure']} failures, {seconds:.1f} s",
            flush=True,
        )
        failures += counts["failure"]
    return failures


# --- The process that reports ---------------------------------------------------------------------


def supervise(given: argparse.Namespace) -> int:
    """Run the cases in another process; after a crash, go on with the next case."""
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "case"
        command = [sys.executable, __file__, *sys.argv[1:], "--worker", str(progress)]
        code = subprocess.run(command, check=False).returncode
        failed = code == 1
        while code not in (0, 1):
            failed = True
            name, number = json.loads(progress.read_text(encoding="utf-8"))
            ended = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            print(
                f"{name}: the process ended ({ended})\n  {again(given, name, number)}", flush=True
            )
            code = subprocess.run([*command, "--after", name, str(number)], check=False).returncode
        return int(failed or code == 1)


if __name__ == "__main__":
    arguments = parse()
    sys.exit(min(work(arguments), 1) if arguments.worker else supervise(arguments))
