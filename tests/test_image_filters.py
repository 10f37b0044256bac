"""Every variant of the image filters against NumPy, at special values and large sizes."""

import functools
import re

import numpy as np
import pytest
from choices import CORES, h200_choice
from conftest import check, isa_levels, random_of, shared_data, variants_of, why_not
from hypothesis import given, settings
from hypothesis import strategies as st

import adokernels as ado
from adokernels.model import tasks
from adokernels.model.routine import batch_option

COLOUR = (ado.grayscale, ado.edge_detect)
FILTERS = (ado.grayscale, ado.gaussian_blur, ado.sobel, ado.edge_detect)
#: (name of the routine, name of the variant)
RUNGS = [
    pytest.param(
        routine.name, *variant.values, marks=variant.marks, id=f"{routine.name}-{variant.id}"
    )
    for routine in FILTERS
    for variant in variants_of(routine)
]
LENGTHS = [1, 2, 3, 4, 6, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 130]
SHAPES = (
    [(n, n) for n in LENGTHS]
    + [(1, 1000), (1000, 1), (2, 517), (517, 3), (5, 479), (6, 480), (7, 481), (40, 513), (0, 5)]
    + [(5, 0), (12, 48), (33, 1024), (131, 62)]
)
BORDERS = ("constant", "replicate", "reflect101")
TAPS = [(1, 2, 3, 4, 3, 2, 1), (1, 6, 15, 20, 15, 6, 1), (0, 0, 0, 1, 0, 0, 0), (1,) * 7]
TAPS += [(256, 0, 0, 0, 0, 0, 0), (0, 0, 3, 5, 7, 0, 100), (36, 37, 36, 38, 36, 37, 36)]


def luminance(rgba):
    """The documented result of all variants of grayscale, computed in another way."""
    r, g, b = (rgba[..., c].astype(np.uint32) for c in range(3))
    return ((19585 * r + 38457 * g + 7494 * b) >> 16).astype(np.uint8)


EXPECTED = {
    "grayscale": luminance,
    "gaussian_blur": tasks.TASKS["gaussian_blur"].expected,
    "sobel": tasks.TASKS["sobel"].expected,
    "edge_detect": lambda rgba: tasks.TASKS["sobel"].expected(
        tasks.TASKS["gaussian_blur"].expected(luminance(rgba))
    ),
}


def image_for(rng, routine, shape, channels=4):
    """Random pixels, with channels for a colour filter."""
    return random_of(rng, (*shape, channels) if routine in COLOUR else shape, np.uint8)


def has_wrong_width(variant, image):
    """Return whether the variant must decline the image because of its width."""
    return variant == "lane_per_row" and not 20 <= image.shape[-1] <= 256


def compare(routine, image, expected=None, **how):
    """Return True if the result is correct or the variant declines the width of the image."""
    how |= batch_option(routine, image)
    expected = EXPECTED[routine.name](image) if expected is None else expected
    done = check(routine, (image,), expected, **how)
    return done or has_wrong_width(how.get("variant"), image)


@functools.lru_cache(maxsize=64)
def known(name, shape, channels=4):
    """A random image with its expected result, which NumPy computes more slowly than variants."""
    with shared_data(f"{name} {shape} {channels}"):
        image = image_for(np.random.default_rng(), ado.routines[name], shape, channels)
    return image, EXPECTED[name](image)


@functools.cache
def known_blur(shape, border, taps):
    """A random image with its expected result for a border and weights."""
    with shared_data(f"blur {shape}"):
        image = random_of(np.random.default_rng(), shape, "u1")
    return image, tasks.TASKS["gaussian_blur"].expected(image, border=border, taps=taps)


@pytest.mark.parametrize("isa", isa_levels())
@pytest.mark.parametrize("variant", variants_of(ado.grayscale))
def test_grayscale_is_the_same_by_all_variants(variant, isa, isa_restored):
    """At every size; the task allows a difference of one level, for other implementations."""
    ado.settings.isa = isa
    for shape in [*SHAPES, (2, 3, 9, 31), (300, 1000)]:
        for channels in (3, 4):
            assert compare(ado.grayscale, *known("grayscale", shape, channels), variant=variant)


@pytest.mark.large
@pytest.mark.gpu
@pytest.mark.parametrize(("name", "variant"), [p for p in RUNGS if p.marks])
def test_as_many_pixels_as_are_measured(name, variant, rng):
    """Kernels may be launched with another configuration for large problems."""
    routine = ado.routines[name]
    for shape in [(4096, 4112), (4096, 64, 64), (70_001, 8, 32)]:
        assert compare(routine, image_for(rng, routine, shape), variant=variant)


@pytest.mark.large
@pytest.mark.gpu
@pytest.mark.parametrize("border", ["replicate", "reflect101"])
def test_borders_of_as_many_pixels_as_are_measured(border, rng):
    for shape in [(4096, 4112), (4096, 64, 64)]:
        image = random_of(rng, shape, "u1")
        expected = tasks.TASKS["gaussian_blur"].expected(image, border=border)
        assert check(ado.gaussian_blur, (image,), expected, device="cuda", border=border)


@pytest.mark.parametrize(("name", "variant"), RUNGS)
@pytest.mark.parametrize("cols", [5, 24, 25, 63, 100, 223, 497, 1001])
def test_batches_of_various_widths(name, variant, cols):
    """A warp may contain the end of one image and the beginning of the next one."""
    routine = ado.routines[name]
    for channels in (3, 4) if routine in COLOUR else (1,):
        assert compare(routine, *known(name, (3, 29, cols), channels), variant=variant)


@pytest.mark.parametrize(("name", "variant"), RUNGS)
def test_narrow_images_many_images_and_large_odd_shapes(name, variant, emulator):
    """Strips of rows, blocks that are not full, and more images than a grid is tall."""
    shapes = [(70_001, 3), (9001, 1), (5, 3001, 7), (2, 5000, 8), (3, 4001, 13), (4099, 32)]
    large = [(70_000, 2, 3), (1031, 2049), (700, 1920), (2501, 3999)]
    for shape in [*shapes, *([(900, 2, 3), (31, 99)] if emulator else large)]:
        assert compare(ado.routines[name], *known(name, shape), variant=variant)


@pytest.mark.parametrize(("name", "variant"), RUNGS)
def test_flat_images_and_extremes(name, variant, rng):
    """Sums are largest here, so 16-bit arithmetic would overflow here first."""
    routine = ado.routines[name]
    image = image_for(rng, routine, (70, 133))
    for level in (0, 1, 254, 255):
        assert compare(routine, np.full_like(image, level), variant=variant)
    assert compare(routine, np.where(image < 128, 0, 255).astype(np.uint8), variant=variant)


# ------------------------------------------------------------------------------------- grayscale


@functools.cache
def every_colour():
    """All 2**24 colours as one image, and the exact floor of the weighted sum."""
    levels = np.arange(256, dtype=np.uint8)
    colours = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1)
    colours = colours.reshape(4096, 4096, 3)
    return colours, tasks.TASKS["grayscale"].expected(colours)


@pytest.mark.parametrize("variant", variants_of(ado.grayscale))
def test_every_colour(variant):
    colours, exact = every_colour()
    gray = ado.grayscale(colours, variant=variant)
    distance = np.maximum(gray, exact) - np.minimum(gray, exact)
    assert distance.max() == 1
    assert np.count_nonzero(distance) / distance.size == pytest.approx(0.00035, abs=0.00001)
    assert gray[-1, -1] == 255
    assert gray[0, 0] == 0
    assert np.array_equal(gray, luminance(colours))  # so all variants agree, on all devices


# ------------------------------------------------------------------------------- gaussian_blur


@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("variant", variants_of(ado.gaussian_blur))
def test_borders_and_taps(variant, border, taps):
    """A variant supports all of them, or only the default."""
    general = not why_not(
        ado.gaussian_blur, variant, (np.zeros((1, 1), "u1"),), border="replicate", taps=TAPS[1]
    )
    for shape in [*SHAPES, (2, 5, 50), (300, 700)]:
        image, expected = known_blur(shape, border, taps)
        done = check(
            ado.gaussian_blur, (image,), expected, variant=variant, border=border, taps=taps
        )
        declined = has_wrong_width(variant, image)
        assert done or declined or (not general and (border, taps) != (BORDERS[0], TAPS[0]))


@given(taps=st.lists(st.integers(0, 40), min_size=7, max_size=7), data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_taps(taps, data):
    if not 1 <= sum(taps) <= 256:
        with pytest.raises(ValueError, match="sum of 1 to 256"):
            ado.gaussian_blur(np.zeros((2, 2), "u1"), taps=taps)
        return
    border = data.draw(st.sampled_from(BORDERS))
    shape = data.draw(st.tuples(st.integers(1, 20), st.integers(1, 100)))
    image = random_of(np.random.default_rng(sum(taps)), shape, "u1")
    expected = tasks.TASKS["gaussian_blur"].expected(image, border=border, taps=taps)
    assert np.array_equal(ado.gaussian_blur(image, border=border, taps=taps), expected)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"border": "wrap"}, ValueError, "border must be one of 'constant', 'replicate'"),
        ({"border": 1}, TypeError, "border must be a str, got 1"),
        ({"taps": (1, 2, 3)}, ValueError, "taps must have 7 elements, got (1, 2, 3)"),
        ({"taps": 7}, TypeError, "taps must be a tuple of int, got 7"),
        ({"taps": (1, 2, 3, 4, 3, 2, 0.5)}, TypeError, "taps[6] must be int, got 0.5"),
        ({"taps": (-1, 1, 1, 1, 1, 1, 1)}, ValueError, "taps must not be negative"),
        ({"taps": (0,) * 7}, ValueError, "taps must have a sum of 1 to 256"),
        ({"taps": (2**31 - 1,) * 7}, ValueError, "taps must have a sum of 1 to 256"),
        ({"taps": (2**40,) * 7}, ValueError, "taps[0] is out of range"),
        ({"taps": np.ones((7, 1), int)}, TypeError, "taps[0] must be int"),
        ({"border": "\ud800"}, ValueError, "border is not valid UTF-8"),
    ],
)
def test_wrong_options(options, error, text):
    with pytest.raises(error, match=re.escape(text)):
        ado.gaussian_blur(np.zeros((3, 3), np.uint8), **options)


# --------------------------------------------------------------------------------------- sobel


def every_gradient():
    """An image of 3x3 tiles whose centres have every (gx, gy) whose magnitude is below 255.

    Both gradients have the parity of the sum of the corners, so there are no others.
    """
    gx, gy = np.meshgrid(np.arange(-258, 259), np.arange(-258, 259), indexing="ij")
    keep = (gx - gy) % 2 == 0
    gx, gy = gx[keep], gy[keep]
    side = int(np.ceil(np.sqrt(gx.size)))
    gx, gy = (np.resize(g, (side, side)) for g in (gx, gy))
    odd = gx % 2  # the top right corner adds itself to both
    tiles = np.zeros((side, 3, side, 3), np.uint8)
    tiles[:, 0, :, 2] = odd
    for positive, negative, g in (((1, 2), (1, 0), gx), ((0, 1), (2, 1), gy)):
        tiles[:, positive[0], :, positive[1]] = np.maximum((g - odd) // 2, 0)
        tiles[:, negative[0], :, negative[1]] = np.maximum((odd - g) // 2, 0)
    return tiles.reshape(3 * side, 3 * side), np.hypot(gx, gy)


@pytest.mark.parametrize("variant", variants_of(ado.sobel))
def test_every_gradient(variant):
    image, magnitude = every_gradient()
    expected = np.minimum(magnitude, 255).astype(np.uint8)
    if has_wrong_width(variant, image):
        bands = np.stack(np.hsplit(image, 6))  # of 183 columns
        result = ado.sobel(bands, variant=variant, batch=True)[:, 1::3, 1::3]
        assert np.array_equal(np.hstack(result), expected)
        return
    result = ado.sobel(image, variant=variant)
    assert np.array_equal(result[1::3, 1::3], expected)
    assert np.array_equal(result, tasks.TASKS["sobel"].expected(image))


# --------------------------------------------------------------------------------- edge_detect


STAGES = ["grayscale", "gaussian_blur", "sobel"]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_sweep_ranks_the_stages(device, rng, tmp_path):
    rgba = random_of(rng, (50, 80, 4), "u1")
    sweep = ado.sweep(ado.edge_detect, rgba, device=device, seconds=0.02, progress=False)
    assert not sweep.skipped
    pipeline = sweep.variants[0]
    assert [s.routine for s in sweep.stages_of(pipeline)] == STAGES
    assert sweep.stages_of(pipeline)[1].problem.operands == (("gray", (50, 80), "uint8"),)
    assert not sweep.stages_of(sweep.variants[-1])
    text = repr(sweep)
    assert "Hotspots" in text
    assert re.search(rf"{pipeline.variant} +100 +\w+\[\w+\]", text)
    sweep.save(tmp_path / "edges.json")
    assert repr(ado.load(tmp_path / "edges.json")) == text


@pytest.mark.cuda
@pytest.mark.parametrize("routine", [ado.gaussian_blur, ado.sobel])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 11, 12, 13, 47, 300])
def test_numbers_of_columns_of_lanes(routine, rows, rng):
    """An image of a batch can begin at any byte."""
    for cols in [*range(20, 35), 47, 65, 100, 255, 256]:
        for images in (1, 3):
            image = image_for(rng, routine, (images, rows, cols), 3 + images // 2)
            assert compare(routine, image, variant="lane_per_row")


@pytest.mark.cuda
@pytest.mark.parametrize("routine", [ado.gaussian_blur, ado.sobel, ado.edge_detect])
def test_few_rows(routine, rng):
    """Bands that begin at the top of an image do not load rows above it."""
    variant = "fused" if routine in COLOUR else "sliding_window"
    for rows in range(1, 18):
        for cols in (1, 9, 33, 500, 4096, 70_001):
            image = image_for(rng, routine, (2, rows, cols), 3)
            assert compare(routine, image, variant=variant)


# ---------------------------------------------------------------------------- default variants


@pytest.mark.parametrize(
    ("routine", "shape", "default"),
    [
        # Rows begin at multiples of 4 bytes.
        *[(ado.sobel, (1024, 3968), "vectorised"), (ado.sobel, (1024, 3972), "sliding_window")],
        *[(ado.sobel, (500, 28, 28), "vectorised"), (ado.sobel, (520, 28, 28), "lane_per_row")],
        # Unaligned rows: to 4 bytes for `sobel`, to 16 bytes for `gaussian_blur`.
        *[(ado.sobel, (992, 2047), "float_fast"), (ado.sobel, (993, 2047), "sliding_window")],
        (ado.gaussian_blur, (1008, 2047), "float_taps"),
        (ado.gaussian_blur, (1009, 2047), "sliding_window"),
        (ado.gaussian_blur, (1008, 2044), "float_taps"),
        # Rows begin at multiples of 16 bytes.
        (ado.gaussian_blur, (16, 16_384), "separable"),
        (ado.gaussian_blur, (16, 16_400), "sliding_window"),
        # Narrow images.
        *[(ado.sobel, (131_072, 19), "sliding_window"), (ado.sobel, (131_072, 21), "lane_per_row")],
        *[(ado.sobel, (65_537, 255), "lane_per_row"), (ado.sobel, (65_537, 257), "sliding_window")],
        *[(ado.sobel, (65_536, 48), "sliding_window"), (ado.sobel, (65_536, 60), "lane_per_row")],
        (ado.gaussian_blur, (131_072, 25), "lane_per_row"),
        # Very small images.
        *[(ado.sobel, (512, 512), "naive"), (ado.sobel, (512, 513), "float_fast")],
        *[(ado.sobel, (512, 516), "vectorised"), (ado.gaussian_blur, (512, 511), "separable")],
        (ado.gaussian_blur, (512, 513), "float_taps"),
        # Small images with unaligned rows: at most 264 tiles of 120 x 16 pixels (528 with three
        # channels), or of 120 x 48 pixels.
        *[(ado.edge_detect, (1, 1, 3), "small_tiles"), (ado.edge_detect, (512, 512, 3), "fused")],
        (ado.edge_detect, (264, 48, 119, 4), "small_tiles"),
        (ado.edge_detect, (265, 48, 119, 4), "fused"),
        (ado.edge_detect, (528, 48, 119, 3), "small_tiles"),
        (ado.edge_detect, (529, 48, 119, 3), "fused"),
        # A routine without a crossover.
        (ado.grayscale, (1, 1, 3), "wide"),
    ],
)
def test_default_on_each_side_of_a_crossover(routine, shape, default):
    image = np.zeros(shape, "u1")
    assert h200_choice(routine, image, **batch_option(routine, image)) == default


def test_small_tiles_declines_more_tiles_than_blocks():
    for images, reason in ((2**31 - 1, ""), (2**31, "there are more tiles than blocks in a grid")):
        pixels = np.broadcast_to(np.zeros(4, "u1"), (images, 1, 1, 4))
        problem = CORES["edge_detect"].problem((pixels,), {}, "cpu")  # does not copy pixels
        assert problem.why_not("small_tiles") == reason


def test_default_for_borders_and_taps():
    """Only the sliding window supports them, so it is the default even for small images."""
    small = np.zeros((20, 21), "u1")
    assert h200_choice(ado.gaussian_blur, small, border="replicate") == "sliding_window"
    assert h200_choice(ado.gaussian_blur, small, taps=TAPS[1]) == "sliding_window"
    narrow = np.zeros((65_536, 3), "u1")
    assert h200_choice(ado.gaussian_blur, narrow, border="replicate") == "sliding_window"


# ------------------------------------------------------------------------------- calls


@pytest.mark.parametrize("routine", [ado.gaussian_blur, ado.sobel])
def test_no_filter_works_in_place(routine, rng):
    image = random_of(rng, (9, 9), "u1")
    before = image.copy()
    with pytest.raises(ValueError, match="out overlaps an operand"):
        routine(image, out=image)
    assert np.array_equal(image, before)


@pytest.mark.parametrize("variant", variants_of(ado.gaussian_blur))
def test_rows_without_columns_take_no_time(variant):
    if ado.gaussian_blur[variant].device == "cpu":
        assert ado.gaussian_blur(np.zeros((2**40, 0, 5), "u1"), variant=variant).size == 0
