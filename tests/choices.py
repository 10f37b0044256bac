"""The default variant on a given GPU, for tests on machines without one."""

from __future__ import annotations

from typing import Any

import adokernels as ado
from adokernels.model.ladder import choose

# Multiprocessors, bytes of L2, bytes of shared memory per block.
H200, T4 = (132, 50 << 20, 227 << 10), (40, 4 << 20, 64 << 10)


def h200_choice(routine: ado.Routine, *args: Any, out: Any = None, **options: Any) -> str:
    """Return the variant that a call would run on an H200 with packed, aligned operands."""
    return choose(routine, args, options, "cuda", out, H200).variant
