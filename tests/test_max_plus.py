"""max_plus against NumPy: every variant, large sizes, NaN and infinities."""

import math

import numpy as np
import pytest
from choices import h200_choice, plan_on
from conftest import affordable, check, isa_levels, variants_of

import adokernels as ado
from adokernels.model import tasks

TYPES = (np.float32, np.float64)
SHAPES = [
    *[(0, 5), (5, 0), (0, 0), (1, 1), (1, 2), (2, 1), (3, 33), (4, 64), (5, 255), (64, 1000)],
    *[(65, 1025), (7, 4097), (31, 2048), (1000, 3), (1023, 17), (257, 513), (2, 30011)],
]
ROWS = [
    *[(1, 3), (1, 4099), (1, 4100), (1, 532_479)],
    *[(2, 600_001), (3, 600_000), (8, 530_001), (16, 100_000)],
]
LARGE = [*ROWS, (100_003, 1), (20_011, 5), (7, 100_003), (64, 65_536), (3000, 1000)]


def problem(rng, shape, dtype):
    return tuple((rng.random(s) - 0.5).astype(dtype) for s in (shape, shape[:1]))


def declined(variant, operands):
    """Why the variant declines; a declined call must raise an error with this reason."""
    problem = ado.max_plus.problem(*operands, device=ado.max_plus[variant].device)
    reason = problem.why_not(variant)
    if reason:
        with pytest.raises(ValueError, match="max_plus") as error:
            ado.max_plus(*operands, variant=variant)
        assert reason in str(error.value)
    return reason


def expected_of(big, small):
    """The formula of the issue; `initial` is for K = 0."""
    with np.errstate(invalid="ignore"):
        sums = big + small[:, None]
        return np.maximum(sums.max(axis=0, initial=-np.inf), 0, dtype=big.dtype) + big.dtype.type(0)


@pytest.mark.parametrize("shapes", [SHAPES, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.max_plus))
def test_sizes(variant, dtype, shapes, rng):
    for shape in shapes:
        if not affordable(math.prod(shape)):
            continue
        operands = problem(rng, shape, dtype)
        check(ado.max_plus, operands, expected_of(*operands), variant)


def special(rng, shape, dtype):
    """Some points with NaN of either sign, some with infinities, some where they meet."""
    big, small = problem(rng, shape, dtype)
    for value in (np.nan, -np.nan, np.inf, -np.inf):
        big[rng.random(shape) < 0.3 / shape[0]] = value
        small[rng.random(shape[0]) < 0.3 / shape[0]] = value
    return big, small


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.max_plus))
def test_nan_propagates(variant, dtype, rng):
    seen = 0
    for shape in [(1, 7), (9, 100), (40, 1001), (64, 4096), (3001, 5), (5, 40_000)]:
        for _ in range(3):
            operands = special(rng, shape, dtype)
            expected = expected_of(*operands)
            seen += int(np.isnan(expected).sum())
            if not affordable(operands) or declined(variant, operands):
                continue
            out = ado.max_plus(*operands, variant=variant)
            assert tasks.difference(out, expected) <= tasks.SAME_VALUES, shape
    assert seen > 10


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.max_plus))
@pytest.mark.parametrize("where", ["first", "last"])
def test_nan_wherever_it_stands(variant, dtype, where, rng):
    """Neither earlier nor later terms may hide it."""
    for points in (131, 132):  # rows that are not aligned, and rows that are
        big, small = problem(rng, (37, points), dtype)
        big[0 if where == "first" else -1] = np.nan
        if not declined(variant, (big, small)):
            assert np.isnan(ado.max_plus(big, small, variant=variant)).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.max_plus))
def test_nothing_positive(variant, dtype):
    """The result is 0, never -0."""
    for fill in (-0.0, -1.0, -np.inf):
        for points in (77, 80):
            big, expected = np.full((6, points), fill, dtype), np.zeros(points, dtype)
            check(ado.max_plus, (big, np.zeros(6, dtype)), expected, variant)
            check(ado.max_plus, (big, np.full(6, -0.0, dtype)), expected, variant)


@pytest.mark.parametrize("dtype", TYPES)
def test_vector_loads_reject_unaligned_rows(dtype):
    def why(variant, shape):
        operands = np.zeros(shape, dtype), np.zeros(shape[0], dtype)
        return ado.max_plus.problem(*operands, device="cpu").why_not(variant)

    for variant in ("vector_load_both", "vector_load_both_bounded"):
        assert "not aligned to 16 bytes" in why(variant, (5, 1001))
        assert not why(variant, (5, 1000))


@pytest.mark.parametrize("dtype", TYPES)
def test_choice_on_an_h200(dtype):
    """Terms are split if the points do not fill the GPU; small problems load all at once."""

    def choice(terms, points):
        big = np.broadcast_to(dtype(0), (terms, points))
        return h200_choice(ado.max_plus, big, np.zeros(terms, dtype))

    limit = (16 << 20) // np.dtype(dtype).itemsize
    many = 768 * 1024 * 16 // np.dtype(dtype).itemsize  # one vector per thread of 768 blocks
    for terms, points, variant in [
        *[(0, 0, "one_barrier"), (1, 135_168, "one_barrier"), (3, 135_169, "vectorised")],
        *[(4, 135_169, "split_terms"), (4, many, "vectorised"), (10_000, 135_168, "one_barrier")],
        # Wider loads are faster, unless rows are short and not aligned.
        *[(limit // 128, 128, "one_barrier"), (limit // 128 + 1, 128, "split_terms")],
        *[(10_000_000, 63, "one_barrier"), (10_000_000, 64, "split_terms")],
        *[(100_000, 8448, "one_barrier"), (64, many // 2, "split_terms")],
    ]:
        assert choice(terms, points) == variant, (terms, points)


@pytest.mark.parametrize("multiprocessors", [1, 8, 40, 108, 132, 148, 188])
def test_blocks_follow_the_multiprocessors(multiprocessors):
    """5.82 blocks per multiprocessor: 768 on an H200."""
    busy = int(5.82 * multiprocessors)
    for terms, points, variant in [(10**7, 1, "one_barrier"), (10**7, 64, "split_terms")]:
        big, small = np.broadcast_to(0.0, (terms, points)), np.broadcast_to(0.0, terms)
        plan = plan_on(multiprocessors, ado.max_plus, variant, big, small)
        blocks = int(np.prod(plan.grid))
        assert busy // 2 < blocks <= busy


@pytest.mark.parametrize("dtype", TYPES)
def test_every_instruction_set(dtype, rng, isa_restored):
    operands = special(rng, (33, 1234), dtype)
    expected = expected_of(*operands)
    for isa in isa_levels():
        ado.settings.isa = isa
        for variant in (v.name for v in ado.max_plus if v.device == "cpu" and not v.ceiling):
            out = ado.max_plus(*operands, variant=variant)
            assert tasks.difference(out, expected) <= tasks.SAME_VALUES, (isa, variant)


def test_oracle(rng):
    for dtype in TYPES:
        operands = special(rng, (40, 300), dtype)
        result, expected = tasks.TASKS["max_plus"].expected(*operands), expected_of(*operands)
        assert tasks.difference(result, expected) <= tasks.SAME_VALUES
    assert np.array_equal(
        tasks.TASKS["max_plus"].expected(np.zeros((0, 3)), np.zeros(0)), np.zeros(3)
    )
