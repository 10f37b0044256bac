"""average_matvec against higher precision: every variant within the bound of its struct."""

import ctypes
import functools
import math
import platform

import numpy as np
import pytest
from choices import h200_choice, plan_on
from conftest import affordable, check, shared_data, variants_of, why_not
from test_contract import Case, solves

import adokernels as ado

TYPES = (np.float32, np.float64)
LARGE = [
    *[(64, 256, 1024), (200, 300, 101), (1024, 64, 48), (1, 1024, 1024), (8, 2100, 33)],
    # Few sets and large matrices; few long rows; many small sets.
    *[(1, 2311, 2), (2, 1030, 1), (3, 2306, 5), (13, 1031, 3), (17, 1200, 1), (5, 3, 200_003)],
    (1, 2435, 3),  # two matrix rows per block of a cluster, not aligned to vectors in float32
    *[(1, 1, 1_000_001), (5000, 3, 7), (70_000, 1, 2), (300, 64, 9), (2000, 16, 1)],
]


def problem(rng, shape, dtype):
    n, length, m = shape
    return tuple((rng.random(s) - 0.5).astype(dtype) for s in ((n, length, m), (length, length)))


@functools.cache
def numbers(dtype):
    with shared_data(f"numbers {dtype}"):
        most = max(math.prod(shape) + shape[1] ** 2 for shape in LARGE)
        return np.random.default_rng().random(most + 64, dtype) - dtype(0.5)


def large(shape, dtype):
    """Aligned views of the same numbers: separate operands of all shapes are too large."""
    _, length, _ = shape
    end = math.prod(shape)
    start = -(-end // 64) * 64
    matrix = numbers(dtype)[start : start + length**2]
    return numbers(dtype)[:end].reshape(shape), matrix.reshape(length, length)


@functools.cache
def large_case(shape, dtype):
    return Case.of(ado.average_matvec, large(shape, dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_large(variant, dtype):
    for shape in LARGE:
        if affordable(math.prod(shape) + shape[1] ** 2):
            solved = solves(large_case(shape, dtype), variant)
            assert solved or shape[1] > 1024 or "gemm" in variant


@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_numbers_of_the_blog_are_exact(variant, rng, emulator):
    """Ones and twos: every sum, average and product is a float32 without rounding."""
    sets, length, samples = (3, 24, 128) if emulator else (6, 96, 1024)
    vectors = rng.integers(1, 3, (sets, length, samples)).astype(np.float32)
    matrix = rng.integers(1, 3, (length, length)).astype(np.float32)
    expected = (matrix.astype("f8") @ vectors.astype("f8").mean(axis=2).T).astype("f4")
    check(ado.average_matvec, (vectors, matrix), expected, variant)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_a_million_samples(variant, dtype, rng, emulator):
    """Numbers of one sign with an offset: a plain float32 sum would lose half the digits."""
    vectors = (rng.random((2, 3, 20_003 if emulator else 1_000_003)) + 1000).astype(dtype)
    operands = vectors, rng.random((3, 3)).astype(dtype)
    assert solves(Case.of(ado.average_matvec, operands), variant) or "gemm" in variant


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_infinities_and_nan(variant, dtype, rng):
    """The result has the values of a plain sum and product, in the affected columns only."""
    for m in (3, 64, 700):
        vectors, matrix = problem(rng, (9, 20, m), dtype)
        vectors[1, 3, m // 2] = np.inf
        vectors[2, 4, 0] = -np.inf
        vectors[3, 5, m - 1] = np.nan
        vectors[4, 6, 0], vectors[4, 6, m - 1] = np.inf, -np.inf
        vectors[5, 7, :] = np.inf
        case = Case.of(ado.average_matvec, (vectors, matrix))
        assert np.isinf(case.expected[:, [1, 2, 5]]).all()
        assert np.isnan(case.expected[:, [3, 4]]).all()
        solves(case, variant)


@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_matrix_is_not_its_transpose(variant):
    """All operands are asymmetric, and small enough to compute by hand."""
    vectors = np.array([[[1, 3], [10, 30]], [[5, 7], [50, 70]], [[2, 2], [0, 0]]], np.float64)
    expected = np.array([[2002.0, 6006, 2], [20, 60, 0]])
    matrix = np.array([[1.0, 100.0], [0.0, 1.0]])
    check(ado.average_matvec, (vectors, matrix), expected, variant)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_repeated_calls_return_the_same_bits(variant, dtype, rng):
    """Sums of parts are added in a fixed order."""
    for shape in [(1, 7, 100_003), (3, 1030, 3), (40, 64, 300), (700, 5, 9)]:
        operands = problem(rng, shape, dtype)
        if affordable(operands) and not why_not(ado.average_matvec, variant, operands):
            first, second = (ado.average_matvec(*operands, variant=variant) for _ in range(2))
            assert first.tobytes() == second.tobytes()


CLUSTER, ROWS, GEMM = "cluster", "row_product", "split_average_then_gemm"


def require_cublas():
    tiny = np.zeros((1, 4, 1)), np.zeros((4, 4))
    if ado.average_matvec.problem(*tiny, device="cpu").why_not(GEMM):
        pytest.skip("cuBLAS was not found")


@pytest.mark.parametrize(
    ("shape", "float32", "float64"),
    [
        # One launch of clusters: limited by sets and samples per cluster, and by the matrix.
        *[((1, 1, 1), CLUSTER, CLUSTER), ((9, 30, 70), CLUSTER, CLUSTER)],
        *[((100, 45, 90), CLUSTER, CLUSTER), ((10_000, 45, 9), GEMM, GEMM)],
        *[((1_000_000, 11, 1), GEMM, GEMM), ((1_000_000, 16, 9), GEMM, GEMM)],
        *[((3, 65, 2), CLUSTER, CLUSTER), ((2, 9, 800), CLUSTER, CLUSTER)],
        *[((1, 1, 24_576), CLUSTER, CLUSTER), ((1, 1, 24_577), ROWS, ROWS)],
        *[((16, 365, 7), CLUSTER, CLUSTER), ((64, 365, 7), ROWS, GEMM)],
        *[((1, 627, 2), CLUSTER, CLUSTER), ((1, 628, 2), CLUSTER, ROWS), ((1, 887, 2), ROWS, ROWS)],
        *[((4, 365, 1), CLUSTER, CLUSTER), ((4, 364, 1), ROWS, ROWS), ((5, 365, 1), ROWS, ROWS)],
        # One vector: cuBLAS is faster if the vector is short, or if matrix rows are not aligned.
        *[((1, 400, 1), GEMM, GEMM), ((1, 404, 1), ROWS, ROWS), ((1, 1000, 2), ROWS, ROWS)],
        *[((1, 1100, 5), ROWS, ROWS), ((1, 1101, 5), GEMM, ROWS), ((1, 1501, 5), GEMM, GEMM)],
        ((1, 8000, 5), ROWS, GEMM),
        # With more sets, row_product is faster than cuBLAS only for smaller matrices.
        *[((3, 9001, 5), ROWS, ROWS), ((4, 9000, 5), ROWS, GEMM), ((4, 9001, 5), ROWS, ROWS)],
        *[((5, 4501, 5), GEMM, ROWS), ((5, 4504, 5), ROWS, ROWS), ((9, 500, 5), CLUSTER, ROWS)],
        *[((16, 501, 5), ROWS, GEMM), ((16, 2400, 5), ROWS, GEMM), ((16, 2401, 5), GEMM, GEMM)],
        *[((24, 400, 5), ROWS, ROWS), ((24, 401, 5), ROWS, GEMM), ((48, 901, 5), GEMM, GEMM)],
        *[((32, 250, 5), ROWS, ROWS), ((32, 251, 5), ROWS, GEMM), ((64, 120, 5), ROWS, ROWS)],
        *[((64, 600, 5), ROWS, GEMM), ((64, 601, 5), GEMM, GEMM), ((257, 200, 5), GEMM, GEMM)],
        *[((256, 300, 5), ROWS, GEMM), ((256, 64, 100), ROWS, ROWS)],
        # Tiny matrices and long rows.
        *[((16, 16, 5000), ROWS, ROWS), ((17, 16, 5000), GEMM, GEMM), ((17, 17, 5000), ROWS, ROWS)],
        # The read of long vectors hides the product in float32.
        *[((1024, 1024, 1024), "overlapped", GEMM), ((1024, 1024, 499), GEMM, GEMM)],
        *[((1024, 1028, 512), GEMM, GEMM), ((1024, 1023, 1024), GEMM, GEMM)],
        *[((31, 1104, 2000), GEMM, GEMM), ((32, 1104, 2000), "overlapped", GEMM)],
    ],
)
def test_choice_on_an_h200(shape, float32, float64):
    require_cublas()
    for dtype, variant in ((np.float32, float32), (np.float64, float64)):
        vectors, matrix = (np.broadcast_to(dtype(0), s) for s in (shape, (shape[1], shape[1])))
        assert h200_choice(ado.average_matvec, vectors, matrix) == variant, (shape, dtype)


@pytest.mark.parametrize("multiprocessors", [1, 8, 40, 108, 132, 148, 188])
def test_plans_follow_the_multiprocessors(multiprocessors):
    require_cublas()

    def plan(variant, sets, length, samples):
        shapes = (sets, length, samples), (length, length)
        operands = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
        return plan_on(multiprocessors, ado.average_matvec, variant, *operands)

    # Two rows of 16 MB: about four parts per multiprocessor, of at most 128 KiB.
    few = plan("split_average_then_gemm", 1, 2, 1 << 22)
    assert few.grid[0] >= max(2 * 128, 0.98 * 4 * multiprocessors)
    assert few.grid[0] <= max(2 * 128, 4 * multiprocessors + 2)
    assert few.scratch_bytes == 4 * (2 + few.grid[0])  # the averages and the sums of the parts
    # Averages, the product of groups of 32 sets, and the product of the last 16 sets.
    assert plan("overlapped", 1040, 1024, 1024).grid[0] == 1040 * 1024 // 8 + 32 * 32 + 128
    # 32 blocks of rows, in clusters as large as are resident and fit on one GPC: seven on an H200.
    blocks = plan("row_product", 8, 1024, 1).grid[0]
    assert blocks % 32 == 0
    assert blocks <= max(32, 2 * multiprocessors)
    assert blocks == 224 or multiprocessors != 132


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the flags of SSE")
def test_no_operand_is_subnormal(rng, monkeypatch):
    """The result hides values of unused lanes, but subnormal ones make each FMA much slower."""
    monkeypatch.setattr(ado.settings, "device", "cpu")
    libm, state, subnormal = ctypes.CDLL("libm.so.6"), (ctypes.c_uint32 * 8)(), 2
    for sets in (20, 21, 40):
        operands = problem(rng, (sets, 64, 3), np.float32)
        leftovers = np.full((96, 64, 3), 1e-40, np.float32)  # fills the scratch memory
        ado.average_matvec(leftovers, operands[1], variant="blocked")
        libm.fegetenv(state)
        state[7] &= ~subnormal
        libm.fesetenv(state)
        ado.average_matvec(*operands, variant="blocked")
        libm.fegetenv(state)
        assert not state[7] & subnormal
