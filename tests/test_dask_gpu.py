"""Routines with Dask arrays of CuPy blocks: the results are CuPy arrays, equal to CPU results."""

import numpy as np
import pytest

import adokernels as ado

da = pytest.importorskip("dask.array")
cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu


def on_host(lazy):
    """Return the result on the host. All blocks must be CuPy arrays.

    CuPy does not copy arrays to the host implicitly.
    """

    def check(block):
        assert isinstance(block, cupy.ndarray)
        return block

    assert isinstance(lazy._meta, cupy.ndarray)
    lazy = lazy.map_blocks(check, dtype=lazy.dtype, meta=lazy._meta)
    result = lazy.compute(scheduler="threads")
    assert isinstance(result, cupy.ndarray)
    assert result.dtype == lazy.dtype
    return cupy.asnumpy(result)


def in_blocks(array, chunks):
    return da.from_array(cupy.asarray(array), chunks=chunks)


@pytest.mark.parametrize("chunks", [(70, 64), (33, 3), (300, 20)])
@pytest.mark.parametrize("name", ["grayscale", "gaussian_blur", "sobel", "edge_detect"])
def test_filters(name, chunks, rng):
    routine = getattr(ado, name)
    shape = (300, 200, 4) if name in ("grayscale", "edge_detect") else (300, 200)
    image = rng.integers(0, 256, shape, np.uint8)
    lazy = routine(in_blocks(image, (*chunks, 4)[: image.ndim]))
    assert on_host(lazy).tobytes() == routine(image, device="cpu").tobytes()


@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
def test_transpose(dtype, rng):
    a = rng.integers(0, 256, (130, 77)).astype(dtype)
    assert on_host(ado.transpose(in_blocks(a, (40, 33)))).tobytes() == a.T.tobytes()


def test_max_plus(rng):
    big, small = rng.standard_normal((200, 90)), rng.standard_normal(200)
    big[17, 5] = np.nan
    lazy = ado.max_plus(in_blocks(big, (30, 40)), in_blocks(small, 50))
    np.testing.assert_array_equal(on_host(lazy), ado.max_plus(big, small, device="cpu"))


def test_average_matvec(rng):
    vectors, matrix = rng.random((40, 30, 100), np.float32), rng.random((30, 30), np.float32)
    lazy = ado.average_matvec(in_blocks(vectors, (7, 30, 30)), in_blocks(matrix, 30))
    exact = matrix.astype("f8") @ vectors.astype("f8").mean(axis=2).T
    bound = (32 + 30) * 2.0**-24 * exact  # no element is negative
    assert (np.abs(on_host(lazy) - exact) <= bound).all()
