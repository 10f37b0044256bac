"""The command line: ``adokernels tour | info | list | bench | check | profile | ...``."""

from __future__ import annotations

import argparse
import ast
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

import adokernels as ado
from adokernels import _core, tour
from adokernels.arrays.operands import random_operands
from adokernels.charts.files import save
from adokernels.counters.metrics import METRIC_SETS
from adokernels.measuring.context import context
from adokernels.measuring.nsight_report import SUFFIX, write_nsight_report
from adokernels.tables.measurements import sweep_tables
from adokernels.tables.numbers import percent
from adokernels.tables.rendering import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_NO_DEVICE, _USAGE = 3, 2
#: Width of a table of ceilings; a narrower terminal wraps its lines.
_MIN_WIDTH = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns
    -------
    int
        0 on success, 1 if ``check`` finds a wrong result or ``compare`` a slower variant, 2 for a
        wrong argument, 3 for a missing device.
    """
    options = _parser().parse_args(arguments)
    console = Console(markup=False, emoji=False)  # names and paths are literal
    console.width = max(console.width, _MIN_WIDTH)
    try:
        return options.run(options, console) or 0
    except (ValueError, KeyError, TypeError, OSError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        print(f"adokernels: {text}", file=sys.stderr)
        return _USAGE
    except MemoryError as error:
        print(f"adokernels: not enough memory: {error}", file=sys.stderr)
        return 1
    except ado.Unavailable as error:
        print(f"adokernels: {error}", file=sys.stderr)
        return _NO_DEVICE
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="adokernels", description="Run, measure and compare ladders of kernels."
    )
    parser.add_argument("--version", action="version", version=f"adokernels {ado.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    tour_command = commands.add_parser(
        "tour", help="find edges in a photograph and measure every ladder"
    )
    tour_command.add_argument("--image", type=Path, help="use this picture file")
    tour_command.add_argument(
        "--out", type=Path, default=Path("adokernels-tour"), help="output folder"
    )
    tour_command.add_argument("--size", type=_size, help="upper limit for every length")
    tour_command.set_defaults(run=_run_tour)

    info = commands.add_parser("info", help="show the build, the devices and their ceilings")
    info.add_argument("--refresh", action="store_true", help="measure the ceilings again")
    info.set_defaults(run=_run_info)

    ladders = commands.add_parser("list", help="show the routines and their ladders")
    ladders.add_argument("routine", nargs="?", help="show only this routine")
    ladders.set_defaults(run=_run_list)

    problem = argparse.ArgumentParser(add_help=False)
    problem.add_argument("routine")
    problem.add_argument("--shape", type=_lengths, help="lengths, for example 1600x2560")
    problem.add_argument(
        "--dtype", type=_dtype, help="element type, if the routine accepts several"
    )
    _add_set(problem)
    problem.add_argument("--cache", choices=("cold", "warm"), default="cold")
    problem.add_argument("--json", type=Path, help="output file for the measurements")

    bench = commands.add_parser("bench", parents=[problem], help="measure one ladder")
    bench.add_argument("--device", metavar="{cpu,cuda,cuda:N}")
    bench.add_argument(
        "--variants", type=lambda text: text.split(","), help="comma-separated names"
    )
    bench.add_argument("--seconds", type=float, default=3.0, help="maximum time per variant")
    bench.add_argument(
        "--counters",
        nargs="?",
        const="default",
        choices=tuple(METRIC_SETS),
        help="read hardware counters after timing (CUDA)",
    )
    bench.add_argument(
        "--plot", type=_chart_path, help="output file for the chart (.png, .svg, .pdf)"
    )
    bench.set_defaults(run=_run_bench)

    check = commands.add_parser(
        "check",
        help="check your own kernel or function against a routine",
        description="Compile and check a kernel (.cu) or a Python function (.py), then time it.",
    )
    check.add_argument("file", type=Path, help="CUDA C++ source or a Python module")
    check.add_argument("--routine", required=True, help="the routine that it computes")
    check.add_argument("--kernel", required=True, help="name of the kernel or of the function")
    check.add_argument("--block", type=_lengths, default=(256,), help="for example 32x8")
    check.add_argument("--tile", type=_lengths, help="elements per block, if not one per thread")
    check.add_argument("--grid", type=_lengths, help="default: enough blocks for the result")
    check.add_argument("--shape", type=_lengths, help="lengths of the timed problem")
    check.add_argument("--dtype", type=_dtype, help="element type of the operands")
    _add_set(check)
    check.add_argument("--against", type=lambda text: text.split(","), help="names of variants")
    check.add_argument("--no-timing", action="store_true", help="check the results only")
    check.add_argument("--seconds", type=float, default=1.0, help="maximum time per variant")
    check.add_argument("--json", type=Path, help="output file for the result")
    check.set_defaults(run=_run_check)

    profile = commands.add_parser(
        "profile", parents=[problem], help="read the hardware counters of one CUDA variant"
    )
    profile.add_argument(
        "variant", nargs="?", help="name of the variant; default: the one that a call uses"
    )
    output = profile.add_mutually_exclusive_group()
    output.add_argument(
        "--metrics",
        type=lambda text: text if text in METRIC_SETS else text.split(","),
        default="default",
        help=f"{', '.join(METRIC_SETS)}, or comma-separated names as in Nsight Compute",
    )
    output.add_argument(
        "--ncu",
        type=_report_path,
        metavar="FILE.ncu-rep",
        help="write a report with source for the GUI of Nsight Compute (runs ncu)",
    )
    profile.set_defaults(run=_run_profile)

    compare = commands.add_parser(
        "compare", help="compare two stored sweeps of the same problem, variant by variant"
    )
    compare.add_argument("before", type=Path, help="JSON file of a sweep")
    compare.add_argument("after", type=Path, help="JSON file of a sweep")
    compare.add_argument(
        "--fail-if-slower",
        type=_share,
        metavar="PERCENT",
        help="exit with 1 if a variant became slower by more than this, for example 5%%",
    )
    compare.add_argument(
        "--across-machines", action="store_true", help="allow sweeps of different machines"
    )
    compare.add_argument(
        "--plot", type=_chart_path, help="output file for the chart (.png, .svg, .pdf)"
    )
    compare.set_defaults(run=_run_compare)

    diagnose = commands.add_parser(
        "diagnose", help="report the limiter and the next step of each variant of a stored sweep"
    )
    diagnose.add_argument("measurements", type=Path, help="JSON file of a sweep")
    diagnose.set_defaults(run=_run_diagnose)

    report = commands.add_parser("report", help="write an HTML report of stored measurements")
    report.add_argument("measurements", type=Path, nargs="+", help="JSON files of sweeps")
    report.add_argument("--out", type=Path, default=Path("report.html"))
    report.set_defaults(run=_run_report)
    return parser


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the routine, for example border=replicate",
    )


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _lengths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(length) for length in text.lower().split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be lengths such as 1600x2560, got {text!r}"
        ) from None


def _share(text: str) -> float:
    """Convert ``5%`` or ``5`` to 0.05."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < np.inf:
        raise argparse.ArgumentTypeError(f"must be a percentage such as 5%, got {text!r}")
    return share


def _chart_path(text: str) -> Path:
    """Reject an unsupported chart format before anything is measured."""
    path, known = Path(text), (".png", ".svg", ".pdf")
    if path.suffix.lower() not in known:
        raise argparse.ArgumentTypeError(f"must end in {', '.join(known)}, got {text!r}")
    return path


def _report_path(text: str) -> Path:
    if not text.endswith(SUFFIX):
        raise argparse.ArgumentTypeError(f"must end in {SUFFIX}, got {text!r}")
    return Path(text)


def _dtype(text: str) -> np.dtype[Any]:
    try:
        return np.dtype(text)
    except (TypeError, ValueError, SyntaxError) as error:
        raise argparse.ArgumentTypeError(f"must be a data type, got {text!r}: {error}") from error


def _option(text: str) -> tuple[str, Any]:
    """``border=replicate`` or ``taps=1,2,3,4,3,2,1``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name, float(value) if value in ("inf", "nan") else value


def _run_tour(options: argparse.Namespace, console: Console) -> None:
    tour.run(options.out, options.image, options.size, console)


def _run_info(options: argparse.Namespace, console: Console) -> None:
    console.print(f"adokernels {ado.__version__}, instruction set {_core.isa()}")
    console.print(f"CUDA: {_core.why_no_cuda() or context('cuda')['device_name']}")
    devices = ["cpu"] + ([] if _core.why_no_cuda() else ["cuda"])
    for device in devices:
        console.print(ado.machine(device, refresh=options.refresh))


def _run_list(options: argparse.Namespace, console: Console) -> None:
    for routine in [_routine(options.routine)] if options.routine else ado.routines.values():
        console.print(routine)


def _run_bench(options: argparse.Namespace, console: Console) -> None:
    routine, operands, settings = _problem(options)
    sweep = ado.sweep(
        routine,
        *operands,
        device=options.device,
        variants=options.variants,
        cache=options.cache,
        seconds=options.seconds,
        counters=options.counters or False,
        **settings,
    )
    show(console, sweep_tables(sweep))
    if options.json:
        sweep.save(options.json)
        console.print(f"wrote {options.json}")
    if options.plot:
        figure = Figure(figsize=(10, 6), layout="constrained")
        ado.roofline(sweep, ax=figure.add_subplot())
        save(figure, options.plot, dpi=150)
        console.print(f"wrote {options.plot}")


def _run_check(options: argparse.Namespace, console: Console) -> int:
    routine, operands, settings = _problem(options)
    name = options.kernel.partition("<")[0]
    if options.file.suffix == ".py":
        module = runpy.run_path(str(options.file))
        if name not in module:
            raise ValueError(f"{options.file} must define {name}")
        variant = ado.variant(module[name])
    else:
        variant = ado.cuda_variant(
            name,
            source=options.file.read_text(encoding="utf-8"),
            kernel=options.kernel,
            block=options.block,
            tile=options.tile,
            grid=options.grid,
            file=str(options.file),
        )
    try:
        result = ado.check(
            variant,
            routine,
            *operands,
            against=options.against,
            timed=not options.no_timing,
            seconds=options.seconds,
            **settings,
        )
    except ado.CompilationError as error:
        result = ado.Checked(routine.name, name, False, f"it does not compile\n{error.log}")
    console.print(repr(result), markup=False, highlight=False)
    if options.json:
        result.save(options.json)
        console.print(f"wrote {options.json}")
    return 0 if result else 1


def _run_profile(options: argparse.Namespace, console: Console) -> None:
    routine, operands, settings = _problem(options)
    if options.ncu:
        _write_nsight_report(options, console, routine, operands, settings)
        return
    what = routine[options.variant] if options.variant else routine
    profile = ado.profile(what, *operands, metrics=options.metrics, cache=options.cache, **settings)
    console.print(profile)
    if options.json:
        profile.save(options.json)
        console.print(f"wrote {options.json}")


def _write_nsight_report(
    options: argparse.Namespace,
    console: Console,
    routine: ado.Routine,
    operands: tuple[NDArray[Any], ...],
    settings: dict[str, Any],
) -> None:
    if options.json:
        raise ValueError("--json must not be combined with --ncu")
    name = options.variant or routine.choose(*operands, device="cuda", **settings).variant
    write_nsight_report(options.ncu, routine[name], *operands, cache=options.cache, **settings)
    console.print(f"wrote {options.ncu}; open it with ncu-ui")


def _problem(
    options: argparse.Namespace,
) -> tuple[ado.Routine, tuple[NDArray[Any], ...], dict[str, Any]]:
    """The routine, random operands and the options of a command that runs one problem."""
    routine = _routine(options.routine)
    known = list(routine.options)
    for name, _ in options.set:
        if name not in known:
            hint = _core.suggest(name, known)
            has = f"has no option {name!r}{hint}" if known else "takes no options"
            raise ValueError(f"{routine.name} {has}")
    if len(dict(options.set)) < len(options.set):
        raise ValueError("--set must give each option once")
    operands = random_operands(routine, options.shape, options.dtype)
    return routine, operands, dict(options.set)


def _run_compare(options: argparse.Namespace, console: Console) -> int:
    changes = ado.compare(options.before, options.after, across_machines=options.across_machines)
    console.print(changes)
    if options.plot:
        figure = Figure(figsize=(8.5, 1.6 + 0.26 * len(changes)), layout="constrained")
        changes.plot(figure.add_subplot())
        save(figure, options.plot, dpi=150)
        console.print(f"wrote {options.plot}")
    slower = [] if options.fail_if_slower is None else changes.slower(options.fail_if_slower)
    for change in slower:
        increase = percent(1 / change.comparison.ratio - 1)
        print(f"adokernels: {change.variant} takes {increase} longer", file=sys.stderr)
    return 1 if slower else 0


def _run_diagnose(options: argparse.Namespace, console: Console) -> None:
    console.print(ado.diagnose(ado.Sweep.load(options.measurements)))


def _run_report(options: argparse.Namespace, console: Console) -> None:
    sweeps = [ado.Sweep.load(path) for path in options.measurements]
    ado.write_report(options.out, title="adokernels: measurements", sweeps=sweeps)
    console.print(f"wrote {options.out}")


def _routine(name: str) -> ado.Routine:
    if name not in ado.routines:
        raise KeyError(f"no routine {name!r}{_core.suggest(name, list(ado.routines))}")
    return ado.routines[name]


if __name__ == "__main__":
    sys.exit(main())
