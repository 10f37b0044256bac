"""Variants and peers that raise an exception while they are timed: the others are measured."""

import dataclasses

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.measuring import pipeline
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler, Timing
from adokernels.model.checker import Checker

A = np.arange(64.0 * 48).reshape(64, 48)
NAMES = ["naive_loops", "blocked", "simd"]
QUICK = {"device": "cpu", "cache": "warm", "seconds": 0.3, "progress": False, "ceilings": False}


@pytest.fixture
def fails_at(monkeypatch):
    """A method of one sampler raises an error at a call, counted from 0."""

    def fail(method, name, call, error=RuntimeError("broken")):  # noqa: B008
        original, count = getattr(Sampler, method), iter(range(10**9))

        def replacement(self, **options):
            if self.name == name and next(count) == call:
                raise error
            original(self, **options)

        monkeypatch.setattr(Sampler, method, replacement)

    return fail


def sweep(**options):
    return ado.sweep(ado.transpose, A, **{"variants": NAMES} | QUICK | options)


class Failing:
    """A transpose that raises an error after a number of calls."""

    def __init__(self, calls, error=None):
        self.left, self.error = calls, error or RuntimeError("broken")
        self.__name__ = "own"

    def __call__(self, a=A):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return a.T.copy()


@pytest.mark.parametrize(
    ("method", "call"), [("warm_up", 0), ("sample", 0), ("sample", 7)], ids=str
)
def test_the_other_variants_are_measured(method, call, fails_at, tmp_path):
    fails_at(method, "blocked", call)
    found = sweep(peers={"numpy": A.T.copy}, seconds=30, precision=0.99)
    assert [m.variant for m in (*found, *found.peers)] == ["naive_loops", "simd", "numpy"]
    assert min(len(m.samples) for m in found) > 7
    assert found.skipped == {"blocked": "it fails with RuntimeError: broken (during timing)"}
    assert not found.interrupted
    found.save(tmp_path / "s.json")
    assert ado.load(tmp_path / "s.json") == found
    assert "skipped blocked: it fails with RuntimeError" in repr(found)


@pytest.mark.parametrize("calls", [0, 2], ids=["in its check", "in its warm-up"])
def test_a_failing_peer(calls):
    found = sweep(peers={"own": Failing(calls), "numpy": A.T.copy})
    assert [m.variant for m in found] == NAMES
    assert [m.variant for m in found.peers] == ["numpy"]
    when = "(during the check)" if calls == 0 else "(during timing)"
    assert found.skipped == {"own": f"it fails with RuntimeError: broken {when}"}


def test_a_failing_own_variant_is_wrong():
    settings = {"seconds": 0.01, "ceilings": False, "progress": False, "isolated": False}
    call = Failing(10**9)
    variants = ado.transpose.with_variants(call)
    problem = variants.problem(A, variant="own")
    Checker(problem).before(problem.prepare("own"))
    calls_of_the_check = 10**9 - call.left
    result = ado.check(Failing(calls_of_the_check + 5), ado.transpose, A, **settings)
    assert not result
    assert result.reason == "it fails with RuntimeError: broken (during timing)"


def test_one_variant_raises_value_error(fails_at):
    fails_at("sample", "simd", 3)
    with pytest.raises(ValueError, match=r"transpose\[simd\]: it fails with RuntimeError: broken"):
        ado.measure(ado.transpose["simd"], A, seconds=0.01)


def test_a_callable_raises_its_own_error():
    error = KeyError("own")
    with pytest.raises(KeyError) as caught:
        ado.measure(Failing(3, error), seconds=0.01)
    assert caught.value is error


def test_an_interruption_after_a_failure(fails_at):
    fails_at("sample", "blocked", 2)
    fails_at("sample", "simd", 4, KeyboardInterrupt())
    found = sweep(seconds=1000)
    assert found.interrupted
    assert [m.variant for m in found] == ["naive_loops", "simd"]
    assert list(found.skipped) == ["blocked"]


def test_errors_of_the_gpu_are_raised(fails_at):
    """Most of them end the context, so that no other variant could be measured."""
    fails_at("sample", "blocked", 2, _core.CudaError("the context has ended"))
    with pytest.raises(ado.CudaError):
        sweep()
    assert len(sweep()) == 3


def test_a_failure_during_counting(monkeypatch):
    """On a machine without counters: the core's functions are replaced."""

    def collect(work, label, *_):
        if "simd" in label:
            raise RuntimeError("broken")
        return ado.records.Profile(label=label, kernels=(), cache="warm", collector="none")

    monkeypatch.setattr(pipeline, "collect", collect)
    checker = Checker(ado.transpose.problem(A, device="cpu"))
    runs = {name: pipeline.Selected(name) for name in NAMES}
    settings = Timing("warm", None, 0.01)
    with ProgressDisplay(enabled=False) as display:
        found = pipeline.measure_ladder(checker, runs, settings, display, metrics="default")
    assert [m.variant for m in found] == NAMES
    assert found["simd"].flags[0] == "no counters: it fails with RuntimeError: broken"
    assert not any("no counters" in flag for flag in found["blocked"].flags)


def test_a_scan_goes_on(fails_at):
    """A problem without a measurement has the reason, in the record and in the table."""
    fails_at("sample", "simd", 0)
    shapes = [(40, 40), (8, 8), (16, 16)]
    found = ado.scan(ado.transpose, shapes=shapes, variants="simd", **QUICK)
    assert [len(s) for s in found] == [0, 1, 1]
    assert found[1]["simd"].bytes < found[2]["simd"].bytes
    assert list(found[0].skipped) == ["simd"]
    assert "skipped simd: it fails with RuntimeError: broken" in repr(found)
    assert len(found.records()) == 2
    found.plot()
    nothing = dataclasses.replace(found, sweeps=found[:1])
    assert "skipped simd" in repr(nothing)
    with pytest.raises(ValueError, match="scan must contain at least one measurement"):
        nothing.plot()
