"""Counts wrong, missed and withheld verdicts: A/A pairs, a difference of 2 %, busy machines.

    python benchmarks/verdicts.py verdicts.jsonl aa --device cuda --count 1000
    python benchmarks/verdicts.py verdicts.jsonl power --count 100
    python benchmarks/verdicts.py verdicts.jsonl load --count 100 --limit 400 --json table.json

Each run compares two functions whose true ratio of times is known, and appends one line to the
file. A series that the file already contains in part is continued, so that several calls make one
record; ``--limit`` ends a call after a number of seconds.

aa
    The same variant twice, with cold and with warm caches. Any winner is wrong.
power
    50 and 51 launches of a kernel with warm caches: the true ratio is 1.02.
load
    CPU functions on n / 2 and n threads beside 0, 1, n and 2n busy processes, where n is the number
    of processors: a call and the same call (ratio 1), and one call and two calls (ratio 2).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import adokernels as ado
from adokernels.measuring.context import context

Row = dict[str, Any]
LAUNCHES = 50
#: Upper limit of the sampling time per function and run; a run takes about twice as long.
SECONDS = 0.1
PROCESSORS = os.cpu_count() or 1
#: The runs with equal values are one row of the summary.
GROUP = ("series", "device", "cache", "pair", "threads", "load", "processors")


class Pair(NamedTuple):
    """Two functions; `truth` is the ratio theirs / ours."""

    pair: str
    truth: float
    functions: tuple[Callable[[], object], Callable[[], object]]
    device: str = "cuda"
    cache: str = "warm"
    threads: int = 0


def repeated(call: Any, count: int) -> Callable[[], None]:
    """A function that makes `count` calls in a row."""

    def work() -> None:
        for _ in range(count):
            call.run()

    return work


def prepared(routine: Any, device: str, *operands: Any) -> Any:
    """The default variant, on copies of the operands."""
    problem = routine.problem(*operands, device=device)
    return problem.prepare(problem.best())


def calls(device: str) -> dict[str, Any]:
    """Calls of 30 to 300 us."""
    n = 4096 if device == "cuda" else 1024
    rng = np.random.default_rng(1)
    image = np.concatenate([rng.integers(0, 256, (n, n), np.uint8)] * 4)
    return {
        "transpose": prepared(ado.transpose, device, rng.random((n, n), np.float32)),
        "gaussian_blur": prepared(ado.gaussian_blur, device, image),
        "max_plus": prepared(ado.max_plus, device, rng.random((64, 32 * n)), np.arange(64.0)),
    }


def pairs(series: str, device: str) -> Iterator[Pair]:
    if series == "aa":
        for name, call in calls(device).items():
            for cache in ("cold", "warm"):
                yield Pair(name, 1.0, (call.run, call.run), device, cache)
    elif series == "power":
        for name, call in calls(device).items():
            both = (repeated(call, LAUNCHES), repeated(call, LAUNCHES + 1))
            yield Pair(name, 1 + 1 / LAUNCHES, both, device)
    else:
        call = prepared(ado.transpose, "cpu", np.ones((2048, 2048), np.float32))
        for threads in (max(PROCESSORS // 2, 1), PROCESSORS):
            once, twice = repeated(call, 1), repeated(call, 2)
            yield Pair("same", 1.0, (once, once), "cpu", threads=threads)
            yield Pair("double", 2.0, (once, twice), "cpu", threads=threads)


@contextlib.contextmanager
def stopped(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are busy when they receive SIGCONT, until they receive SIGSTOP."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def one_run(pair: Pair) -> Row:
    """Compare both functions."""
    if pair.threads:
        ado.settings.threads = pair.threads
    start = time.perf_counter()
    ours, theirs = pair.functions
    (change,) = ado.compare(
        {"theirs": theirs, "ours": ours}, check=False, device=pair.device, cache=pair.cache,
        seconds=2 * SECONDS, progress=False,
    )  # fmt: skip
    found = change.comparison
    return {
        **{name: getattr(found, name) for name in ("reason", "ratio", "interval", "resolution")},
        "verdict": found.verdict.value,
        "contention": change.after.context["contention"],
        "seconds": time.perf_counter() - start,
    }


def run_series(options: argparse.Namespace) -> None:
    """Append runs to the file until every group has the wanted number, or the time is used up."""
    end = time.monotonic() + options.limit
    of_load = options.series == "load"
    loads = (0, 1, PROCESSORS, 2 * PROCESSORS) if of_load else (0,)
    known = [*pairs(options.series, options.device)]
    # The counts of aa and power are for all problems together, the counts of load for each group.
    each = options.count if of_load else -(-options.count // 3)
    done = Counter(map(group_of, stored(options.file)))
    facts = {"about": context("cpu" if of_load else options.device), "series": options.series}
    with stopped(max(loads)) as processes, options.file.open("a") as file:
        for _, load, pair in itertools.product(range(each), loads, known):
            row = pair._asdict() | facts | {"load": load, "processors": PROCESSORS}
            del row["functions"]
            if done[group_of(row)] >= each:
                continue
            if time.monotonic() > end:
                return
            for process in processes[:load]:
                process.send_signal(signal.SIGCONT)
            row |= one_run(pair)
            for process in processes[:load]:
                process.send_signal(signal.SIGSTOP)
            print(json.dumps(row), file=file, flush=True)
            done[group_of(row)] += 1


def stored(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def group_of(row: Row) -> tuple[str, ...]:
    """The runs of one row of the summary."""
    return tuple(str(row[name]) for name in GROUP)


def is_wrong(row: Row) -> bool:
    """Whether a verdict contradicts the true one; "same" means a difference below 2 %."""
    right = {"unclear", "same" if row["truth"] == 1 else "faster"}
    return row["verdict"] not in right | ({"same"} if row["truth"] <= 1 + 1 / LAUNCHES else set())


def summary(rows: list[Row]) -> Iterator[Row]:
    """One row per group: the number of runs per verdict, the wrong ones, and medians."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[group_of(row)].append(row)
    for group, of in groups.items():
        found = {**dict(zip(GROUP, group, strict=True)), "runs": len(of)}
        counts = Counter("withheld" if row["reason"] else row["verdict"] for row in of)
        for verdict in ("faster", "slower", "same", "unclear", "withheld"):
            found[verdict] = counts[verdict]
        found["wrong"] = sum(map(is_wrong, of))
        for name in ("ratio", "resolution", "seconds"):
            median = statistics.median(row[name] for row in of)
            found[name] = None if median == math.inf else median
        yield found


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("file", type=Path, help="JSON lines; a series in it is continued")
    parser.add_argument("series", choices=("aa", "power", "load"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--count", type=int, default=100, help="runs; for load, of each kind")
    parser.add_argument("--limit", type=float, default=500, help="seconds for this call")
    parser.add_argument("--json", type=Path, help="also write the table, with the devices, as JSON")
    options = parser.parse_args()
    run_series(options)
    rows = stored(options.file)
    table = [*summary(rows)]
    print(*(table[0] if table else []))
    for row in table:
        print(" ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    if options.json:
        about = {row["device"]: row["about"] for row in reversed(rows)}
        text = ",\n".join(map(json.dumps, table))
        options.json.write_text(f'{{"about": {json.dumps(about)}, "rows": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
