"""instruction_parallelism: the reference result by exact arithmetic, the bound and the costs.

tests/test_series.py has the tests of its variants.
"""

from fractions import Fraction

import numpy as np
import pytest
from choices import plan_on

import adokernels as ado
from adokernels import _core
from adokernels.model import tasks

TASK = tasks.TASKS["instruction_parallelism"]
TYPES = (np.float32, np.float64)


def coefficient(k):
    return 1 - Fraction(k % 64, 128)


@pytest.mark.parametrize("dtype", TYPES)
def test_reference_result_is_the_rounded_exact_one(dtype, rng):
    x = np.concatenate([rng.uniform(-1, 1, 10), [1, -1, 0, 1.1, -1.1]]).astype(dtype)
    right = [
        float(sum(coefficient(k) * Fraction(float(value)) ** k for k in range(257))) for value in x
    ]
    assert np.allclose(TASK.expected(x), right, rtol=float(np.finfo(dtype).eps), atol=0)
    # Four periods of 64 and one more term: positive terms at 1, alternating signs at -1.
    assert TASK.expected(np.array([1, -1], dtype)).tolist() == [4 * (64 - 63 / 4) + 1, 4 * 0.25 + 1]


def test_bound_is_the_classical_one():
    """At |x| = 1: u times the sum of (2 k + 2) a_k."""
    right = float(sum((2 * k + 2) * coefficient(k) for k in range(257)))
    for dtype, u in zip(TYPES, (2.0**-24, 2.0**-53), strict=True):
        unit = TASK.error_unit(np.array([[1, -1]], dtype))
        assert unit == pytest.approx(np.full((1, 2), u * right), rel=1e-12, abs=0)


def test_polynomial_is_positive():
    """So the relative error is small, too."""
    x = np.concatenate([np.linspace(-1.5, 1.5, 3001), -1 - np.geomspace(1e-9, 0.1, 100)])
    assert TASK.expected(x).min() > 0.5


def cost(variant, elements, dtype="f4"):
    x = np.broadcast_to(np.zeros(1, dtype), elements)
    return ado.instruction_parallelism[variant].cost(x)


def test_costs_of_passes():
    """A block of 128 threads per multiprocessor, or fewer if there are fewer elements."""
    threads = _core.hardware()["multiprocessors"] * 128
    for elements, variant, computed in [
        (0, "four_chains", 0),
        (1, "one_chain", 1),
        (1, "eight_chains", 8),  # seven of them beyond the end
        (130, "two_chains", 2 * 130),  # two blocks, whose second chains are beyond the end
        (3 * threads + 5, "one_chain", 3 * threads + 5),
        (2 * threads, "two_chains", 2 * threads),
        (2 * threads + 5, "two_chains", 2 * threads + 10),
        (10 * threads, "four_chains", 12 * threads),
        (1000, "more_warps", 1000),
        (1000, "warps_and_chains", 4 * 256),  # 256 threads
        (5 * 10**9, "more_warps", 5 * 10**9),
    ]:
        about = cost(variant, elements)
        assert about.flops == 512 * elements
        assert about.executed_flops == 512 * computed, (elements, variant)
        assert about.executed_instructions == 256 * computed, (elements, variant)


@pytest.mark.parametrize("multiprocessors", [1, 8, 40, 108, 132, 148, 188])
def test_one_block_per_multiprocessor(multiprocessors):
    """Also on a part of a GPU. The costs follow the grid."""
    x = np.broadcast_to(np.float32(0), 10**6 + 1)
    for variant, chains in [("one_chain", 1), ("two_chains", 2), ("eight_chains", 8)]:
        plan = plan_on(multiprocessors, ado.instruction_parallelism, variant, x)
        assert plan.grid == [multiprocessors]
        threads, pass_ = multiprocessors * 128, multiprocessors * 128 * chains
        computed = len(x) // pass_ * pass_ + min(len(x) % pass_, threads) * chains
        assert plan.cost.executed_instructions == 256 * computed
        few = plan_on(multiprocessors, ado.instruction_parallelism, variant, x[:129])
        assert few.grid == [min(multiprocessors, 2)]


def test_costs_of_groups(isa_restored):
    """Groups of vectors of 16 bytes are completed with zeros."""
    ado.settings.isa = "baseline"
    for variant, vectors in [("simd", 1), ("two_vectors", 2), ("four_vectors", 4), ("threaded", 8)]:
        for dtype, lanes in [("f4", 4), ("f8", 2)]:
            group = vectors * lanes
            computed = -(-33 // group) * group
            assert cost(variant, 33, dtype).executed_flops == 512 * computed
    assert cost("naive_loops", 33).executed_flops == 512 * 33
