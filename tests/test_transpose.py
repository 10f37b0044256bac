"""Every variant of transpose against NumPy, at special values and large sizes."""

import conftest
import numpy as np
import pytest
from choices import h200_choice
from conftest import NO_CUDA, isa_levels, random_of, variants_of

import adokernels as ado
from adokernels import _core

TYPES = ["u1", "i2", "f4", "f8", "c16"]
LENGTHS = [0, 1, 2, 15, 31, 32, 33, 63, 64, 65, 127, 129, 257]


def check(a, **how):
    return conftest.check(ado.transpose, (a,), a.T, **how)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_every_variant_solves_its_problems(variant, dtype, rng):
    if variant == "in_place":
        a = random_of(rng, (160, 160), dtype)
        expected = a.T.tobytes()
        assert ado.transpose(a, variant=variant, out=a).tobytes() == expected
    elif variant == "as_copy":
        for shape in [(1, 1), (1, 777), (3001, 1), (1, 7)]:
            assert check(random_of(rng, shape, dtype), variant=variant)
    elif variant == "few_rows":
        for shape in [(2, 3), (7, 1001), (3, 4099), (32, 500), (256, 300)]:
            assert check(random_of(rng, shape, dtype), variant=variant)
    elif variant == "few_columns":
        for shape in [(3, 2), (1001, 7), (4099, 3), (500, 32), (300, 256), (30011, 5)]:
            assert check(random_of(rng, shape, dtype), variant=variant)
    elif variant in ("wide", "tma"):
        for shape in [(160, 160), (160, 256), (512, 192), (144, 1024), (16, 64), (272, 304)]:
            assert check(random_of(rng, shape, dtype), variant=variant)
    else:
        for shape in [(64, 64), (128, 256), (512, 64), (16, 1024), (129, 255), (5, 300)]:
            assert check(random_of(rng, shape, dtype), variant=variant)


# Default variants on an H200, on both sides of each crossover.
CHOICES = [
    # empty, and a single row or column
    *[("u1", (0, 5), "narrow_blocks"), ("c16", (0, 1), "as_copy"), ("f8", (1, 101377), "as_copy")],
    *[("f8", (17, 5963), "coarsened"), ("u2", (16, 42240), "few_rows")],
    # no barrier: 800 elements of at most 4 bytes per multiprocessor
    *[("u1", (320, 330), "narrow_blocks"), ("u1", (320, 331), "coarsened")],
    # small matrices with rows of a aligned to 16 bytes and rows of out to 32, and not aligned
    *[("f4", (1024, 1536), "coarsened"), ("f4", (1024, 1584), "wide")],
    *[("f4", (1319, 1599), "coarsened"), ("f4", (1345, 1599), "unaligned_rows")],
    # boxes for elements of 4 and 16 bytes: from 112 KiB per multiprocessor on, up to the size of L2
    *[("f4", (1792, 2096), "wide"), ("f4", (1792, 2112), "tma"), ("f4", (2560, 3072), "tma")],
    *[("f4", (2560, 3104), "wide"), ("f4", (512, 8192), "tma"), ("f4", (504, 8192), "wide")],
    *[("f8", (1792, 2112), "wide"), ("c16", (924, 1022), "coarsened"), ("c16", (924, 1024), "tma")],
    # alignment of large matrices
    *[("f4", (8192, 8192), "wide"), ("f4", (8196, 8192), "unaligned_rows")],
    # few rows: limit of the long dimension; few columns
    *[("f4", (20, 33760), "coarsened"), ("f4", (20, 33793), "few_rows")],
    *[("f4", (33760, 20), "coarsened"), ("f4", (33793, 20), "few_columns")],
    # few rows: limit of the short dimension; few columns
    *[("u1", (176, 100000), "few_rows"), ("u1", (192, 100000), "wide")],
    *[("f4", (127, 100001), "few_rows"), ("f4", (128, 100001), "unaligned_rows")],
    *[("c16", (100000, 15), "few_columns"), ("c16", (100000, 49), "wide")],
]


@pytest.mark.parametrize(("dtype", "shape", "variant"), CHOICES)
def test_choice_on_an_h200(dtype, shape, variant):
    assert h200_choice(ado.transpose, np.empty(shape, dtype)) == variant


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", TYPES)
def test_every_number_of_rows(dtype, rng):
    for rows in range(1, 260):
        check(random_of(rng, (rows, 67), dtype), variant="unaligned_rows")


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("variant", "shape", "in_place", "reason"),
    [
        ("naive", (160, 160), True, "use `in_place`"),
        ("coarsened", (160, 160), True, "use `in_place`"),
        ("wide", (160, 160), True, "use `in_place`"),
        ("tma", (160, 160), True, "use `in_place`"),
        ("unaligned_rows", (131, 131), True, "use `in_place`"),
        ("few_columns", (131, 131), True, "use `in_place`"),
        ("few_rows", (131, 131), True, "use `in_place`"),
        ("as_copy", (1, 1), True, "use `in_place`"),
        ("in_place", (160, 160), False, "out is not a"),
        ("wide", (129, 255), False, "not aligned to 16 bytes"),
        ("tma", (129, 255), False, "not aligned to 16 bytes"),
        ("few_columns", (2, 257), False, "more than 256 columns"),
        ("few_rows", (257, 2), False, "more than 256 rows"),
        ("as_copy", (2, 2), False, "more than one row and more than one column"),
    ],
)
def test_why_a_variant_declines(variant, shape, in_place, reason, rng):
    a = random_of(rng, shape, "f4")
    before = a.tobytes()
    with pytest.raises(ValueError, match=rf"transpose\[{variant}\]: .*{reason}"):
        ado.transpose(a, variant=variant, out=a if in_place else None)
    assert a.tobytes() == before


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_one_large_odd_shape(variant, dtype, rng, emulator):
    check(random_of(rng, (71, 131) if emulator else (1031, 2049), dtype), variant=variant)


@pytest.mark.parametrize("isa", isa_levels())
@pytest.mark.parametrize("dtype", TYPES)
def test_large_with_every_instruction_set(isa, dtype, rng, isa_restored):
    ado.settings.isa = isa
    a = random_of(rng, (2500, 4001), dtype)
    expected = np.ascontiguousarray(a.T)
    for variant in (v.name for v in ado.transpose if v.device == "cpu" and not v.ceiling):
        conftest.check(ado.transpose, (a,), expected, variant)


@pytest.mark.parametrize("isa", isa_levels())
def test_large_results_at_any_byte(isa, rng, isa_restored):
    """Rows are whole cache lines, but elements need not begin where a line begins."""
    ado.settings.isa = isa
    a = random_of(rng, (1024, 2100), "f4")
    expected = a.T.tobytes()
    whole = np.empty(a.nbytes + 128, np.uint8)
    for shift in (0, 1, 4, 6):
        first = -whole.ctypes.data % 64 + shift
        out = whole[first : first + a.nbytes].view("f4").reshape(2100, 1024)
        for variant in (v.name for v in ado.transpose if v.device == "cpu" and not v.ceiling):
            whole[:] = 0
            ado.transpose(a, variant=variant, out=out)
            assert out.tobytes() == expected, (variant, shift)


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


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", [v.name for v in ado.transpose if v.device == "cpu"][1:])
def test_rows_of_out_far_apart(variant, dtype, rng):
    """Parts are then small, so that calls can be interrupted."""
    a = random_of(rng, (301, 2 * 149), dtype)[:, ::2]  # `direct` needs no buffer
    out = np.empty((149, (1 << 18) // a.itemsize), dtype)[:, :301]
    ado.transpose(a, variant=variant, out=out)
    assert out.tobytes() == a.T.tobytes()


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "f2", ">f4", "<M8[s]", "S4", "U1", "V16", [("re", "<f4"), ("im", "<f4")]]
)
def test_types_keep_their_meaning(dtype, rng):
    a = random_of(rng, (5, 9), dtype)
    result = ado.transpose(a)
    assert result.dtype == a.dtype
    assert result.tobytes() == a.T.tobytes()


@pytest.mark.parametrize("shape", [(1, 5_000_000), (5_000_000, 1), (3, 2_000_003), (2_000_003, 3)])
@pytest.mark.parametrize("variant", variants_of(ado.transpose))
def test_grids_beyond_65535_blocks(variant, shape, rng):
    if ado.transpose[variant].device == "cuda":
        check(random_of(rng, shape, "u1"), variant=variant)


@pytest.fixture(scope="module")
def huge():
    """A matrix with more than 2^31 elements, in host and device memory; most elements are 0."""
    if not NO_CUDA and _core.cuda_properties("cuda")["memory_bytes"] < 8 << 30:
        pytest.skip("the GPU has too little memory")
    side = 46_352
    a = np.zeros((side, side), np.uint8)
    a[-1] = np.arange(side) % 251
    a[:, -1] = np.arange(side) % 241
    return a, ado.to_device(a)


@pytest.mark.large
@pytest.mark.gpu
@pytest.mark.parametrize("variant", [p for p in variants_of(ado.transpose) if p.marks])
def test_more_than_2_31_elements(variant, huge):
    a, on_device = huge
    if reason := ado.transpose.problem(on_device, variant=variant).why_not(variant):
        pytest.skip(reason)
    result = ado.transpose(on_device, variant=variant).numpy()
    assert np.array_equal(result[-1], a[:, -1])
    assert np.array_equal(result[:, -1], a[-1])
