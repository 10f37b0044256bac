"""Task of ``ado.branch``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import SanitizerCases, Task
from adokernels.model.tasks._series import Formula, evaluate, horner, sparsified, wider

#: Coefficients of the polynomial of even elements, from the constant to x**128.
_POLYNOMIAL = [1 - k / 256 for k in range(129)]
#: Factors r(1) to r(64) of the series of odd elements.
_FACTORS = [1 - k / 128 for k in range(1, 65)]


def expected(x: Any) -> NDArray[Any]:
    """The formula of each element, by its flat index, in the next higher precision."""
    x = np.asarray(x)
    values = _by_parity(x, _polynomial, _nested_series, wider(x.dtype))
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(x.dtype))


def error_unit(x: Any) -> NDArray[Any]:
    """The bound of the rounding errors in `src/routines/branch.hpp`.

    The term with x**k is rounded at most 2 k + 1 times in Horner's rule, and 3 k + 1 times in the
    nested series. The rounding of the reference result adds one.
    """
    x = np.asarray(x)
    even, odd = _bound(x.dtype, 2, _POLYNOMIAL), _bound(x.dtype, 3, _products())
    return _by_parity(np.abs(x), even, odd, np.float64)


def _by_parity(x: NDArray[Any], even: Formula, odd: Formula, dtype: Any) -> NDArray[Any]:
    flat = x.reshape(-1)
    result = np.empty(flat.shape, dtype)
    result[::2] = evaluate(flat[::2], even, dtype)
    result[1::2] = evaluate(flat[1::2], odd, dtype)
    return result.reshape(x.shape)


def _polynomial(x: NDArray[Any]) -> NDArray[Any]:
    return horner(_POLYNOMIAL, x)


def _nested_series(x: NDArray[Any]) -> NDArray[Any]:
    y = np.ones_like(x)
    for factor in reversed(_FACTORS):
        y *= factor * x
        y += 1
    return y


def _products() -> NDArray[np.float64]:
    """Coefficients of the nested series, from the constant to x**64."""
    return np.concatenate([[1.0], np.cumprod(_FACTORS)])


def _bound(dtype: np.dtype[Any], roundings: int, coefficients: Any) -> Formula:
    """``u sum((roundings * k + 2) * coefficients[k] * x**k)`` of magnitudes x."""
    k = np.arange(len(coefficients))
    unit = float(np.finfo(dtype).epsneg) * (roundings * k + 2) * np.asarray(coefficients)
    return lambda x: horner(unit, x)


TASK = Task(
    expected,
    tolerance=1,
    error_unit=error_unit,
    lengths={"n": 1 << 20},
    dtype="float32",
    magnitude=1.0,
    sparsified=sparsified,
    sanitizer=SanitizerCases(
        shapes=((1,), (2,), (3,), (31,), (64,), (257,), (1000,), (5, 7), (2, 3, 130)),
        large=(1_000_003,),
        dtypes=("f4", "f8"),
    ),
    benchmark_problems={
        "float32": "--shape 67108864",
        "float64": "--shape 16777216 --dtype float64",
    },
)
