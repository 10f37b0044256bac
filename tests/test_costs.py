"""Rows of executed FLOPs against hardware counters and against models that count operations."""

from pathlib import Path

import numpy as np
import pytest

import adokernels as ado
from adokernels.model.tasks import TASKS

DATA = Path(__file__).parent.parent / "notebooks" / "data"
#: Variants of engines that do not state their FLOPs: the useful ones stand for them.
ENGINES = ("small_tiles", "wide_average", "overlapped", "row_product", "cluster")
ENGINES += ("split_average_then_gemm",)
LADDERS = [(r, name) for r, t in TASKS.items() for name in t.benchmark_problems if r != "gpp"]


def row(variant, *operands, **options):
    """The costs for operands of these shapes and types; memory is not allocated."""
    arrays = (np.broadcast_to(np.zeros(1, dtype), shape) for shape, dtype in operands)
    return variant.cost(*arrays, **options)


def gpp_cost(variant, bands, occupied, rows, columns, frequencies):
    """The row of a variant of ado.gpp with this number of occupied bands."""
    matrices = [(rows, columns), (rows, columns), (bands, columns), (bands, rows)]
    operands = [(shape, "c16") for shape in matrices]
    operands += [((bands, frequencies), "f8"), ((rows,), "f8")]
    arrays = (np.broadcast_to(np.zeros(1, dtype), shape) for shape, dtype in operands)
    return ado.gpp[variant].cost(*arrays, (np.arange(bands) < occupied).astype(float))


@pytest.mark.parametrize(("routine", "name"), LADDERS)
def test_rows_equal_hardware_counters(routine, name):
    known = {v.name: v for v in ado.routines[routine] if v.name not in ENGINES}
    for m in ado.load(DATA / f"{routine}-{name}.json.xz").variants:
        if m.variant in known and m.counted_flops is not None:
            shapes = [(operand.shape, operand.dtype) for operand in m.problem.operands]
            flops = row(known[m.variant], *shapes, **m.problem.options).executed_flops
            assert m.counted_flops == pytest.approx(flops, rel=5e-3), m.variant


def test_gpp_rows_equal_hardware_counters():
    """The stored sweep of an H100; its data determine the remaining difference."""
    sweep = ado.load(DATA / "gpp-counted.json.xz")
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
    def flops(variant, samples):
        shapes = ((2, 3, samples), "f4"), ((3, 3), "f4")
        return row(ado.average_matvec[variant], *shapes).executed_flops / 6

    product = 2 * 3
    assert flops("naive_loops", 20) == 20 * ADD + TOTAL + 1 + product
    assert flops("interchange", 20) == 20 * ADD + TOTAL + 1 + product
    # Two trees of eight samples, and four samples in a plain sum.
    assert flops("pairwise", 20) == 2 * (7 + ADD) + 4 + ADD + TOTAL + 1 + product
    # Any number of lanes from 4 to 16 divides 1024 into whole trees.
    lanes = [4, 8, 16]
    assert flops("simd", 1024) in [
        1024 // 8 * (7 + ADD) + n * TOTAL + n - 1 + 1 + product for n in lanes
    ]
    assert flops("simd", 3) == 3 + 1 + product
