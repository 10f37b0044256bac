"""Compares hardware counters of every CUDA variant of a routine with the variant's own formulas.

    python benchmarks/counters.py gpp --shape 64x128x1024x2
    python benchmarks/counters.py gpp --shape 800x1385x11075x2 --into sweep.json

The script runs itself under ncu and launches each variant once with cold caches. FLOPs and
instructions are those of FP64, divided by the product of the problem's lengths. The values of the
variant's own formulas are in brackets. Variants whose kernels are not the library's own are
omitted. --into adds measured FLOPs and bytes to a stored sweep of the same problem. Counting
instructions makes kernels many times slower; --no-instructions disables it.
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
from adokernels.arrays.operands import random_operands
from adokernels.tables.numbers import number, quantity
from adokernels.tables.rendering import show
from adokernels.tasks import TASKS

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
#: Units under `--print-units base`, by their names in several versions of ncu.
UNITS = {"time": ("ns", "nsecond"), **dict.fromkeys(LEVELS, ("byte",))}


class Launch(NamedTuple):
    """One kernel launch with the values of METRICS that ncu reports; time in nanoseconds."""

    kernel: str
    values: dict[str, float]


@dataclasses.dataclass
class Counted:
    """The kernels of a variant: as the variant reports them, and as ncu measured them."""

    variant: str
    block: tuple[int, ...]
    kernels: tuple[str, ...]
    executed_flops: float
    executed_instructions: float
    launches: tuple[Launch, ...] = ()

    def total(self, *names: str) -> float | None:
        """The sum over kernels; None if ncu does not report one of the values."""
        values = [launch.values.get(name) for launch in self.launches for name in names]
        return None if None in values else math.fsum(values)

    @property
    def instructions(self) -> float | None:
        """FP64 instructions, counted per thread."""
        return self.total(*INSTRUCTIONS)

    @property
    def flops(self) -> float | None:
        """FP64 FLOPs."""
        return self.total(*INSTRUCTIONS, "fma")

    @property
    def bytes(self) -> dict[str, float]:
        """Bytes moved at each level, in both directions."""
        totals = {level: self.total(level) for level in LEVELS}
        return {level: total for level, total in totals.items() if total is not None}


def read_csv(lines: Iterable[str]) -> list[Launch]:
    """Read the output of ``ncu --csv --page raw --print-units base``.

    Messages precede the header, and a row of units follows it. Numbers have thousands separators.
    Unknown values are written ``n/a``.
    """
    table = [line for line in lines if line.startswith('"')]
    if len(table) < 2:
        return []
    header, units, *rows = csv.reader(table)
    places = {name: header.index(metric) for name, metric in METRICS.items() if metric in header}
    for name, place in places.items():
        if units[place] not in UNITS.get(name, (units[place],)):
            raise ValueError(f"{METRICS[name]} must be in {UNITS[name][0]}, got {units[place]}")
    kernel = header.index("Kernel Name")
    return [Launch(row[kernel], numbers_of(row, places)) for row in rows]


def numbers_of(row: Sequence[str], places: Mapping[str, int]) -> dict[str, float]:
    found = {}
    for name, place in places.items():
        with contextlib.suppress(ValueError):  # unknown values are missing, not 0
            found[name] = float(row[place].replace(",", ""))
    return found


def assign(variants: Sequence[Counted], launches: Sequence[Launch]) -> None:
    """Assign the launches to the variants; both are in the same order.

    Raises
    ------
    ValueError
        If the launched kernels are not those that the variants report.
    """
    expected = [(counted, name) for counted in variants for name in counted.kernels]
    if len(expected) != len(launches):
        raise ValueError(f"variants must launch {len(expected)} kernels, got {len(launches)}")
    for (counted, name), launch in zip(expected, launches, strict=True):
        base = name.rpartition("::")[2]  # ncu writes no namespaces
        if not re.search(rf"\b{re.escape(base)}\b", launch.kernel):
            raise ValueError(f"{counted.variant} must launch {name}, got {launch.kernel}")
        counted.launches += (launch,)


def filled(sweep: ado.Sweep, variants: Sequence[Counted], problem: ado.Problem) -> ado.Sweep:
    """The sweep with the counts of its variants.

    Raises
    ------
    ValueError
        If the sweep measured another problem, or a variant with another block.
    """
    by_name = {counted.variant: counted for counted in variants}
    if others := {m.problem for m in sweep} - {problem}:
        raise ValueError(f"sweep must be of {problem}, got {', '.join(map(str, others))}")

    def with_counts(m: ado.Measurement) -> ado.Measurement:
        counted = by_name.get(m.variant)
        if counted is None:
            return m
        if m.block != counted.block:
            raise ValueError(
                f"{m.variant} must have block {counted.block} in the sweep, got {m.block}"
            )
        return dataclasses.replace(
            m, measured_flops=counted.flops or None, measured_bytes=counted.bytes
        )

    return dataclasses.replace(sweep, measurements=tuple(map(with_counts, sweep)))


def table_of(variants: Sequence[Counted], units: int, title: str) -> Table:
    table = Table(title=title)
    for heading in (
        *("variant", "kernel", "time", "FP64\nissued", "FP64\nbusy", "active\nlanes", "registers"),
        *("achieved\noccupancy", *LEVELS, "FLOPs\n(formula)", "instructions\n(formula)"),
    ):
        words = heading in ("variant", "kernel")
        table.add_column(heading, justify="left" if words else "right", no_wrap=True)

    def both(measured: float | None, claimed: float) -> str:
        said = number(claimed / units) if claimed else "-"
        return f"{'n/a' if measured is None else number(measured / units)} ({said})"

    for counted in variants:
        for place, launch in enumerate(counted.launches):

            def cell(name: str, words: str = "{}", of: Mapping[str, float] = launch.values) -> str:
                return words.format(number(of[name])) if name in of else "n/a"

            seen = launch.values
            table.add_row(
                "" if place else counted.variant,
                counted.kernels[place],
                quantity(seen["time"] * 1e-9, "s") if "time" in seen else "n/a",
                *(cell(name, "{} %") for name in ("fp64_issued", "fp64_busy")),
                cell("lanes"),
                f"{seen['registers']:.0f}" if "registers" in seen else "n/a",
                cell("occupancy", "{} %"),
                *(quantity(seen[x], "B") if x in seen else "n/a" for x in LEVELS),
                "" if place else both(counted.flops, counted.executed_flops),
                "" if place else both(counted.instructions, counted.executed_instructions),
            )
    return table


def launch_all(options: argparse.Namespace) -> None:
    """Launch each variant once and store the values that it reports; this runs under ncu."""
    routine = ado.routines[options.routine]
    operands = random_operands(routine, options.shape, options.dtype)
    problem = routine.problem(*operands, device="cuda")
    variants = []
    for v in routine:
        wanted = v.name in options.variants if options.variants else not v.ceiling
        if v.device != "cuda" or not wanted or v.why_unavailable or problem.why_not(v.name):
            continue
        call = problem.prepare(v.name)
        names = tuple(k.name.partition("<")[0] for k in call.kernels())
        if not names:
            continue
        call.run()
        cost = call.cost
        variants.append(
            Counted(
                v.name, tuple(call.block), names, cost.executed_flops, cost.executed_instructions
            )
        )
    ado.synchronize()
    described = ado.Problem.of(problem.operands, problem.options)
    plan = {"problem": described.to_dict(), "variants": [dataclasses.asdict(r) for r in variants]}
    options.launch.write_text(json.dumps(plan))


def profiled(options: argparse.Namespace) -> tuple[list[Counted], ado.Problem]:
    """Run this script under ncu; return the variants with their counters, and the problem."""
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
    variants = [
        Counted(**{**r, **{name: tuple(r[name]) for name in tuples}}) for r in stored["variants"]
    ]
    assign(variants, read_csv(text.splitlines()))
    return variants, ado.Problem.from_dict(stored["problem"])


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("routine", choices=list(ado.routines))
    parser.add_argument(
        "--shape", type=lambda text: tuple(map(int, text.lower().split("x"))), help="its lengths"
    )
    parser.add_argument("--dtype", help="element type, if the routine accepts several")
    parser.add_argument("--variants", type=lambda text: text.split(","), help="comma-separated")
    parser.add_argument("--no-instructions", dest="instructions", action="store_false")
    parser.add_argument("--json", type=Path, help="output file for the counters")
    parser.add_argument("--into", type=Path, help="stored sweep to add the counters to")
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    if options.launch:
        launch_all(options)
        return
    variants, problem = profiled(options)
    lengths: Sequence[Any] = options.shape or tuple(TASKS[options.routine].lengths.values())
    show(Console(), [table_of(variants, math.prod(lengths), f"{options.routine}, {problem}")])
    if options.json:
        records = [dataclasses.asdict(counted) for counted in variants]
        for record, counted in zip(records, variants, strict=True):
            record["launches"] = [launch._asdict() for launch in counted.launches]
        options.json.write_text(
            json.dumps({"problem": problem.to_dict(), "variants": records}) + "\n"
        )
    if options.into:
        sweep = ado.load(options.into)
        if not isinstance(sweep, ado.Sweep):
            raise SystemExit(f"{options.into} must contain a sweep")
        filled(sweep, variants, problem).save(options.into)


if __name__ == "__main__":
    main()
