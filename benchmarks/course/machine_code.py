"""Stores the machine code of the kernels in measured ladders, for the notebooks.

    python benchmarks/course/machine_code.py notebooks/data/course [--only LADDER ...]

The ladders are in the parent folder. The script needs a build with machine code for their GPU,
cuobjdump and nvdisasm, but no GPU. The script rejects machine code of another build: its
registers per thread must equal the measured ones.
"""

from __future__ import annotations

from recording import Recorder, run

import adokernels as ado

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


def record(recorder: Recorder) -> None:
    """Store the machine code of the chosen ladders."""
    for ladder in recorder.names:
        sweep = ado.load(recorder.folder.parent / f"{ladder}.json")
        for name in LADDERS[ladder]:
            measured = [k.kernel for k in sweep[name].profile.kernels]
            arch = f"sm_{sweep.machine.context['cuda']['compute']}"
            sass = ado.routines[sweep.routine][name].sass(kernels=measured, arch=arch)
            for kernel, launched in zip(sass, measured, strict=True):
                recorder.require(
                    max(kernel.registers, LEAST_REGISTERS) == launched.registers,
                    f"{kernel.name} was measured with {launched.registers} registers, and has "
                    f"{kernel.registers}",
                )
            recorder.save(f"{ladder}-{name}-sass", sass)


if __name__ == "__main__":
    run(record, __doc__, names=list(LADDERS))
