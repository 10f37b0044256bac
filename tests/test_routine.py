"""Routines and variants as objects: everything that users do with them except calls."""

import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.model import tasks

ROUTINES = list(ado.routines.values())


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
def test_ladders_are_well_formed(routine):
    devices = [v.device for v in routine]
    assert devices == sorted(devices)  # cpu, then cuda
    for v in routine:
        if not v.ceiling:  # the driver chooses how it copies
            assert bool(v.blocks) == (v.device == "cuda" and not v.stages)
        assert v.available == (not v.why_unavailable)
        assert v.name in repr(routine)
        assert v.name in routine._repr_html_()


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
def test_routines_document_themselves(routine):
    text = inspect.getdoc(type(routine))
    for heading in ("Parameters", "Returns", "Raises", "References"):
        assert f"{heading}\n{'-' * len(heading)}" in text
    signature = inspect.signature(type(routine))
    assert {"variant", "block", "device", "out"} <= set(signature.parameters)
    assert getattr(ado, routine.name) is routine


def test_the_default_is_the_last_that_can(device_restored):
    ado.settings.device = "cpu"
    a = np.zeros((4, 4))
    last = [v for v in ado.transpose if v.device == "cpu" and not v.ceiling][-1]
    assert ado.measure(ado.transpose, a, seconds=0.01).variant == last.name


def test_variants_are_values():
    assert ado.transpose["simd"] == ado.transpose["simd"] != ado.transpose["blocked"]
    assert len({ado.transpose["simd"], ado.transpose["simd"]}) == 1
    assert pickle.loads(pickle.dumps(ado.transpose)) is ado.transpose
    assert pickle.loads(pickle.dumps(ado.transpose["simd"])) == ado.transpose["simd"]


def test_broadcast_operands_count_once():
    row = np.broadcast_to(np.zeros((1, 100)), (50, 100))
    assert ado.transpose["naive_loops"].cost(row).bytes == 100 * 8 + 50 * 100 * 8


def test_threads_share_a_prepared_call(rng):
    """A prepared call has one scratch memory, so its runs wait for each other."""
    operands = rng.random((40, 64, 500)), rng.random((64, 64))
    task = tasks.TASKS["average_matvec"]
    expected, unit = task.expected(*operands), task.error_unit(*operands)
    problem = ado.average_matvec.problem(*operands, device="cpu")
    call = problem.prepare("interchange")
    for _ in range(5):
        problem.poison()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: call.run(), range(8)))
        task.check(problem.results(), expected, unit)


def test_problems_with_results_in_memory_of_the_caller(rng):
    a, memory = rng.random((5, 7)), np.full((9, 12), -1.0)
    out = memory[1:8, 2:12:2]
    core = next(routine for routine in _core.routines() if routine.name == "transpose")
    problem = core.problem((a,), {}, "cpu", out=out)
    problem.fill_results(0xFF)
    assert np.isnan(out).all()
    for variant in ado.transpose:
        if variant.device == "cpu" and not variant.ceiling and not problem.why_not(variant.name):
            problem.fill_results(0xFF)
            problem.prepare(variant.name).run()
            assert problem.results() is out
            assert np.array_equal(out, a.T)
    out[:] = -1
    assert np.all(memory == -1)  # only the results were written
    with pytest.raises(ValueError, match="out overlaps a"):
        core.problem((out,), {}, "cpu", out=memory[:5, :7])


def test_the_table_of_all_routines():
    assert all(name in repr(ado.routines) for name in ado.routines)
