"""The commands on stored measurements: ``compare``, ``diagnose`` and ``report``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

import adokernels as ado
from adokernels.cli.arguments import WRONG, Commands, output_file, share, write_files
from adokernels.text import percent


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    compare = commands.add(
        "compare",
        _run_compare,
        "Compare two stored sweeps of the same problem, variant by variant",
        "before.json after.json --fail-if-slower 5%",
        "--plot",
    )
    compare.add_argument("before", type=Path, help="JSON file of a sweep")
    compare.add_argument("after", type=Path, help="JSON file of a sweep")
    compare.add_argument(
        "--fail-if-slower",
        type=share,
        metavar="PERCENT",
        help="exit with 1 if a variant became slower by more than this, for example 5%%",
    )
    compare.add_argument(
        "--across-machines", action="store_true", help="allow sweeps of different machines"
    )

    diagnose = commands.add(
        "diagnose",
        _run_diagnose,
        "Report the limiter and the next step of each variant of a stored sweep",
        "transpose.json",
    )
    diagnose.add_argument("measurements", type=Path, help="JSON file of a sweep")

    report = commands.add(
        "report",
        _run_report,
        "Write an HTML report of stored measurements",
        "transpose.json gpp.json --out report.html",
    )
    report.add_argument("measurements", type=Path, nargs="+", help="JSON files of sweeps")
    report.add_argument("--out", type=output_file(), default=Path("report.html"))


def _run_compare(options: argparse.Namespace, console: Console) -> int:
    changes = ado.compare(options.before, options.after, across_machines=options.across_machines)
    console.print(changes)
    write_files(changes, options, console)
    slower = [] if options.fail_if_slower is None else changes.slower(options.fail_if_slower)
    for change in slower:
        increase = percent(1 / change.comparison.ratio - 1)
        print(f"adokernels: {change.variant} takes {increase} longer", file=sys.stderr)
    return WRONG if slower else 0


def _run_diagnose(options: argparse.Namespace, console: Console) -> None:
    console.print(ado.diagnose(ado.records.Sweep.load(options.measurements)))


def _run_report(options: argparse.Namespace, console: Console) -> None:
    sweeps = [ado.records.Sweep.load(path) for path in options.measurements]
    ado.write_report(options.out, title="adokernels: measurements", sweeps=sweeps)
    console.print(f"wrote {options.out}")
