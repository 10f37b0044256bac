"""The arguments of all commands and their conversion, exit status, output files."""

from __future__ import annotations

import argparse
import ast
import errno
import inspect
import math
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import adokernels as ado
from adokernels import _core
from adokernels.isolation.calls import TIMEOUT
from adokernels.measuring.nsight_report import SUFFIX
from adokernels.model.own_ladder import OwnLadder
from adokernels.records.metrics import METRIC_SETS
from adokernels.storage import replace_file
from adokernels.text import failure, share_of

#: A wrong result, a slower variant, or not enough memory.
WRONG = 1
#: A wrong argument.
USAGE = 2
#: A missing device, compiler or library.
NO_DEVICE = 3
#: No variant is known to be slower, but the comparison has no verdict on one of them.
INCONCLUSIVE = 4
#: Interrupted with Ctrl-C, as shells report it.
INTERRUPTED = 130

#: The file name that stands for standard output.
STDOUT = Path("-")

_DOTS_PER_INCH = 150
#: Maximum number of threads per block.
_MOST_THREADS = 1024
#: Maximum number of elements of the default problem on the emulator.
_EMULATED_ELEMENTS = 1 << 14


def size(text: str) -> int:
    """Convert an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def lengths(text: str) -> tuple[int, ...]:
    """Convert ``1600x2560``."""
    with suppress(ValueError):
        found = tuple(map(int, text.lower().split("x")))
        if max(map(abs, found)) < 1 << 63:
            return found
    raise argparse.ArgumentTypeError(f"must be lengths such as 1600x2560, got {text!r}")


def block_shape(text: str) -> tuple[int, ...]:
    """Convert the shape of a block: ``32x8``."""
    with suppress(argparse.ArgumentTypeError):
        found = lengths(text)
        if len(found) <= 3 and min(found) >= 1 and math.prod(found) <= _MOST_THREADS:
            return found
    words = (
        f"must be one to three positive lengths such as 32x8, with at most {_MOST_THREADS} threads"
    )
    raise argparse.ArgumentTypeError(f"{words}, got {text!r}")


def names(text: str) -> list[str]:
    """Convert comma-separated names."""
    return text.split(",")


def share(text: str) -> float:
    """Convert ``5%`` to 0.05."""
    try:
        return share_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def dtype(text: str) -> np.dtype[Any]:
    """Convert the name of a data type."""
    try:
        return np.dtype(text)
    except (TypeError, ValueError, SyntaxError) as error:
        raise argparse.ArgumentTypeError(f"must be a data type, got {text!r}: {error}") from error


def option(text: str) -> tuple[str, Any]:
    """Convert ``border=replicate`` or ``taps=1,2,3,4,3,2,1``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name, float(value) if value in ("inf", "nan") else value


def output_file(*suffixes: str) -> Callable[[str], Path]:
    """Convert the path of a file to write; reject it before anything is measured."""

    def convert(text: str) -> Path:
        path = Path(text)
        if suffixes and path.suffix.lower() not in suffixes:
            raise argparse.ArgumentTypeError(f"must end in {', '.join(suffixes)}, got {text!r}")
        if path.is_dir():
            raise argparse.ArgumentTypeError(f"must be a file, got the folder {text!r}")
        _require_writable(text, path if path.exists() else path.parent, is_folder=not path.exists())
        return path

    return convert


def json_file(text: str) -> Path:
    """Convert the path of a JSON file; ``-`` is standard output."""
    return STDOUT if text == str(STDOUT) else output_file()(text)


def output_folder(text: str) -> Path:
    """Convert the path of a folder, which the command creates if it does not exist."""
    path = Path(text)
    nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    _require_writable(text, nearest, is_folder=True)
    return path


def _require_writable(text: str, path: Path, *, is_folder: bool) -> None:
    if is_folder and not path.is_dir():
        found = "a file" if path.exists() else "no such folder"
        raise argparse.ArgumentTypeError(f"{str(path)!r} must be a folder, got {found}")
    if not os.access(path, os.W_OK):
        raise argparse.ArgumentTypeError(f"must be writable, got {text!r}")


def _value(convert: Callable[[str], Any] | None, words: str, **how: Any) -> dict[str, Any]:
    return {"type": convert, "help": words, **how}


def _flag(words: str) -> dict[str, Any]:
    return {"action": "store_true", "help": words}


_JSON = "write the result as JSON to FILE; without FILE, print only the JSON"
_CHARTS = (".png", ".svg", ".pdf")
_ROUTINE = 'for example transpose; "adokernels list" shows all'
_METRICS = f"{', '.join(METRIC_SETS)}, or comma-separated names as in Nsight Compute"
_DEVICE = "where to run; the emulator runs CUDA kernels without a GPU"
_COUNTERS = "read hardware counters after timing (CUDA)"
_REPORT = "write a report with source for the GUI of Nsight Compute (runs ncu)"
_WHAT = (
    "JSON files of two sweeps, or Python expressions, in which np and ado are imported: "
    '"np.sum(x)" "x.sum()" --setup "x = np.ones(9)"'
)
_SLOWER = (
    "exit with 1 if a variant became slower by more than this, for example 5%%, with 4 if that is "
    "unknown"
)
#: The arguments of the commands. ``"tour --out"`` is the argument of one command; ``"[routine]"``
#: may be omitted. Some arguments have a default that depends on the command.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "routine": _value(None, _ROUTINE),
    "--shape": _value(lengths, "lengths, for example 1600x2560"),
    "--dtype": _value(dtype, "element type, if the routine accepts several"),
    "--set": _value(option, "an option of the routine, for example border=replicate")
    | {"action": "append", "default": [], "metavar": "NAME=VALUE"},
    "--cache": _value(None, "default: %(default)s", choices=("cold", "warm")),
    "--device": _value(None, _DEVICE, metavar="{cpu,cuda,cuda:N,emulator}"),
    "--variants": _value(names, "comma-separated names of variants"),
    "--seconds": _value(float, "time for the whole command (%(default)g)"),
    "--json": _value(json_file, _JSON, nargs="?", const=STDOUT, metavar="FILE"),
    "--markdown": _value(output_file(".md"), "output file", metavar="FILE.md"),
    "--plot": _value(
        output_file(*_CHARTS), f"output file for the chart ({', '.join(_CHARTS)})", metavar="FILE"
    ),
    "--image": _value(Path, "use this picture file"),
    "tour --out": _value(
        output_folder, "output folder (%(default)s)", default=Path("adokernels-tour")
    ),
    "--size": _value(size, "upper limit for every length; does not apply to the photograph"),
    "--all": _flag("measure every ladder on every device"),
    "--refresh": _flag("measure the ceilings again"),
    "list [routine]": _value(None, "show the ladder of this routine", nargs="?"),
    "--counters": _value(None, _COUNTERS, nargs="?", const="default", choices=tuple(METRIC_SETS)),
    "--no-limiter": _flag("skip the experiments that show limiters without counters")
    | {"dest": "limiter", "action": "store_const", "const": False},
    "--shapes": _value(
        lengths,
        "lengths of each problem; default: from 4 KiB to the size of bench, at most 256 MiB",
    )
    | {"nargs": "+", "metavar": "SHAPE"},
    "--copies": _flag("find the size from which a GPU pays off for arrays in host memory"),
    "file": _value(Path, "CUDA C++ source or a Python module"),
    "--routine": _value(None, "the routine that it computes"),
    "--ladder": _value(None, "check the variants of this ladder, which the Python file defines"),
    "--kernel": _value(None, "name of the kernel or of the function"),
    "--block": _value(block_shape, "for example 32x8", default=(256,)),
    "--tile": _value(lengths, "elements per block, if not one per thread"),
    "--grid": _value(lengths, "default: enough blocks for the result"),
    "--against": _value(names, "comma-separated names of variants"),
    "--trusted": _flag("the source may include files from any folder"),
    "--no-timing": _flag("check the results only"),
    "--timeout": _value(
        float, "seconds that a call or a compilation may take (%(default)g)", default=TIMEOUT
    ),
    "[variant]": _value(None, "name of the variant; default: the one that a call uses", nargs="?"),
    "--metrics": _value(
        lambda text: text if text in METRIC_SETS else names(text), _METRICS, default="default"
    ),
    "--per-line": _flag("repeat the experiment with the largest gain for each source line"),
    "--ncu": _value(output_file(SUFFIX), _REPORT, metavar="FILE.ncu-rep"),
    "--emulator": _flag("run kernels of Triton and Numba without a GPU") | {"required": True},
    "--compute": _value(int, "compile for this compute capability, times ten (80)", metavar="N"),
    "script": _value(Path, "Python script; its arrays are in host memory"),
    "arguments": _value(None, "arguments of the script", nargs=argparse.REMAINDER),
    "what": _value(None, _WHAT, nargs="+"),
    "--setup": _value(None, "Python statements before the expressions; may be given several times")
    | {"action": "append", "default": []},
    "--tolerance": _value(float, "largest allowed difference of results"),
    "--fail-if-slower": _value(share, _SLOWER, metavar="PERCENT"),
    "--across-machines": _flag("allow sweeps of different machines"),
    "diagnose measurements": _value(
        Path, "JSON file of a sweep, or a report of Nsight Compute: .ncu-rep, .csv"
    ),
    "report measurements": _value(
        Path,
        "JSON files, folders, or reports of Nsight Compute; machines are shown side by side",
        nargs="+",
    ),
    "puzzles [action]": _value(None, "default: list", nargs="?", default="list")
    | {"choices": ("list", "start", "check", "heatmap", "hint", "solution")},
    "puzzles [name]": _value(None, "name of the puzzle", nargs="?"),
    "puzzles [file]": _value(Path, "your file; default: its name in this folder", nargs="?"),
    "report --out": _value(output_file(), "output file (%(default)s)", default=Path("report.html")),
}


def options_of(options: argparse.Namespace, routine: ado.Routine) -> dict[str, Any]:
    """The options of the routine; raise ValueError if one is unknown or given twice."""
    known = list(routine.options)
    for name, _ in options.set:
        if name not in known:
            hint = _core.suggest(name, known)
            has = f"has no option {name!r}{hint}" if known else "takes no options"
            raise ValueError(f"{routine.name} {has}")
    if len(dict(options.set)) < len(options.set):
        raise ValueError("--set must give each option once")
    return dict(options.set)


def expressions(texts: Sequence[str], setup: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """Run statements; return functions that evaluate expressions, by the text of the expression.

    Each expression is evaluated once. An error of the user's code is a ValueError with the text.
    Modules in the current folder can be imported, as with ``python -m adokernels``.
    """
    sys.path.insert(0, os.getcwd())
    names: dict[str, Any] = {"np": np, "ado": ado}
    found: dict[str, Callable[[], Any]] = {}
    for text, mode in [(text, "exec") for text in setup] + [(text, "eval") for text in texts]:
        code = text if mode == "exec" else f"lambda: ({text}\n)"
        try:
            function = eval(compile(code, "<expression>", mode), names)
            if mode == "eval":
                if inspect.isroutine(function()):
                    raise TypeError(f"it must be a call, such as {text}(x), got a function")
                again = 2 + sum(name.startswith(f"{text} (") for name in found)
                found[f"{text} ({again})" if text in found else text] = function
        except (Exception, SystemExit) as error:
            raise ValueError(f"{text!r}: {failure(error)}") from error
    return found


def ladder_of(file: Path, name: str) -> OwnLadder:
    """Run a Python file; return its own ladder in the variable `name`, or with this name.

    Errors of the file are ValueErrors. Its folder stays on the path of modules, because its
    variants may import from it when they run.
    """
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    sys.path.insert(0, str(file.parent.absolute()))
    try:
        found = runpy.run_path(str(file))
    except (Exception, SystemExit) as error:
        raise ValueError(f"{file}: {failure(error)}") from error
    in_file = {n: each for n, each in found.items() if isinstance(each, OwnLadder)}
    ladders = {each.name: each for each in in_file.values()} | in_file
    if name not in ladders:
        raise ValueError(f"{file} has no ladder {name!r}{_core.suggest(name, list(ladders))}")
    if ladders[name].task.problems is None:
        raise ValueError(f"the ladder {name} must have problems=, a function that returns operands")
    return ladders[name]


def problem_of(
    options: argparse.Namespace,
) -> tuple[ado.Routine, tuple[NDArray[Any], ...], dict[str, Any]]:
    """The routine, random operands and the options of a command that runs one problem.

    Names are checked first, because the operands of a default problem take seconds.
    """
    routine = ado.routines[options.routine]
    settings = options_of(options, routine)
    given = vars(options)
    device = _core.resolve_device(given.get("device") or _core.device())
    for name in given.get("variants") or ():
        _ = routine[name]
    lengths = options.shape
    if lengths is None and device == "emulator":
        lengths = _few(routine, options.dtype)
    return routine, routine.task.random_operands(lengths, options.dtype), settings


def _few(routine: ado.Routine, dtype: np.dtype[Any] | None) -> tuple[int, ...]:
    """The lengths of the default problem, the longest ones halved until the emulator is fast."""
    lengths = list(routine.task.lengths.values())

    def elements() -> int:
        return sum(math.prod(shape) for shape, _ in routine.task.operand_types(lengths, dtype))

    while elements() > _EMULATED_ELEMENTS:
        lengths[lengths.index(max(lengths))] //= 2
    return tuple(lengths)


def save_and_show(
    record: Any,
    options: argparse.Namespace,
    console: Console,
    show: Callable[[], None] | None = None,
) -> None:
    """Write a record and its chart to the files that ``--json`` and ``--plot`` name; print it.

    The files come first, so that the output cannot lose a measurement. If a file cannot be
    written, the record is printed nevertheless. If standard output receives the JSON document, it
    receives nothing else.
    """
    given, written = vars(options), []
    try:
        if path := given.get("json"):
            if path == STDOUT:
                options.document = record.to_json()  # printed after the command
            else:
                record.save(path)
            written.append(path)
        if path := given.get("markdown"):
            replace_file(path, record.to_markdown().encode())
            written.append(path)
        if path := given.get("plot"):
            from adokernels.charts.files import closing, save  # loads matplotlib

            with closing(ado.plot, record) as figure:
                save(figure, path, dpi=_DOTS_PER_INCH)
            written.append(path)
    finally:
        if given.get("json") == STDOUT:
            pass
        elif show is None:
            console.print(record)
        else:
            show()
        for path in written:
            if path != STDOUT:
                console.print(f"wrote {path}")
