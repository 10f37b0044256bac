"""The process that ncu observes for a report: ``python -m ... FOLDER``.

The folder contains the files of a ``StoredCall``. Only the second run of the call is profiled.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from adokernels import _core
from adokernels.measuring.stored_call import prepared_call, saved_settings

if TYPE_CHECKING:
    from adokernels.model.problem import Call


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
    folder = Path(sys.argv[1])
    run_profiled(prepared_call(saved_settings(folder), folder))
