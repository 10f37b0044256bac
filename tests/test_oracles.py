"""The oracles against hand-written results, and the comparator against wrong ones."""

import numpy as np
import pytest

import adokernels as ado
from adokernels import oracles


def test_every_routine_has_an_oracle():
    assert set(oracles.ORACLES) == set(ado.routines)


def test_transpose_by_hand():
    assert oracles.transpose([[1, 2, 3], [4, 5, 6]]).tolist() == [[1, 4], [2, 5], [3, 6]]


def wrong_element(a):
    a = a.copy()
    a[1, 2] += 1
    return a


def not_a_number(a):
    a = a.copy()
    a[0, 0] = np.nan
    return a


def permuted(a):
    return a[::-1].copy()


@pytest.mark.parametrize("spoil", [wrong_element, not_a_number, permuted, np.transpose])
@pytest.mark.parametrize("tolerance", [0.0, 1e-6])
def test_comparator_fails_on(spoil, tolerance):
    right = np.arange(12.0).reshape(3, 4)
    assert not oracles.difference(spoil(right), right) <= tolerance


@pytest.mark.parametrize("result", [np.zeros((3, 5)), np.zeros((3, 4), np.float32)])
def test_comparator_fails_on_another_shape_or_type(result):
    assert oracles.difference(result, np.zeros((3, 4))) == np.inf


def test_comparator_fails_when_only_the_expected_is_nan():
    assert oracles.difference(np.zeros(3), np.full(3, np.nan)) == np.inf


def test_comparator_passes_equal_nans_and_small_differences():
    right = np.array([1.0, np.nan, -np.inf])
    assert oracles.difference(right.copy(), right) == 0
    assert oracles.difference(right * (1 + 1e-9), right) == pytest.approx(1e-9, rel=1e-3)


def test_comparator_sees_differences_that_underflow():
    right = np.array([[1e300, 1e-30], [0.0, 1.0]])
    for index, value in [((0, 1), -5e-30), ((1, 0), -0.0), ((1, 0), 1e-320)]:
        wrong = right.copy()
        wrong[index] = value
        assert not oracles.difference(wrong, right) <= 0


def test_comparator_tells_values_from_bytes():
    """Another NaN or zero is the same value; the smallest number is not 0."""
    right = np.array([np.nan, 0.0, 100.0])
    for same in ([-np.nan, -0.0, 100.0], [np.nan, -0.0, 100.0]):
        assert oracles.difference(np.array(same), right) == oracles.SAME_VALUES
    other = np.array([np.nan, 5e-324, 100.0])
    assert oracles.difference(other, right) > oracles.SAME_VALUES
    assert oracles.difference(right, right) == 0


def test_comparator_measures_in_units():
    right, unit = np.array([1.0, 1000.0]), np.array([0.1, 10.0])
    assert oracles.difference(np.array([1.05, 1000]), right, unit) == pytest.approx(0.5)
    assert oracles.difference(np.array([1.05, 1020]), right, unit) == pytest.approx(2)
    assert oracles.difference(np.array([1.0, 1001]), right, unit * 0) == np.inf


def test_bound_of_averages_at_the_edges(rng):
    """Strided samples, numbers that underflow, no elements, sums that overflow in float64."""
    strided = np.asfortranarray(np.full((1, 2, 1_000_000), 0.1))
    assert oracles.average_matvec(strided, np.eye(2)).tolist() == [[0.1], [0.1]]
    tiny = (rng.random((4, 8, 100)) * 1e-41).astype(np.float32)
    matrix = (rng.random((8, 8)) * 1000).astype(np.float32)
    sweep = ado.sweep(ado.average_matvec, tiny, matrix, device="cpu", seconds=0, ceilings=False)
    assert not sweep.skipped
    assert oracles.average_matvec_bound(np.zeros((3, 0, 5)), np.zeros((0, 0))).shape == (0, 3)
    large = np.array([[[1.7e308, -1.7e308]]])
    assert np.isfinite(oracles.average_matvec_bound(large, np.ones((1, 1)))).all()


def test_oracle_copies_the_padding_of_structures():
    padded = np.dtype([("a", "u1"), ("b", "<u4")], align=True)
    a = np.arange(2 * 3 * 8, dtype=np.uint8).view(padded).reshape(2, 3)
    assert oracles.transpose(a).tobytes() == ado.transpose(a).tobytes()


def test_comparator_compares_tuples_one_by_one():
    pair = (np.ones(2), np.zeros(2))
    assert oracles.difference(pair, pair) == 0
    assert oracles.difference(pair[:1], pair) == np.inf
    assert oracles.difference((np.ones(2), np.ones(2)), pair) > 0


def test_check_says_where():
    right = np.arange(12.0).reshape(3, 4)
    with pytest.raises(ValueError, match=r"1 of 12 elements differ, the first at \(1, 2\)"):
        oracles.check("transpose", wrong_element(right), right)


def test_check_sees_structured_types():
    right = np.zeros((2, 2), dtype=[("re", "f4"), ("im", "f4")])
    wrong = right.copy()
    wrong["im"][0, 1] = 1
    with pytest.raises(ValueError, match=r"at \(0, 1\)"):
        oracles.check("transpose", wrong, right)
