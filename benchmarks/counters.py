"""What hardware counters say of every CUDA rung of a routine, by ncu, beside what its row claims.

    python benchmarks/counters.py gpp --shape 64x128x1024x2
    python benchmarks/counters.py gpp --shape 800x1385x11075x2 --into sweep.json

Runs itself again under ncu, which launches each rung once with cold caches. FLOPs and instructions
are those of FP64, for each combination of the lengths of the problem, and in brackets as the row
says; a rung whose kernels are not the library's own is left out. --into adds measured FLOPs and
bytes to a stored sweep of the same problem. To count instructions ncu runs kernels many times
slower; --no-instructions leaves them out.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import adokernels as ado
from adokernels._operands import random_operands
from adokernels._routine import kernels_of
from adokernels._tables import number, quantity, show
from adokernels.oracles import ORACLES

OPERATION = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
METRICS = {
    "time": "gpu__time_duration.sum",
    "fp64_issued": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "fp64_busy": "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
    "add": OPERATION.format("dadd"),
    "mul": OPERATION.format("dmul"),
    "fma": OPERATION.format("dfma"),
    "lanes": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "registers": "launch__registers_per_thread",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "L1": "l1tex__t_bytes.sum",
    "L2": "lts__t_bytes.sum",
    "DRAM": "dram__bytes.sum",
}
INSTRUCTIONS = ("add", "mul", "fma")
LEVELS = ("L1", "L2", "DRAM")
#: What `--print-units base` makes of them; each version of ncu has its own words for the others.
UNITS = {"time": ("ns", "nsecond"), **dict.fromkeys(LEVELS, ("byte",))}


class Launch(NamedTuple):
    """One kernel that ran, with the values of METRICS that ncu has; time in nanoseconds."""

    kernel: str
    values: dict[str, float]


@dataclasses.dataclass
class Rung:
    """What a rung launched, as it says itself, then as it was seen."""

    variant: str
    block: tuple[int, ...]
    kernels: tuple[str, ...]
    executed_flops: float
    executed_instructions: float
    launches: tuple[Launch, ...] = ()

    def total(self, *names: str) -> float | None:
        """The sum over kernels, None where ncu does not know one of them."""
        values = [launch.values.get(name) for launch in self.launches for name in names]
        return None if None in values else math.fsum(values)

    @property
    def instructions(self) -> float | None:
        """FP64 instructions of a lane."""
        return self.total(*INSTRUCTIONS)

    @property
    def flops(self) -> float | None:
        """FP64 FLOPs."""
        return self.total(*INSTRUCTIONS, "fma")

    @property
    def bytes(self) -> dict[str, float]:
        """What each level moved, in both directions."""
        totals = {level: self.total(level) for level in LEVELS}
        return {level: total for level, total in totals.items() if total is not None}


def read_csv(lines: Iterable[str]) -> list[Launch]:
    """Read what ``ncu --csv --page raw --print-units base`` writes.

    Messages stand before the header, units in the row below it, thousands have separators, and what
    is not known is written ``n/a``.
    """
    table = [line for line in lines if line.startswith('"')]
    if len(table) < 2:
        return []
    header, units, *rows = csv.reader(table)
    places = {name: header.index(metric) for name, metric in METRICS.items() if metric in header}
    for name, place in places.items():
        if units[place] not in UNITS.get(name, (units[place],)):
            raise ValueError(f"{METRICS[name]} is in {units[place]}, not in {UNITS[name][0]}")
    kernel = header.index("Kernel Name")
    return [Launch(row[kernel], numbers_of(row, places)) for row in rows]


def numbers_of(row: Sequence[str], places: Mapping[str, int]) -> dict[str, float]:
    found = {}
    for name, place in places.items():
        with contextlib.suppress(ValueError):  # what ncu does not know is missing, not 0
            found[name] = float(row[place].replace(",", ""))
    return found


def assign(rungs: Sequence[Rung], launches: Sequence[Launch]) -> None:
    """Give each rung its kernels, which ran in the order of the rungs.

    Raises
    ------
    ValueError
        If there are more or fewer than the rungs say, or others.
    """
    expected = [(rung, name) for rung in rungs for name in rung.kernels]
    if len(expected) != len(launches):
        raise ValueError(f"{len(launches)} kernels ran, the rungs have {len(expected)}")
    for (rung, name), launch in zip(expected, launches, strict=True):
        base = name.rpartition("::")[2]  # ncu writes no namespaces
        if not re.search(rf"\b{re.escape(base)}\b", launch.kernel):
            raise ValueError(f"{launch.kernel} ran where {rung.variant} launches {name}")
        rung.launches += (launch,)


def filled(sweep: ado.Sweep, rungs: Sequence[Rung], problem: str) -> ado.Sweep:
    """The sweep with what was counted of its rungs.

    Raises
    ------
    ValueError
        If it measured another problem, or a rung with another block.
    """
    counted = {rung.variant: rung for rung in rungs}
    if others := {m.problem for m in sweep} - {problem}:
        raise ValueError(f"the sweep has {', '.join(others)}, counted was {problem}")

    def with_counts(m: ado.Measurement) -> ado.Measurement:
        rung = counted.get(m.variant)
        if rung is None:
            return m
        if m.block != rung.block:
            raise ValueError(f"{m.variant} was measured with {m.block}, counted with {rung.block}")
        return dataclasses.replace(m, measured_flops=rung.flops or None, measured_bytes=rung.bytes)

    return dataclasses.replace(sweep, measurements=tuple(map(with_counts, sweep)))


def table_of(rungs: Sequence[Rung], units: int, title: str) -> Table:
    table = Table(title=title)
    for heading in (
        *("rung", "kernel", "time", "FP64\nissued", "FP64\nbusy", "active\nlanes", "registers"),
        *("achieved\noccupancy", *LEVELS, "FLOPs\n(row)", "instructions\n(row)"),
    ):
        words = heading in ("rung", "kernel")
        table.add_column(heading, justify="left" if words else "right", no_wrap=True)

    def both(measured: float | None, claimed: float) -> str:
        said = number(claimed / units) if claimed else "-"
        return f"{'n/a' if measured is None else number(measured / units)} ({said})"

    for rung in rungs:
        for place, launch in enumerate(rung.launches):

            def cell(name: str, words: str = "{}", of: Mapping[str, float] = launch.values) -> str:
                return words.format(number(of[name])) if name in of else "n/a"

            seen = launch.values
            table.add_row(
                "" if place else rung.variant,
                rung.kernels[place],
                quantity(seen["time"] * 1e-9, "s") if "time" in seen else "n/a",
                *(cell(name, "{} %") for name in ("fp64_issued", "fp64_busy")),
                cell("lanes"),
                f"{seen['registers']:.0f}" if "registers" in seen else "n/a",
                cell("occupancy", "{} %"),
                *(quantity(seen[x], "B") if x in seen else "n/a" for x in LEVELS),
                "" if place else both(rung.flops, rung.executed_flops),
                "" if place else both(rung.instructions, rung.executed_instructions),
            )
    return table


def launch_all(options: argparse.Namespace) -> None:
    """Launch each rung once and write down what it says of itself: what runs under ncu."""
    routine = ado.routines[options.routine]
    operands = random_operands(routine, options.shape, options.dtype)
    problem = routine._core.problem(operands, {}, "cuda")
    rungs = []
    for v in routine:
        wanted = v.name in options.variants if options.variants else not v.ceiling
        if v.device != "cuda" or not wanted or v.why_unavailable or problem.why_refused(v.name):
            continue
        call = problem.prepare(v.name)
        names = tuple(k.name.partition("<")[0] for k in kernels_of(call.kernels()))
        if not names:
            continue
        call.run()
        cost = call.cost
        rungs.append(
            Rung(v.name, tuple(call.block), names, cost.executed_flops, cost.executed_instructions)
        )
    ado.synchronize()
    plan = {"problem": problem.description, "rungs": [dataclasses.asdict(r) for r in rungs]}
    options.launch.write_text(json.dumps(plan))


def profiled(options: argparse.Namespace) -> tuple[list[Rung], str]:
    """Run ncu on this script; the rungs with their counters, and the problem in words."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise SystemExit("ncu is not installed, or not on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        plan, log = Path(folder) / "plan.json", Path(folder) / "ncu.csv"
        profiler = [ncu, "--target-processes", "all", "--clock-control", "none"]
        profiler += ["--cache-control", "all", "--csv", "--page", "raw", "--print-units", "base"]
        left_out = () if options.instructions else INSTRUCTIONS
        metrics = [metric for name, metric in METRICS.items() if name not in left_out]
        profiler += ["--log-file", str(log), "--metrics", ",".join(metrics)]
        script = [sys.executable, __file__, *sys.argv[1:], "--launch", str(plan)]
        done = subprocess.run([*profiler, *script], check=False)
        text = log.read_text() if log.exists() else ""
        if done.returncode:
            messages = [line for line in text.splitlines() if line.startswith("==")]
            raise SystemExit("\n".join([*messages, f"ncu ended with {done.returncode}"]))
        stored = json.loads(plan.read_text())
    tuples = ("block", "kernels", "launches")
    rungs = [Rung(**{**r, **{name: tuple(r[name]) for name in tuples}}) for r in stored["rungs"]]
    assign(rungs, read_csv(text.splitlines()))
    return rungs, stored["problem"]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("routine", choices=list(ado.routines))
    parser.add_argument(
        "--shape", type=lambda text: tuple(map(int, text.lower().split("x"))), help="its lengths"
    )
    parser.add_argument("--dtype", help="where the routine leaves it open")
    parser.add_argument("--variants", type=lambda text: text.split(","), help="comma-separated")
    parser.add_argument("--no-instructions", dest="instructions", action="store_false")
    parser.add_argument("--json", type=Path, help="where to store what was counted")
    parser.add_argument("--into", type=Path, help="a stored sweep to add it to")
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    if options.launch:
        launch_all(options)
        return
    rungs, problem = profiled(options)
    lengths: Sequence[Any] = options.shape or tuple(ORACLES[options.routine].lengths.values())
    show(Console(), [table_of(rungs, math.prod(lengths), f"{options.routine}, {problem}")])
    if options.json:
        records = [dataclasses.asdict(rung) for rung in rungs]
        for record, rung in zip(records, rungs, strict=True):
            record["launches"] = [launch._asdict() for launch in rung.launches]
        options.json.write_text(json.dumps({"problem": problem, "rungs": records}) + "\n")
    if options.into:
        sweep = ado.load(options.into)
        if not isinstance(sweep, ado.Sweep):
            raise SystemExit(f"{options.into} holds no sweep")
        filled(sweep, rungs, problem).save(options.into)


if __name__ == "__main__":
    main()
