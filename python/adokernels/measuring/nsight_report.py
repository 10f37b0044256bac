"""Reports for the GUI of Nsight Compute: one run of a variant, with its source."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adokernels import _core, toolkit
from adokernels.measuring.stored_call import CHILD, Stored, StoredCall, environment, store
from adokernels.model.ladder import Variant, check_options
from adokernels.model.source import sources_folder
from adokernels.records.measurement import Cache
from adokernels.storage import replace_file

SUFFIX = ".ncu-rep"
#: The name of the error in the output of ncu, and the remedy.
_NO_PERMISSION = "ERR_NVGPUCTRPERM"
_PERMISSION = (
    "this user may not read the counters; remedy: run as root, or let an administrator set the "
    "option NVreg_RestrictProfilingToAdminUsers=0 of the kernel module nvidia"
)
_INSTALL = "install Nsight Compute, and add the folder of ncu to the PATH"
#: Maximum number of lines of ncu's output in a message.
_LAST = 5


def write_nsight_report(
    path: str | Path,
    variant: Variant,
    *args: Any,
    cache: Cache = "cold",
    block: tuple[int, ...] | None = None,
    **options: Any,
) -> None:
    """Write a report for the GUI of Nsight Compute.

    ncu runs a fresh process, which calls the variant twice, by default with random operands of the
    task's default problem. The report contains all sections of the kernels of the second call, and
    their source. With ``cache="cold"``, ncu flushes the caches before each kernel. The path has the
    suffix ``.ncu-rep``; an existing file is replaced once the new report is complete.

    Raises ValueError for a CPU variant, for a path with another suffix, and if the variant cannot
    solve the problem; OSError if the file cannot be written; Unavailable with the reason if there
    is no GPU or no ncu, or if ncu fails.
    """
    check_options(variant.ladder, args, options, write_nsight_report)
    target = Path(path)
    _check_path(target)
    if variant.device != "cuda":
        raise ValueError(f"variant must be a CUDA variant, got {variant.label}")
    if reason := why_no_ncu() or variant.why_unavailable:
        raise _core.Unavailable(f"no report can be written: {reason}")
    call = StoredCall.of(variant, args, options, block)
    with tempfile.TemporaryDirectory() as folder:
        sections = ["--set", "full", "--import-source", "yes"]
        sections += ["--source-folders", str(sources_folder() / "cuda")]
        replace_file(target, recorded(call, Path(folder), sections, cache).read_bytes())


def why_no_ncu() -> str:
    """Reason why ncu cannot be run, and the remedy; empty if it is installed."""
    return "" if toolkit.program("ncu") else f"ncu is missing; remedy: {_INSTALL}"


def recorded(work: Stored, folder: Path, sections: Sequence[str], cache: Cache = "cold") -> Path:
    """The report of a call or of launches, with these options of ncu."""
    report = folder / f"report{SUFFIX}"
    store(work, folder)
    options = [
        *("--clock-control", "none", "--cache-control", {"cold": "all", "warm": "none"}[cache]),
        *("--target-processes", "all"),
        *("--profile-from-start", "off"),  # the process starts and stops the profiler
        *("--export", str(report)),
    ]
    child = [sys.executable, "-m", CHILD, "profile", str(folder)]
    run_ncu([*sections, *options, *child], report)
    return report


def _check_path(path: Path) -> None:
    if path.suffix != SUFFIX:
        raise ValueError(f"the path of the report must end in {SUFFIX}, got {str(path)!r}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} must be a file, got a folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} must be a folder, and does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"{path} must be writable")


def run_ncu(arguments: Sequence[str], report: Path) -> str:
    """Run ncu and return its output; Unavailable with the reason if it fails.

    The report must exist afterwards.
    """
    variables = environment()
    command = [toolkit.program("ncu") or "ncu", *arguments]
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    except OSError as error:
        raise _core.Unavailable(
            f"no report can be written: {command[0]} cannot be run: {error}; remedy: {_INSTALL}"
        ) from error
    output = f"{done.stdout}\n{done.stderr}"
    if _NO_PERMISSION in output:
        raise _core.Unavailable(f"no report can be written: {_PERMISSION}")
    if done.returncode or not report.is_file():
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        end = f"status {done.returncode}: {' '.join((errors or lines)[-_LAST:])}"
        raise _core.Unavailable(f"no report can be written: ncu ended with {end}")
    return done.stdout
