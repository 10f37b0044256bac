"""Gathers: types of indices, indices out of range, layouts, and the choice of the variant."""

import numpy as np
import pytest
from choices import h200_choice
from conftest import check, isa_levels, random_of, variants_of

import adokernels as ado

TYPES = ["u1", "i2", "f4", "f8", "c16"]
SIZES = [(1, 1), (1, 500), (7, 1), (1000, 3), (1000, 1021), (300, 4100), (5000, 64)]


@pytest.mark.parametrize("index_type", ["i4", "i8"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.gather))
def test_every_type_of_elements_and_indices(variant, dtype, index_type, rng):
    for length, count in SIZES:
        x = random_of(rng, length, dtype)
        index = rng.integers(0, length, count).astype(index_type)
        assert check(ado.gather, (x, index), x[index], variant)


@pytest.mark.parametrize("index_type", ["i4", "i8"])
@pytest.mark.parametrize("variant", variants_of(ado.gather))
def test_indices_out_of_range_select_the_first_or_last_element(variant, index_type, rng):
    x = random_of(rng, 100, "f4")
    limits = np.iinfo(index_type)
    values = [-1, 0, 99, 100, -100, -101, limits.min, limits.max, 2**31 - 1, -(2**31)]
    index = np.array(values * 20, index_type)
    expected = x[np.clip(index, 0, 99)]
    assert expected[:5].tobytes() == x[[0, 0, 99, 99, 0]].tobytes()
    assert check(ado.gather, (x, index), expected, variant)
    wild = random_of(rng, 3001, index_type)
    assert check(ado.gather, (x, wild), x[np.clip(wild, 0, 99)], variant)


@pytest.mark.parametrize("isa", isa_levels())
@pytest.mark.parametrize("dtype", TYPES)
def test_results_larger_than_the_cache(isa, dtype, rng, isa_restored):
    """Past the size at which stores become non-temporal."""
    ado.settings.isa = isa
    x = random_of(rng, 100_003, dtype)
    index = rng.integers(-5, len(x) + 5, (9 << 20) // x.itemsize + 77)
    expected = np.take(x, index, mode="clip")
    for variant in ("prefetch", "streaming", "threaded"):
        check(ado.gather, (x, index), expected, variant)


def test_an_empty_array_has_no_elements_to_select():
    empty = np.empty(0, "f4")
    assert ado.gather(empty, np.empty(0, "i8")).shape == (0,)
    with pytest.raises(ValueError, match="gather: x must have at least one element to select"):
        ado.gather(empty, np.array([0]))


@pytest.mark.parametrize("index", [np.zeros(3), np.zeros(3, "u4"), np.zeros(3, "i2"), [0.5]])
def test_type_of_the_index(index):
    with pytest.raises(TypeError, match="gather: index must have int32 or int64, got"):
        ado.gather(np.zeros(5), index)


def test_lists():
    assert ado.gather([10, 20, 30], [2, 0, -7, 9]).tolist() == [30, 10, 10, 30]


@pytest.mark.parametrize(("dtype", "index_type"), [("f4", "i8"), ("i4", "<i4"), ("i8", "<i8")])
def test_types_of_a_problem_with_one_type(dtype, index_type):
    """The index has the type of the problem, or int64 if the routine rejects that type."""
    types = ado.gather.task.operand_types((3, 4), dtype)
    assert types == [((3,), np.dtype(dtype)), ((4,), np.dtype(index_type))]


def test_bytes():
    """x is read at most once; the variants request every selected element."""
    for length, count, read in [(1000, 10, 10), (10, 1000, 10)]:
        cost = ado.gather["naive"].cost(np.zeros(length, "f4"), np.zeros(count, "i8"))
        assert (cost.flops, cost.bytes) == (0, 4 * read + 8 * count + 4 * count)
        assert cost.requested_bytes == 4 * count + 8 * count + 4 * count


@pytest.mark.parametrize(
    ("count", "variant"), [(1, "naive"), (131 * 1024, "naive"), (132 * 1024, "batched")]
)
def test_choice_on_an_h200(count, variant):
    assert h200_choice(ado.gather, np.empty(1000, "f4"), np.zeros(count, "i4")) == variant
