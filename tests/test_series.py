"""Variants of the element-wise routines with long formulas: special values, strides, sizes."""

import numpy as np
import pytest
from conftest import isa_levels, variants_of

import adokernels as ado
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


LAYOUTS = {
    "rows of one element": lambda a: a[:, :1],
    "a column of a row": lambda a: a[:1, :1].T,
    "short rows": lambda a: a[:, :3],
    "columns": lambda a: a[:, :40].T,
    "reversed": lambda a: a[::-1, ::-1],
    "rows in reverse order": lambda a: a[::-1],
    "axes of length one": lambda a: a[:, None, :7, None],
    "three axes in reverse order": lambda a: a.reshape(-1, 10, 97)[::-1, ::-1, ::-1],
    "three axes, two of them packed": lambda a: a.reshape(-1, 10, 97)[:, :4],
    "one row for all": lambda a: np.broadcast_to(a[0], (50, 97)),
    "one element for all": lambda a: np.broadcast_to(a[0, 0], (50, 3)),
    "no element": lambda a: a[:, :0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_layouts(name, layout, rng, isa_restored):
    """A group extends over several rows, so that short rows do not leave it almost empty."""
    routine = ado.routines[name]
    for isa in isa_levels():
        ado.settings.isa = isa
        for dtype in TYPES:
            x = LAYOUTS[layout](rng.uniform(-1, 1, (130, 97)).astype(dtype))
            wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype)
            for variant in [v.name for v in routine if v.device == "cpu"]:
                check(name, x, variant)
                check(name, x, variant, out=wide[..., ::2])
                packed = routine[variant].cost(np.ascontiguousarray(x))
                assert routine[variant].cost(x).executed_flops == packed.executed_flops
            assert not wide[..., 1::2].any()


@pytest.mark.parametrize("name", NAMES)
def test_float64_is_not_computed_in_float32(name, rng):
    """The bound of float64 rejects the result of float32."""
    task = tasks.TASKS[name]
    x = rng.uniform(0.5, 1, 64).astype(np.float32).astype(np.float64)
    wrong = ado.routines[name](x.astype(np.float32), device="cpu").astype(np.float64)
    with pytest.raises(ValueError, match="wrong result"):
        task.check(wrong, task.expected(x), task.error_unit(x))


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
