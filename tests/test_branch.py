"""branch: the reference result by exact arithmetic, the bound and the costs.

tests/test_series.py has the tests of its variants.
"""

from fractions import Fraction

import numpy as np
import pytest

import adokernels as ado
from adokernels.model import tasks

TASK = tasks.TASKS["branch"]
TYPES = (np.float32, np.float64)


def exact(x, odd):
    """The formula of one number, with rational numbers."""
    x = Fraction(float(x))
    if not odd:
        return sum((1 - Fraction(k, 256)) * x**k for k in range(129))
    value = Fraction(1)
    for k in range(64, 0, -1):
        value = 1 + (1 - Fraction(k, 128)) * x * value
    return value


@pytest.mark.parametrize("dtype", TYPES)
def test_reference_result_is_the_rounded_exact_one(dtype, rng):
    x = np.concatenate([rng.uniform(-1, 1, 20), [1, 1, -1, -1, 0, 0, 1.5, 1.5, -1.5, -1.5]])
    x = x.astype(dtype)
    right = [float(exact(value, i % 2)) for i, value in enumerate(x)]
    assert np.allclose(TASK.expected(x), right, rtol=float(np.finfo(dtype).eps), atol=0)
    assert TASK.expected(np.ones(2, dtype)).tolist()[0] == 129 - 128 * 129 / 512


def test_bound_is_the_classical_one():
    """At x = 1: u times the sum of (2 k + 2) a_k, and of (3 k + 2) r_1 ... r_k."""
    even = sum((2 * k + 2) * (1 - k / 256) for k in range(129))
    products = [float(np.prod([1 - j / 128 for j in range(1, k + 1)])) for k in range(65)]
    odd = sum((3 * k + 2) * p for k, p in enumerate(products))
    for dtype, u in zip(TYPES, (2.0**-24, 2.0**-53), strict=True):
        for sign in (1, -1):
            unit = TASK.error_unit(np.full((1, 2), sign, dtype))
            assert unit == pytest.approx(np.array([[u * even, u * odd]]), rel=1e-12, abs=0)


def cost(variant, *shape, dtype="f4"):
    return ado.branch[variant].cost(np.broadcast_to(np.zeros(1, dtype), shape))


def test_costs():
    """Seven elements: four even with 128 FMAs, three odd with 64 FMAs and 64 products."""
    useful = 4 * 256 + 3 * 192
    for variant in ("naive_loops", "by_lane", "by_warp", "pairs"):
        assert cost(variant, 7).executed_flops == cost(variant, 7).flops == useful
    for variant in ("by_lane", "by_warp", "pairs"):
        assert cost(variant, 7).executed_instructions == 7 * 128
    both = cost("branch_free", 7)
    assert (both.flops, both.executed_flops, both.executed_instructions) == (
        useful,
        7 * 448,
        7 * 256,
    )


def test_costs_of_groups(isa_restored):
    """Groups of 8 or 16 vectors are completed with zeros."""
    ado.settings.isa = "baseline"
    assert cost("simd", 33).executed_flops == 2 * 32 * 448
    assert cost("simd", 17, dtype="f8").executed_flops == 2 * 16 * 448
    assert cost("deinterleaved", 65).executed_flops == 2 * 64 * 224
    assert cost("threaded", 64).executed_flops == 64 * 224
