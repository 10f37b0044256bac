"""Ctrl-C during a sweep, a scan or a tuning: the result contains the measurements until then."""

import random

import numpy as np
import pytest
from conftest import run_python

import adokernels as ado
from adokernels.measuring import machine, pipeline, scanning
from adokernels.measuring.pipeline import Pipeline
from adokernels.measuring.sampling import Sampler

A = np.arange(64.0 * 48).reshape(64, 48)
NAMES = ["naive_loops", "blocked", "simd"]
QUICK = {"device": "cpu", "cache": "warm", "seconds": 0.01, "progress": False, "ceilings": False}


@pytest.fixture
def interrupted_at(monkeypatch):
    """Raise KeyboardInterrupt instead of one call of a function."""

    def interrupt(owner, name, calls):
        original, count = getattr(owner, name), iter(range(10**9))

        def replacement(*args, **options):
            if next(count) == calls:
                raise KeyboardInterrupt
            return original(*args, **options)

        monkeypatch.setattr(owner, name, replacement)

    return interrupt


def sweep(**options):
    return ado.sweep(ado.transpose, A, variants=NAMES, **QUICK | options)


def test_samples_are_kept(interrupted_at):
    interrupted_at(Sampler, "sample", 3 * 4 + 2)
    found = sweep(seconds=1000)
    assert found.interrupted
    assert [m.variant for m in found] == NAMES
    assert sorted(len(m.samples) for m in found) == [4, 5, 5]
    assert {m.stopped for m in found} == {"interrupted"}
    assert not found.skipped
    assert found.title.endswith("interrupted")
    assert not sweep().interrupted


def test_variants_without_samples_are_skipped(interrupted_at, monkeypatch):
    monkeypatch.setattr(random, "shuffle", lambda samplers: None)
    interrupted_at(Sampler, "sample", 1)
    found = sweep(peers={"numpy": A.T.copy})
    assert [m.variant for m in found] == NAMES[:1]
    assert not found.peers
    assert found.skipped == dict.fromkeys([*NAMES[1:], "numpy"], "interrupted")


@pytest.mark.parametrize(
    ("owner", "name"), [(Pipeline, "prepare"), (Sampler, "warm_up"), (Sampler, "sample")]
)
def test_nothing_measured_raises(owner, name, interrupted_at):
    interrupted_at(owner, name, 0)
    with pytest.raises(KeyboardInterrupt):
        sweep()
    assert not sweep().interrupted


def test_the_check_after_timing_can_be_interrupted(interrupted_at):
    interrupted_at(Pipeline, "_check_again", 0)
    found = sweep()
    assert found.interrupted
    assert [m.variant for m in found] == NAMES
    assert "interrupted" not in {m.stopped for m in found}


def test_a_second_interruption_is_raised(interrupted_at):
    interrupted_at(Sampler, "sample", 7)
    interrupted_at(pipeline, "context", 0)
    with pytest.raises(KeyboardInterrupt):
        sweep()


def test_ceilings_are_missing_after_an_interruption(interrupted_at, monkeypatch, tmp_path):
    monkeypatch.setenv("ADOKERNELS_CACHE", str(tmp_path))
    dram = ado.records.Ceiling(kind="bandwidth", level="DRAM", operation="copy", measured=1e9)
    monkeypatch.setattr(machine, "_measure", lambda *_: dram)
    interrupted_at(machine, "_measure", 2)
    found = sweep(ceilings=True)
    assert found.interrupted
    assert found.machine is None
    assert not list(tmp_path.iterdir())


def test_measure_and_check_raise(interrupted_at):
    interrupted_at(Sampler, "sample", 5)
    with pytest.raises(KeyboardInterrupt):
        ado.measure(ado.transpose["simd"], A, cache="warm")
    interrupted_at(Sampler, "sample", 5)
    with pytest.raises(KeyboardInterrupt):
        ado.check(lambda a: a.T.copy(), ado.transpose, A, ceilings=False, progress=False)


def scan(**options):
    shapes = [(8, 8), (16, 16), (32, 32)]
    return ado.scan(ado.transpose, shapes=shapes, **QUICK | options)


def test_a_scan_has_the_problems_measured(interrupted_at):
    interrupted_at(scanning, "sweep", 2)
    found = scan()
    assert found.interrupted
    assert [s.interrupted for s in found] == [False, False]
    assert found.title.endswith("interrupted")


def test_a_scan_without_a_problem_raises(interrupted_at):
    interrupted_at(scanning, "sweep", 0)
    with pytest.raises(KeyboardInterrupt):
        scan()
    assert not scan().interrupted


def test_ctrl_c_in_a_process():
    code = """
import os, signal, threading, time
import numpy as np
import adokernels as ado
from adokernels.measuring.sampling import Sampler

signal.signal(signal.SIGINT, signal.default_int_handler)
a = np.arange(64.0 * 48).reshape(64, 48)
original = Sampler.sample
counts = []

def sample(self, **options):
    counts.append(self.name)
    if len(counts) == 50:
        os.kill(os.getpid(), signal.SIGINT)
    original(self, **options)

Sampler.sample = sample
found = ado.sweep(
    ado.transpose, a, device="cpu", variants=["naive_loops", "simd"], cache="warm", seconds=600,
    precision=0, ceilings=False,
)
print(found.interrupted, sum(len(m.samples) for m in found) in (49, 50))
print(np.array_equal(ado.transpose(a), a.T))
print(len(threading.enumerate()))
"""
    assert run_python(code).split() == ["True", "True", "True", "1"]
