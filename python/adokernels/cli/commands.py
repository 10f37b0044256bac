"""The commands, and the functions of the package that they call."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

import adokernels as ado
from adokernels import _core
from adokernels.cli.arguments import (
    INCONCLUSIVE,
    INTERRUPTED,
    NO_DEVICE,
    WRONG,
    expressions,
    ladder_of,
    options_of,
    problem_of,
    save_and_show,
)
from adokernels.cli.output import complain
from adokernels.isolation.process import FileFunction
from adokernels.measuring.functions import ResultsDiffer
from adokernels.measuring.nsight_report import write_nsight_report
from adokernels.model.compiler import UnknownKernel
from adokernels.records.loading import Reported, load
from adokernels.records.record import plain_json
from adokernels.records.sweep import as_sweep
from adokernels.storage import replace_file
from adokernels.tables.listings import puzzle_table
from adokernels.tables.measurements import machine_tables, refusal
from adokernels.text import percent


class _Plain(NamedTuple):
    """What a command shows, if it is not a record."""

    kind: str
    content: dict[str, Any]

    def to_json(self) -> str:
        """The JSON document."""
        return plain_json(self.kind, self.content)

    def save(self, path: Path) -> None:
        """Write the JSON document to a file."""
        replace_file(path, self.to_json().encode())


#: Runs a command; returns the exit status, None on success.
Run = Callable[[argparse.Namespace, Console], int | None]
#: Why a report refuses a sweep on the emulator.
_NO_TIMES = "a report shows times, but a sweep on the emulator has counts; use adokernels diagnose"


#: The commands in the order of the help: function, example, arguments, and values of arguments.
COMMANDS: dict[str, tuple[Run, str, str, dict[str, Any]]] = {}


def _command(name: str, example: str, arguments: str, **defaults: Any) -> Callable[[Run], Run]:
    """Add a command, whose help is the docstring of the function.

    `arguments` are names in :data:`adokernels.cli.arguments.ARGUMENTS`; those in a word with
    ``|`` exclude each other.
    """

    def add(run: Run) -> Run:
        COMMANDS[name] = run, example, arguments, defaults
        return run

    return add


@_command("tour", "--image holiday.jpg --out my-tour", "--image --out --size --all")
def _run_tour(options: argparse.Namespace, console: Console) -> int:
    """Find edges in a photograph, measure three ladders, and write a report."""
    from adokernels.tour import tour  # loads matplotlib

    settings = {"size": options.size, "everything": options.all}
    return INTERRUPTED if tour(options.out, console, image=options.image, **settings) else 0


@_command("info", "--refresh", "--refresh --json")
def _run_info(options: argparse.Namespace, console: Console) -> None:
    """Show the build, the devices and their ceilings."""
    from adokernels.measuring.context import context

    why_no_cuda = _core.why_no_cuda()
    devices = ["cpu"] + ([] if why_no_cuda else ["cuda"])
    machines = [ado.machine(device, refresh=options.refresh) for device in devices]
    content = {"isa": _core.isa(), "why_no_cuda": why_no_cuda, "machines": machines}

    def show() -> None:
        console.print(f"adokernels {ado.__version__}, instruction set {_core.isa()}")
        console.print(f"CUDA: {why_no_cuda or context('cuda')['device_name']}")
        for machine in machines:
            console.print(machine)

    save_and_show(_Plain("machines", content), options, console, show)


#: The facts about a variant in the file of ``list --json``.
_FACTS = ["name", "device", "changes", "steps", "precision", "ceiling", "blocks", "stages"]


@_command("list", "transpose", "--json [routine]")
def _run_list(options: argparse.Namespace, console: Console) -> None:
    """Show all routines, or the ladder of one routine."""
    chosen = [ado.routines[options.routine]] if options.routine else list(ado.routines.values())
    facts = (*_FACTS, "available", "why_unavailable")
    ladders = [
        {
            "name": routine.name,
            "summary": routine.summary,
            "variants": [{fact: getattr(v, fact) for fact in facts} for v in routine],
        }
        for routine in chosen
    ]
    shown = chosen[0] if options.routine else ado.routines
    what = _Plain("ladders", {"ladders": ladders})
    save_and_show(what, options, console, lambda: console.print(shown))


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    """The common arguments of `sweep` and `scan`."""
    return {name: vars(options)[name] for name in ("device", "variants", "cache", "seconds")}


@_command(
    "bench",
    "transpose --shape 4096x4096 --json transpose.json --plot transpose.png",
    "routine --dtype --set --cache --shape --device --variants --seconds --json --plot "
    "--counters --no-limiter",
    cache="cold",
    seconds=10.0,
)
def _run_bench(options: argparse.Namespace, console: Console) -> int:
    """Measure one ladder."""
    routine, operands, settings = problem_of(options)
    how = {"counters": options.counters or False, "limiter": options.limiter}
    sweep = ado.sweep(routine, *operands, **how, **_measured(options), **settings)
    save_and_show(sweep, options, console)
    return INTERRUPTED if isinstance(sweep, ado.records.Sweep) and sweep.interrupted else 0


@_command(
    "scan",
    "transpose --shapes 512x512 2048x2048 8192x8192 --plot scan.png",
    "routine --dtype --set --cache --device --variants --seconds --json --plot --shapes --copies",
    cache="warm",
    seconds=15.0,
)
def _run_scan(options: argparse.Namespace, console: Console) -> int:
    """Measure one routine over a range of sizes."""
    routine = ado.routines[options.routine]
    settings = _measured(options) | options_of(options, routine) | {"copies": options.copies}
    found = ado.scan(routine, shapes=options.shapes, dtype=options.dtype, **settings)
    save_and_show(found, options, console)
    return INTERRUPTED if found.interrupted else 0


@_command(
    "check",
    "my_transpose.cu --routine transpose --kernel my_transpose --block 32x8",
    "--shape --dtype --set --device --variants --seconds --json file --routine|--ladder --kernel "
    "--block --tile --grid --against --trusted --no-timing --timeout",
    seconds=3.0,
)
def _run_check(options: argparse.Namespace, console: Console) -> int:
    """Check your own kernel (.cu), Python function (.py) or ladder (.py), then time it."""
    if options.ladder:
        return _check_ladder(options, console)
    if not (options.routine and options.kernel):
        raise ValueError("check needs --routine and --kernel, or --ladder")
    routine, operands, settings = problem_of(options)
    function = options.kernel.partition("<")[0]
    name = f"{function} of {options.file.name}" if function in routine else function
    if options.file.suffix not in (".cu", ".cuh", ".py"):
        raise ValueError(f"the file must be CUDA C++ (.cu) or Python (.py), got {options.file}")
    if options.file.exists() and not options.file.is_file():  # opening a pipe waits for a writer
        raise ValueError(f"the file must be a regular file, got {options.file}")
    if options.file.suffix == ".py":
        options.file.read_bytes()  # raises OSError now, not in the process of the function
        where = "cuda" if options.device == "emulator" else "cpu"  # it may launch kernels
        variant = ado.variant(
            FileFunction(options.file.absolute(), function), name=name, device=where
        )
    else:
        names = ("kernel", "block", "tile", "grid", "trusted")
        launch = {part: vars(options)[part] for part in names}
        source = options.file.read_text("utf-8", "replace")  # machine code is rejected later
        variant = ado.cuda_variant(name, source=source, file=str(options.file), **launch)
        if variant.is_compiled:
            raise ValueError("source must be CUDA C++, got PTX")
    settings |= {"against": options.against, "timed": not options.no_timing}
    settings |= {"seconds": options.seconds, "timeout": options.timeout, "device": options.device}
    given = operands if options.shape or options.dtype else ()
    result = _checked(variant, routine, given, settings, named=True)
    save_and_show(result, options, console, lambda: console.print(repr(result), highlight=False))
    return 0 if result else WRONG


def _checked(
    variant: Any, ladder: Any, given: Sequence[Any], how: dict[str, Any], *, named: bool = False
) -> Any:
    """Check a variant. A compilation error is also a verdict.

    If an argument of the command named the kernel (`named`), an unknown kernel is an error.
    """
    try:
        return ado.check(variant, ladder, *given, **how)
    except ado.CompilationError as error:
        if named and isinstance(error, UnknownKernel):
            raise
        return ado.records.CheckResult(ladder.name, variant.name, False, str(error))


def _check_ladder(options: argparse.Namespace, console: Console) -> int:
    """Check the variants of an own ladder on the first of its problems, and on all of them."""
    if options.shape or options.dtype:
        raise ValueError(
            "--shape and --dtype do not apply to --ladder: its problems= has the operands"
        )
    ladder = ladder_of(options.file, options.ladder)
    names = options.variants or [v.name for v in ladder]
    timed = not options.no_timing and options.device != "emulator"
    how = {"against": options.against, "timed": timed}
    how |= {"seconds": options.seconds, "timeout": options.timeout}
    results, unavailable = [], {}
    for name in names:
        # The emulator is for kernels; the other variants of a ladder run on the CPU.
        on_cpu = options.device == "emulator" and ladder[name].device == "cpu"
        how["device"] = None if on_cpu else options.device
        try:
            results.append(_checked(ladder[name], ladder, (), how))
        except ado.Unavailable as error:
            unavailable[name] = error
    if unavailable and not results:
        raise next(iter(unavailable.values()))
    skipped = {name: str(reason) for name, reason in unavailable.items()}
    checks = [result.to_dict() for result in results]
    what = _Plain("checks", {"checks": checks, "skipped": skipped})

    def show() -> None:
        for result in results:
            console.print(repr(result), highlight=False)
        for name, reason in skipped.items():
            console.print(f"skipped {name}: {reason}", highlight=False, markup=False)

    save_and_show(what, options, console, show)
    return WRONG if not all(results) else NO_DEVICE if unavailable else 0


@_command(
    "profile",
    "transpose tiled --shape 8192x8192",
    "routine --dtype --set --cache --shape --device --json [variant] --metrics|--ncu",
    cache="cold",
)
def _run_profile(options: argparse.Namespace, console: Console) -> None:
    """Read the hardware counters of one CUDA variant, or count it on the emulator."""
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


@_command(
    "what-if",
    "transpose naive --device emulator",
    "routine --dtype --set --cache --shape --device --seconds --json [variant] --per-line",
    cache="cold",
    seconds=5.0,
)
def _run_what_if(options: argparse.Namespace, console: Console) -> None:
    """Measure what one CUDA variant would gain from other accesses, or count the accesses."""
    routine, operands, settings = problem_of(options)
    what = routine[options.variant] if options.variant else routine
    settings |= {name: vars(options)[name] for name in ("cache", "device", "seconds", "per_line")}
    save_and_show(ado.what_if(what, *operands, progress=False, **settings), options, console)


@_command(
    "compare",
    "before.json after.json --fail-if-slower 5%",
    "--cache --device --seconds --json --markdown --plot what --setup --tolerance "
    "--fail-if-slower --across-machines",
    cache="warm",
    seconds=3.0,
)
def _run_compare(options: argparse.Namespace, console: Console) -> int:
    """Compare two stored sweeps variant by variant, or expressions timed in the same rounds."""
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
            what = _Plain("difference", {"correct": False, "reason": str(error)})
            options.markdown = options.plot = None
            save_and_show(what, options, console, lambda: None)
            complain(error)
            return WRONG
    save_and_show(changes, options, console)
    if options.fail_if_slower is None:
        return 0
    slower = changes.slower(options.fail_if_slower)
    for change in slower:
        increase = percent(1 / change.comparison.ratio - 1)
        complain(f"{change.variant} takes {increase} longer")
    unknown = changes.inconclusive(options.fail_if_slower)
    for change in unknown:
        complain(f"inconclusive: {change.variant}: {change.doubt}")
    return WRONG if slower else INCONCLUSIVE if unknown else 0


def _read(path: Path) -> Any:
    """Read a stored record or a report of Nsight Compute; a measurement becomes a sweep."""
    if path.suffix in (".csv", ".ncu-rep"):
        return ado.import_ncu(path)
    return as_sweep(load(path))


@_command("diagnose", "transpose.json", "--json measurements")
def _run_diagnose(options: argparse.Namespace, console: Console) -> None:
    """Report the limiter and the next step of each variant of a stored sweep."""
    path = options.measurements
    sweep = _read(path)
    if not isinstance(sweep, ado.records.Sweep | ado.records.CountedSweep):
        raise ValueError(
            f"{path} must contain a sweep, got a {sweep.KIND}: write a sweep with adokernels bench "
            "--json"
        )
    save_and_show(ado.diagnose(sweep), options, console)


def _of_folder(folder: Path, console: Console) -> list[Reported]:
    """The records of a folder, without sweeps that do not describe their machine."""
    found: list[Reported] = []
    for path in sorted([*folder.rglob("*.json"), *folder.rglob("*.json.xz")]):
        try:
            record = as_sweep(load(path))
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


@_command("puzzles", "check index", "[action] [name] [file] --json")
def _run_puzzles(options: argparse.Namespace, console: Console) -> int:
    """Solve puzzles on the emulator: list your progress, start a puzzle or check it."""
    from adokernels import puzzles

    stored = puzzles.progress()
    if options.action == "list":
        what = _Plain("puzzles", {"puzzles": stored})
        save_and_show(what, options, console, lambda: console.print(puzzle_table(stored)))
        return 0
    if options.name is None:
        raise ValueError(f"puzzles {options.action} needs the name of a puzzle")
    puzzle = puzzles.find(options.name)
    path, mine = options.file or Path(puzzle.file), stored[puzzle.name]
    facts: dict[str, Any]
    if options.action == "start":
        if path.exists():
            raise ValueError(f"{path} exists; remove it to start again")
        replace_file(path, puzzle.starter.encode())
        facts = {"file": str(path)}
        check = f"adokernels puzzles check {puzzle.name}{f' {path}' if options.file else ''}"
        shown = [f"wrote {path}: complete it, then run {check}"]
    elif options.action == "hint":
        given = puzzle.hints[: mine["hints"] + 1]
        puzzles.store(puzzle.name, hints=len(given))
        facts = {"hints": given}
        shown = [f"Hint {i} of {len(puzzle.hints)}: {hint}" for i, hint in enumerate(given, 1)]
    elif options.action == "solution":
        puzzles.store(puzzle.name, solution_shown=True)
        facts = {"code": puzzle.solution.code}
        shown = [*facts.values()]
    else:
        if not path.exists():
            start = f"adokernels puzzles start {puzzle.name}"
            raise ValueError(f"there is no file {path}: write it with {start}")
        code = path.read_text("utf-8", "replace")
        if options.action == "heatmap":
            facts = {"heatmap": puzzle.heatmap(code), "what_if": puzzle.experiments}
            shown = [part for part in facts.values() if part is not None]
        else:
            grade = puzzle.check(code)
            facts = {"done": grade.done, "message": grade.message}
            puzzles.store(puzzle.name, **facts, attempts=mine["attempts"] + 1, code=code)
            facts["seconds"] = grade.seconds
            shown = [repr(grade)]

    def show() -> None:
        for part in shown:
            console.print(part, highlight=False, soft_wrap=isinstance(part, str))

    save_and_show(_Plain("puzzle", {"puzzle": puzzle.name, **facts}), options, console, show)
    return 0 if facts.get("done", True) else WRONG


@_command("report", "transpose.json results/ --out report.html", "measurements --out")
def _run_report(options: argparse.Namespace, console: Console) -> None:
    """Write an HTML report of stored sweeps, scans and comparisons, with experiments on them."""
    records: list[Reported] = []
    experiments: list[ado.records.WhatIf] = []
    for path in options.measurements:
        if path.is_dir():
            records += _of_folder(path, console)
            continue
        record = _read(path)
        if isinstance(record, ado.records.WhatIf):
            experiments.append(record)
            continue
        if isinstance(record, ado.records.CountedSweep):
            raise ValueError(f"{path}: {_NO_TIMES}")
        if not isinstance(record, Reported):
            kind = getattr(record, "KIND", "")
            raise ValueError(f"{path} must contain a sweep, scan or comparison, got a {kind}")
        records.append(record)
    if not records:
        found = "only results of what-if" if experiments else "none"
        raise ValueError(f"a report needs sweeps, scans or comparisons, got {found}")
    sweeps = (r for r in records if isinstance(r, ado.records.Sweep) and r.variants)
    for table in machine_tables(sweeps):
        console.print(table)
    ado.write_report(options.out, sweeps=records, what_if=experiments)
    console.print(f"wrote {options.out}")


@_command("run", "--emulator train.py --epochs 1", "--emulator --compute script arguments")
def _run_script(options: argparse.Namespace, console: Console) -> int:
    """Run a Python script whose kernels of Triton and Numba run on the emulator."""
    path = str(options.script)
    options.script.read_bytes()  # raises OSError now, not as an error of the script
    argv, folder = sys.argv, sys.path[0]
    with ado.emulated(options.compute):
        sys.argv, sys.path[0] = [path, *options.arguments], str(options.script.absolute().parent)
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as error:
            if error.code is None or isinstance(error.code, int):
                return error.code or 0
            complain(error.code)
            return WRONG
        except Exception as error:
            steps = error.__traceback__
            while steps is not None and steps.tb_frame.f_code.co_filename != path:
                steps = steps.tb_next
            traceback.print_exception(error.with_traceback(steps or error.__traceback__))
            return WRONG
        finally:
            sys.argv, sys.path[0] = argv, folder
    return 0
