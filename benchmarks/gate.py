"""Compares the speed of two wheels: every variant, the overhead of calls, and the import.

    python benchmarks/gate.py OLD.whl NEW.whl --device cuda --json gate.json
    python benchmarks/gate.py SAME.whl SAME.whl --only 'gpp/*' 'call/*'

Use it for changes that must not change any speed. It stops after 500 seconds; with ``--resume`` it
adds rounds to an earlier run. The second command shows the noise: every ratio must be 1. The wheels
must be built for this Python, and the package must be installed in it.

In each round, each wheel times everything in a new process, in random order. A round is a pair of
processes, because times differ more between processes than within one (Kalibera & Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013). The ratio of a round is new / old. The table shows the
median ratio of all rounds, with its 99.9 % interval by order statistics (Hoefler & Belli, SC15).

A variant fails if its whole interval differs from 1 by more than 1 %, or if only one wheel computes
it. A call or an import fails if its whole interval is above 1.05. Verdicts that fail are in upper
case; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from adokernels.records.statistics import FEWEST_SAMPLES, Z999, median_interval

VARIANT_MARGIN, CALL_MARGIN = 0.01, 0.05
WORKER = Path(__file__).with_name("gate_worker.py")
#: Seconds per call of each item; None if the wheel declines it.
Times = dict[str, float | None]


@dataclass
class State:
    """A run that can be continued."""

    wheels: list[str]  # digests of the two files
    device: str
    gpus: list[str] = field(default_factory=list)  # one per part of the run
    rounds: list[list[Times]] = field(default_factory=list)  # of the old and the new wheel


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


def one_round(folders: Sequence[Path], device: str, only: Sequence[str]) -> list[Times]:
    """Time everything in a new process per wheel."""
    found: list[Times] = [{}, {}]
    for side in random.sample((0, 1), 2):
        command = [sys.executable, "-X", "faulthandler", WORKER, folders[side], device, *only]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[side] = json.loads(done.stdout)
    return found


def gpu() -> str:
    """Name, identity and driver of the first GPU."""
    command = ["nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def report(rounds: Sequence[Sequence[Times]]) -> Iterator[tuple[str, str]]:
    """A verdict and a line of the table for each item."""
    for name in sorted({name for both in rounds for times in both for name in times}):
        old, new = ([both[side].get(name) for both in rounds] for side in (0, 1))
        pairs = [(a, b) for a, b in zip(old, new, strict=True) if a and b]
        if not pairs:
            found = "BROKEN" if any(old) or any(new) else "declined"
            yield found, f"{name:<42}{found}"
            continue
        ratios = [b / a for a, b in pairs]
        found = verdict(ratios, call="/" not in name or name.startswith("call/"))
        times = (f"{1e6 * statistics.median(t):>11.2f}" for t in zip(*pairs, strict=True))
        low, high = median_interval(ratios, Z999)
        ratio = f"{statistics.median(ratios):>9.4f}{low:>9.4f}{high:>9.4f}"
        yield found, f"{name:<42}{''.join(times)}{ratio}{len(pairs):>7}  {found}"


def main() -> None:
    started = time.monotonic()
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("wheels", nargs=2, type=Path, metavar="WHEEL")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="names to time")
    parser.add_argument(
        "--seconds", type=float, default=500, help="no round starts later, except the first"
    )
    parser.add_argument("--json", type=Path, help="file for the results, written after each round")
    parser.add_argument("--resume", action="store_true", help="add rounds to that file")
    options = parser.parse_args()
    wheels = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in options.wheels]
    state = State(wheels, options.device)
    if options.resume:
        state = State(**json.loads(options.json.read_text()))
        if (state.wheels, state.device) != (wheels, options.device):
            parser.error(f"{options.json} must be of the same wheels and device")
    state.gpus += [gpu()] if options.device == "cuda" else []
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root, name) for name in ("old", "new")]
        for wheel, folder in zip(options.wheels, folders, strict=True):
            shutil.unpack_archive(wheel, folder, "zip")
        while True:
            state.rounds.append(one_round(folders, options.device, options.only))
            if options.json:
                options.json.write_text(json.dumps(asdict(state)))
            if time.monotonic() > started + options.seconds:
                break
    print(f"{' and '.join(wheel.name for wheel in options.wheels)} on {state.gpus or state.device}")
    print(f"{'times in us':<42}{'old':>11}{'new':>11}{'new/old':>9}{'99.9 % interval':>18} rounds")
    found = [*report(state.rounds)]
    print(*(line for _, line in found), sep="\n")
    counts = collections.Counter(each for each, _ in found)
    print(", ".join(f"{each}: {count}" for each, count in counts.items()))
    sys.exit(any(each.isupper() for each in counts))


if __name__ == "__main__":
    main()
