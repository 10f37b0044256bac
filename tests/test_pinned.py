"""Tests of ado.empty_pinned."""

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core


def test_without_a_gpu():
    if not _core.why_no_cuda():
        pytest.skip("there is a GPU")
    with pytest.raises(ado.Unavailable):
        ado.empty_pinned((3, 4))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(((-1,),), ValueError), (((3,), object), TypeError), (((3,), "nonsense"), TypeError)],
)
def test_errors(arguments, error):
    with pytest.raises(error):
        ado.empty_pinned(*arguments)


@pytest.mark.gpu
@pytest.mark.skipif(bool(_core.why_no_cuda()), reason="no CUDA device")
@pytest.mark.parametrize("shape", [7, (), (0, 3), (300, 500)])
def test_arrays(shape):
    array = ado.empty_pinned(shape, "c8")
    assert array.shape == np.empty(shape).shape
    assert array.dtype == np.complex64
    assert array.flags.writeable
    array[...] = 3
    assert (array == 3).all()
    assert ado.empty_pinned(3).dtype == np.float64
