"""Compares the speed of two wheels: every variant, the overhead of calls, and the import.

    python benchmarks/gate.py OLD.whl NEW.whl --device cuda --json gate.json
    python benchmarks/gate.py SAME.whl SAME.whl --only 'gpp/*' 'call/*'

Use it for changes that must not change any speed. It stops after 500 seconds; with ``--resume`` it
adds rounds to an earlier run. The second command shows the noise: every ratio must be 1. The wheels
must be built for this Python, and the package must be installed in it.

In each round, both wheels run in new processes with the same operands. For each variant, the
processes take samples in the order old, new, new, old, or in the reverse order. On a GPU, the
caches are flushed before each sample. The ratio of a round, new / old, compares the means of the
faster halves of the samples. The table shows the median ratio of all rounds, with its 99.9 %
interval by order statistics (Hoefler & Belli, SC15). A round is a pair of processes, because times
differ more between processes than within one (Kalibera & Jones, "Rigorous benchmarking in
reasonable time", ISMM 2013).

A variant fails if its whole interval differs from 1 by more than 1 %, or if only one wheel computes
it. A call or an import fails if its whole interval is above 1.05. Verdicts that fail are in upper
case; the exit status is then 1. The rows "NumPy" time the same expressions in both processes: they
show the noise.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import hashlib
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gate_worker import MOST_SAMPLES

from adokernels.records.statistics import FEWEST_SAMPLES, Z999, median_interval

VARIANT_MARGIN, CALL_MARGIN = 0.01, 0.05
VISIT_SECONDS = 0.02  # sampling time in one process, before the other one continues
WORKER = Path(__file__).with_name("gate_worker.py")


@dataclass
class Item:
    """The times of a variant or of a kind of call."""

    #: Seconds per call of the old and the new wheel, one pair per round.
    seconds: list[tuple[float, float]] = field(default_factory=list)
    operands: str = ""  # identity of the operands of a variant; empty for a call
    declined: tuple[str, str] = ("", "")  # reasons of the old and the new wheel

    @property
    def ratios(self) -> list[float]:
        """New / old, one number per round."""
        return [new / old for old, new in self.seconds]

    @property
    def verdict(self) -> str:
        """In upper case if the gate fails."""
        if any(self.declined):
            return "declined" if all(self.declined) else "BROKEN"
        return verdict(self.ratios, call=not self.operands)


@dataclass
class State:
    """A run that can be continued."""

    wheels: list[str]  # digests of the two files
    device: str
    gpus: list[str] = field(default_factory=list)  # one per part of the run
    items: dict[str, Item] = field(default_factory=dict)  # by their names in gate_worker.py

    def __post_init__(self) -> None:
        """Make items of dictionaries, which stored runs contain."""
        self.items = {n: Item(**i) if isinstance(i, dict) else i for n, i in self.items.items()}


# --- Statistics -----------------------------------------------------------------------------------


def fast_mean(samples: Iterable[float]) -> float:
    """The mean of the faster half: other work delays samples, and event clocks are coarse."""
    ordered = sorted(samples)
    return statistics.fmean(ordered[: (len(ordered) + 1) // 2])


def verdict(ratios: Sequence[float], *, call: bool = False) -> str:
    """The verdict on the ratios of all rounds; in upper case if the gate fails."""
    if len(ratios) < FEWEST_SAMPLES:
        return "too few rounds"
    margin = CALL_MARGIN if call else VARIANT_MARGIN
    low, high = median_interval(ratios, Z999)
    if low > 1 + margin:
        return "SLOWER"
    if high < 1 - margin:
        return "faster" if call else "FASTER"
    return "same" if 1 - margin <= low and high <= 1 + margin else "unclear"


# --- Measurement ----------------------------------------------------------------------------------


def ask(processes: Iterable[Any], *request: Any) -> list[Any]:
    """Send a request to processes, which work at the same time, and return their replies."""
    for process in processes:
        print(json.dumps(request), file=process.stdin, flush=True)
    replies = [process.stdout.readline() for process in processes]
    for process, reply in zip(processes, replies, strict=True):
        if not reply:  # the process has printed its error, if any
            what = " ".join(map(str, request))
            sys.exit(f"{process.args[-2]} ended with status {process.wait()} at {what}")
    return [json.loads(reply) for reply in replies]


def one_round(state: State, folders: Sequence[Path], only: Sequence[str], end: float) -> None:
    """Time everything in new processes, in random order, until the end on the monotonic clock."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-X", "faulthandler", WORKER]
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen([*command, folder, state.device], **pipes))
            for folder in folders
        ]
        replies = {i: ask([processes[i]], "start")[0] for i in shuffled([0, 1])}
        old, new = replies[0], replies[1]
        for name, seconds in old["seconds"].items():
            state.items.setdefault(name, Item()).seconds.append((seconds, new["seconds"][name]))
        names = {*old["names"], *new["names"]}
        names = {name for name in names if any(fnmatch.fnmatch(name, some) for some in only)}
        state.items = {name: Item() for name in names} | state.items
        for name in shuffled(names):
            if time.monotonic() > end:
                return
            time_item(state.items[name], name, processes)


def time_item(item: Item, name: str, processes: Sequence[Any]) -> None:
    """Add the times of one round."""
    old, new = prepared = ask(processes, "prepare", name)
    item.declined = old.get("error", ""), new.get("error", "")
    item.operands = old.get("operands", "")
    if any(item.declined):
        return
    if item.operands != new.get("operands", ""):
        item.declined = "", f"operands must be {item.operands}, got {new.get('operands')}"
        return
    count = int(VISIT_SECONDS / max(reply["seconds"] for reply in prepared))
    count = min(max(count, 1), MOST_SAMPLES)
    samples: tuple[list[float], list[float]] = [], []
    first, second = shuffled([0, 1])
    for i in (first, second, second, first):
        samples[i].extend(ask([processes[i]], "sample", name, count)[0])
    item.seconds.append((fast_mean(samples[0]), fast_mean(samples[1])))


def shuffled(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda _: random.random())


def gpu() -> str:
    """Name, identity and driver of the first GPU."""
    command = ["nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


# --- Report ---------------------------------------------------------------------------------------


def report(state: State) -> Iterator[str]:
    """The lines of the table, then the names by verdict, failures last."""
    yield f"{'times in us':<42}{'old':>11}{'new':>11}{'new/old':>9}{'99.9 % interval':>18} rounds"
    named = collections.defaultdict(list)
    for name, item in sorted(state.items.items()):
        reason = next(filter(None, item.declined), "")
        named[item.verdict].append(f"{name} ({reason})" if reason else name)
        if item.seconds:
            times = zip(*item.seconds, strict=True)
            old, new = (f"{1e6 * statistics.median(side):>11.2f}" for side in times)
            low, high = median_interval(item.ratios, Z999)
            ratio = f"{statistics.median(item.ratios):>9.4f}{low:>9.4f}{high:>9.4f}"
            yield f"{name:<42}{old}{new}{ratio}{len(item.seconds):>7}  {item.verdict}"
    for text in sorted(named, key=str.isupper):
        yield f"{text}: {len(named[text])}" + f": {', '.join(named[text])}" * (text != "same")


def main() -> None:
    started = time.monotonic()
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("wheels", nargs=2, type=Path, metavar="WHEEL")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="names to time")
    parser.add_argument("--seconds", type=float, default=500, help="for everything")
    parser.add_argument("--json", type=Path, help="file for the results, written after each round")
    parser.add_argument("--resume", action="store_true", help="add rounds to that file")
    options = parser.parse_args()
    wheels = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in options.wheels]
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root, name) for name in ("old", "new")]
        for wheel, folder in zip(options.wheels, folders, strict=True):
            shutil.unpack_archive(wheel, folder, "zip")
        if options.resume:
            state = State(**json.loads(options.json.read_text()))
            if (state.wheels, state.device) != (wheels, options.device):
                parser.error(f"{options.json} must be of the same wheels and device")
        else:
            state = State(wheels, options.device)
        if options.device == "cuda":
            state.gpus.append(gpu())
        while time.monotonic() < (end := started + options.seconds):
            one_round(state, folders, options.only, end)
            if options.json:
                options.json.write_text(json.dumps(asdict(state)))
    print(f"{' and '.join(wheel.name for wheel in options.wheels)} on {state.gpus or state.device}")
    print("\n".join(report(state)))
    sys.exit(any(item.verdict.isupper() for item in state.items.values()))


if __name__ == "__main__":
    main()
