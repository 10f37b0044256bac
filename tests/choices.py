"""The default variant on a given GPU, for tests on machines without one."""

from __future__ import annotations

from typing import Any

import adokernels as ado
from adokernels import _core
from adokernels.model.ladder import choose

CORES = {core.name: core for core in _core.routines()}
H200 = _core.Hardware()


def h200_choice(routine: ado.Routine, *args: Any, out: Any = None, **options: Any) -> str:
    """Return the variant that a call would run on an H200 with packed, aligned operands."""
    return choose(routine, args, options, "cuda", out, H200).variant


def plan_on(
    gpu: _core.Hardware | int,
    routine: ado.Routine,
    variant: str,
    *args: Any,
    block: Any = None,
    **options: Any,
) -> Any:
    """Return the launch parameters and costs of a variant on a GPU or a part of an H200."""
    core = CORES[routine.name]
    hardware = _core.Hardware(multiprocessors=gpu) if isinstance(gpu, int) else gpu
    return core.plan(variant, args, options, gpu=hardware, block=block)
