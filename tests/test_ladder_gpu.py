"""Custom ladders on the GPU: kernels in source, functions of other libraries, red zones."""

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.model.compiler import why_no_compiler

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC"),
]

QUICK = {"seconds": 0.05, "progress": False, "ceilings": False}

SAXPY = """
template <class T>
__global__ void saxpy(T a, const T* x, const T* y, T* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}
template <class T, int kPerThread>
__global__ void several(T a, const T* x, const T* y, T* out, int n) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * kPerThread;
  for (int i = first; i < min(first + kPerThread, n); ++i) out[i] = a * x[i] + y[i];
}
"""


def saxpy():
    ladder = ado.ladder(
        "saxpy",
        reference=lambda a, x, y: np.float32(a) * x + y,
        flops=lambda a, x, y: 2 * x.size,
        tolerance=1e-6,
    )
    ladder.cuda_variant("coalesced", source=SAXPY, kernel="saxpy<{T}>", block=256)
    ladder.cuda_variant(
        "several", source=SAXPY, kernel="several<{T}, {N}>", block=(128, 256)[:1],
        tile=512, parameters={"N": (4,)},
    )  # fmt: skip
    return ladder


@pytest.fixture
def operands(rng):
    return 2.0, *(rng.random(100_003, dtype=np.float32) for _ in range(2))


def test_kernels_in_source_are_checked_and_timed(operands):
    sweep = ado.sweep(saxpy(), *operands, **QUICK)
    assert not sweep.skipped
    for m in sweep:
        assert m.device == "cuda"
        assert m.error is not None
        assert m.kernels[0].registers > 0
        assert m.grid == (-(-100_003 // (256 if m.variant == "coalesced" else 512)),)
    result = saxpy()["coalesced"](*operands)
    assert np.allclose(result, 2 * operands[1] + operands[2])
    assert saxpy()["coalesced"].resources(*operands).occupancy > 0


def test_tuning_times_every_setting(operands):
    ladder = saxpy()
    variant = ladder.cuda_variant(
        "tuned", source=SAXPY, kernel="several<{T}, {N}>", block=[(128,), (256,)],
        grid=lambda a, x, y, *, block, N: -(-x.shape[0] // (block[0] * N)),
        parameters={"N": (1, 4)},
    )  # fmt: skip
    tuning = ado.tune(variant, *operands, seconds=0.05, progress=False)
    assert list(tuning.settings) == ["128, N=1", "256, N=1", "128, N=4", "256, N=4"]
    assert [m.variant for m in tuning.sweep] == list(tuning.settings)
    tuning.use(tuning.settings["256, N=4"])
    assert ladder["tuned"].blocks[0] == (256,)
    assert ladder["tuned"].default_parameters == {"N": 4}


@pytest.mark.parametrize("library", ["cupy", "torch", "numba"])
def test_functions_of_other_libraries(library, operands):
    pytest.importorskip(library)
    ladder = saxpy()

    def own(a, x, y):
        if library == "numba":
            cupy = pytest.importorskip("cupy")
            return a * cupy.asarray(x) + cupy.asarray(y)
        return a * x + y

    ladder.add(ado.variant(own, device="cuda", arrays=library))
    sweep = ado.sweep(ladder, *operands, **QUICK)
    assert not sweep.skipped
    assert len(ladder["own"].resources(*operands)) > 0


@pytest.mark.parametrize("waits", [False, True])
def test_work_on_another_stream_is_detected(waits, operands):
    """If the function does not wait, the checks before timing read the result too early."""
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    ladder = saxpy()

    @ladder.variant(device="cuda", arrays="cupy")
    def elsewhere(a, x, y):
        with stream:
            result = cupy.float32(a) * x + y
        if waits:
            stream.synchronize()
        return result

    @ladder.variant(device="cuda", arrays="cupy")
    def here(a, x, y):
        return cupy.float32(a) * x + y

    sweep = ado.sweep(ladder, *operands, **QUICK)
    assert list(sweep.skipped) == ["elsewhere"]
    assert "a stream other than the timed one" in sweep.skipped["elsewhere"]


@pytest.mark.skipif(bool(_core.why_no_counters()), reason="no counters")
def test_counters_of_custom_variants(operands):
    cupy = pytest.importorskip("cupy")
    ladder = saxpy()
    ladder.variant(
        lambda a, x, y: cupy.float32(a) * x + y, name="cupy", device="cuda", arrays="cupy"
    )
    sweep = ado.sweep(ladder, *operands, counters="light", **QUICK)
    for m in sweep:
        assert m.profile is not None
        assert m.counted_bytes["DRAM"] > 0
        assert m.kernels
    assert sweep["cupy"].limiter.kind


def test_hot_spots_of_a_kernel_in_source(operands):
    ladder = saxpy()
    found = ado.hotspots(ladder["coalesced"], *operands, seconds=0.2)
    assert found.entries
    assert any("out[i] = a * x[i] + y[i]" in entry.text for entry in found.entries)
    cupy = pytest.importorskip("cupy")
    ladder.variant(lambda a, x, y: a * x + y, name="cupy", device="cuda", arrays=cupy.__name__)
    with pytest.raises(ValueError, match=r"variant must be a kernel, got the function saxpy\[cupy"):
        ado.hotspots(ladder["cupy"], *operands)
