"""Resource usage of kernels: queried from the driver, stored, shown."""

import dataclasses

import numpy as np
import pytest
from charting import kernel_with
from conftest import NO_CUDA

import adokernels as ado

CUDA_VARIANTS = [
    pytest.param(v, id=f"{v.routine.name}-{v.name}", marks=pytest.mark.cuda)
    for routine in ado.routines.values()
    for v in routine
    if v.device == "cuda"
]
KERNEL = kernel_with(
    name="wide<float>", block=(32, 8), registers=40, resident_warps=48, local_bytes=16,
    static_shared_bytes=1024, dynamic_shared_bytes=2048,
    limits={"warps": 8, "registers": 6, "shared memory": 54, "blocks": 32},
)  # fmt: skip


# Operands for variants that decline the default problem.
SQUARE = np.zeros((512, 512), np.float32)
DECLINING = {
    ("transpose", "unaligned_rows"): ((np.zeros((8191, 8193), np.float32),), None),
    ("component", "structure_of_arrays"): ((np.zeros((3, 1 << 20), np.float32).T,), None),
    ("transpose", "in_place"): ((SQUARE,), SQUARE),
    ("transpose", "few_columns"): ((np.zeros((8192, 8), np.float32),), None),
    ("transpose", "few_rows"): ((np.zeros((8, 8192), np.float32),), None),
    ("transpose", "as_copy"): ((np.zeros((8192, 1), np.float32),), None),
    ("gaussian_blur", "lane_per_row"): ((np.zeros((8000, 70), np.uint8),), None),
    ("sobel", "lane_per_row"): ((np.zeros((8000, 70), np.uint8),), None),
    ("max_plus", "split_terms"): ((np.zeros((4096, 100)), np.zeros(4096)), None),
}


@pytest.mark.parametrize("variant", CUDA_VARIANTS)
def test_every_variant_has_resources(variant, emulator):
    """The driver's occupancy agrees with the limits, which follow the occupancy calculator."""
    if emulator and "gemm" in variant.name:
        pytest.skip("the emulator cannot execute cuBLAS")
    operands, out = DECLINING.get((variant.routine.name, variant.name), ((), None))
    resources = variant.resources(*operands, out=out)
    assert resources.routine == variant.routine.name
    assert resources.variant == variant.name
    if not variant.ceiling:
        assert len(resources) >= 1
    for k in resources:
        threads = int(np.prod(k.block))
        assert 1 <= threads <= 1024
        assert k.grid[0] >= 1
        assert 8 <= k.registers <= 255
        assert k.resident_warps == min(k.limits.values()) * -(-threads // 32)
        assert k.resident_warps <= k.max_warps in (32, 48, 64)
        assert 0 < k.occupancy <= 1
        assert k.limits[k.limiter] == min(k.limits.values())
        assert "(" not in k.name.split("<")[0]


@pytest.mark.cuda
def test_shapes_types_and_blocks_decide(rng):
    a = np.zeros((64, 64), np.uint8)
    block = ado.transpose["tiled"].blocks[-1]
    kernel = ado.transpose["tiled"].resources(a, block=block)[0]
    assert kernel.block[: len(block)] == block
    single = ado.max_plus["one_block"].resources(np.zeros((4, 8), np.float32), np.zeros(4, "f4"))
    double = ado.max_plus["one_block"].resources(np.zeros((4, 8)), np.zeros(4))
    assert single[0].name != double[0].name
    with pytest.raises(ValueError, match="block"):
        ado.transpose["tiled"].resources(a, block=(7, 7))


@pytest.mark.cuda
def test_a_pipeline_has_one_kernel_per_stage():
    resources = ado.edge_detect["pipeline_naive"].resources()
    assert len(resources) == 3
    assert resources.registers == max(k.registers for k in resources)
    assert resources.occupancy == min(k.occupancy for k in resources)


def test_the_cpu_has_no_kernels():
    with pytest.raises(ValueError, match=r"transpose\[blocked\] runs on the CPU"):
        ado.transpose["blocked"].resources()


@pytest.mark.skipif(not NO_CUDA, reason="there is a GPU")
def test_without_a_gpu():
    with pytest.raises(ado.Unavailable, match=NO_CUDA):
        ado.transpose["tiled"].resources()


def test_wrong_arguments():
    with pytest.raises(ValueError, match="a must have shape"):
        ado.transpose["tiled"].resources(np.zeros(3))
    with pytest.raises(TypeError, match="needs the operand small"):
        ado.max_plus["one_block"].resources(np.zeros((3, 3)))


def test_summary_and_table():
    full = dataclasses.replace(KERNEL, name="full", resident_warps=64, registers=32, local_bytes=0)
    both = ado.records.Resources(routine="r", variant="v", kernels=(KERNEL, full))
    assert KERNEL.shared_bytes == 3072
    assert KERNEL.limiter == "registers"
    assert (both.registers, both.local_bytes, both.shared_bytes) == (40, 16, 3072)
    assert (both.occupancy, both.limiter) == (0.75, "registers")
    assert both[1] is full
    text = repr(both)
    for words in ("wide ", "32 x 8", "75 %", "registers", "3072"):
        assert words in text
    assert "<td" in both._repr_html_()
    nothing = ado.records.Resources(routine="r", variant="v", kernels=())
    assert (nothing.registers, nothing.occupancy, nothing.limiter) == (0, 0.0, "")
