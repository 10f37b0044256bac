"""Compares the reference results with results by hand, and tests the comparator with wrong ones."""

import numpy as np
import pytest

import adokernels as ado
from adokernels.model import tasks
from adokernels.model.task import Task
from adokernels.model.values import Sample, largest_errors
from adokernels.records.forms import LARGEST


def test_every_routine_has_a_task():
    assert list(tasks.TASKS) == list(ado.routines)
    for name, task in tasks.TASKS.items():
        assert set(task.lengths) == set(ado.routines[name].dimensions)


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
    for unit in (None, 1.0, np.ones((3, 4))):
        assert not tasks.difference(spoil(right), right, unit) <= tolerance


@pytest.mark.parametrize("result", [np.zeros((3, 5)), np.zeros((3, 4), np.float32)])
def test_comparator_fails_on_another_shape_or_type(result):
    assert tasks.difference(result, np.zeros((3, 4))) == np.inf


def test_comparator_fails_when_only_the_expected_is_nan():
    assert tasks.difference(np.zeros(3), np.full(3, np.nan)) == np.inf


def test_comparator_passes_equal_nans_and_small_differences():
    right = np.array([1.0, np.nan, -np.inf])
    assert tasks.difference(right.copy(), right) == 0
    assert tasks.difference(right * (1 + 1e-9), right) == pytest.approx(1e-9, rel=1e-3)


def test_comparator_sees_differences_that_underflow():
    right = np.array([[1e300, 1e-30], [0.0, 1.0]])
    for index, value in [((0, 1), -5e-30), ((1, 0), -0.0), ((1, 0), 1e-320)]:
        wrong = right.copy()
        wrong[index] = value
        assert not tasks.difference(wrong, right) <= 0


def test_comparator_tells_values_from_bytes():
    """NaNs with other bits, and -0, are the same values; the smallest subnormal is not 0."""
    right = np.array([np.nan, 0.0, 100.0])
    for same in ([-np.nan, -0.0, 100.0], [np.nan, -0.0, 100.0]):
        assert tasks.difference(np.array(same), right) == tasks.SAME_VALUES
    other = np.array([np.nan, 5e-324, 100.0])
    assert tasks.difference(other, right) > tasks.SAME_VALUES
    assert tasks.difference(right, right) == 0


def test_comparator_measures_in_units():
    right, unit = np.array([1.0, 1000.0]), np.array([0.1, 10.0])
    assert tasks.difference(np.array([1.05, 1000]), right, unit) == pytest.approx(0.5)
    assert tasks.difference(np.array([1.05, 1020]), right, unit) == pytest.approx(2)
    assert tasks.difference(np.array([1.0, 1001]), right, unit * 0) == np.inf


def test_bound_of_averages_at_the_edges(rng):
    """Strided samples, numbers that underflow, no elements, sums that overflow in float64."""
    strided = np.asfortranarray(np.full((1, 2, 1_000_000), 0.1))
    assert tasks.TASKS["average_matvec"].expected(strided, np.eye(2)).tolist() == [[0.1], [0.1]]
    tiny = (rng.random((4, 8, 100)) * 1e-41).astype(np.float32)
    matrix = (rng.random((8, 8)) * 1000).astype(np.float32)
    sweep = ado.sweep(ado.average_matvec, tiny, matrix, device="cpu", seconds=0, ceilings=False)
    assert not sweep.skipped
    assert tasks.TASKS["average_matvec"].error_unit(
        np.zeros((3, 0, 5)), np.zeros((0, 0))
    ).shape == (0, 3)
    large = np.array([[[1.7e308, -1.7e308]]])
    assert np.isfinite(tasks.TASKS["average_matvec"].error_unit(large, np.ones((1, 1)))).all()


def test_gpp_sums_by_hand():
    """Two bands, two igp, one ig and two energies show which index belongs to which operand."""
    w, eps = np.array([[1.0], [2.0]], complex), np.array([[1.0], [1j]])
    aqsn, aqsm = np.array([[1j], [2.0]]), np.array([[1.0, 1j], [3.0, 1.0]], complex)
    wx, vcoul, occ = np.array([[3.0, 4.0], [5.0, 6.0]]), np.array([1.0, 10.0]), np.array([1, 0.5])
    asx, ach = np.zeros(2, complex), np.zeros(2, complex)
    for f, band, igp in np.ndindex(2, 2, 2):
        x, pole = wx[band, f], w[igp, 0]
        m = vcoul[igp] * aqsm[band, igp].conjugate() * aqsn[band, 0] * eps[igp, 0]
        asx[f] -= occ[band] * pole**2 / (x**2 - pole**2) * m
        ach[f] += pole / (x - pole) * m / 2
    result = tasks.gpp.expected(w, eps, aqsn, aqsm, wx, vcoul, occ)
    assert np.allclose(result, (asx, ach), rtol=1e-15)
    assert asx[0] == pytest.approx(-(1j / 8 + 8j + 1 / 8 + 40j / 21))


def test_bound_of_gpp_is_of_magnitudes():
    """Terms that cancel in the sum do not cancel in the bound; omitted terms are in neither."""
    w, eps, ones = (np.full((1, 2), z, complex) for z in (2.0, 3.0, 1.0))
    eps[0, 1] = -3
    operands = [w, eps, ones, np.ones((1, 1), complex), np.array([[4.0]]), np.ones(1), np.ones(1)]
    assert [a[0] for a in tasks.gpp.expected(*operands)] == [0, 0]
    asx, ach = (unit[0] / (33 * 2.0**-53) for unit in tasks.gpp.error_unit(*operands))
    assert (asx, ach) == pytest.approx((2 * 3 * 4 / 12, 2 * 3 * 1 / 2))
    operands[-1] = np.zeros(1)
    assert [unit[0] > 0 for unit in tasks.gpp.error_unit(*operands)] == [False, True]


def test_oracle_copies_the_padding_of_structures():
    padded = np.dtype([("a", "u1"), ("b", "<u4")], align=True)
    a = np.arange(2 * 3 * 8, dtype=np.uint8).view(padded).reshape(2, 3)
    assert tasks.TASKS["transpose"].expected(a).tobytes() == ado.transpose(a).tobytes()


def test_comparator_compares_tuples_one_by_one():
    pair = (np.ones(2), np.zeros(2))
    assert tasks.difference(pair, pair) == 0
    assert tasks.difference(pair[:1], pair) == np.inf
    assert tasks.difference((np.ones(2), np.ones(2)), pair) > 0


def test_comparator_takes_a_unit_for_each_result():
    right, wrong = (np.ones(2), np.full(2, 100.0)), (np.full(2, 1.5), np.full(2, 103.0))
    units = (np.array([1.0, 2.0]), np.full(2, 10.0))
    assert tasks.difference(wrong, right, units) == pytest.approx(0.5)
    assert tasks.difference(wrong, right, (units[0], np.array([10.0, 1.0]))) == pytest.approx(3)
    assert tasks.difference(wrong, right, units[1]) == pytest.approx(0.3)  # one unit for all
    assert tasks.difference(right, right, units) == 0
    assert tasks.difference(wrong, right, (units[0], 0 * units[1])) == np.inf


def test_check_says_where():
    right = np.arange(12.0).reshape(3, 4)
    with pytest.raises(ValueError, match=r"1 of 12 elements is .* worst at \[1, 2\]"):
        tasks.TASKS["transpose"].check(wrong_element(right), right)


def test_a_message_about_integers_and_other_bytes():
    with pytest.raises(ValueError, match=r"at \[1\] is 7, expected 250 \(error 243, allowed 1\)$"):
        Task(None, tolerance=1).check(np.array([8, 7], "u1"), np.array([9, 250], "u1"))
    with pytest.raises(ValueError, match=r"at \[0\] is -0\.0, expected 0\.0 .*other bytes\)$"):
        Task(None).check(np.array([-0.0]), np.array([0.0]))
    unit = np.array([1.0, 1e-1])
    with pytest.raises(ValueError, match=r"error 0\.4, allowed 0\.1\)$"):
        Task(None, tolerance=1).check(np.array([1.9, 2.4]), np.array([1.0, 2.0]), unit)


def test_a_message_about_a_sample_has_the_place_in_the_result():
    sample = Sample((3, 4), np.array([1, 6, 11]))
    right = np.arange(12.0).reshape(3, 4)
    wrong = right.copy()
    wrong[0, 0] = 7  # not in the sample
    assert Task(None).check(wrong, right.reshape(-1)[[1, 6, 11]], None, sample) == 0
    wrong[1, 2] += 2
    with pytest.raises(ValueError, match=r"1 of 3 randomly chosen elements is .* at \[1, 2\] is 8"):
        Task(None).check(wrong, right.reshape(-1)[[1, 6, 11]], None, sample)
    with pytest.raises(ValueError, match=r"float64 \(12,\), expected float64 \(3, 4\)"):
        Task(None).check(wrong.reshape(-1), right.reshape(-1)[[1, 6, 11]], None, sample)


def test_differences_of_large_integers_do_not_overflow():
    low, high = np.array([[np.iinfo(np.int64).min], [np.iinfo(np.int64).max]])
    assert tasks.difference(low, high) == tasks.difference(high, low) == 2.0**64


@pytest.mark.parametrize("name", tasks.TASKS)
def test_references_have_a_higher_precision_than_results_with_rounding(name):
    task = ado.routines[name].task
    for dtype in task.sanitizer.dtypes:
        operands = task.random_operands(task.sanitizer.shapes[1], dtype)
        results = tasks.as_tuple(task.expected(*operands))
        if results[0].dtype.kind not in "fc" or task.tolerance <= tasks.SAME_VALUES:
            assert task.exact is None
            continue
        for result, exact in zip(results, tasks.as_tuple(task.exact(*operands)), strict=True):
            assert np.finfo(exact.dtype).eps < np.finfo(result.dtype).eps
            np.testing.assert_array_equal(exact.astype(result.dtype), result)


def test_errors_in_ulp_and_relative():
    """Both refer to the reference or, near 0, to the root mean square of its row."""
    exact = np.array([1.0, 2.0, 4.0])
    ulp = np.spacing(np.float32(1))
    got = np.array([1, 2 + 6 * ulp, 4], np.float32)
    rms = np.sqrt(7)
    assert largest_errors(got, exact) == (3, pytest.approx(6 * ulp / rms))
    got = np.array([1, 2, 4 + 16 * ulp], np.float32)
    assert largest_errors(got, exact) == (4, pytest.approx(4 * ulp))
    half = exact + np.array([0, ulp, 0])  # between two float32
    assert largest_errors(half.astype(np.float32), half)[0] == 0.5
    tiny = largest_errors(np.array([1, 1e-30], "f4"), np.array([1, 1e-36]))
    assert max(tiny) < 2e-23  # in ulp of 1
    rows = np.array([[1.0, 0.0], [1e-6, 0.0]])
    wrong = rows.astype(np.float32)
    wrong[1, 1] = 1e-12  # beside 1e-6, not beside 1
    assert largest_errors(wrong, rows)[1] == pytest.approx(1e-6 * np.sqrt(2), rel=1e-3)
    assert largest_errors(np.array([2e300]), np.array([0.0]))[0] == LARGEST
    assert largest_errors(np.array([np.inf, np.nan, 1]), np.array([np.inf, np.nan, 1])) == (0, 0)
    pair = np.array([3 + 4j, 0], np.complex64), np.array([3 + 4j + 4.76837158203125e-07, 0])
    assert largest_errors(*pair)[0] == 1
    assert largest_errors(np.array([250, 9], "u1"), np.array([7, 9], "u1")) == (243, None)
    assert largest_errors(np.array([2], "u1"), np.array([2.5])) == (0.5, None)
    assert largest_errors(np.empty(0), np.empty(0)) == (0, 0)


def test_check_sees_structured_types():
    right = np.zeros((2, 2), dtype=[("re", "f4"), ("im", "f4")])
    wrong = right.copy()
    wrong["im"][0, 1] = 1
    with pytest.raises(ValueError, match=r"at \[0, 1\]"):
        tasks.TASKS["transpose"].check(wrong, right)
