"""Stores the machine code of the kernels in stored ladders, for the notebooks.

::

    python benchmarks/course/machine_code.py notebooks/data/course

It needs a build with machine code for the GPU of the ladders, cuobjdump and nvdisasm, but no GPU.
The registers of each kernel are compared with the stored ones, so that machine code of another
build is rejected.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import adokernels as ado

DATA = Path(__file__).parents[2] / "notebooks" / "data"
#: The driver reports at least this number of registers per thread.
LEAST_REGISTERS = 16
_MAX_PLUS = (
    "one_block",
    "vector_load_small",
    "vector_load_both",
    "one_block_bounded",
    "vector_load_small_bounded",
    "vector_load_both_bounded",
    "two_blocks",
    "whole_device",
    "shared_rolling",
)
#: The variants whose machine code the documents discuss, by stored ladder.
LADDERS = {
    "max_plus-float64": _MAX_PLUS,
    "max_plus-float32": _MAX_PLUS,
    "transpose-int64-8192": ("naive", "tiled"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="output folder")
    parser.add_argument("--arch", default="sm_90", help="the architecture of the measured GPU")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for ladder, variants in LADDERS.items():
        sweep = ado.load(DATA / f"{ladder}.json")
        for name in variants:
            measured = [k.kernel for k in sweep[name].profile.kernels]
            sass = ado.routines[sweep.routine][name].sass(kernels=measured, arch=options.arch)
            for kernel, launched in zip(sass, measured, strict=True):
                if max(kernel.registers, LEAST_REGISTERS) != launched.registers:
                    raise SystemExit(
                        f"{kernel.name} must have the {launched.registers} registers with which it "
                        f"was measured, got {kernel.registers}"
                    )
            sass.save(options.folder / f"{ladder}-{name}-sass.json")


if __name__ == "__main__":
    main()
