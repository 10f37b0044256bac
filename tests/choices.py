"""The default variant on a given GPU, for tests on machines without one."""

from __future__ import annotations

from typing import Any

import adokernels as ado
from adokernels import _core
from adokernels.model.ladder import choose

H200 = _core.Hardware()
T4 = _core.Hardware(
    compute=75,
    multiprocessors=40,
    threads_per_multiprocessor=1024,
    l2_bytes=4 << 20,
    shared_bytes=64 << 10,
    shared_bytes_per_multiprocessor=64 << 10,
    core_hertz=1.59e9,
    memory_bandwidth=320e9,
)


def h200_choice(routine: ado.Routine, *args: Any, out: Any = None, **options: Any) -> str:
    """Return the variant that a call would run on an H200 with packed, aligned operands."""
    return choose(routine, args, options, "cuda", out, H200).variant
