"""Shared code of the scripts that record the notebooks' data: arguments, files, errors, status."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import adokernels as ado
from adokernels import _core
from adokernels.model.arguments import packed
from adokernels.model.cuda_variant import CudaVariant

#: Names of records, and the functions that make them.
Records = Iterable[tuple[str, Callable[[], Any]]]


def run(description: str, *groups: Callable[[], Records]) -> None:
    """Make and save the records of a group, given their names and the functions that make them.

    The first argument of the script is the folder; if there are several groups, the second one is
    the name of a group. ``--only`` selects records by the beginnings of their names. If a record
    cannot be made, the others are still made, and the exit status is 1.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="output folder, which is created")
    known = {group.__name__: group for group in groups}
    if len(known) > 1:
        parser.add_argument("group", choices=known)
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of record names")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed, start = False, time.perf_counter()
    for name, make in known[getattr(options, "group", next(iter(known)))]():
        if not name.startswith(tuple(options.only)):
            continue
        try:
            record = make()
            hot = isinstance(record, ado.records.Hotspots)
            require(not hot or record.lines, "no line was sampled")
            record.save(options.folder / f"{name}.json.xz")
            print(f"== {name} ({time.perf_counter() - start:.1f} s)\n{record!r}\n", flush=True)
        except Exception as error:  # the other records must be written
            print(f"FAILED: {name}: {type(error).__name__}: {error}", file=sys.stderr)
            failed = True
    sys.exit(failed)


def require(condition: object, message: object) -> None:
    """Raise ValueError if a record is not complete or not right."""
    if not condition:
        raise ValueError(message)


def complete(sweep: ado.records.Sweep, names: Iterable[str]) -> ado.records.Sweep:
    """The sweep, which must contain these variants or peers."""
    measured = {m.variant for m in (*sweep.measurements, *sweep.peers)}
    missing = {*names} - measured
    require(not missing, f"{missing} must be measured, skipped {sweep.skipped}")
    return sweep


def launched(
    variant: CudaVariant, grid: int, operands: Sequence[ado.DeviceArray], shape: Sequence[int]
) -> Callable[[], ado.DeviceArray]:
    """A function that launches a kernel in CUDA C++ source, and returns its result of this shape.

    The arguments of the kernel are the operands, the result, and the lengths of the first operand.
    The checks of custom variants copy the operands several times, which takes minutes for several
    GiB. Such a function runs as a peer of the built-in variants, in the same rounds, and its result
    is checked.
    """
    first = operands[0]
    compiled = variant.compiled(first.dtype.name)
    kernel = _core.CudaModule(compiled.code).kernel(compiled.symbol)
    out = ado.to_device(np.full(shape, np.nan, first.dtype))
    given = zip([*operands, out, *first.shape], compiled.parameters, strict=True)
    arguments = [packed(f"argument {i}", i, *each) for i, each in enumerate(given, 1)]
    launch = kernel.launch((grid,), variant.blocks[0], 0, arguments)

    def work() -> ado.DeviceArray:
        launch.run(0)
        return out

    work.__name__ = variant.name
    return work
