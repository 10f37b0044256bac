"""The default variant on a given GPU, for tests on machines without one."""

from __future__ import annotations

from typing import Any

import adokernels as ado
from adokernels.ladders.choice import choose

H200 = (132, 50 << 20)  # multiprocessors, bytes of L2


def h200_choice(routine: ado.Routine, *args: Any, out: Any = None, **options: Any) -> str:
    """Return the variant that a call would run on an H200 with packed, aligned operands."""
    return choose(routine, args, options, "cuda", out, H200).variant
