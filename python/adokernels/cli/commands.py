"""The commands: their arguments, and the functions of the package that they call."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console

import adokernels as ado
from adokernels import _core
from adokernels.cli.arguments import (
    INCONCLUSIVE,
    INTERRUPTED,
    WRONG,
    Commands,
    block_shape,
    expressions,
    lengths,
    names,
    options_of,
    output_file,
    output_folder,
    problem_of,
    save_and_show,
    share,
    size,
)
from adokernels.cli.output import complain
from adokernels.measuring.functions import ResultsDiffer
from adokernels.measuring.nsight_report import SUFFIX, write_nsight_report
from adokernels.model.isolated_process import FileFunction
from adokernels.model.isolation import TIMEOUT
from adokernels.records.loading import Reported
from adokernels.records.metrics import METRIC_SETS
from adokernels.records.record import save_plain
from adokernels.tables.counted import counted_table
from adokernels.tables.machines import machine_tables, refusal
from adokernels.tables.measurements import changes_table, sweep_tables
from adokernels.tables.rendering import show
from adokernels.text import percent

#: Common arguments of the commands that run one routine on random operands.
_PROBLEM = "routine --dtype --set --cache"
#: Maximum seconds per ladder, so that all ladders take at most ten minutes.
_SECONDS_OF_ALL = 8.0
#: Why a report refuses a sweep on the emulator.
_NO_TIMES = "a report shows times, but a sweep on the emulator has counts; use adokernels diagnose"


def add_commands(commands: Commands) -> None:
    """Add all commands, in the order of the help."""
    tour = commands.add(
        "tour",
        _run_tour,
        "Find edges in a photograph, measure three ladders, and write a report",
        "--image holiday.jpg --out my-tour",
    )
    tour.add_argument("--image", type=Path, help="use this picture file")
    folder = Path("adokernels-tour")
    tour.add_argument(
        "--out", type=output_folder, default=folder, help="output folder (%(default)s)"
    )
    limited = "upper limit for every length; does not apply to the photograph"
    tour.add_argument("--size", type=size, help=limited)
    tour.add_argument("--all", action="store_true", help="measure every ladder on every device")

    sentence = "Show the build, the devices and their ceilings"
    info = commands.add("info", _run_info, sentence, "--refresh")
    info.add_argument("--refresh", action="store_true", help="measure the ceilings again")

    sentence = "Show all routines, or the ladder of one routine"
    ladders = commands.add("list", _run_list, sentence, "transpose", "--json")
    ladders.add_argument("routine", nargs="?", help="show the ladder of this routine")

    bench = commands.add(
        "bench",
        _run_bench,
        "Measure one ladder, or all",
        "transpose --shape 4096x4096 --json transpose.json --plot transpose.png",
        "[routine] --dtype --set --cache --shape --device --variants --seconds --json --plot",
        cache="cold",
        seconds=10.0,
    )
    bench.add_argument(
        "--counters",
        nargs="?",
        const="default",
        choices=tuple(METRIC_SETS),
        help="read hardware counters after timing (CUDA)",
    )
    sentence = "measure every ladder once, in at most ten minutes, and store the records in --out"
    bench.add_argument("--all", action="store_true", help=sentence)
    sentence = "folder for --all; existing records are kept, so that a run can be continued"
    bench.add_argument("--out", type=output_folder, help=sentence)
    bench.set_defaults(parse=lambda given: bench.parse_args(list(given)))
    bench.add_argument(
        "--no-limiter",
        dest="limiter",
        action="store_const",
        const=False,
        help="skip the experiments that show limiters without counters",
    )

    scan = commands.add(
        "scan",
        _run_scan,
        "Measure one routine over a range of sizes",
        "transpose --shapes 512x512 2048x2048 8192x8192 --plot scan.png",
        f"{_PROBLEM} --device --variants --seconds --json --plot",
        cache="warm",
        seconds=15.0,
    )
    scan.add_argument(
        "--shapes",
        type=lengths,
        nargs="+",
        metavar="SHAPE",
        help="lengths of each problem; default: from 4 KiB to 256 MiB",
    )
    sentence = "find the size from which a GPU pays off for arrays in host memory"
    scan.add_argument("--copies", action="store_true", help=sentence)

    check = commands.add(
        "check",
        _run_check,
        "Check your own kernel (.cu) or Python function (.py) against a routine, then time it",
        "my_transpose.cu --routine transpose --kernel my_transpose --block 32x8",
        "--shape --dtype --set --device --seconds --json",
        seconds=3.0,
    )
    check.add_argument("file", type=Path, help="CUDA C++ source or a Python module")
    check.add_argument("--routine", required=True, help="the routine that it computes")
    check.add_argument("--kernel", required=True, help="name of the kernel or of the function")
    check.add_argument("--block", type=block_shape, default=(256,), help="for example 32x8")
    check.add_argument("--tile", type=lengths, help="elements per block, if not one per thread")
    check.add_argument("--grid", type=lengths, help="default: enough blocks for the result")
    check.add_argument("--against", type=names, help="comma-separated names of variants")
    check.add_argument(
        "--trusted", action="store_true", help="the source may include files from any folder"
    )
    check.add_argument("--no-timing", action="store_true", help="check the results only")
    sentence = "seconds that a call may take (%(default)g)"
    check.add_argument("--timeout", type=float, default=TIMEOUT, help=sentence)

    profile = commands.add(
        "profile",
        _run_profile,
        "Read the hardware counters of one CUDA variant, or count it on the emulator",
        "transpose tiled --shape 8192x8192",
        f"{_PROBLEM} --shape --device --json",
        cache="cold",
    )
    sentence = "name of the variant; default: the one that a call uses"
    profile.add_argument("variant", nargs="?", help=sentence)
    output = profile.add_mutually_exclusive_group()
    output.add_argument(
        "--metrics",
        type=lambda text: text if text in METRIC_SETS else names(text),
        default="default",
        help=f"{', '.join(METRIC_SETS)}, or comma-separated names as in Nsight Compute",
    )
    output.add_argument(
        "--ncu",
        type=output_file(SUFFIX),
        metavar="FILE.ncu-rep",
        help="write a report with source for the GUI of Nsight Compute (runs ncu)",
    )

    compare = commands.add(
        "compare",
        _run_compare,
        "Compare two stored sweeps variant by variant, or expressions timed in the same rounds",
        "before.json after.json --fail-if-slower 5%",
        "--cache --device --seconds --json --markdown --plot",
        cache="warm",
        seconds=3.0,
    )
    words = (
        "JSON files of two sweeps, or Python expressions, in which np and ado are imported: "
        '"np.sum(x)" "x.sum()" --setup "x = np.ones(9)"'
    )
    compare.add_argument("what", nargs="+", help=words)
    sentence = "Python statements before the expressions; may be given several times"
    compare.add_argument("--setup", action="append", default=[], help=sentence)
    compare.add_argument("--tolerance", type=float, help="largest allowed difference of results")
    compare.add_argument(
        "--fail-if-slower",
        type=share,
        metavar="PERCENT",
        help="exit with 1 if a variant became slower by more than this, for example 5%%, with 4 if "
        "that is unknown",
    )
    compare.add_argument(
        "--across-machines", action="store_true", help="allow sweeps of different machines"
    )

    diagnose = commands.add(
        "diagnose",
        _run_diagnose,
        "Report the limiter and the next step of each variant of a stored sweep",
        "transpose.json",
        "--json",
    )
    words = "JSON file of a sweep, or a report of Nsight Compute: .ncu-rep, .csv"
    diagnose.add_argument("measurements", type=Path, help=words)

    report = commands.add(
        "report",
        _run_report,
        "Write an HTML report of stored sweeps, scans and comparisons",
        "transpose.json results/ --out report.html",
    )
    sentence = "JSON files, or folders; machines are also shown side by side"
    report.add_argument("measurements", type=Path, nargs="+", help=sentence)
    page = Path("report.html")
    report.add_argument("--out", type=output_file(), default=page, help="output file (%(default)s)")


def _run_tour(options: argparse.Namespace, console: Console) -> int:
    from adokernels.tour import tour  # loads matplotlib

    settings = {"size": options.size, "everything": options.all}
    return INTERRUPTED if tour(options.out, console, image=options.image, **settings) else 0


def _run_info(options: argparse.Namespace, console: Console) -> None:
    from adokernels.measuring.context import context

    console.print(f"adokernels {ado.__version__}, instruction set {_core.isa()}")
    console.print(f"CUDA: {_core.why_no_cuda() or context('cuda')['device_name']}")
    devices = ["cpu"] + ([] if _core.why_no_cuda() else ["cuda"])
    for device in devices:
        console.print(ado.machine(device, refresh=options.refresh))


#: The facts about a variant in the file of ``list --json``.
_FACTS = ["name", "device", "changes", "steps", "precision", "ceiling", "blocks", "stages"]


def _run_list(options: argparse.Namespace, console: Console) -> None:
    chosen = [ado.routines[options.routine]] if options.routine else list(ado.routines.values())
    if options.json:
        ladders = [
            {
                "name": routine.name,
                "summary": routine.summary,
                "variants": [
                    {fact: getattr(v, fact) for fact in (*_FACTS, "available", "why_unavailable")}
                    for v in routine
                ],
            }
            for routine in chosen
        ]
        save_plain(options.json, "ladders", {"ladders": ladders})
    console.print(chosen[0] if options.routine else ado.routines)
    if options.json:
        console.print(f"wrote {options.json}")


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    """The common arguments of `sweep` and `scan`."""
    return {name: vars(options)[name] for name in ("device", "variants", "cache", "seconds")}


def _run_bench(options: argparse.Namespace, console: Console) -> int:
    if options.all:
        return _bench_all(options, console)
    if options.routine is None:
        raise ValueError("bench needs a routine, or --all with --out FOLDER")
    if options.out is not None:
        raise ValueError("--out must be used with --all; --json FILE stores one ladder")
    routine, operands, settings = problem_of(options)
    how = {"counters": options.counters or False, "limiter": options.limiter}
    sweep = ado.sweep(routine, *operands, **how, **_measured(options), **settings)
    if isinstance(sweep, ado.records.CountedSweep):
        width = shutil.get_terminal_size((console.width, 0)).columns
        table = counted_table(sweep, width)
        save_and_show(sweep, options, console, lambda: show(console, [table]))
        return 0
    save_and_show(sweep, options, console, lambda: show(console, sweep_tables(sweep)))
    return INTERRUPTED if sweep.interrupted else 0


def _bench_all(options: argparse.Namespace, console: Console) -> int:
    from adokernels.cli.everything import measure_all

    if options.out is None or options.routine is not None:
        raise ValueError("--all needs --out FOLDER and no routine")
    how = {"cache": options.cache, "limiter": options.limiter}
    how["seconds"] = min(options.seconds, _SECONDS_OF_ALL)
    interrupted = measure_all(options.out, options.device, options.parse, console, **how)
    return INTERRUPTED if interrupted else 0


def _run_scan(options: argparse.Namespace, console: Console) -> int:
    routine = ado.routines[options.routine]
    settings = _measured(options) | options_of(options, routine) | {"copies": options.copies}
    found = ado.scan(routine, shapes=options.shapes, dtype=options.dtype, **settings)
    save_and_show(found, options, console)
    return INTERRUPTED if found.interrupted else 0


def _run_check(options: argparse.Namespace, console: Console) -> int:
    routine, operands, settings = problem_of(options)
    function = options.kernel.partition("<")[0]
    name = f"{function} of {options.file.name}" if function in routine else function
    if options.file.suffix not in (".cu", ".cuh", ".py"):
        raise ValueError(f"the file must be CUDA C++ (.cu) or Python (.py), got {options.file}")
    if options.file.suffix == ".py":
        options.file.read_bytes()  # raises OSError now, not in the process of the function
        variant = ado.variant(FileFunction(options.file.absolute(), function), name=name)
    else:
        names = ("kernel", "block", "tile", "grid", "trusted")
        launch = {part: vars(options)[part] for part in names}
        source = options.file.read_text("utf-8", "replace")  # machine code is rejected later
        variant = ado.cuda_variant(name, source=source, file=str(options.file), **launch)
    settings |= {"against": options.against, "timed": not options.no_timing}
    settings |= {"seconds": options.seconds, "timeout": options.timeout, "device": options.device}
    given = operands if options.shape or options.dtype else ()
    try:
        result = ado.check(variant, routine, *given, **settings)
    except ado.CompilationError as error:
        reason = f"it does not compile\n{error.log}"
        result = ado.records.CheckResult(routine.name, name, False, reason)
    save_and_show(result, options, console, lambda: console.print(repr(result), highlight=False))
    return 0 if result else WRONG


def _run_profile(options: argparse.Namespace, console: Console) -> None:
    routine, operands, settings = problem_of(options)
    if options.ncu:
        if options.json:
            raise ValueError("--json must not be combined with --ncu")
        name = options.variant or routine.choose(*operands, device="cuda", **settings).variant
        write_nsight_report(options.ncu, routine[name], *operands, cache=options.cache, **settings)
        console.print(f"wrote {options.ncu}; open it with ncu-ui")
        return
    what = routine[options.variant] if options.variant else routine
    settings |= {"metrics": options.metrics, "cache": options.cache, "device": options.device}
    profile = ado.profile(what, *operands, **settings)
    save_and_show(profile, options, console)


def _run_compare(options: argparse.Namespace, console: Console) -> int:
    stored = [text.endswith(".json") or Path(text).is_file() for text in options.what]
    if options.setup and all(stored):
        raise ValueError("--setup is for expressions, not for stored sweeps")
    if len(stored) < 2 or (any(stored) and (len(stored) > 2 or not all(stored))):
        missing = [text for text, found in zip(options.what, stored, strict=True) if not found]
        raise ValueError(
            f"compare needs two files, or two expressions or more, got {', '.join(options.what)}"
            + (f"; no such file: {', '.join(missing)}" if any(stored) and missing else "")
        )
    if all(stored):
        before, after = options.what
        changes = ado.compare(before, after, across_machines=options.across_machines)
    else:
        how = {name: vars(options)[name] for name in ("cache", "device", "seconds", "tolerance")}
        try:
            changes = ado.compare(expressions(options.what, options.setup), **how)
        except ResultsDiffer as error:
            complain(error)
            return WRONG
    save_and_show(changes, options, console, lambda: show(console, [changes_table(changes)]))
    if options.fail_if_slower is None:
        return 0
    slower = changes.slower(options.fail_if_slower)
    for change in slower:
        increase = percent(1 / change.comparison.ratio - 1)
        complain(f"{change.variant} takes {increase} longer")
    unknown = changes.inconclusive(options.fail_if_slower)
    for change in unknown:
        complain(f"inconclusive: {change.variant}: {change.comparison.doubt}")
    return WRONG if slower else INCONCLUSIVE if unknown else 0


def _run_diagnose(options: argparse.Namespace, console: Console) -> None:
    path = options.measurements
    reported = path.suffix in (".csv", ".ncu-rep")
    sweep = ado.import_ncu(path) if reported else ado.load(path)
    if not isinstance(sweep, ado.records.Sweep | ado.records.CountedSweep):
        raise ValueError(
            f"{path} must contain a sweep, got a {sweep.KIND}: write a sweep with adokernels bench "
            "--json"
        )
    save_and_show(ado.diagnose(sweep), options, console)


def _of_folder(folder: Path, console: Console) -> list[Reported]:
    """The records of a folder, without sweeps that do not describe their machine."""
    found: list[Reported] = []
    for path in sorted(folder.rglob("*.json")):
        try:
            record = ado.load(path)
        except ValueError as error:  # not a record
            console.print(f"skipped: {error}")
            continue
        if isinstance(record, ado.records.CountedSweep):
            console.print(f"refused {path}: {_NO_TIMES}")
        if not isinstance(record, Reported):
            continue
        if isinstance(record, ado.records.Sweep) and (reason := refusal(record)):
            console.print(f"refused {path}: {reason}")
        else:
            found.append(record)
    return found


def _run_report(options: argparse.Namespace, console: Console) -> None:
    records: list[Reported] = []
    for path in options.measurements:
        if path.is_dir():
            records += _of_folder(path, console)
            continue
        record = ado.load(path)
        if isinstance(record, ado.records.CountedSweep):
            raise ValueError(f"{path}: {_NO_TIMES}")
        if not isinstance(record, Reported):
            kind = getattr(record, "KIND", "")
            raise ValueError(f"{path} must contain a sweep, scan or comparison, got a {kind}")
        records.append(record)
    if not records:
        raise ValueError("the folders must contain sweeps, scans or comparisons, got none")
    sweeps = (r for r in records if isinstance(r, ado.records.Sweep) and r.variants)
    for table in machine_tables(sweeps):
        show(console, [table])
    ado.write_report(options.out, sweeps=records)
    console.print(f"wrote {options.out}")
