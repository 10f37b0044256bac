"""Stores the machine code of the kernels in measured ladders, for the notebooks.

    python benchmarks/course/machine_code.py notebooks/data/course [--only LADDER ...]

The ladders are in the parent folder. The script needs a build with machine code for their GPU,
cuobjdump and nvdisasm, but no GPU. The script rejects machine code of another build: its
registers per thread must equal the measured ones.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from recording import require, run

import adokernels as ado

#: The driver reports at least this number of registers per thread.
LEAST_REGISTERS = 16
LOADS = ("one_block", "vector_load_small", "vector_load_both")
MAX_PLUS = (*LOADS, *(f"{name}_bounded" for name in LOADS))
MAX_PLUS += ("two_blocks", "whole_device", "shared_rolling")
#: The variants whose machine code the documents discuss, by stored ladder.
LADDERS = {"max_plus-float64": MAX_PLUS, "max_plus-float32": MAX_PLUS}
LADDERS |= {"transpose-int64-8192": ("naive", "tiled")}


def made(ladder: str, variant: str) -> ado.records.Sass:
    """The machine code of a variant in a stored ladder."""
    sweep = ado.load(Path(sys.argv[1]).parent / f"{ladder}.json.xz")
    measured = [k.kernel for k in sweep[variant].profile.kernels]
    arch = f"sm_{sweep.machine.context['cuda']['compute']}"
    sass = ado.routines[sweep.routine][variant].sass(kernels=measured, arch=arch)
    for kernel, known in zip(sass, measured, strict=True):
        registers = max(kernel.registers, LEAST_REGISTERS), known.registers
        require(registers[0] == registers[1], f"registers must be as measured, got {registers}")
    return sass


if __name__ == "__main__":
    names = [(ladder, variant) for ladder, variants in LADDERS.items() for variant in variants]
    run(((f"{ladder}-{name}-sass", partial(made, ladder, name)) for ladder, name in names), __doc__)
