"""Tasks of ``ado.branch`` and ``ado.instruction_parallelism``: polynomials of each element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels.model.task import Lengths, Reference, SanitizerCases, Task
from adokernels.model.values import Sample, narrowed

#: The largest number of elements that the reference result computes within a few seconds.
MAX_ELEMENTS = 1 << 19
#: Elements that are checked at each end of a larger array: more than any kernel computes per
#: block.
ENDS = 1 << 13
#: Elements evaluated at a time, so that temporary arrays stay in the cache.
_PIECE = 1 << 13

Formula = Callable[[NDArray[Any]], NDArray[Any]]


def horner(coefficients: Any, x: NDArray[Any]) -> NDArray[Any]:
    """The polynomial with these coefficients, from the constant on, in the type of x."""
    y = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        y *= x
        y += x.dtype.type(coefficient)
    return y


def nested_series(factors: Sequence[float], x: NDArray[Any]) -> NDArray[Any]:
    """``1 + r(1) x (1 + r(2) x (1 + ...))`` with these factors r, in the type of x."""
    y = np.ones_like(x)
    for factor in reversed(factors):
        y *= factor * x
        y += 1
    return y


def evaluate(
    x: NDArray[Any], formulas: Sequence[Formula], dtype: Any, flat: NDArray[np.int64] | None = None
) -> NDArray[Any]:
    """Apply the formulas alternately, by flat index; `flat` are the indices if x is a sample."""
    values, count = x.reshape(-1), len(formulas)
    which = (np.arange(values.size) if flat is None else flat) % count
    result = np.empty(values.shape, dtype)
    with np.errstate(all="ignore"):
        for i, formula in enumerate(formulas):
            places = np.flatnonzero(which == i)
            for first in range(0, places.size, _PIECE):
                at = places[first : first + _PIECE]
                result[at] = formula(values[at].astype(dtype))
    return result.reshape(x.shape)


def random_sample(shape: tuple[int, ...]) -> Sample:
    """A random half of ``MAX_ELEMENTS`` elements, and both ends, where kernels often fail."""
    size, ends = math.prod(shape), np.arange(ENDS)
    drawn = np.random.default_rng().integers(0, size, MAX_ELEMENTS // 2)
    return Sample(shape, np.unique([*drawn, *ends, *(size - 1 - ends)]))


def _task(
    formulas: Sequence[Formula],
    bounds: Sequence[tuple[int, Any]],
    shapes: Sequence[Lengths],
    benchmark_problems: dict[str, str],
) -> Task:
    """The task of formulas, each with its bound: roundings per power of x, and coefficients.

    The headers in `src/routines/` derive the bounds. The term with x**k is rounded at most
    ``roundings * k + 1`` times. The rounding of the reference result adds one.
    """

    def exact(x: Any, flat: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """The formula of each element in the next higher precision."""
        x = np.asarray(x)
        wider = np.float64 if x.dtype == np.float32 else np.longdouble
        return evaluate(x, formulas, wider, flat)

    def error_unit(x: Any, flat: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """``u sum((roundings * k + 2) * coefficients[k] * abs(x)**k)``."""
        x = np.asarray(x)
        unit = float(np.finfo(x.dtype).epsneg)

        def bound(roundings: int, coefficients: Any) -> Formula:
            k = np.arange(len(coefficients))
            return lambda some: horner(unit * (roundings * k + 2) * coefficients, some)

        return evaluate(np.abs(x), [bound(*each) for each in bounds], np.float64, flat)

    def spot_check(x: Any) -> Reference | None:
        """A random sample of the elements, or None for an array of up to ``MAX_ELEMENTS``."""
        x = np.asarray(x)
        if x.size <= MAX_ELEMENTS:
            return None
        sample = random_sample(x.shape)
        some = sample.of(x)
        return Reference(exact(some, sample.flat), error_unit(some, sample.flat), sample)

    return Task(
        lambda x: narrowed(exact(x)),
        exact=exact,
        spot_check=spot_check,
        tolerance=1,
        error_unit=error_unit,
        lengths={"n": 1 << 20},
        dtype="float32",
        adjusted=lambda x: (2 * x,),  # in [-1, 1]
        sanitizer=SanitizerCases(shapes=shapes, large=(1_000_003,), dtypes=("f4", "f8")),
        benchmark_problems=benchmark_problems,
    )


#: Even elements of ``ado.branch``: coefficients from the constant to x**128.
_EVEN = 1 - np.arange(129) / 256
#: Odd elements: factors r(1) to r(64), whose products are the coefficients.
_FACTORS = [1 - k / 128 for k in range(1, 65)]
#: Coefficients of ``ado.instruction_parallelism``, from the constant to x**256.
_PARALLEL = 1 - np.arange(257) % 64 / 128
TASKS = {
    "branch": _task(
        [lambda x: horner(_EVEN, x), lambda x: nested_series(_FACTORS, x)],
        [(2, _EVEN), (3, np.cumprod([1.0, *_FACTORS]))],
        ((1,), (2,), (3,), (31,), (64,), (257,), (1000,), (5, 7), (2, 3, 130)),
        {"float32": "--shape 67108864", "float64": "--shape 16777216 --dtype float64"},
    ),
    "instruction_parallelism": _task(
        [lambda x: horner(_PARALLEL, x)],
        [(2, _PARALLEL)],
        # The last one takes several passes of 128 threads on each of up to 320 multiprocessors.
        ((1,), (2,), (31,), (129,), (1000,), (5, 7), (2, 3, 130), (41_003,)),
        {"float32": "--shape 16777216", "float64": "--shape 8388608 --dtype float64"},
    ),
}
