"""Correct kernels, about which the emulator must not complain, and mistakes that it must find."""

import re
from pathlib import Path

import numpy as np
import pytest
from test_emulator import device_array, launch

from adokernels import _core
from adokernels.model import compiler

HEAD = """#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;
#define S(T, name, size) __shared__ T name[size]
#define SYNC __syncthreads()
#define FULL 0xffffffffu
"""
TEXT = (Path(__file__).parent / "data" / "emulator" / "checks.cu").read_text()
#: (kinds of the error or "", name, body)
KERNELS = re.findall(r"^//: (?:(.+): )?(.+)\n((?:(?!//:).*\n)*)", TEXT, re.M)


@pytest.fixture(scope="module")
def module():
    if reason := compiler.why_no_compiler():
        pytest.skip(reason)
    parts = [HEAD]
    for index, (_, _, body) in enumerate(KERNELS):
        parts.append(f'extern "C" __global__ void k{index}(int* o, const int* a, int n) {{')
        parts.append(f"const int t = threadIdx.x;\n{body}}}")
    compiled = compiler.compile_cuda("\n".join(parts), "k0", arch="compute_90", options=["-w"])
    return _core.EmulatedModule(compiled.code.decode())


@pytest.mark.parametrize("index", range(len(KERNELS)), ids=[name for _, name, _ in KERNELS])
def test_a_kernel(module, index):
    """As one block of 256 threads; n is 200."""
    kinds = KERNELS[index][0].split("|")
    a, out = device_array(256, "i4", np.arange(256)), device_array(256, "i4", -77)
    arguments = out, a, np.int32(200)
    options = {"outputs": [out], "shared_bytes": 3072}
    error = launch(module, f"k{index}", (1,), (256,), *arguments, **options)["error"]
    if "race" in kinds:
        kinds.append("uninitialised")  # before the other thread has written
    assert (error["kind"] if error else "") in kinds, error and error["text"]
