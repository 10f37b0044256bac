"""Rows of executed FLOPs against hardware counters and against models that count operations."""

from pathlib import Path

import numpy as np
import pytest

import adokernels as ado

# FP32 and FP64 FLOPs that an H200 executed: ado.profile(...)["flops"], sm_90, CUDA 13.0. The images
# have 16384 x 16384 random pixels.
COUNTED = {
    "average_matvec": {
        "one_block": 9683599360,
        "block_per_set": 9683599360,
        "warp_average": 10176430080,
        "warp_shuffle": 14640218112,
        "average_then_gemm": 10179575808,
    },
    "max_plus": {"scalar_rolling": 268435456, "vectorised": 268435456},
    "gaussian_blur": {"naive": 0, "dot_product": 0, "float_taps": 8925478912},
    "sobel": {
        "naive": 1610605446,
        "shared": 1610605446,
        "float_fast": 4093640704,
        "vectorised": 1342177280,
        "sliding_window": 1136918528,
    },
    "edge_detect": {"pipeline_naive": 1609799574, "pipeline_best": 1136918528, "fused": 1311506432},
}
OPERANDS = {
    "average_matvec": (((1024, 1024, 1024), "f4"), ((1024, 1024), "f4")),
    "max_plus": (((64, 1 << 22), "f8"), ((64,), "f8")),
    "gaussian_blur": (((16384, 16384), "u1"),),
    "sobel": (((16384, 16384), "u1"),),
    "edge_detect": (((16384, 16384, 4), "u1"),),
}


def executed_flops(variant, *operands):
    """The row's FLOPs for operands of these shapes and types; memory is not allocated."""
    arrays = (np.broadcast_to(np.zeros(1, dtype), shape) for shape, dtype in operands)
    return variant.cost(*arrays).executed_flops


def gpp_cost(variant, bands, occupied, rows, columns, frequencies):
    """The row of a variant of ado.gpp with this number of occupied bands."""
    matrices = [(rows, columns), (rows, columns), (bands, columns), (bands, rows)]
    operands = [(shape, "c16") for shape in matrices]
    operands += [((bands, frequencies), "f8"), ((rows,), "f8")]
    arrays = (np.broadcast_to(np.zeros(1, dtype), shape) for shape, dtype in operands)
    return ado.gpp[variant].cost(*arrays, (np.arange(bands) < occupied).astype(float))


@pytest.mark.parametrize("routine", COUNTED)
def test_rows_equal_hardware_counters(routine):
    for variant, counted in COUNTED[routine].items():
        row = executed_flops(ado.routines[routine][variant], *OPERANDS[routine])
        assert row == pytest.approx(counted, rel=1e-3), variant


def test_gpp_rows_equal_hardware_counters():
    """The stored sweep of an H100; its data determine the remaining difference."""
    sweep = ado.load(Path(__file__).parent.parent / "notebooks" / "data" / "gpp-counted.json.xz")
    assert {m.variant for m in sweep} == {v.name for v in ado.gpp if v.device == "cuda"}
    bands, rows, columns, frequencies = 400, 256, 4096, 2
    for m in sweep:
        row = gpp_cost(m.variant, bands, 214, rows, columns, frequencies)
        # The costs in the stored sweep; on 64-bit Arm, fused operations change the last bit.
        assert row.executed_flops == pytest.approx(m.executed_flops, rel=1e-14), m.variant
        assert row.executed_instructions == pytest.approx(m.executed_instructions, rel=1e-14)
        # The data determine how many bands use moments.
        difference = 0.015 if m.variant == "moments" else 0.01
        assert m.counted_flops == pytest.approx(row.executed_flops, rel=difference), m.variant
        fused = row.executed_flops / row.executed_instructions - 1
        assert m.profile["fma_share"] == pytest.approx(fused, abs=0.01), m.variant


# --- Rows by hand ---------------------------------------------------------------------------------

ADD, TOTAL = 7, 10  # of a compensated sum


def test_averages_on_the_cpu():
    def row(variant, samples):
        shapes = ((2, 3, samples), "f4"), ((3, 3), "f4")
        return executed_flops(ado.average_matvec[variant], *shapes) / 6

    product = 2 * 3
    assert row("naive_loops", 20) == 20 * ADD + TOTAL + 1 + product
    assert row("interchange", 20) == 20 * ADD + TOTAL + 1 + product
    # Two trees of eight samples, and four samples in a plain sum.
    assert row("pairwise", 20) == 2 * (7 + ADD) + 4 + ADD + TOTAL + 1 + product
    # Any number of lanes from 4 to 16 divides 1024 into whole trees.
    lanes = [4, 8, 16]
    assert row("simd", 1024) in [
        1024 // 8 * (7 + ADD) + n * TOTAL + n - 1 + 1 + product for n in lanes
    ]
    assert row("simd", 3) == 3 + 1 + product


def test_filters_with_partial_tiles():
    image = ((3, 37, 70), "u1")  # 3 images of 37 x 70
    pixels = 3 * 37 * 70

    def row(routine, variant):
        return executed_flops(ado.routines[routine][variant], image)

    assert row("sobel", "naive") == row("sobel", "shared") == 6 * pixels
    assert row("sobel", "float_fast") == 15.25 * 3 * (2 * 32) * (3 * 32)
    assert row("sobel", "vectorised") == 5 * 3 * 64 * 128
    assert row("gaussian_blur", "float_taps") == 2 * 7 * (22 / 16 + 1) * 3 * (3 * 16) * (2 * 64)
    assert row("sobel", "naive_loops") == row("sobel", "separable") == pixels
    assert pixels < row("sobel", "simd") <= 3 * 37 * (70 + 1 + 2 * 64)
    assert row("gaussian_blur", "row_ring") == pixels
    assert row("gaussian_blur", "threaded") == row("gaussian_blur", "naive") == 0


def test_sliding_window_counts_rows_at_seams():
    """8 lanes process a row of 64 aligned pixels, 8 pixels per lane; 4 FLOPs per pixel and row.

    37 rows are divided into 7 bands of at most 6 rows, with 8 iterations per band. The 7 bands use
    56 lanes, which are two warps.
    """
    rows, cols = 37, 64
    flops = executed_flops(ado.sobel["sliding_window"], ((rows, cols), "u1"))
    assert flops == 4 * 2 * 8 * 32 * 8
    stages = ado.edge_detect["pipeline_best"]
    assert executed_flops(stages, ((rows, cols, 4), "u1")) == flops


# --- gpp by hand ----------------------------------------------------------------------------------

# FLOPs per lane of sums in gpp: one gathering of one or two frequencies, and the final total.
GATHERING = {1: 6 + ADD, 2: 9 + ADD}


def test_gpp_counts_padding():
    bands, occupied, rows, columns = 10, 6, 5, 33
    sums = GATHERING[2] + TOTAL

    def row(variant):
        return gpp_cost(variant, bands, occupied, rows, columns, 2).executed_flops

    loop = 2 * (6 * 36 + 4 * 18) + 10 * 6 + 137  # 6 occupied and 4 empty bands
    assert row("sorted_bands") == rows * columns * loop + rows * 128 * sums
    loop = 2 * (6 * 35.5 + 4 * 18) + 10 * 6.25 + 137
    assert row("sorted_by_energy") == rows * 128 * (loop + sums)
    assert row("blocks_2d") == 8 * 64 * (loop + sums)
    # Three occupied bands of padding; two segments of 16 bands each.
    loop = 2 * (9 * 35.5 + 4 * 18) + 13 * 6.25 + 2 * 137
    assert row("tiled") == 8 * 64 * (loop + 2 * sums)
    assert row("two_rows") == 8 * 64 * (loop + sums)
    assert gpp_cost("tiled", 0, 0, rows, columns, 2).executed_flops == 0
