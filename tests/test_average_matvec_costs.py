"""Executed FLOPs of the CUDA variants of average_matvec, counted by hand."""

import pytest
from test_costs import ADD, TOTAL, division, executed_flops, of_wide_row

import adokernels as ado


def flops(variant, shape, dtype):
    operands = (shape, dtype), ((shape[1], shape[1]), dtype)
    return executed_flops(ado.average_matvec[variant], *operands)


def test_small_sets():
    """One block for five sets, with eight lanes per row: one pass of 256 threads."""
    reductions = 256 * (3 + 3)  # of four sums per lane, then over eight lanes
    assert flops("small_sets", (5, 3, 7), "f4") == reductions + 15 * (7 + 1 + 2 * 3)


def test_cluster():
    """Two sets in one cluster each, with 13 blocks of eight rows in two clusters of eight blocks.

    A block has 128 groups of two lanes, so that one pass averages the 100 elements of a set.
    """
    blocks, threads = 2 * 2 * 8, 256
    averages = blocks * threads * (7 + ADD + TOTAL + 1) + blocks * 100 * (1 + 1)
    products = 2 * 100 * (2 * 100 + 32 * 5)
    assert flops("cluster", (2, 100, 2), "f4") == averages + products


def test_row_product_of_staged_averages():
    """Three sets in a tile of four. Each block has four groups of four rows.

    The 100 columns are padded to 256.
    """
    blocks, values = 7, 4 * 4
    products = blocks * 4 * values * 2 * 256
    reductions = blocks * 256 * (8 + 4 + 2 + 1 + 1)  # halves of the values over the lanes
    totals = blocks * 4 * values * 2  # two warps per row
    assert flops("row_product", (3, 100, 1), "f4") == products + reductions + totals


def test_row_product_of_one_set():
    """Four rows per block, eight warps per row. Without staging, columns are not padded."""
    blocks = 25
    products = blocks * 4 * 2 * 100
    reductions = blocks * 256 * (2 + 1 + 1 + 1 + 1)
    totals = blocks * 4 * 8
    assert flops("row_product", (1, 100, 1), "f8") == products + reductions + totals


def test_split_rows():
    """A row of a million numbers: 460 parts with eight warps each, and the sum of the parts."""
    parts, part, left = 460, 2176, 1_000_000 - 459 * 2176
    sums = (parts - 1) * of_wide_row(0, part, 4, 32, 8) + of_wide_row(0, left, 4, 32, 8)
    combined = ADD * parts + TOTAL * 256 + 256 * 5 + 8 + division("f4")
    expected = sums + combined + 2
    assert flops("split_average_then_gemm", (1, 1, 1_000_000), "f4") == pytest.approx(expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_vectors_of_one_sample_are_not_averaged(dtype):
    assert flops("split_average_then_gemm", (7, 20, 1), dtype) == 2 * 7 * 20 * 20
