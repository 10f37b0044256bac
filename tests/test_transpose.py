"""Every variant of the transpose ladder against NumPy, at edge-case sizes and layouts."""

import conftest
import numpy as np
import pytest
from conftest import isa_levels, random_of, strided_views, variants_of, why_not
from hypothesis import given, settings
from hypothesis import strategies as st

import adokernels as ado

TYPES = ["u1", "i2", "f4", "f8", "c16"]
LENGTHS = [0, 1, 2, 15, 31, 32, 33, 63, 64, 65, 127, 129, 257]
SHAPES = (
    [(n, n) for n in LENGTHS]
    + [(1, 1000), (1000, 1), (3, 517), (517, 3), (64, 96), (96, 64), (100, 128), (129, 255)]
    + [(0, 5), (5, 0)]
)


def check(a, **how):
    return conftest.check(ado.transpose, (a,), a.T, **how)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_shapes(variant, dtype, rng):
    for shape in SHAPES:
        check(random_of(rng, shape, dtype), variant=variant)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_no_variant_refuses_aligned_rows(variant, dtype, rng):
    for shape in [(64, 64), (128, 256), (512, 64), (16, 1024)]:
        assert check(random_of(rng, shape, dtype), variant=variant)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_one_large_odd_shape(variant, dtype, rng):
    check(random_of(rng, (1031, 2049), dtype), variant=variant)


@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_larger_than_the_cache(variant, rng):
    """Past the size at which stores become non-temporal."""
    check(random_of(rng, (5003, 4999), "f4"), variant=variant)


@pytest.mark.parametrize("isa", isa_levels())
@pytest.mark.parametrize("dtype", TYPES)
def test_every_instruction_set(isa, dtype, rng, isa_restored):
    ado.set_isa(isa)
    for variant in (v.name for v in ado.transpose if v.device == "cpu" and not v.ceiling):
        for shape in SHAPES:
            check(random_of(rng, shape, dtype), variant=variant)
        check(random_of(rng, (2500, 4001), dtype), variant=variant)


@pytest.mark.gpu
@pytest.mark.parametrize("variant", [v.name for v in ado.transpose if v.device == "cuda"])
def test_every_block_shape(variant, rng):
    a = random_of(rng, (128, 256), "f4")
    for block in ado.transpose[variant].blocks:
        if ado.transpose[variant].ceiling:
            ado.transpose(a, variant=variant, block=block)
        else:
            check(a, variant=variant, block=block)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_any_strides(variant, dtype, rng):
    for a in strided_views(random_of(rng, (67, 131), dtype)).values():
        check(a, variant=variant)


@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_unaligned_memory(variant, rng):
    raw = rng.integers(0, 256, 33 * 65 * 8 + 1, np.uint8)
    check(raw[1:].view("f8").reshape(33, 65), variant=variant)


@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_strided_out(variant, rng):
    a = random_of(rng, (32, 72), "f4")
    for make in (lambda: np.empty((72, 40), "f4")[:, :32], lambda: np.empty((144, 32), "f4")[::2]):
        out = make()
        ado.transpose(a, variant=variant, out=out)
        assert out.tobytes() == a.T.tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_in_place(variant, dtype, rng):
    for n in [*LENGTHS, 1000]:
        a = random_of(rng, (n, n), dtype)
        expected = a.T.tobytes()
        refused = ""
        try:
            assert ado.transpose(a, variant=variant, out=a) is a
        except ValueError as error:
            refused = str(error)
        if refused:  # then with a reason, and the array is untouched
            assert f"transpose[{variant}]: " in refused
            assert a.T.tobytes() == expected
        else:
            assert a.tobytes() == expected


def test_default_works_in_place_on_a_padded_view(rng):
    whole = random_of(rng, (300, 400), "f4")
    before = whole.copy()
    view = whole[:, 50:350]
    ado.transpose(view, out=view)
    assert np.array_equal(view.view("u4"), before[:, 50:350].T.view("u4"))
    assert np.array_equal(whole[:, :50].view("u4"), before[:, :50].view("u4"))
    assert np.array_equal(whole[:, 350:].view("u4"), before[:, 350:].view("u4"))


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "f2", ">f4", "<M8[s]", "S4", "U1", "V16", [("re", "<f4"), ("im", "<f4")]]
)
def test_types_keep_their_meaning(dtype, rng):
    a = random_of(rng, (5, 9), dtype)
    result = ado.transpose(a)
    assert result.dtype == a.dtype
    assert result.tobytes() == a.T.tobytes()


def test_lists_are_read_as_numpy_reads_them():
    assert ado.transpose([[1, 2, 3], [4, 5, 6]]).tolist() == [[1, 4], [2, 5], [3, 6]]


@given(
    rows=st.integers(0, 200),
    cols=st.integers(0, 200),
    dtype=st.sampled_from(TYPES),
    steps=st.tuples(st.sampled_from([-3, -1, 1, 2]), st.sampled_from([-2, -1, 1, 3])),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_any_slice_by_any_variant(rows, cols, dtype, steps, data):
    names = [v.name for v in ado.transpose if v.available and not v.ceiling]
    variant = data.draw(st.sampled_from(names))
    rng = np.random.default_rng(rows * 201 + cols)
    check(random_of(rng, (rows, cols), dtype)[:: steps[0], :: steps[1]], variant=variant)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_device_arrays(variant, dtype, rng):
    if ado.transpose[variant].device != "cuda":
        pytest.skip("a CPU variant")
    for shape in [(128, 256), (129, 255)]:
        a = random_of(rng, shape, dtype)
        if why_not(ado.transpose, variant, (a,)):
            continue
        on_device = ado.to_device(a)
        result = ado.transpose(on_device, variant=variant)
        assert isinstance(result, ado.DeviceArray)
        assert result.numpy().tobytes() == a.T.tobytes()
        out = ado.to_device(np.zeros(shape[::-1], a.dtype))
        assert ado.transpose(on_device, variant=variant, out=out) is out
        assert out.numpy().tobytes() == a.T.tobytes()


@pytest.mark.gpu
def test_in_place_on_the_device(rng):
    a = random_of(rng, (517, 517), "f4")
    on_device = ado.to_device(a)
    ado.transpose(on_device, out=on_device)
    assert on_device.numpy().tobytes() == a.T.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1, 5_000_000), (5_000_000, 1), (3, 2_000_003), (2_000_003, 3)])
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_grids_beyond_65535_blocks(variant, shape, rng):
    if ado.transpose[variant].device == "cuda":
        check(random_of(rng, shape, "u1"), variant=variant)
