"""Rows of executed FLOPs against hardware counters and against models that count operations."""

import math
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
        "wide_average": 4172283904,
        "overlapped": 4176347136,
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


# --- Averages of rows: a model that visits every lane ---------------------------------------------

ADD, TOTAL = 7, 10  # of a compensated sum


def division(dtype):
    return 10 if dtype == "f4" else 17


def of_wide_row(offset, samples, per_vector, lanes_per_row, warps):
    """FLOPs of the lanes of one row that starts `offset` elements after a multiple of 16 bytes."""
    leading = min(samples, -offset % per_vector)
    vectors = (samples - leading) // per_vector
    edges = samples - vectors * per_vector
    in_flight = 8 * lanes_per_row
    flops = 0
    for warp in range(warps):
        for lane in range(lanes_per_row):
            first = warp * in_flight + lane if lanes_per_row == 32 else lane
            left = vectors - first
            while left > 0:
                flops += 8 * (per_vector - 1) + 7 + ADD  # vectors, pairwise, compensated
                left -= warps * in_flight
            flops += ADD  # an edge element or 0
            if warps == 1:
                flops += ADD * len(range(first + lanes_per_row, edges, lanes_per_row))
            flops += TOTAL + int(math.log2(lanes_per_row))  # and shuffles
    return flops + (warps if warps > 1 else 0)


def sharing(row_bytes):
    """Lanes per row, and warps per row; 0 lanes for short rows (engine_row_averages.cuh)."""
    limits = {2048: 32, 448: 8, 160: 4, 100: 2, 24: 1}
    lanes = next((lanes for above, lanes in limits.items() if row_bytes > above), 0)
    warps = 1
    while lanes == 32 and warps < 8 and warps * 8 * 16 * 32 * 5 / 4 < row_bytes:
        warps *= 2
    return lanes, warps


def of_wide_averages(sets, length, samples, dtype):
    size = int(dtype[1])
    lanes, warps = sharing(samples * size)
    flops = 0
    for row in range(sets * length):
        if lanes == 0:
            flops += samples
        else:
            flops += of_wide_row(row * samples % (16 // size), samples, 16 // size, lanes, warps)
        flops += division(dtype)
    return flops


def of_tiles(tiles, rows, sets, chunk_bytes, length, dtype):
    """FLOPs of tiles of the product (engine_product_tile.cuh)."""
    size = int(dtype[1])
    chunk = chunk_bytes // size
    teams = 256 // (rows // 4 * (sets // (16 // size)))
    return tiles * rows * sets * (2 * chunk * math.ceil(length / chunk) + teams)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("samples", [1, 4, 8, 9, 31, 33, 100, 113, 261, 1024, 1283, 5000])
def test_wide_averages(samples, dtype):
    sets, length = 3, 36  # the alignment of rows is periodic in `length`
    across = 64 if dtype == "f4" else 32
    expected = of_wide_averages(sets, length, samples, dtype)
    expected += of_tiles(1, 64, across, 256, length, dtype)
    shapes = ((sets, length, samples), dtype), ((length, length), dtype)
    assert executed_flops(ado.average_matvec["wide_average"], *shapes) == pytest.approx(expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_overlapped_tiles(dtype):
    """100 sets: groups of 32 sets while more than 16 are left; the last 36 sets in small tiles."""
    sets, length, samples = 100, 200, 512
    expected = of_wide_averages(sets, length, samples, dtype)
    expected += of_tiles(2 * 7, 32, 32, 512, length, dtype)
    expected += of_tiles(3 * 25, 8, 16, 512, length, dtype)
    shapes = ((sets, length, samples), dtype), ((length, length), dtype)
    assert executed_flops(ado.average_matvec["overlapped"], *shapes) == pytest.approx(expected)


# --- Other rows by hand ---------------------------------------------------------------------------


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
