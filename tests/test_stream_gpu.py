"""ado.out_of_core and its copies on the GPU."""

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.large import stream as streaming
from adokernels.large.stream import image_plan

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(_core.why_no_cuda()), reason="no CUDA device"),
]

MIB = 1 << 20


def images(rng, *shape):
    return rng.integers(0, 256, shape, dtype=np.uint8)


# Blocks of 4 MiB and more are copied in chunks. The driver copies smaller blocks.
@pytest.mark.parametrize("memory", [300_000, 36 * MIB, 400 * MIB])
@pytest.mark.parametrize("name", ["grayscale", "gaussian_blur", "sobel", "edge_detect"])
def test_filters(name, memory, rng):
    channels = (4,) if name in ("grayscale", "edge_detect") else ()
    source = (
        images(rng, 3001, 4003, *channels) if memory > MIB else images(rng, 301, 403, *channels)
    )
    result = ado.out_of_core(name, source, memory=memory, device="cuda")
    np.testing.assert_array_equal(result, ado.routines[name](source, device="cpu"))


@pytest.mark.parametrize("border", ["replicate", "reflect101"])
def test_options_and_batches(border, rng):
    source = images(rng, 2, 3, 1500, 1111)
    for memory in (30 * MIB, 10 * MIB):
        result = ado.out_of_core(
            "gaussian_blur", source, memory=memory, device="cuda", border=border
        )
        expected = ado.gaussian_blur(source, border=border, device="cpu")
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["u1", "u2", "<f4", ">f4", "f8", "c16"])
@pytest.mark.parametrize("memory", [400_000, 75 * MIB])
def test_transposes(dtype, memory, rng):
    rows, cols = (2049, 3333) if memory > MIB else (301, 403)
    count = rows * cols * np.dtype(dtype).itemsize
    source = images(rng, count).view(dtype).reshape(rows, cols)
    result = ado.out_of_core("transpose", source, memory=memory, device="cuda")
    assert result.tobytes() == source.T.tobytes()


def test_repeated_blocks_are_not_overwritten_too_early(rng):
    """Other kernels delay the kernels of many small blocks."""
    source = images(rng, 6000, 3000)
    copies = _core.BlockCopies("cuda")
    plan = image_plan((), source.shape, None, 1, 30 * MIB)
    result = np.empty_like(source)
    busy = [copies.empty((8192, 8192), np.dtype("f4")) for _ in range(2)]

    def call(a, **keywords):
        for _ in range(8):
            ado.transpose(busy[0], out=busy[1], stream=copies.stream)
        return ado.sobel(a, **keywords)

    streaming._overlapped(call, copies, plan, source, result, {})
    np.testing.assert_array_equal(result, ado.sobel(source, device="cpu"))


def test_a_failed_call_ends_the_copies(rng):
    """The source may be freed as soon as the exception is raised."""
    source = images(rng, 6000, 3000)
    copies = _core.BlockCopies("cuda")
    plan = image_plan((), source.shape, None, 1, 30 * MIB)
    calls = []

    def call(a, **keywords):
        calls.append(a)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return ado.sobel(a, **keywords)

    with pytest.raises(KeyboardInterrupt):
        streaming._overlapped(call, copies, plan, source, np.empty_like(source), {})
    result = ado.out_of_core("sobel", source, memory=30 * MIB, device="cuda")
    np.testing.assert_array_equal(result, ado.sobel(source, device="cpu"))


@pytest.mark.parametrize("pinned", [(True, True), (True, False), (False, True)])
def test_page_locked_arrays(pinned, rng):
    source, sink = images(rng, 3000, 4000), np.zeros((4000, 3000), np.uint8)
    if pinned[0]:
        plain, source = source, ado.empty_pinned(source.shape, np.uint8)
        source[...] = plain
    if pinned[1]:
        sink = ado.empty_pinned(sink.shape, "u1")
        sink[...] = 7
    for memory in (15 * MIB, 45 * MIB):  # for tiles, which are not contiguous
        sink[...] = 0
        ado.out_of_core("transpose", source, sink, memory=memory, device="cuda")
        np.testing.assert_array_equal(sink, source.T)
    assert ado.to_device(source[::2]).numpy().tobytes() == source[::2].tobytes()
