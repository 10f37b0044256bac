"""Filters of gray images reject arrays of the shape of colour images, unless ``batch=True``."""

from functools import partial

import numpy as np
import pytest
from conftest import random_of

import adokernels as ado
from adokernels.model import tasks

FILTERS = pytest.mark.parametrize("routine", [ado.sobel, ado.gaussian_blur], ids=lambda r: r.name)


def expected(routine, image):
    return tasks.TASKS[routine.name].expected(image)


@FILTERS
@pytest.mark.parametrize("how", [{}, {"variant": "naive_loops"}, {"batch": False}])
@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7, 4), (2, 5, 7, 3), (0, 7, 3)])
def test_colour_images_are_refused(routine, how, shape):
    """By the fast path of default calls and by the general one."""
    message = (
        rf"^{routine.name}: gray must be \(\.\.\., rows, cols\) with one channel, "
        rf"got \({', '.join(map(str, shape))}\): it looks like a colour image, so convert it with "
        r"ado\.grayscale, or pass batch=True if it is a batch"
    )
    image = np.zeros(shape, np.uint8)
    with pytest.raises(ValueError, match=message):
        routine(image, **how)
    with pytest.raises(ValueError, match=message):
        routine(image, out=np.empty_like(image), **how)


@FILTERS
def test_every_use_of_a_routine_refuses_them(routine):
    image = np.zeros((5, 7, 3), np.uint8)
    for use in (
        *(routine.problem, routine.choose, routine["simd"].cost),
        *(partial(ado.sweep, routine), partial(ado.measure, routine)),
        partial(ado.check, np.sort, routine),
    ):
        with pytest.raises(ValueError, match=r"got \(5, 7, 3\): it looks like a colour image"):
            use(image)


@FILTERS
def test_batches_of_narrow_images(routine, rng):
    for shape in [(5, 7, 3), (6, 9, 4), (2, 3, 5, 3), (0, 5, 4)]:
        images = random_of(rng, shape, "u1")
        for variant in [v.name for v in routine if v.available and not v.ceiling]:
            result = routine(images, variant=variant, batch=True)
            assert np.array_equal(result, expected(routine, images))
        assert np.array_equal(routine(images, batch=np.True_, device="cpu"), result)


@FILTERS
def test_images_that_cannot_be_colour_images_need_no_option(routine, rng):
    for shape in [(7, 3), (7, 4), (3, 4), (3, 7, 5), (4, 7, 2), (4, 3, 1)]:
        image = random_of(rng, shape, "u1")
        assert np.array_equal(routine(image, device="cpu"), expected(routine, image))


@pytest.mark.parametrize("value", [1, 0, "yes", None, 1.0, np.ones(2, bool)])
def test_batch_is_a_bool(value):
    with pytest.raises(TypeError, match="sobel: batch must be bool, got"):
        ado.sobel(np.zeros((3, 3), np.uint8), batch=value)


@pytest.mark.parametrize("cols", [3, 4])
def test_stages_of_a_pipeline_are_not_refused(cols, rng):
    """The gray images between the stages are batches, whatever their width."""
    images = random_of(rng, (6, 9, cols, 3), "u1")
    right = tasks.TASKS["edge_detect"].expected(images)
    for variant in [v.name for v in ado.edge_detect if v.available and not v.ceiling]:
        if not ado.edge_detect.problem(images, variant=variant).why_not(variant):
            assert np.array_equal(ado.edge_detect(images, variant=variant), right)
    sweep = ado.sweep(
        ado.edge_detect, images, device="cpu", seconds=0.01, ceilings=False, progress=False
    )
    pipeline = next(m for m in sweep if m.stages)
    stages = sweep.stages_of(pipeline)
    assert [s.problem.options for s in stages] == [{}, {"batch": True}, {"batch": True}]


def test_records_contain_the_option_only_if_it_was_passed(rng, tmp_path):
    path = tmp_path / "m.json"
    wide = ado.measure(ado.sobel, random_of(rng, (3, 9, 40), "u1"), device="cpu", seconds=0.01)
    assert wide.problem.options == {}
    narrow = random_of(rng, (9, 40, 3), "u1")
    confirmed = ado.measure(ado.sobel, narrow, device="cpu", seconds=0.01, batch=True)
    confirmed.save(path)
    assert ado.records.Measurement.load(path).problem.options == {"batch": True}
