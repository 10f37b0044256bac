"""Task of ``ado.instruction_parallelism``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SanitizerCases, Task
from adokernels.model.tasks._series import evaluate, horner, sparsified, wider

#: Coefficients from the constant to x**256.
_COEFFICIENTS = np.array([1 - k % 64 / 128 for k in range(257)])


def expected(x: Any) -> NDArray[Any]:
    """Horner's rule in the next higher precision."""
    x = np.asarray(x)
    values = evaluate(x.reshape(-1), lambda some: horner(_COEFFICIENTS, some), wider(x.dtype))
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(x.dtype).reshape(x.shape))


def error_unit(x: Any) -> NDArray[Any]:
    """The bound of the rounding errors in `src/routines/instruction_parallelism.hpp`.

    The term with x**k is rounded at most 2 k + 1 times. The rounding of the reference result adds
    one.
    """
    x = np.asarray(x)
    roundings = 2 * np.arange(_COEFFICIENTS.size) + 2
    unit = float(np.finfo(x.dtype).epsneg) * roundings * _COEFFICIENTS
    values = evaluate(np.abs(x.reshape(-1)), lambda some: horner(unit, some), np.float64)
    return values.reshape(x.shape)


TASK = Task(
    expected,
    tolerance=1,
    error_unit=error_unit,
    lengths={"n": 1 << 20},
    dtype="float32",
    magnitude=1.0,
    sparsified=sparsified,
    sanitizer=SanitizerCases(
        # Grids of 132 blocks of 128 threads compute 16896 elements per pass and chain.
        shapes=((1,), (2,), (31,), (129,), (1000,), (5, 7), (2, 3, 130), (17_000,)),
        large=(1_000_003,),
        dtypes=("f4", "f8"),
    ),
    benchmark_problems={
        "float32": "--shape 16777216",
        "float64": "--shape 8388608 --dtype float64",
    },
)
