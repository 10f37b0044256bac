"""Own kernels: results that start at 0, several kernels, and the ladders of notebooks 07 and 08."""

import dataclasses
import importlib.util
import re
from functools import cache

import numpy as np
import pytest
from scripts import load_script

import adokernels as ado
from adokernels.model.compiler import compile_cuda, why_no_compiler
from adokernels.model.cuda_variant import CudaVariant
from adokernels.process import ALL_CHECKS


@cache
def definitions():
    return load_script("benchmarks/course/own_kernels.py").definitions()


def kernels():
    softmax = definitions()["softmax"].with_variants(definitions()["warp_per_row"])
    return {v.name: v for v in softmax if isinstance(v, CudaVariant)}


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
@pytest.mark.parametrize("name", kernels())
def test_kernels_compile_for_older_gpus(name):
    variant = kernels()[name]
    template, _, _ = variant.kernel.partition("<")
    values = ", ".join(map(str, variant.default_parameters.values()))
    kernel = f"{template}<{values}>" if values else template
    arch = "sm_90" if name == "cluster" else "sm_75"
    assert not compile_cuda(variant.text, kernel, arch=arch).log


# --- Matrix products ------------------------------------------------------------------------------


def products():
    """The ladders of notebook 08, in FP32 and in FP16."""
    folder = "notebooks/kernels/matrix_product"
    ladders = load_script(f"{folder}/ladders.py")
    more = []
    if importlib.util.find_spec("triton"):
        more.append(load_script(f"{folder}/triton_dot.py").triton_dot)
    return {"fp32": ladders.fp32, "fp16": ladders.fp16.with_variants(*more)}


PRODUCTS = products()
each_product = pytest.mark.parametrize(
    ("ladder", "name"), [(name, v.name) for name, ladder in PRODUCTS.items() for v in ladder]
)


def checked(ladder, variant, device):
    """Check a product with all checks of the emulator."""
    a, b = load_script("notebooks/kernels/matrix_product/ladders.py").matrices(
        160, 96, 144, ladder.task.result_dtype.name
    )
    before, ado.settings.emulator_checks = ado.settings.emulator_checks, ALL_CHECKS
    how = {"device": device, "timed": False, "isolated": False, "progress": False}
    try:
        return ado.check(variant, ladder, a, b, **how)
    finally:
        ado.settings.emulator_checks = before


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=pytest.mark.gpu), "emulator"])
@each_product
def test_products_are_right_at_every_size(ladder, name, device):
    result = checked(PRODUCTS[ladder], PRODUCTS[ladder][name], device)
    assert result, result.reason


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
@each_product
def test_a_missing_barrier_of_a_product_is_detected(ladder, name):
    variant = PRODUCTS[ladder][name]
    barrier = "    __syncthreads();\n  }\n"
    if isinstance(variant, CudaVariant) and barrier in variant.text:
        changed = {"name": "mine", "owner": None, "text": variant.text.replace(barrier, "  }\n")}
        result = checked(PRODUCTS[ladder], dataclasses.replace(variant, **changed), "emulator")
        assert "race" in result.reason
    else:
        assert name in ("naive", "coalesced", "triton_dot")


# --- Results that start at 0, and several kernels -------------------------------------------------

HISTOGRAM = r"""
extern "C" __global__ void count(const unsigned char* x, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&out[x[i]], 1u);
}
__device__ unsigned parts[16 * 256];
extern "C" __global__ void count_parts(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
    atomicAdd(&mine[x[i]], 1u);
  __syncthreads();
  parts[blockIdx.x * 256 + threadIdx.x] = mine[threadIdx.x];
}
extern "C" __global__ void add_parts(const unsigned char* x, unsigned* out, int n) {
  unsigned sum = 0;
  for (int part = 0; part < 16; ++part) sum += parts[part * 256 + threadIdx.x];
  out[threadIdx.x] = sum;
}
"""


def histogram():
    def covering(x, block):
        return -(-x.size // block[0])

    def reference(x):
        return np.bincount(x, minlength=256)

    ladder = ado.ladder("histogram", reference=reference, dtype="uint32")
    source = {"source": HISTOGRAM, "block": 256}
    ladder.cuda_variant("atomics", kernel="count", grid=covering, zero=True, **source)
    ladder.cuda_variant("not_zeroed", kernel="count", grid=covering, **source)
    then = [ado.cuda_variant("add_parts", grid=1, **source)]
    ladder.cuda_variant("two_kernels", kernel="count_parts", grid=16, then=then, **source)
    ladder.cuda_variant("one_of_two", kernel="count_parts", grid=16, **source)
    return ladder


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
@pytest.mark.parametrize("isolated", [True, False])
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=pytest.mark.gpu), "emulator"])
def test_results_can_start_at_0_and_a_variant_can_have_several_kernels(device, isolated, rng):
    ladder, x = histogram(), rng.integers(0, 256, 3000, np.uint8)
    how = {"device": device, "timed": False, "isolated": isolated, "progress": False}
    found = {v.name: ado.check(v, ladder, x, **how) for v in ladder}
    assert {name: bool(each) for name, each in found.items()} == {
        "atomics": True,
        "not_zeroed": False,
        "two_kernels": True,
        "one_of_two": False,
    }
    assert "not written" in found["not_zeroed"].reason
    for name in ("atomics", "two_kernels"):
        got = ladder(x, variant=name, device=device)
        np.testing.assert_array_equal(got, np.bincount(x, minlength=256))
    if device == "cuda":
        kernels = ladder["two_kernels"].resources(x).kernels
        assert [k.name for k in kernels] == ["count_parts", "add_parts"]
        sweep = ado.sweep(ladder, x, seconds=0.2, isolated=isolated, progress=False)
        assert [m.variant for m in sweep] == ["atomics", "two_kernels"]


def doubled(block, grid, fault):
    source = f"""__global__ void twice(const float* x, float* out, int n) {{
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) out[i] = 2 * x[i + ({fault})];
    }}"""
    ladder = ado.ladder("doubled", reference=lambda x: 2 * x)
    ladder.cuda_variant("twice", source=source, block=block, grid=grid)
    return ladder["twice"]


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
@pytest.mark.parametrize("block", [32, 128, 256, 512, 1024])
def test_faults_in_full_blocks_are_found(block, rng):
    fault = "i == n - 1 && n % blockDim.x == 0"
    mine, x = doubled(block, lambda x: -(-x.size // block), fault), rng.random(3001, np.float32)
    found = ado.check(mine, mine.ladder, x, device="emulator", timed=False)
    assert "out of bounds" in found.reason
    assert int(re.search(r"which has (\d+) bytes", found.reason)[1]) % (4 * block) == 0


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("out[i] = x[i - 1];", "load of 4 bytes at byte -4 of 'x'"),
        ("out[i - 1] = x[i];", "store of 4 bytes at byte -4 of 'out'"),
        ("out[i] = x[i + (1 << 20)];", "which is in no array"),
    ],
)
def test_an_access_out_of_bounds_names_the_nearest_array(body, place):
    source = f"""extern "C" __global__ void mine(const float* x, float* out, int n) {{
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) {{ {body} }}
    }}"""
    mine = ado.cuda_variant(
        "mine", source=source, kernel="mine", block=64, arguments=lambda x, out: (x, out, x.size)
    )
    found = ado.check(mine, np.copy, np.ones(256, np.float32), device="emulator", timed=False)
    assert place in found.reason


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
@pytest.mark.parametrize("isolated", [True, False])
def test_source_that_does_not_compile_is_wrong(isolated):
    mine = ado.cuda_variant("mine", source="bad source(", kernel="mine", block=32)
    how = {"device": "emulator", "timed": False, "isolated": isolated}
    found = ado.check(mine, np.copy, np.ones(3), **how)
    assert not found
    assert "kernel.cu(1): error" in found.reason
    other = ado.cuda_variant("mine", source="__global__ void other() {}", kernel="mine", block=32)
    with pytest.raises(ado.CompilationError, match="mine"):
        ado.check(other, np.copy, np.ones(3), **how)


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
def test_a_fractional_grid_is_an_error(rng):
    mine, x = doubled(256, lambda x: x.size / 256, "0"), rng.random(300, np.float32)
    with pytest.raises(TypeError, match=r"grid must be integers, got 1\.17.*: round up"):
        mine.ladder(x, device="emulator")


@pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
def test_all_kernels_of_a_variant_are_counted(rng):
    x = rng.integers(0, 256, 3000, np.uint8)
    profile = ado.profile(histogram()["two_kernels"], x, device="emulator")
    assert [k.kernel.name for k in profile] == ["count_parts", "add_parts"]
    with pytest.raises(TypeError, match="then must be variants made by"):
        ado.cuda_variant("a", source=HISTOGRAM, block=1, then=[3])
    two = histogram()["two_kernels"]
    with pytest.raises(ValueError, match=r"histogram\[two_kernels\] must launch one kernel, got 2"):
        two.source_launch((x,), {}, None)
