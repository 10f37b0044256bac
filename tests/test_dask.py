"""Routines with Dask arrays: lazy results with the bits and errors of calls with NumPy arrays."""

import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import run_python
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts import ROOT

import adokernels as ado

da = pytest.importorskip("dask.array")

FILTERS = [ado.grayscale, ado.gaussian_blur, ado.sobel, ado.edge_detect]
COLOUR = {"grayscale", "edge_detect"}
BORDERS = ["constant", "replicate", "reflect101"]


def identical(lazy, expected):
    """Return True if the result has the bits of a NumPy array. Check its type and shape."""
    assert isinstance(lazy, da.Array)
    result = lazy.compute(scheduler="sync")
    assert type(result) is np.ndarray
    assert lazy.shape == result.shape == expected.shape
    assert lazy.dtype == result.dtype == expected.dtype
    assert [sum(chunks) for chunks in lazy.chunks] == list(expected.shape)
    return result.tobytes() == expected.tobytes()


@st.composite
def chunks_of(draw, length):
    """Chunks of an axis. Many are smaller than the halo."""
    chunks = []
    while sum(chunks) < length:
        chunks.append(min(draw(st.integers(1, 12)), length - sum(chunks)))
    return tuple(chunks or [0])


@st.composite
def images(draw, routine):
    """An image or a batch of images as a NumPy array, and chunks for it."""
    shape = draw(st.lists(st.integers(1, 3), max_size=2))
    shape += draw(st.tuples(st.integers(0, 40), st.integers(0, 40)))
    if routine.name in COLOUR:
        shape.append(draw(st.sampled_from([3, 4])))
    chunks = tuple(draw(chunks_of(length)) for length in shape)
    seed = draw(st.integers(0, 2**32 - 1))
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8), chunks


@pytest.mark.parametrize("routine", FILTERS, ids=lambda r: r.name)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_filters_do_not_depend_on_the_chunks(routine, data):
    image, chunks = data.draw(images(routine))
    options = {}
    if "batch" in routine.options:
        options["batch"] = True
    if "border" in routine.options:
        options["border"] = data.draw(st.sampled_from(BORDERS))
    lazy = routine(da.from_array(image, chunks=chunks), **options)
    assert identical(lazy, routine(image, **options))


@pytest.mark.parametrize("routine", [ado.sobel, ado.gaussian_blur], ids=lambda r: r.name)
def test_a_block_of_a_batch_may_have_the_shape_of_a_colour_image(routine, rng):
    batch = rng.integers(0, 256, (3, 9, 12), np.uint8)
    lazy = routine(da.from_array(batch, chunks=(3, 9, (2, 4, 3, 3))))
    assert identical(lazy, routine(batch))
    narrow = batch[..., :4]
    with pytest.raises(ValueError, match="looks like a colour image"):
        routine(da.from_array(narrow))
    assert identical(routine(da.from_array(narrow), batch=True), routine(narrow, batch=True))


def test_options_reach_each_block(rng):
    image = rng.integers(0, 256, (50, 30), np.uint8)
    options = {"taps": [1, 0, 0, 2, 0, 5, 1], "border": "replicate", "device": "cpu"}
    lazy = ado.gaussian_blur(gray=da.from_array(image, chunks=11), **options)
    assert identical(lazy, ado.gaussian_blur(image, **options))


@pytest.mark.parametrize("dtype", ["u1", "bool", "f4", ">f8", "c16", "M8[s]", "u1,u1"])
def test_transpose(dtype, rng):
    a = rng.integers(0, 256, (23, 31 * np.dtype(dtype).itemsize), np.uint8)
    a = (a % 2).view(dtype) if dtype == "bool" else a.view(dtype)
    lazy = ado.transpose(da.from_array(a, chunks=(5, (20, 11))))
    assert lazy.chunks == ((20, 11), (5, 5, 5, 5, 3))
    assert identical(lazy, np.ascontiguousarray(a.T))


@st.composite
def sums(draw, dtype):
    """Operands of max_plus, with NaN, infinities and zeros of both signs, and chunks for big."""
    terms, points = draw(st.integers(0, 60)), draw(st.integers(0, 20))
    special = np.array([0, -0.0, 1, -1, -np.inf, np.inf, np.nan], dtype)
    kinds = draw(st.sampled_from([2, 4, 5, 7]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    big = special[rng.integers(0, kinds, (terms, points))]
    return (
        big,
        rng.choice([0, -0.0, 1], terms).astype(dtype),
        (draw(chunks_of(terms)), draw(chunks_of(points))),
    )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_max_plus_does_not_depend_on_the_chunks(dtype, data):
    big, small, chunks = data.draw(sums(dtype))
    expected = ado.max_plus(big, small)
    lazy = ado.max_plus(da.from_array(big, chunks=chunks), small)
    assert lazy.chunks == (chunks[1],)
    assert lazy.dtype == expected.dtype
    result = lazy.compute(scheduler="sync")
    np.testing.assert_array_equal(result, expected)
    assert (np.signbit(result) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("lazy_operands", ["big", "small", "both"])
def test_operands_of_max_plus_may_be_numpy_arrays(lazy_operands, rng):
    operands = {"big": rng.random((40, 30)), "small": rng.random(40)}
    lazy = {
        name: operand
        if lazy_operands not in (name, "both")
        else da.from_array(operand, chunks=7 if name == "big" else 9)
        for name, operand in operands.items()
    }
    assert identical(ado.max_plus(**lazy), ado.max_plus(**operands))


# These variants compute one set at a time. In the other variants, the order of the additions
# depends on the number of sets and on the number of threads.
@pytest.mark.parametrize("variant", ["naive_loops", "interchange", "pairwise"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_average_matvec_does_not_depend_on_the_chunks(variant, dtype, rng):
    vectors = rng.standard_normal((13, 6, 50)).astype(dtype)
    matrix = rng.standard_normal((6, 6)).astype(dtype)
    expected = ado.average_matvec(vectors, matrix, variant=variant)
    for chunks in [(4, 6, 50), (5, 2, 7), (13, 6, 1), (1, 6, 50)]:
        lazy = ado.average_matvec(
            da.from_array(vectors, chunks=chunks), da.from_array(matrix, chunks=4), variant=variant
        )
        assert identical(lazy, expected)
    assert ado.average_matvec(da.from_array(vectors, chunks=(4, 6, 50)), matrix).numblocks == (1, 4)


IMAGE, REALS = np.zeros((8, 9), np.uint8), np.zeros((8, 9))
INVALID_CALLS = [
    lambda x: ado.sobel(x(REALS)),
    lambda x: ado.sobel(x(IMAGE[0])),
    lambda x: ado.sobel(x(IMAGE), variant="fastest"),
    lambda x: ado.sobel(x(IMAGE), bach=True),
    lambda x: ado.sobel(x(IMAGE), batch=3),
    lambda x: ado.sobel(x(IMAGE), x(IMAGE)),
    lambda x: ado.sobel(x(IMAGE), gray=x(IMAGE)),
    lambda x: ado.sobel["simd"](x(IMAGE), variant="simd"),
    lambda x: ado.edge_detect(x(IMAGE)),
    lambda x: ado.gaussian_blur(x(IMAGE), taps=[1, 2]),
    lambda x: ado.gaussian_blur(x(IMAGE), border="wrap"),
    lambda x: ado.transpose(x(REALS[0])),
    lambda x: ado.transpose(x(REALS.astype(object))),
    lambda x: ado.max_plus(x(REALS)),
    lambda x: ado.max_plus(x(REALS), x(REALS[0])),
    lambda x: ado.max_plus(x(REALS), np.zeros(8, "f4")),
    lambda x: ado.average_matvec(x(np.zeros((2, 3, 0))), np.zeros((3, 3))),
    lambda x: ado.average_matvec(x(np.zeros((2, 3, 4))), np.zeros((3, 2))),
]


@pytest.mark.parametrize("call", INVALID_CALLS)
def test_invalid_calls_raise_the_errors_of_numpy_arrays(call):
    with pytest.raises((TypeError, ValueError, KeyError)) as expected:
        call(lambda array: array)
    # The error is raised without compute().
    with pytest.raises(expected.type, match=f"^{re.escape(str(expected.value))}$"):
        call(lambda array: da.from_array(array, chunks=-1))


@pytest.mark.parametrize("name", ["out", "stream"])
def test_results_are_new_arrays(name):
    lazy = da.from_array(IMAGE)
    with pytest.raises(TypeError, match=f"sobel: {name} must be None for Dask arrays"):
        ado.sobel(lazy, **{name: np.zeros_like(IMAGE)})
    with pytest.raises(TypeError, match="sobel: out must be None for Dask arrays"):
        ado.sobel(IMAGE, out=lazy)


def test_other_routines_do_not_support_dask_arrays():
    lazy = da.from_array(REALS)
    with pytest.raises(TypeError, match=r"gpp does not support Dask arrays; ado\.distributed\.gpp"):
        ado.gpp(lazy)
    with pytest.raises(TypeError, match="component does not support Dask arrays"):
        ado.component(lazy, c=1)


def test_unknown_chunk_sizes():
    lazy = da.from_array(IMAGE, chunks=4)
    lazy = lazy[lazy[:, 0] == 0]
    with pytest.raises(ValueError, match=r"known chunk sizes.*compute_chunk_sizes\(\)"):
        ado.sobel(lazy)
    assert identical(ado.sobel(lazy.compute_chunk_sizes()), ado.sobel(IMAGE))


def test_nothing_is_computed_before_compute():
    def fail(block):
        raise AssertionError("computed")

    side = 4_000_000  # the image is larger than any memory
    image = da.zeros((side, side, 4), dtype=np.uint8, chunks=(side // 4, side // 4, 4))
    image = image.map_blocks(fail, dtype=np.uint8, meta=np.empty((0, 0, 0), np.uint8))
    edges = ado.edge_detect(image)
    assert edges.shape == (side, side)
    assert edges.chunks == image.chunks[:2]
    with pytest.raises(AssertionError, match="computed"):
        edges[:1, :1].compute(scheduler="sync")


def test_keys_depend_on_operands_and_options():
    one, two = da.zeros((9, 9), dtype=np.uint8, chunks=4), da.ones((9, 9), dtype=np.uint8, chunks=4)
    lazy = [
        ado.sobel(one),
        ado.sobel(two),
        ado.sobel(two, variant="simd"),
        ado.gaussian_blur(two),
        ado.gaussian_blur(two, border="replicate"),
        ado.transpose(two),
        ado.transpose(two, variant="naive_loops"),
    ]
    assert len({array.name for array in lazy}) == len(lazy)
    assert ado.sobel(two, variant="simd").name == lazy[2].name


def test_dask_is_imported_only_with_dask_arrays():
    run_python(
        "import sys, numpy, adokernels as ado\n"
        "image = numpy.zeros((4, 4), 'u1')\n"
        "ado.sobel(image, variant='simd')\n"
        "ado.sobel['simd'](image)\n"
        "ado.sobel(image)\n"
        "assert 'dask' not in sys.modules\n"
        "sys.modules['dask.array'] = type(sys)('dask.array')\n"  # as while it is being imported
        "ado.sobel(image, variant='simd')\n"
    )


def test_options_are_copied():
    taps = [1, 2, 3, 4, 3, 2, 1]
    image = np.arange(600, dtype=np.uint8).reshape(20, 30)
    lazy = ado.gaussian_blur(da.from_array(image, chunks=10), taps=taps)
    expected = ado.gaussian_blur(image, taps=taps)
    taps[0] = 40
    np.testing.assert_array_equal(lazy.compute(), expected)


def test_options_are_no_dask_arrays():
    image = da.zeros((20, 30), dtype=np.uint8)
    with pytest.raises(TypeError, match="taps must not be a Dask array"):
        ado.gaussian_blur(image, taps=da.ones(7, int))


@pytest.mark.parametrize(
    ("keywords", "error", "text"),
    [
        ({"device": 3}, TypeError, "device must be a string"),
        ({"variant": "simd", "device": "cuda"}, ValueError, "runs on cpu"),
    ],
)
def test_names_are_checked_at_once(keywords, error, text):
    with pytest.raises(error, match=text):
        ado.sobel(da.zeros((20, 30), dtype=np.uint8), **keywords)


def test_keywords_apply_to_the_blocks():
    lazy = ado.sobel(da.zeros((20, 30), dtype=np.uint8), variant="simd", block=(7, 7))
    with pytest.raises(ValueError, match="block"):
        lazy.compute()


def test_methods_refuse_dask_arrays():
    def compute(block):
        raise AssertionError

    image = da.zeros((20, 30), dtype=np.uint8).map_blocks(compute, dtype=np.uint8)
    for function in (ado.sobel.problem, ado.sobel["simd"].cost, ado.sobel.choose):
        with pytest.raises(TypeError, match="must not be Dask arrays"):
            function(image)


def test_example(tmp_path):
    pytest.importorskip("zarr")
    example = ROOT / "examples" / "dask" / "edge_detect_zarr.py"
    files = [str(tmp_path / name) for name in ("image.zarr", "edges.zarr")]
    done = subprocess.run(
        [sys.executable, example, "--size", "700", "--rows", "90", "--cols", "300", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    image, edges = (da.from_zarr(file).compute() for file in files)
    assert image.shape == (700, 700, 4)
    assert image.std() > 0
    assert edges.tobytes() == ado.edge_detect(image).tobytes()
    assert "100%" in done.stdout
