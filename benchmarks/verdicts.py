"""Counts wrong, missed and withheld verdicts: A/A pairs, a difference of 2 %, busy machines.

    python benchmarks/verdicts.py verdicts.jsonl aa --device cuda --cache cold --count 1000
    python benchmarks/verdicts.py verdicts.jsonl power --count 100
    python benchmarks/verdicts.py verdicts.jsonl load --count 100 --limit 400
    python benchmarks/verdicts.py verdicts.jsonl --summary --json table.json

Each run compares two functions whose true ratio of times is known, and appends one line to the
file. A series that the file already contains in part is continued, so that several calls make one
record; ``--limit`` ends a call after a number of seconds. ``--samples`` also stores the samples.

aa
    The same variant twice. Any winner is wrong.
power
    50 and 51 launches of a kernel with warm caches: the true ratio is 1.02.
load
    CPU functions on n / 2 threads beside 0, 1, n and 2n busy processes, where n is the number of
    processors: a call and the same call (ratio 1), and one call and two calls (ratio 2). A quarter
    as often: ratio 2 on n threads, a variant and NumPy (the verdicts at load 0 count as the truth),
    and 2n processes that are busy for a fifth of the run only ("burst").
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
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.measuring.context import Contention, context
from adokernels.measuring.progress import displayed
from adokernels.measuring.sampling import Sampler, Settings
from adokernels.records.contention import Series, judge

Row = dict[str, Any]
BURST = "burst"
LAUNCHES = 50
#: Upper limit of the sampling time per function and run; a run takes about twice as long.
SECONDS = 0.1


class Warmed(Sampler):
    """A sampler that is warmed up once for many runs."""

    @classmethod
    def of(cls, sampler: Sampler, *, warm: bool) -> Sampler:
        """Warm up a sampler."""
        sampler.warm_up(warm=warm)
        return cls(sampler.take, sampler.device, calls=sampler.calls)

    def warm_up(self, *, warm: bool, limit: float = 0.0) -> None:
        """Take some samples that do not count."""
        del warm, limit
        for _ in range(3):
            self.take(self.calls)


@dataclass(frozen=True)
class Pair:
    """Two functions; `truth` is the ratio theirs / ours, or 0 if it is unknown."""

    name: str
    truth: float
    samplers: tuple[Sampler, Sampler]
    threads: int = 0
    #: Whether it is an addition to a series, and runs a quarter as often.
    extra: bool = False


def repeated(call: Any, device: str, count: int) -> Sampler:
    """A sampler of `count` calls in a row, with warm caches."""
    times = range(count)

    def work() -> None:
        for _ in times:
            call.run()

    return Warmed.of(Sampler.of_function(work, device, cold=False), warm=True)


def prepared(routine: Any, device: str, *operands: Any) -> Any:
    """The default variant, on copies of the operands."""
    problem = routine.problem(*operands, device=device)
    return problem.prepare(problem.best())


def problems(device: str) -> list[tuple[str, Any]]:
    """Calls of 30 to 300 us."""
    n = 4096 if device == "cuda" else 1024
    image = np.random.default_rng(1).integers(0, 256, (n, n), np.uint8)
    image = np.concatenate([image] * 4)
    matrix = np.random.default_rng(1).random((n, n), np.float32)
    big, small = np.random.default_rng(1).random((64, 32 * n)), np.arange(64.0)
    return [
        ("transpose", prepared(ado.transpose, device, matrix)),
        ("gaussian_blur", prepared(ado.gaussian_blur, device, image)),
        ("max_plus", prepared(ado.max_plus, device, big, small)),
    ]


def same_twice(device: str, cache: str) -> list[Pair]:
    pairs = []
    for name, call in problems(device):
        sampler = Sampler.of_call(call, cold=cache == "cold")
        again = Warmed.of(sampler, warm=cache == "warm")
        pairs.append(Pair(name, 1.0, (again, again)))
    return pairs


def two_percent(device: str) -> list[Pair]:
    return [
        Pair(name, 1 + 1 / LAUNCHES, tuple(repeated(call, device, LAUNCHES + i) for i in (0, 1)))
        for name, call in problems(device)
    ]


def several_threads() -> list[Pair]:
    a = np.random.default_rng(1).random((2048, 2048), np.float32)
    out = np.empty_like(a)
    call = prepared(ado.transpose, "cpu", a)
    processors = os.cpu_count() or 1
    ado.settings.threads = half = max(processors // 2, 1)
    once, twice = repeated(call, "cpu", 1), repeated(call, "cpu", 2)
    peer = Sampler.of_function(lambda: np.copyto(out, a.T), "cpu", cold=False)
    return [
        Pair("same", 1.0, (once, once), half),
        Pair("double", 2.0, (once, twice), half),
        Pair("NumPy", 0.0, (once, Warmed.of(peer, warm=True)), half, extra=True),
        Pair("double", 2.0, (once, twice), processors, extra=True),
    ]


class Load:
    """Processes that are busy, or stopped."""

    def __init__(self, count: int) -> None:
        command = [sys.executable, "-c", "while True: pass"]
        self._processes = [subprocess.Popen(command) for _ in range(count)]
        self._signal(signal.SIGSTOP, self._processes)

    @contextlib.contextmanager
    def busy(self, load: int | str) -> Iterator[None]:
        """Run a number of them, or all of them for a fifth of the time of a run."""
        burst = load == BURST
        used = self._processes if burst else self._processes[: int(load)]
        expected = 2 * SECONDS
        timers = [
            threading.Timer(share * expected, self._signal, (which, used))
            for share, which in ((0.4, signal.SIGCONT), (0.6, signal.SIGSTOP))
        ]
        if burst:
            for timer in timers:
                timer.start()
        else:
            self._signal(signal.SIGCONT, used)
        try:
            yield
        finally:
            for timer in timers if burst else ():
                timer.cancel()
                timer.join()
            self._signal(signal.SIGSTOP, used)

    def end(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
            process.wait()

    @staticmethod
    def _signal(which: int, processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            process.send_signal(which)


def one_run(pair: Pair, device: str, cache: str, *, samples: bool) -> Row:
    """Sample both functions as a sweep does, and judge them."""
    if pair.threads:
        ado.settings.threads = pair.threads
    samplers = [type(s)(s.take, s.device, calls=s.calls) for s in pair.samplers]
    start = time.perf_counter()
    others = Contention("cpu")
    with displayed(False) as silent:
        settings = Settings(cache, None, 2 * SECONDS)  # type: ignore[arg-type]
        settings.sample(samplers, device, silent)
    for error in filter(None, (sampler.error for sampler in samplers)):
        raise error
    facts = {"threads": pair.threads} | {"contention": others.facts(waits=bool(samplers[0].waits))}
    series = [side.series._replace(facts=facts) for side in samplers]
    found = judge(*series, paired=True)
    row: Row = {
        "verdict": found.verdict.value,
        "reason": found.reason,
        "ratio": found.ratio,
        "interval": found.interval,
        "resolution": found.resolution,
        "samples": len(samplers[0].seconds),
        "undisturbed": float(np.mean([side.undisturbed().mean() for side in series])),
        "contention": facts["contention"],
        "seconds": time.perf_counter() - start,
    }
    if samples:
        row["sides"] = [as_lists(side) for side in series]
    return row


def as_lists(series: Series) -> Row:
    columns = {"seconds": series.seconds, "waits": series.waits, "clocks": series.clocks}
    return {name: [float(f"{v:.4g}") for v in values] for name, values in columns.items()}


def run_series(options: argparse.Namespace) -> None:
    """Append runs to the file until every group has the wanted number, or the time is used up."""
    end = time.monotonic() + options.limit
    device, cache = options.device, options.cache
    processors = os.cpu_count() or 1
    loads: list[int | str] = [0]
    if options.series == "aa":
        pairs = same_twice(device, cache)
    elif options.series == "power":
        cache, pairs = "warm", two_percent(device)
    else:
        device, cache, pairs = "cpu", "warm", several_threads()
        loads = [0, 1, processors, 2 * processors, BURST]
    head = {"series": options.series, "device": device, "cache": cache}
    done = Counter(group_of(row) for row in stored(options.file))
    # The counts of aa and power are for all problems together, the counts of load for each group.
    each = options.count if options.series == "load" else -(-options.count // len(pairs))
    machine = context(device) | {"contention": Contention(device).facts(waits=True)}
    named = ("device_name", "system", "time", "threads", "contention", "nvidia_smi", "adokernels")
    about = {name: machine[name] for name in named if name in machine}
    load = Load(2 * processors if options.series == "load" else 0)
    try:
        with options.file.open("a") as file:
            for number, which, pair in itertools.product(range(each), loads, pairs):
                if number % 4 and (pair.extra or which == BURST):
                    continue
                row = head | {"load": which, "pair": pair.name, "threads": pair.threads}
                row |= {"truth": pair.truth, "processors": processors, "about": about}
                if done[group_of(row)] >= each:
                    continue
                if time.monotonic() > end:
                    return
                with load.busy(which):
                    row |= one_run(pair, device, cache, samples=options.samples)
                print(json.dumps(row), file=file, flush=True)
                done[group_of(row)] += 1
    finally:
        load.end()


def stored(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


GROUP = ("series", "device", "cache", "pair", "threads", "load", "processors")


def group_of(row: Row) -> tuple[str, ...]:
    """The runs of one row of the summary."""
    return tuple(str(row[name]) for name in GROUP)


def is_wrong(row: Row, truth: str) -> bool:
    """Whether a verdict contradicts the true one; "same" means a difference below 2 %."""
    small = 1 <= row["truth"] <= 1 + 1 / LAUNCHES
    return row["verdict"] not in ("unclear", truth) and not (small and row["verdict"] == "same")


def summary(rows: list[Row]) -> Iterator[Row]:
    """One row per group: the number of runs per verdict, the wrong ones, and medians."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[group_of(row)].append(row)
    for group, of in groups.items():
        truth = {1.0: "same", 0.0: ""}.get(of[0]["truth"], "faster")
        if not truth:
            calm = (*group[:5], "0", group[6])
            truth = Counter(r["verdict"] for r in groups.get(calm, of)).most_common(1)[0][0]
        counts = Counter("withheld" if row["reason"] else row["verdict"] for row in of)
        yield (
            dict(zip(GROUP, group, strict=True))
            | {"runs": len(of)}
            | {name: counts[name] for name in ("faster", "slower", "same", "unclear", "withheld")}
            | {"wrong": sum(is_wrong(row, truth) for row in of)}
            | {
                name: statistics.median(row[name] for row in of)
                for name in ("ratio", "resolution", "undisturbed", "seconds")
            }
        )


def table(rows: list[Row]) -> Iterator[str]:
    """The lines of the summary as text."""
    yield (
        f"{'series':<31}{'threads':>8}{'load':>6}{'runs':>6}{'faster':>8}{'slower':>8}{'same':>6}"
        f"{'unclear':>8}{'withheld':>9}{'wrong':>6}{'ratio':>8}{'resol. %':>9}{'calm %':>7}{'s':>6}"
    )
    for row in summary(rows):
        series = " ".join(row[name] for name in GROUP[:4])
        yield (
            f"{series:<31}{row['threads']:>8}{row['load']:>6}{row['runs']:>6}{row['faster']:>8}"
            f"{row['slower']:>8}{row['same']:>6}{row['unclear']:>8}{row['withheld']:>9}"
            f"{row['wrong']:>6}{row['ratio']:>8.3f}{100 * row['resolution']:>9.2f}"
            f"{100 * row['undisturbed']:>7.0f}{row['seconds']:>6.2f}"
        )


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("file", type=Path, help="JSON lines; a series in it is continued")
    parser.add_argument("series", nargs="?", choices=("aa", "power", "load"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--cache", choices=("cold", "warm"), default="cold", help="for aa")
    parser.add_argument("--count", type=int, default=100, help="runs; for load, of each kind")
    parser.add_argument("--limit", type=float, default=500, help="seconds for this call")
    parser.add_argument("--samples", action="store_true", help="store the samples, too")
    parser.add_argument("--summary", action="store_true", help="print the table")
    parser.add_argument("--json", type=Path, help="also write the table, with the devices, as JSON")
    options = parser.parse_args()
    if options.series:
        run_series(options)
    rows = stored(options.file)
    if options.summary or options.series:
        print("\n".join(table(rows)))
    if options.json:
        about = {row["device"]: row["about"] for row in reversed(rows)}
        finite = ({k: None if v == math.inf else v for k, v in r.items()} for r in summary(rows))
        text = ",\n".join(json.dumps(row, allow_nan=False) for row in finite)
        options.json.write_text(f'{{"about": {json.dumps(about)}, "rows": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
