"""average_matvec against higher precision: every variant within the bound of its struct."""

import numpy as np
import pytest
from conftest import POISON, variants_of, why_not

import adokernels as ado
from adokernels import _core, tasks

TYPES = (np.float32, np.float64)
LARGE = [(64, 256, 1024), (200, 300, 101), (1024, 64, 48), (1, 1024, 1024), (8, 2100, 33)]


def problem(rng, shape, dtype):
    n, length, m = shape
    return tuple((rng.random(s) - 0.5).astype(dtype) for s in ((n, length, m), (length, length)))


def error_in_bounds(result, operands):
    """Largest error relative to the bound, with the oracle written out again."""
    vectors, matrix = (a.astype(np.longdouble) for a in operands)
    dtype = operands[0].dtype
    expected = matrix @ vectors.mean(axis=2).T
    magnitudes = np.abs(matrix) @ np.abs(vectors).mean(axis=2).T
    u = 2.0 ** (-24 if dtype == np.float32 else -53)
    bound = (32 + len(matrix)) * u * magnitudes
    assert result.dtype == dtype
    assert result.shape == expected.shape
    assert np.isfinite(result).all()
    return float(np.max(np.abs(result - expected) / np.where(bound > 0, bound, 1), initial=0))


def run(operands, variant):
    """The result in poisoned memory with guards around it; None if the variant declines."""
    if reason := why_not(ado.average_matvec, variant, operands):
        with pytest.raises(ValueError, match="average_matvec"):
            ado.average_matvec(*operands, variant=variant)
        _, length, samples = operands[0].shape
        too_long = length > 1024
        hidden = samples >= 256 and length <= 8 * samples
        assert too_long or "cuBLAS" in reason or (variant == "overlapped" and not hidden)
        return None
    vectors, matrix = operands
    shape, guard = (len(matrix), len(vectors)), 64
    nbytes = int(np.prod(shape)) * vectors.itemsize
    whole = np.full(2 * guard + nbytes, POISON, np.uint8)
    out = whole[guard : guard + nbytes].view(vectors.dtype).reshape(shape)
    out.fill(np.nan)
    assert ado.average_matvec(*operands, variant=variant, out=out) is out
    assert (whole[:guard] == POISON).all()
    assert (whole[guard + nbytes :] == POISON).all()
    return out


def check(operands, variant):
    out = run(operands, variant)
    assert out is None or error_in_bounds(out, operands) <= 1, operands[0].shape
    return out


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_large(variant, dtype, rng):
    for shape in LARGE:
        operands = problem(rng, shape, dtype)
        out = run(operands, variant)
        if out is not None:
            unit = tasks.average_matvec.error_unit(*operands)
            tasks.TASKS["average_matvec"].check(out, tasks.average_matvec.expected(*operands), unit)


@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_numbers_of_the_blog_are_exact(variant, rng):
    """Ones and twos: every sum, average and product is a float32 without rounding."""
    vectors = rng.integers(1, 3, (6, 96, 1024)).astype(np.float32)
    matrix = rng.integers(1, 3, (96, 96)).astype(np.float32)
    expected = (matrix.astype(np.float64) @ vectors.astype(np.float64).mean(axis=2).T).astype("f4")
    out = run((vectors, matrix), variant)
    assert out is None or out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_a_million_samples(variant, dtype, rng):
    """Numbers of one sign with an offset: a plain float32 sum would lose half the digits."""
    vectors = (rng.random((2, 3, 1_000_003)) + 1000).astype(dtype)
    matrix = rng.random((3, 3)).astype(dtype)
    assert check((vectors, matrix), variant) is not None or "gemm" in variant


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_infinities_and_nan(variant, dtype, rng):
    """The values that a plain sum and product give, in their columns and in no others."""
    for m in (3, 64, 700):
        vectors, matrix = problem(rng, (9, 20, m), dtype)
        vectors[1, 3, m // 2] = np.inf
        vectors[2, 4, 0] = -np.inf
        vectors[3, 5, m - 1] = np.nan
        vectors[4, 6, 0], vectors[4, 6, m - 1] = np.inf, -np.inf
        vectors[5, 7, :] = np.inf
        expected = tasks.average_matvec.expected(vectors, matrix)
        assert np.isinf(expected[:, [1, 2, 5]]).all()
        assert np.isnan(expected[:, [3, 4]]).all()
        out = run((vectors, matrix), variant)
        if out is not None:
            unit = tasks.average_matvec.error_unit(vectors, matrix)
            tasks.TASKS["average_matvec"].check(out, expected, unit)


@pytest.mark.parametrize("variant", variants_of(ado.average_matvec))
def test_matrix_is_not_its_transpose(variant):
    """Asymmetric in every operand, small enough to see."""
    vectors = np.array([[[1, 3], [10, 30]], [[5, 7], [50, 70]], [[2, 2], [0, 0]]], np.float64)
    out = run((vectors, np.array([[1.0, 100.0], [0.0, 1.0]])), variant)
    assert out is None or out.tolist() == [[2002, 6006, 2], [20, 60, 0]]


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((2, 1024, 64), "the product takes longer than the read"),
        ((2, 64, 64), "with M below 256"),
        ((2, 2049, 256), "the product takes longer than the read"),
        ((2, 2048, 256), ""),
        ((2, 1024, 1024), ""),
    ],
)
def test_overlapped_declines_what_it_cannot_hide(shape, reason):
    operands = np.zeros(shape, np.float32), np.zeros((shape[1], shape[1]), np.float32)
    why = ado.average_matvec.problem(*operands, device="cpu").why_not("overlapped")
    assert why.startswith(reason)
    assert bool(why) == bool(reason)


def test_bound_notices_plain_float32_sums(rng):
    """A test of the tests: plain float32 sums, which variants must not use, exceed the bound."""
    vectors = (rng.random((1, 2, 1_000_003)) + 1000).astype(np.float32)
    matrix = np.eye(2, dtype=np.float32)
    plain = np.cumsum(vectors, axis=2, dtype=np.float32)[..., -1] / np.float32(vectors.shape[2])
    assert error_in_bounds(plain.T.copy(), (vectors, matrix)) > 1


def test_oracle(rng):
    for dtype in TYPES:
        operands = problem(rng, (4, 9, 50), dtype)
        assert error_in_bounds(tasks.average_matvec.expected(*operands), operands) < 0.1


@pytest.mark.parametrize("name", ["average_matvec", "max_plus"])
def test_more_threads_than_when_it_was_prepared(name, rng):
    """The scratch memory of a call that runs again and again grows with its threads."""
    before = _core.max_threads()
    operands = {
        "average_matvec": problem(rng, (8, 64, 4096), np.float64),
        "max_plus": (rng.random((200_000, 8)), rng.random(200_000)),
    }[name]
    task = tasks.TASKS[name]
    expected = task.expected(*operands)
    unit = task.error_unit(*operands) if task.error_unit else None
    try:
        for variant in (v.name for v in ado.routines[name] if v.device == "cpu" and not v.ceiling):
            _core.set_max_threads(1, at_any_size=True)
            prepared = ado.routines[name].problem(*operands, device="cpu")
            call = prepared.prepare(variant)
            for threads in (1, 7, 2):
                _core.set_max_threads(threads, at_any_size=True)
                prepared.fill_results(0xFF)
                call.run()
                task.check(prepared.results(), expected, unit)
    finally:
        _core.set_max_threads(before)


def test_wrong_arguments():
    vectors, matrix = np.zeros((2, 3, 4)), np.zeros((3, 3))
    with pytest.raises(ValueError, match="M must be at least 1"):
        ado.average_matvec(vectors[..., :0], matrix)
    with pytest.raises(
        ValueError, match=r"matrix must have shape \(L, L\) with L = 3 from vectors"
    ):
        ado.average_matvec(vectors, np.zeros((4, 4)))
    with pytest.raises(ValueError, match=r"matrix must have shape \(L, L\)"):
        ado.average_matvec(vectors, np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"vectors must have shape \(N, L, M\)"):
        ado.average_matvec(matrix, matrix)
    with pytest.raises(TypeError, match="vectors must have float32 or float64"):
        ado.average_matvec(vectors.astype(int), matrix.astype(int))
