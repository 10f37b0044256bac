"""The call of a built-in variant in files, and the fresh process that reads and runs it.

The process is ``python -m`` with this module. ``sample FOLDER SECONDS`` samples the `StoredCall` or
the launches of the folder for ``ado.hotspots``, and writes ``samples.json``. ``profile FOLDER``
runs them for ncu.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.kernels.captured import CapturedLaunch, load_launch
from adokernels.model.ladder import Variant
from adokernels.model.libraries import on_host
from adokernels.model.problem import Block, Call
from adokernels.model.registry import routines
from adokernels.records.inputs import Inputs

#: This module, which runs a stored call in a fresh process.
CHILD = "adokernels.measuring.stored_call"
_CALL, _OPERANDS = "call.json", "operands.npz"


@dataclass(frozen=True)
class StoredCall:
    """A call of a variant, with packed copies of its operands in host memory."""

    variant: Variant
    arrays: Sequence[NDArray[Any]]
    problem: Inputs
    block: Block | None  # None: the default

    @classmethod
    def of(
        cls, variant: Variant, args: Sequence[Any], options: Mapping[str, Any], block: Block | None
    ) -> StoredCall:
        """Check a call and copy its operands; default: random operands of the default problem."""
        ladder = variant.ladder
        arrays = [on_host(a) for a in args] if args else ladder.task.random_operands()
        problem = ladder.problem(*arrays, device="cpu", **options)
        return cls(variant, problem.host_arguments, problem.inputs, block)

    def save(self, folder: Path) -> None:
        """Write the call to files in a folder, which :func:`prepared_call` reads."""
        call = {
            "routine": self.variant.ladder.name,
            "variant": self.variant.name,
            "block": self.block,
            "options": self.problem.options,
        }
        (folder / _CALL).write_text(json.dumps(call), encoding="utf-8")
        np.savez(folder / _OPERANDS, *self.arrays)


def prepared_call(folder: Path) -> Call:
    """Prepare the call that :meth:`StoredCall.save` wrote."""
    call = json.loads((folder / _CALL).read_text(encoding="utf-8"))
    with np.load(folder / _OPERANDS) as stored:
        arrays = [stored[f"arr_{i}"] for i in range(len(stored.files))]
    options: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in call["options"].items()
    }
    problem = routines[call["routine"]].problem(*arrays, variant=call["variant"], **options)
    block = call["block"]
    return problem.prepare(call["variant"], None if block is None else tuple(block))


def environment(**variables: str) -> dict[str, str]:
    """The environment of a fresh Python process that imports this package."""
    packages = (str(Path(_core.__file__).parents[1]), str(Path(__file__).parents[2]))
    paths = dict.fromkeys([*packages, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **variables}


def sample(folder: Path, seconds: float) -> None:
    """Sample a call or a launch, and write the samples or the error to its folder."""
    try:
        result = _samples(folder, seconds)
    except Exception as error:
        result = {"error": {"type": type(error).__name__, "message": str(error)}}
    (folder / "samples.json").write_text(json.dumps(result), encoding="utf-8")


def _samples(folder: Path, seconds: float) -> dict[str, Any]:
    sampler = _core.Sampler()  # it must exist before the first kernel launch
    if (folder / _CALL).exists():
        samples = sampler.collect(prepared_call(folder).timed, seconds)
    else:
        launches, _arrays = _prepared_launches(folder)
        samples = sampler.collect(launches, seconds)
    return {
        "reasons": list(samples.reasons),
        "lines": [[s.kernel, s.path, s.line, list(s.samples)] for s in samples.lines],
        "dropped": samples.dropped,
        "unattributed": samples.unattributed,
    }


def save_launches(launches: Sequence[CapturedLaunch], folder: Path) -> None:
    """Write captured launches to a folder, in order."""
    for i, launch in enumerate(launches):
        launch.save(folder / f"{i:05}.ado")


def _prepared_launches(folder: Path) -> tuple[list[_core.KernelLaunch], list[Any]]:
    """Prepare the launches of a folder; keep the arrays alive as long as the launches are used."""
    pairs = [load_launch(path).prepare() for path in sorted(folder.glob("*.ado"))]
    launches, arrays = zip(*pairs, strict=True)
    return list(launches), list(arrays)


def profiled(folder: Path) -> None:
    """Run the call or the launches of the folder for a profiler."""
    if (folder / _CALL).exists():
        run_profiled(prepared_call(folder).run)
        return
    launches, arrays = _prepared_launches(folder)

    def run() -> None:
        for launch in launches:
            launch.run(0)

    run_profiled(run)
    del arrays  # they are used until here


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
        profiled(folder)
