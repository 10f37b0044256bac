"""Measures every ladder once on one machine; later calls add to the same folder."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

import adokernels as ado
from adokernels import _core
from adokernels.measuring.context import device_name
from adokernels.measuring.progress import ProgressDisplay
from adokernels.model.tasks import TASKS
from adokernels.records.measurement import Cache

#: Seconds after which no further ladder is started.
_LIMIT = 540
#: Parser of the arguments that follow ``adokernels bench``.
Parser = Callable[[Sequence[str]], argparse.Namespace]


def problems(device: str, parse: Parser) -> list[tuple[str, argparse.Namespace]]:
    """The name of each ladder and the arguments of its measurement, the smallest problem first.

    On a GPU, these are the problems of the stored ladders; on a CPU, the default problems.
    """
    found = []
    for routine, task in TASKS.items():
        known = task.benchmark_problems if device != "cpu" else {"default": ""}
        for name, arguments in known.items():
            options = parse([routine, *arguments.split(), "--device", device])
            types = ado.routines[routine].task.operand_types(options.shape, options.dtype)
            size = sum(np.prod(shape, dtype=float) * dtype.itemsize for shape, dtype in types)
            found.append((size, routine if device == "cpu" else f"{routine}-{name}", options))
    return [entry[1:] for entry in sorted(found, key=lambda entry: entry[:2])]


def folder_of(out: Path, device: str) -> Path:
    """The folder of a machine's records: records of two models never replace each other."""
    name = re.sub(r"[^a-z0-9]+", "-", device_name(device).lower()).strip("-")
    threads = f"-{_core.max_threads()}-threads" if device == "cpu" else ""
    return out / f"{name}{threads}"


def measure_all(
    out: Path,
    device: str | None,
    parse: Parser,
    console: Console,
    *,
    seconds: float,
    cache: Cache = "cold",
    limiter: bool | None = None,
) -> bool:
    """Measure the ladders whose records do not exist yet; return whether Ctrl-C was pressed."""
    where = _core.resolve_device(device or _core.device())
    if where == "emulator":
        raise ValueError(
            "--all measures time, but the emulator does not measure time: pass --device cpu, or "
            "count one ladder with adokernels bench ROUTINE --device emulator"
        )
    kind = where.partition(":")[0]
    folder = folder_of(out, where)
    folder.mkdir(parents=True, exist_ok=True)
    left = [(n, o) for n, o in problems(kind, parse) if not (folder / f"{n}.json").exists()]
    start = time.perf_counter()
    with ProgressDisplay(measurements=len(left), console=console) as display:
        for place, (name, options) in enumerate(left):
            if time.perf_counter() - start > _LIMIT:
                missing = len(left) - place
                console.print(f"{missing} ladders are missing: run the command again to add them")
                break
            routine = ado.routines[options.routine]
            operands = routine.task.random_operands(options.shape, options.dtype)
            counted = kind == "cuda" and not _core.why_no_counters()
            found = ado.sweep(
                routine,
                *operands,
                device=where,
                seconds=seconds,
                cache=cache,
                counters="light" if counted else False,
                limiter=limiter,
                progress=display,
                **dict(options.set),
            )
            if found.interrupted:
                return True
            found.save(folder / f"{name}.json")
    console.print(f"the records are in {folder}")
    return False
