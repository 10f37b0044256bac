"""A call or its launches in a file, and the fresh process that reads and runs them.

The process is ``python -m`` with this module. ``sample FOLDER SECONDS`` samples the work of the
folder for ``ado.hotspots``, and writes the samples. ``profile FOLDER`` runs it for ncu.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from adokernels import _core
from adokernels.kernels.captured import CapturedLaunch
from adokernels.model.ladder import Variant
from adokernels.model.libraries import on_host
from adokernels.model.problem import Block, Call
from adokernels.model.registry import routines
from adokernels.records.inputs import Inputs

#: The name of this module, which runs stored work in a fresh process.
CHILD = "adokernels.measuring.stored_call"
#: The file with the samples, or with the error.
SAMPLES = "samples.pickle"
_FILE = "work.pickle"


@dataclass(frozen=True)
class StoredCall:
    """A call of a built-in variant, with packed copies of its operands in host memory."""

    routine: str
    variant: str
    arrays: Sequence[NDArray[Any]]
    inputs: Inputs
    block: Block | None  # None: the default

    @classmethod
    def of(
        cls, variant: Variant, args: Sequence[Any], options: Mapping[str, Any], block: Block | None
    ) -> StoredCall:
        """Check a call and copy its operands; default: random operands of the default problem."""
        ladder = variant.ladder
        arrays = [on_host(a) for a in args] if args else ladder.task.random_operands()
        problem = ladder.problem(*arrays, device="cpu", **options)
        return cls(ladder.name, variant.name, problem.host_arguments, problem.inputs, block)

    def prepare(self) -> Call:
        """Prepare the call."""
        options = dict(self.inputs.options)
        problem = routines[self.routine].problem(*self.arrays, variant=self.variant, **options)
        return problem.prepare(self.variant, self.block)


#: What the fresh process runs.
Stored = StoredCall | Sequence[CapturedLaunch]


def store(work: Stored, folder: Path) -> None:
    """Write the work to a folder, for the fresh process."""
    (folder / _FILE).write_bytes(pickle.dumps(work))


def prepared(folder: Path) -> tuple[Any, Callable[[], object]]:
    """The stored work as the sampler needs it, and a function that runs it once."""
    work: Stored = pickle.loads((folder / _FILE).read_bytes())
    if not isinstance(work, Sequence):
        call = work.prepare()
        return call.timed, call.run
    pairs = [launch.prepare() for launch in work]

    def run() -> None:
        for launch, _arrays in pairs:  # the arrays exist as long as this function
            launch.run(0)

    return [launch for launch, _ in pairs], run


def environment(**variables: str) -> dict[str, str]:
    """The environment of a fresh Python process that imports this package."""
    packages = (str(Path(_core.__file__).parents[1]), str(Path(__file__).parents[2]))
    paths = dict.fromkeys([*packages, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **variables}


def sample(folder: Path, seconds: float) -> None:
    """Sample the work of a folder, and write the samples or the error to this folder."""
    try:
        result: Any = _samples(folder, seconds)
    except Exception as error:
        result = error
    (folder / SAMPLES).write_bytes(pickle.dumps(result))


def _samples(folder: Path, seconds: float) -> dict[str, Any]:
    sampler = _core.Sampler()  # it must exist before the first kernel launch
    work, _run = prepared(folder)
    samples = sampler.collect(work, seconds)
    return {
        "reasons": list(samples.reasons),
        "lines": [[s.kernel, s.path, s.line, list(s.samples)] for s in samples.lines],
        "dropped": samples.dropped,
        "unattributed": samples.unattributed,
    }


def run_profiled(run: Callable[[], object]) -> None:
    """Run twice: to load and prepare the kernels, then with the profiler."""
    run()
    _core.synchronize()
    _profiler("cuProfilerStart")
    run()
    _core.synchronize()
    _profiler("cuProfilerStop")


def _profiler(function: str) -> None:
    """Call a function of the CUDA driver that has no parameters."""
    status = getattr(ctypes.CDLL("libcuda.so.1"), function)()
    if status:
        raise RuntimeError(f"{function} failed with status {status}")


if __name__ == "__main__":
    verb, folder = sys.argv[1], Path(sys.argv[2])
    if verb == "sample":
        sample(folder, float(sys.argv[3]))
    else:
        run_profiled(prepared(folder)[1])
