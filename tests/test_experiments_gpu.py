"""Experiments on a GPU: the conditions hold, and the results do not change."""

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.measuring.experiments import green_stream, on_half_the_gpu, with_half_occupancy

pytestmark = pytest.mark.gpu


@pytest.fixture
def problem():
    a = np.random.default_rng(0).random((2048, 3000), dtype=np.float32)
    return ado.transpose.problem(a, device="cuda")


def test_more_shared_memory_lowers_the_occupancy_and_keeps_the_result(problem):
    variant = ado.transpose["tiled"]
    usual = variant.prepare(problem)
    fewer = with_half_occupancy(variant, usual)
    (before,), (after,) = usual.kernels(), fewer.kernels()
    assert 0 < after.resident_warps <= before.resident_warps / 2
    np.testing.assert_array_equal(fewer.result(), problem.host_arguments[0].T)
    assert fewer.sample(True, 1)[0] > 0


def test_too_much_shared_memory_is_an_error_that_passes(problem):
    variant = ado.transpose["tiled"]
    with pytest.raises(ado.CudaError):
        variant.prepare(problem, extra_shared_bytes=1 << 20).run()
    np.testing.assert_array_equal(variant.prepare(problem).result(), problem.host_arguments[0].T)


def test_a_green_context_owns_fewer_multiprocessors(problem):
    whole = _core.cuda_properties()["multiprocessors"]
    variant = ado.transpose["tiled"]
    call = on_half_the_gpu(variant, variant.prepare(problem))
    if call is None:
        pytest.skip("the driver has no green contexts")
    stream = green_stream(problem.device_id, whole // 2)
    assert whole // 2 <= _core.hardware(stream)["multiprocessors"] < whole
    call.run()
    ado.synchronize()  # other streams do not wait for the stream of the context
    np.testing.assert_array_equal(problem.results(), problem.host_arguments[0].T)
