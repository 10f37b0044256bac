"""Strided copies: the length of the result, options, layouts, and the choice of the variant."""

import numpy as np
import pytest
from choices import h200_choice
from conftest import check, isa_levels, random_of, variants_of

import adokernels as ado

TYPES = ["u1", "i2", "f4", "f8", "c16"]
STRIDES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 100, 511, 512)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.strided_copy))
def test_every_stride(variant, dtype, rng):
    x = random_of(rng, 5003, dtype)
    for stride in STRIDES:
        for offset in (0, 1, 3, stride - 1, 5000):
            expected = x[offset::stride].copy()
            check(ado.strided_copy, (x,), expected, variant, stride=stride, offset=offset)


@pytest.mark.parametrize("isa", isa_levels())
@pytest.mark.parametrize("dtype", TYPES)
def test_results_larger_than_the_cache(isa, dtype, rng, isa_restored):
    """Past the size at which stores become non-temporal, with results at any alignment."""
    ado.settings.isa = isa
    x = random_of(rng, (40 << 20) // np.dtype(dtype).itemsize + 13, dtype)
    for variant in ("streaming", "threaded"):
        for stride, offset in [(2, 0), (3, 2), (4, 5), (1, 1)]:
            expected = x[offset::stride].copy()
            check(ado.strided_copy, (x,), expected, variant, stride=stride, offset=offset)


@pytest.mark.parametrize(
    ("length", "stride", "offset", "count"),
    [
        *[(0, 1, 0, 0), (10, 1, 0, 10), (10, 3, 0, 4), (10, 3, 1, 3), (10, 9, 0, 2)],
        *[(10, 10, 0, 1), (10, 2, 9, 1), (10, 2, 10, 0), (10, 2**63 - 1, 3, 1)],
        (10, 2**63 - 1, 2**63 - 1, 0),
    ],
)
def test_length_of_the_result(length, stride, offset, count):
    x = np.arange(length, dtype="i4")
    result = ado.strided_copy(x, stride=stride, offset=offset)
    assert result.shape == (count,)
    assert result.tolist() == x[offset::stride].tolist()
    out = np.empty(count, "i4")
    assert ado.strided_copy(x, stride=stride, offset=offset, out=out) is out
    assert h200_choice(ado.strided_copy, x, stride=stride, offset=offset)


@pytest.mark.parametrize("step", [-3, -1, 2, 5])
@pytest.mark.parametrize("variant", variants_of(ado.strided_copy))
def test_strides_of_the_operand(variant, step, rng):
    x = random_of(rng, 4001, "f4")[::step]
    assert check(ado.strided_copy, (x,), x[3::2].copy(), variant, stride=2, offset=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 0}, "strided_copy: stride must be at least 1, got 0"),
        ({"stride": -2}, "strided_copy: stride must be at least 1, got -2"),
        ({"offset": -1}, "strided_copy: offset must be at least 0, got -1"),
        ({"stride": 2**63}, "strided_copy: stride is out of range"),
    ],
)
@pytest.mark.parametrize("out", [None, np.empty(7)])
def test_invalid_options(options, message, out):
    """The options are checked before the length of the result, which depends on them."""
    with pytest.raises(ValueError, match=f"^{message}"):
        ado.strided_copy(np.zeros(10), out=out, **options)


def test_wrong_length_of_out():
    message = (
        r"strided_copy: out must have shape \(count,\) with count = 4 from the operands and "
        r"options, got \(5,\)"
    )
    with pytest.raises(ValueError, match=message):
        ado.strided_copy(np.zeros(10), stride=3, out=np.empty(5))
    with pytest.raises(ValueError, match="count = 5"):
        ado.strided_copy(np.zeros(10), out=np.empty(4))


@pytest.mark.parametrize(
    ("dtype", "length", "stride", "variant"),
    [
        *[("f4", 64 << 20, 1, "staged"), ("f4", 64 << 20, 2, "staged")],
        *[("f4", 64 << 20, 8, "staged"), ("f4", 64 << 20, 9, "batched")],
        *[("f4", 64 << 20, 32, "batched"), ("u1", 128 << 20, 32, "staged")],
        *[("u1", 128 << 20, 33, "batched"), ("c16", 64 << 20, 2, "staged")],
        *[("c16", 64 << 20, 3, "batched"), ("f4", 2 * 131 * 1024, 2, "naive")],
        *[("f4", 2 * 132 * 1024, 2, "batched"), ("u1", 3 * (4 << 20) - 3, 3, "batched")],
        ("u1", 3 * (4 << 20), 3, "staged"),
    ],
)
def test_choice_on_an_h200(dtype, length, stride, variant):
    x = np.empty(length, dtype)
    assert h200_choice(ado.strided_copy, x, stride=stride) == variant


def requested(variant, length, dtype, **options):
    x = np.broadcast_to(np.zeros(1, dtype), (length,))  # memory is not allocated
    x = np.lib.stride_tricks.as_strided(x, (length,), (np.dtype(dtype).itemsize,))
    return ado.strided_copy[variant].cost(x, **options).requested_bytes


@pytest.mark.parametrize("variant", ["sectors", "naive", "batched"])
def test_requested_bytes_are_those_of_sectors(variant):
    """One sector of 32 bytes per element, or fewer if elements share sectors; and the result."""
    n = 1 << 20
    for stride, sectors in [(1, n // 8), (2, n // 8), (8, n // 8), (16, n // 16), (32, n // 32)]:
        expected = 32 * sectors + 4 * n // stride
        assert requested(variant, n, "f4", stride=stride) == expected
    # Elements 7 and 9, 11 ... of 8 elements per sector: the first and the last sector, too.
    assert requested(variant, 24, "f4", stride=2, offset=7) == 3 * 32 + 4 * 9
    assert requested(variant, 24, "f4", stride=2, offset=24) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("shift", [1, 2, 3, 5])
@pytest.mark.parametrize("variant", variants_of(ado.strided_copy, ceilings=True))
def test_device_views_that_start_inside_a_sector(variant, shift, rng):
    torch = pytest.importorskip("torch")
    if ado.strided_copy[variant].device != "cuda":
        pytest.skip("a CPU variant")
    host = random_of(rng, 40_007, "i4")
    x = torch.from_numpy(host).cuda()[shift:-shift]
    if ado.strided_copy[variant].ceiling:
        with pytest.raises(ValueError, match="x is not aligned to a sector"):
            ado.strided_copy(x, variant=variant)
        return
    for stride, offset in [(1, 0), (2, 1), (3, 0), (8, 7), (100, 99)]:
        result = ado.strided_copy(x, stride=stride, offset=offset, variant=variant)
        assert np.array_equal(result.numpy(), host[shift:-shift][offset::stride])


@pytest.mark.gpu
@pytest.mark.parametrize("variant", variants_of(ado.strided_copy, ceilings=True))
def test_more_elements_than_32_bits(variant):
    """Indices of elements, bytes and threads beyond 2^32, with one byte per element."""
    if ado.strided_copy[variant].device != "cuda":
        pytest.skip("a CPU variant")
    length = (1 << 32) + 12_345
    x = np.zeros(length, "u1")
    x[-5:] = [1, 2, 3, 4, 5]
    on_device = ado.to_device(x)
    for stride in (1, 2):
        result = ado.strided_copy(on_device, stride=stride, variant=variant)
        if not ado.strided_copy[variant].ceiling:
            assert result.numpy()[-3:].tolist() == x[::stride][-3:].tolist()
