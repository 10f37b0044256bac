"""Experiments on a GPU: the conditions hold, and the results do not change."""

import numpy as np
import pytest

import adokernels as ado
from adokernels.measuring.experiments import GpuExperiments, _occupancy
from adokernels.measuring.progress import displayed
from adokernels.records.experiments import GIVEN

pytestmark = pytest.mark.gpu


@pytest.fixture
def problem():
    a = np.random.default_rng(0).random((2048, 3000), dtype=np.float32)
    return ado.transpose.problem(a, device="cuda")


def test_more_shared_memory_lowers_the_occupancy_and_keeps_the_result(problem):
    variant = ado.transpose["tiled"]
    usual = variant.prepare(problem)
    trials = GpuExperiments(problem, "cold", None)
    fewer = variant.prepare(problem, extra_shared_bytes=trials.extra_shared(usual, 0.5))
    assert 0 < _occupancy(fewer) < _occupancy(usual)
    np.testing.assert_array_equal(fewer.result(), problem.host_arguments[0].T)
    assert fewer.sample(True, 1)[0] > 0


def test_too_much_shared_memory_is_an_error_that_passes(problem):
    variant = ado.transpose["tiled"]
    with pytest.raises(ado.CudaError):
        variant.prepare(problem, extra_shared_bytes=1 << 20).run()
    np.testing.assert_array_equal(variant.prepare(problem).result(), problem.host_arguments[0].T)


def test_a_green_context_owns_fewer_multiprocessors(problem):
    trials = GpuExperiments(problem, "cold", None)
    whole = trials._gpu["multiprocessors"]
    found = trials.on_fewer(ado.transpose["tiled"])
    if found is None:
        pytest.skip("the driver has no green contexts")
    owned, call = found
    assert whole // 2 <= owned < whole
    call.run()
    ado.synchronize()  # other streams do not wait for the stream of the context
    np.testing.assert_array_equal(problem.results(), problem.host_arguments[0].T)


def test_sweeps_store_experiments_of_cuda_variants(tmp_path):
    a = np.random.default_rng(0).random((4096, 4096), dtype=np.float32)
    with displayed(False) as display:
        found = ado.sweep(
            ado.transpose, a, device="cuda", variants=["naive", "tiled"], seconds=0.3,
            limiter=True, progress=display,
        )  # fmt: skip
    for m in found.variants:
        given = m.experiments.given
        assert given.size == GIVEN
        assert any(r.occupancy < given.occupancy for r in m.experiments.runs)
    found.save(tmp_path / "sweep.json")
    assert ado.load(tmp_path / "sweep.json") == found
