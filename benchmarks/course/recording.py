"""Shared code of the scripts that record the notebooks' data: arguments, files, errors, status."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import adokernels as ado
from adokernels import _core
from adokernels.model.cuda_variant import CudaVariant, packed_argument


def launched(
    variant: CudaVariant,
    grid: int,
    operands: Sequence[ado.DeviceArray],
    out: ado.DeviceArray,
    lengths: Sequence[int],
) -> Callable[[], ado.DeviceArray]:
    """A function that launches a kernel in CUDA C++ source on these arrays and returns `out`.

    The checks of custom variants copy the operands several times, which takes minutes for several
    GiB. Such a function runs as a peer of the built-in variants, in the same rounds, and its result
    is checked.
    """
    compiled = variant.compiled(operands[0].dtype.name)
    kernel = _core.CudaModule(compiled.code).kernel(compiled.symbol)
    given = [*operands, out, *lengths]
    arguments = [
        packed_argument(f"argument {i + 1}", value, size)
        for i, (value, size) in enumerate(zip(given, kernel.parameters, strict=True))
    ]
    launch = kernel.launch((grid,), variant.blocks[0], 0, arguments)

    def work() -> ado.DeviceArray:
        launch.run(0)
        return out

    work.__name__ = variant.name
    return work


class Recorder:
    """Saves records in a folder, and collects errors."""

    def __init__(self, folder: Path, seconds: float, names: Sequence[str] = ()) -> None:
        self.seconds = seconds  # time per record
        self.names = names  # the records to make, for scripts with the argument --only
        self.errors: list[str] = []  # one message per missing, incomplete or wrong record
        self.folder, self._start = folder, time.perf_counter()

    def save(self, name: str, record: Any) -> None:
        """Save and print a record."""
        record.save(self.folder / f"{name}.json")
        print(f"== {name} ({time.perf_counter() - self._start:.1f} s)\n{record!r}\n", flush=True)

    def attempt(
        self,
        name: str,
        make: Callable[[], Any],
        complete: Callable[[Any], object] = lambda record: True,
    ) -> None:
        """Make and save a record. An exception or an incomplete record is an error."""
        try:
            record = make()
        except Exception as error:  # the other records must be written
            self.errors.append(f"{name}: {type(error).__name__}: {error}")
            return
        self.save(name, record)
        self.require(complete(record), f"{name}: incomplete")

    def sweep(self, name: str, sweep: ado.records.Sweep, names: Sequence[str]) -> None:
        """Save a sweep that must contain these variants or peers."""
        self.save(name, sweep)
        measured = [m.variant for m in (*sweep.measurements, *sweep.peers)]
        for missing in [n for n in names if n not in measured]:
            self.errors.append(f"{name}: {missing} is missing: {sweep.skipped.get(missing)}")

    def require(self, condition: object, message: str) -> None:
        """Add `message` to the errors if a condition is false."""
        if not condition:
            self.errors.append(message)


def run(
    record: Callable[[Recorder], None],
    description: str | None,
    *,
    seconds: float = 0.0,
    names: Sequence[str] = (),
) -> None:
    """Parse the arguments, make the records, and exit with status 1 if there are errors.

    The first line of `description` describes the command. `seconds` is the default of
    ``--seconds``, and `names` are the choices of ``--only``.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="output folder, which is created")
    parser.add_argument("--seconds", type=float, default=seconds, help="time per record")
    if names:
        parser.add_argument("--only", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(options.folder.resolve(), options.seconds, options.only if names else ())
    record(recorder)
    for error in recorder.errors:
        print(f"FAILED: {error}", file=sys.stderr)
    sys.exit(bool(recorder.errors))
