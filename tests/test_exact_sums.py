"""The exact sums of ado.distributed, compared with math.fsum."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranks import results_of_ranks

from adokernels.large import exact_sums as exact

MOST = np.finfo(np.float64).max


def exact_sums(numbers, size):
    """Return the sums of the columns of an array, with its rows distributed over ranks."""

    def rank(comm):
        limbs = exact.to_limbs(numbers[comm.rank :: size])
        comm.all_sum(limbs)
        return exact.from_limbs(limbs)

    return results_of_ranks(size, rank)[0]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30), st.integers(1, 4))
def test_exact_sums(numbers, size):
    with contextlib.suppress(OverflowError):  # if an intermediate sum of fsum overflows
        (total,) = exact_sums(np.array(numbers)[:, None], size)
        assert total == math.fsum(numbers)


@pytest.mark.parametrize(
    ("numbers", "total"),
    [
        *[([], 0.0), ([1e16, 1.0, -1e16], 1.0), ([-5e-324, -5e-324], -1e-323)],
        *[([MOST, MOST, -MOST], MOST), ([-MOST, -MOST, MOST], -MOST), ([MOST, MOST], np.inf)],
        *[([-MOST, -MOST], -np.inf), ([1.0, np.inf], np.inf), ([1.0, -np.inf], -np.inf)],
        *[([np.inf, 1.0, -np.inf], np.nan), ([1.0, np.nan], np.nan)],
        # Halfway between two numbers: rounded to even, unless a smaller addend breaks the tie.
        ([1.0, 2.0**-53], 1.0),
        ([1.0, 2.0**-53, 5e-324], 1 + 2.0**-52),
        ([1 + 2.0**-52, 2.0**-53], 1 + 2.0**-51),
    ],
)
def test_exact_sums_at_the_limits(numbers, total):
    columns = np.array([numbers, np.ones(len(numbers))]).T.reshape(-1, 2)
    for size in (1, 2, 3):
        np.testing.assert_array_equal(exact_sums(columns, size), [total, len(numbers)])
