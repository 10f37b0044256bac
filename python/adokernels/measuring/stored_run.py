"""A process that runs a stored call: ``python -m ... VERB FOLDER``.

``sample FOLDER SECONDS`` samples the ``StoredCall`` or the ``SourceLaunch`` of the folder for
``ado.hotspots``, and writes ``samples.json``. ``profile FOLDER`` runs a ``StoredCall`` for ncu.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

from adokernels import _core
from adokernels.measuring.stored_call import is_stored_call, prepared_call
from adokernels.model.problem import Call
from adokernels.model.source_launch import SourceLaunch


def sample(folder: Path, seconds: float) -> None:
    """Sample a call or a launch, and write the samples or the error to its folder."""
    try:
        result = _samples(folder, seconds)
    except Exception as error:
        result = {"error": {"type": type(error).__name__, "message": str(error)}}
    (folder / "samples.json").write_text(json.dumps(result), encoding="utf-8")


def _samples(folder: Path, seconds: float) -> dict[str, Any]:
    sampler = _core.Sampler()  # it must exist before the first kernel launch
    if is_stored_call(folder):
        samples = sampler.collect(prepared_call(folder).timed, seconds)
    else:
        launch, _arrays = SourceLaunch.load(folder).prepare()
        samples = sampler.collect(launch, seconds)
    return {
        "reasons": list(samples.reasons),
        "lines": [[s.kernel, s.path, s.line, list(s.samples)] for s in samples.lines],
        "dropped": samples.dropped,
        "unattributed": samples.unattributed,
    }


def run_profiled(call: Call) -> None:
    """Run a call twice, the second time with the profiler.

    The first run loads the kernels, and makes the one-time preparations of the variant.
    """
    call.run()
    _core.synchronize()
    _profiler("cuProfilerStart")
    call.run()
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
        run_profiled(prepared_call(folder))
