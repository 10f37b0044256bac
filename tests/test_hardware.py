"""Grids, costs and choices on GPUs that this machine does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from choices import plan_on
from test_contract import BATCHES, FULL, THIN

import adokernels as ado
from adokernels import _core
from adokernels.model.ladder import choose
from adokernels.model.routine import batch_option

ROUTINES = list(ado.routines.values())
MULTIPROCESSORS = (40, 108, 132, 148, 188)
LARGEST_GRID = (2**31 - 1, 65535, 65535)
LARGE = {
    1: [(3 << 24,)],
    2: [(8192, 8193), (65536, 24)],
    3: [(64, 4096, 48)],
    4: [(40, 90, 700, 2)],
}


def problems(routine: ado.Routine) -> Iterator[tuple[Any, ...]]:
    """Operands of small, thin and large sizes; all elements share one address."""
    rank = len(routine.dimensions)
    for i, size in enumerate([*FULL[rank], *THIN[rank], *LARGE.get(rank, ())]):
        batch = BATCHES[i % 3] if routine.batched else ()
        types = routine.task.operand_types((*batch, *size))
        yield tuple(np.broadcast_to(np.zeros((), dtype), shape) for shape, dtype in types)


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
def test_launches_fit_every_gpu(routine):
    """Each variant plans a valid launch for each number of multiprocessors."""
    planned = 0
    for operands in problems(routine):
        options = batch_option(routine, operands[0])
        for variant in routine.variants:
            if variant.device != "cuda":
                continue
            for count in MULTIPROCESSORS:
                gpu = _core.Hardware(multiprocessors=count)
                for block in variant.blocks:
                    try:
                        plan = plan_on(
                            gpu, routine, variant.name, *operands, block=block, **options
                        )
                    except ValueError:
                        break  # the variant cannot solve the problem
                    planned += 1
                    assert all(n <= most for n, most in zip(plan.grid, LARGEST_GRID, strict=False))
                    assert plan.shared_bytes <= 227 << 10
                    assert plan.scratch_bytes < 1 << 40
                    assert plan.cost.executed_flops >= 0
                    assert plan.cost.requested_bytes >= 0
    assert planned > 100


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
@pytest.mark.parametrize("multiprocessors", MULTIPROCESSORS)
def test_every_gpu_has_a_default_that_can_solve_the_problem(routine, multiprocessors):
    gpu = _core.Hardware(multiprocessors=multiprocessors)
    for operands in problems(routine):
        options = batch_option(routine, operands[0])
        chosen = choose(routine, operands, options, "cuda", gpu=gpu).variant
        plan_on(gpu, routine, chosen, *operands, **options)


def test_old_gpus_run_no_variant_for_new_ones():
    """Variants for compute capability 8.0 use asynchronous copies."""
    turing = _core.Hardware(compute=75, multiprocessors=40)
    newer = {(r.name, v.name) for r in _core.routines() for v in r.variants if v.min_compute > 75}
    assert newer
    for routine in ROUTINES:
        for operands in problems(routine):
            options = batch_option(routine, operands[0])
            chosen = choose(routine, operands, options, "cuda", gpu=turing).variant
            assert (routine.name, chosen) not in newer


def test_grids_follow_the_multiprocessors():
    """A kernel that fills the device once starts fewer blocks on a smaller one."""
    image = np.broadcast_to(np.uint8(0), (4096, 4096))
    small, large = (
        plan_on(_core.Hardware(multiprocessors=count), ado.gaussian_blur, "sliding_window", image)
        for count in (40, 188)
    )
    assert np.prod(small.grid) < np.prod(large.grid)


def test_hardware_is_shown_and_defaults_to_an_h200():
    facts = _core.hardware()
    assert set(facts) >= {"compute", "multiprocessors", "l2_bytes", "memory_bandwidth"}
    assert "'multiprocessors': 132" in repr(_core.Hardware())
