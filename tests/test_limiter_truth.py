"""The kernels with known limiters compute what their references compute; scores are read right."""

import dataclasses
import shutil

import numpy as np
import pytest
from scripts import load_script

import adokernels as ado
from adokernels.records.limiter import Kind, Limiter

truth = load_script("benchmarks/limiter_truth.py")
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return truth.compiled(str(tmp_path_factory.mktemp("truth")))


@needs_compiler
@pytest.mark.parametrize("kernel", truth.truths(), ids=lambda t: t.name)
def test_kernels_agree_with_their_references(kernel, library):
    small = dataclasses.replace(kernel, bytes=min(kernel.bytes, 8000), passes=min(kernel.passes, 9))
    ladder = truth.ladder_of(small, library)
    operands = truth.operands_of(small)
    got = ladder(*operands)
    expected = np.asarray(truth.KERNELS[kernel.kernel].reference(*operands))
    assert ladder.task.check(got, expected, None, None) <= ladder.task.allowed(got.dtype)
    cost = ladder.problem(*operands).prepare(kernel.name).cost
    assert cost.requested_bytes > 0
    assert (cost.executed_flops > 0) == (truth.KERNELS[kernel.kernel].flops > 0)


@needs_compiler
def test_sweeps_of_the_kernels_are_scored(tmp_path, monkeypatch):
    few = [t for t in truth.truths() if t.name in ("tiny calls", "ordered sum")]
    few = [dataclasses.replace(t, passes=min(t.passes, 3)) for t in few]
    monkeypatch.setattr(truth, "truths", lambda: few)
    options = {"ceilings": False, "seconds": 0.02}
    sweep = ado.sweep
    monkeypatch.setattr(truth.ado, "sweep", lambda *a, **k: sweep(*a, **{**k, **options}))
    truth.measure(tmp_path, 1, 0.02)
    rows = truth.score(tmp_path)
    assert [row["kernel"] for row in rows] == ["ordered sum", "tiny calls"]
    assert all(isinstance(row["right"], bool) for row in rows)


def test_agreement_needs_the_kind_and_the_unit():
    known = next(t for t in truth.truths() if t.name == "recurrence")
    assert known.agrees(Limiter(kind=Kind.LATENCY, unit=truth.rules.CHAIN))
    assert not known.agrees(Limiter(kind=Kind.LATENCY, unit="accesses to DRAM"))
    assert not known.agrees(Limiter(kind=Kind.COMPUTE, unit=truth.rules.CHAIN))
