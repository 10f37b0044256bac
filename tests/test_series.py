"""The element-wise routines with long formulas: special values, strides, reference, costs."""

from fractions import Fraction

import numpy as np
import pytest
from conftest import isa_levels, variants_of

import adokernels as ado
from adokernels import _core
from adokernels.model import tasks
from adokernels.model.tasks import series

NAMES = ("branch", "instruction_parallelism")
TYPES = (np.float32, np.float64)
SPECIAL = (
    *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e-45, -1e-45, 5e-324),
    *(1e30, -1e30, 1e300, -1e300, 20.0, -20.0, 1.9, -1.9, 250.0, -250.0, 1e5, -1e5),
)
VARIANTS = [
    pytest.param(name, *variant.values, marks=variant.marks, id=f"{name}-{variant.id}")
    for name in NAMES
    for variant in variants_of(ado.routines[name])
]


def check(name, x, variant, **how):
    task = tasks.TASKS[name]
    result = ado.routines[name](x, variant=variant, **how)
    task.check(result, task.expected(x), task.error_unit(x))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_special_values(name, variant, dtype, isa_restored):
    """Each value at an even and at an odd index, among others and alone."""
    with np.errstate(over="ignore"):
        x = np.repeat(np.array(SPECIAL, np.float64), 2).astype(dtype)
    for isa in isa_levels():
        ado.settings.isa = isa
        check(name, x, variant)
        for i in range(0, x.size, 2):
            check(name, x[i : i + 2], variant)


@pytest.mark.parametrize("name", NAMES)
def test_values_without_bound(name):
    """Values that are not finite must be equal: the bound does not cover them."""
    task = tasks.TASKS[name]
    x = np.array([[np.nan, np.nan, np.inf, np.inf, -np.inf, -np.inf, 1e300, -1e300]])
    right = task.expected(x)
    assert np.isnan(right[0, :2]).all()
    assert (right[0, 2:] == np.inf).all()
    for i in range(x.size):
        wrong = right.copy()
        wrong[0, i] = 1
        with pytest.raises(ValueError, match=rf"1 of 8 elements is .* worst at \[0, {i}\]"):
            task.check(wrong, right, task.error_unit(x))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_strided_rows(name, variant, dtype, rng, isa_restored):
    """Rows of odd length, shorter and longer than a group of vectors, begin at any flat index."""
    for isa in isa_levels():
        ado.settings.isa = isa
        for rows, length in [(5, 1), (4, 3), (3, 129), (3, 515), (2, 1027), (3, 512)]:
            whole = rng.uniform(-1, 1, (rows, 2 * length + 1)).astype(dtype)
            for x in (whole[:, :length], whole[::-1, 2 * length : 0 : -2]):
                memory = np.zeros((rows, length + 3), dtype)
                check(name, x, variant, out=memory[:, 1 : length + 1])
                assert not memory[:, [0, -2, -1]].any()


def test_samples_are_random_and_contain_both_ends():
    first, second = (series.random_sample((3, 500_001)) for _ in range(2))
    assert not np.array_equal(first.flat, second.flat)
    for sample in (first, second):
        assert len(np.unique(sample.flat)) == sample.flat.size > 200_000
        assert {*range(8192), *range(1_491_811, 1_500_003)} <= {*sample.flat.tolist()}
        counts = np.histogram(sample.flat[8192:-8192], 10)[0]
        assert counts.min() > 0.9 * counts.max()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_sample_of_a_large_result_is_the_part_of_the_whole(name, dtype, monkeypatch, rng):
    task = tasks.TASKS[name]
    x = rng.uniform(-1, 1, (3, 1667)).astype(dtype)
    for operand in (x, x[:, ::-1]):
        assert task.spot_check(operand) is None
        with monkeypatch.context() as smaller:
            smaller.setattr(series, "MAX_ELEMENTS", 1000)
            smaller.setattr(series, "ENDS", 10)
            spot = task.spot_check(operand)
        assert 450 < spot.exact.size == spot.sample.flat.size <= 520
        np.testing.assert_array_equal(spot.exact, spot.sample.of(task.exact(operand)))
        np.testing.assert_array_equal(spot.unit, spot.sample.of(task.error_unit(operand)))


# --- The reference result by exact arithmetic, its bound, and the costs -----------------------


def coefficient(k):
    return 1 - Fraction(k % 64, 128)


def exact(name, i, x):
    """Evaluate the formula of element i with rational numbers."""
    x = Fraction(float(x))
    if name == "instruction_parallelism":
        return sum(coefficient(k) * x**k for k in range(257))
    if i % 2 == 0:
        return sum((1 - Fraction(k, 256)) * x**k for k in range(129))
    value = Fraction(1)
    for k in range(64, 0, -1):
        value = 1 + (1 - Fraction(k, 128)) * x * value
    return value


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("name", "beyond", "at_ends"),
    [
        ("branch", 1.5, {1: 129 - 128 * 129 / 512}),
        # Four periods of 64 and one more term: positive terms at 1, alternating signs at -1.
        ("instruction_parallelism", 1.1, {1: 4 * (64 - 63 / 4) + 1, -1: 4 * 0.25 + 1}),
    ],
)
def test_the_reference_is_the_rounded_exact_result(name, beyond, at_ends, dtype, rng):
    task = tasks.TASKS[name]
    ends = np.repeat([1, -1, 0, beyond, -beyond], 2)
    x = np.concatenate([rng.uniform(-1, 1, 20), ends]).astype(dtype)
    right = [float(exact(name, i, value)) for i, value in enumerate(x)]
    assert np.allclose(task.expected(x), right, rtol=float(np.finfo(dtype).eps), atol=0)
    for value, known in at_ends.items():
        assert task.expected(np.array([value], dtype)).tolist() == [known]


def test_the_bound_is_the_classical_one():
    """At |x| = 1: u times the sum of (2 k + 2) a_k, or of (3 k + 2) r_1 ... r_k."""
    even = sum((2 * k + 2) * (1 - k / 256) for k in range(129))
    products = [float(np.prod([1 - j / 128 for j in range(1, k + 1)])) for k in range(65)]
    odd = sum((3 * k + 2) * p for k, p in enumerate(products))
    chains = float(sum((2 * k + 2) * coefficient(k) for k in range(257)))
    for dtype, u in zip(TYPES, (2.0**-24, 2.0**-53), strict=True):
        for name, right in [("branch", [even, odd]), ("instruction_parallelism", [chains] * 2)]:
            for sign in (1, -1):
                unit = tasks.TASKS[name].error_unit(np.full((1, 2), sign, dtype))
                assert unit == pytest.approx(u * np.array([right]), rel=1e-12, abs=0)


def cost(name, variant, elements, dtype="f4"):
    return ado.routines[name][variant].cost(np.broadcast_to(np.zeros(1, dtype), elements))


def test_costs_of_branches():
    """Seven elements: four even with 128 FMAs, three odd with 64 FMAs and 64 products."""
    useful = 4 * 256 + 3 * 192
    for variant in ("naive_loops", "by_lane", "by_warp", "pairs", "branch_free"):
        about, both = cost("branch", variant, 7), variant == "branch_free"
        assert (about.flops, about.executed_flops) == (useful, 7 * 448 if both else useful)
        if variant != "naive_loops":
            assert about.executed_instructions == 7 * (256 if both else 128)


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
        about = cost("instruction_parallelism", variant, elements)
        found = about.flops, about.executed_flops, about.executed_instructions
        assert found == (512 * elements, 512 * computed, 256 * computed), (elements, variant)


def test_costs_of_groups(isa_restored):
    """Groups of vectors of 16 bytes are completed with zeros."""
    ado.settings.isa = "baseline"
    for variant, vectors in [("simd", 1), ("two_vectors", 2), ("four_vectors", 4), ("threaded", 8)]:
        for dtype, lanes in [("f4", 4), ("f8", 2)]:
            computed = -(-33 // (vectors * lanes)) * vectors * lanes
            about = cost("instruction_parallelism", variant, 33, dtype)
            assert about.executed_flops == 512 * computed
    assert cost("instruction_parallelism", "naive_loops", 33).executed_flops == 512 * 33
    for variant, dtype, elements, flops in [
        *[("simd", "f4", 33, 2 * 32 * 448), ("simd", "f8", 17, 2 * 16 * 448)],
        *[("deinterleaved", "f4", 65, 2 * 64 * 224), ("threaded", "f4", 64, 64 * 224)],
    ]:
        assert cost("branch", variant, elements, dtype).executed_flops == flops
