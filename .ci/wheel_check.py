"""Tests an installed wheel; ``wheels.py`` runs it in a new environment without a compiler.

Arguments: the file name of the wheel, and ``cpu`` or ``cuda``.
"""

import shutil
import sys
from pathlib import Path

import numpy as np

import adokernels as ado
from adokernels import _core


def main() -> None:
    """Raise an AssertionError if the wheel is wrong."""
    wheel, kind = sys.argv[1:]
    compilers = ("cc", "c++", "gcc", "g++", "nvcc")
    assert not any(map(shutil.which, compilers)), "the PATH must not contain a compiler"
    repository = Path(__file__).resolve().parent.parent
    assert not Path(ado.__file__).is_relative_to(repository), ado.__file__
    assert wheel.split("-")[1] == ado.__version__, (wheel, ado.__version__)

    reason = _core.why_no_cuda()
    assert (reason == "built without CUDA") == (kind == "cpu"), reason
    numbers = np.random.default_rng().random((300, 500), dtype=np.float32)
    for variant in ado.transpose:
        if variant.available and not variant.ceiling:
            assert np.array_equal(ado.transpose(numbers, variant=variant.name), numbers.T), variant
    for routine in ado.routines.values():
        task = routine.task
        operands = task.random_operands([20] * len(task.lengths))
        unit = task.error_unit(*operands) if task.error_unit else None
        task.check(routine(*operands), task.expected(*operands), unit)
    if kind == "cuda":
        emulated = ado.transpose(numbers, variant="tiled", device="emulator")
        assert np.array_equal(emulated, numbers.T), "the emulator must find the PTX"
    assert ado.transpose["tiled"].source.text, "the wheel must contain the sources"


if __name__ == "__main__":
    main()
