"""benchmarks/gate.py: statistic, verdict, and a short run."""

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scripts import load_script

import adokernels

gate = load_script("benchmarks/gate.py")


@pytest.fixture
def rng():
    """Each run has the same noise, because a verdict on random noise can be wrong by chance."""
    return np.random.default_rng(1)


def rounds(rng, ratio, noise=0.003, count=20):
    """Ratios of rounds: every process is faster or slower than others by the noise."""
    return list(ratio * np.exp(noise * (rng.standard_normal(count) - rng.standard_normal(count))))


def test_few_rounds_decide_nothing(rng):
    assert gate.verdict(rounds(rng, 2, count=gate.FEWEST_SAMPLES - 1)) == "too few rounds"
    assert gate.verdict([2.0] * gate.FEWEST_SAMPLES) == "SLOWER"


def test_a_wheel_is_as_fast_as_itself(rng):
    verdicts = [gate.verdict(rounds(rng, 1)) for _ in range(500)]
    assert set(verdicts) <= {"same", "unclear"}
    assert verdicts.count("same") > 450
    # The level allows one wrong verdict in 1000.
    assert sum(gate.verdict(rounds(rng, 1, noise=0.1)).isupper() for _ in range(500)) <= 5


def test_a_change_of_two_percent_is_found(rng):
    assert [gate.verdict(rounds(rng, 1.02)) for _ in range(100)].count("SLOWER") > 95
    assert [gate.verdict(rounds(rng, 0.98)) for _ in range(100)].count("FASTER") > 95


def test_calls_may_become_faster_and_a_little_slower(rng):
    assert gate.verdict(rounds(rng, 1.03), call=True) == "same"
    assert gate.verdict(rounds(rng, 1.1), call=True) == "SLOWER"
    assert gate.verdict(rounds(rng, 0.5), call=True) == "faster"


def test_a_variant_that_one_wheel_declines_is_broken():
    rounds = [[{"a/b": 1.0, "a/c": None, "a/d": 1.0}, {"a/b": None, "a/c": None, "a/d": 2.0}]] * 11
    assert [found for found, _ in gate.report(rounds)] == ["BROKEN", "declined", "SLOWER"]
    assert [found for found, _ in gate.report([[{"a/b": 1.0}, {}]])] == ["BROKEN"]


@pytest.fixture
def wheel(tmp_path):
    """A wheel of the installed package, which consists of two folders if it is editable."""
    with zipfile.ZipFile(tmp_path / "own.whl", "w") as archive:
        for folder in map(Path, adokernels.__path__):
            for file in (*folder.rglob("*.py"), *folder.glob("*.so")):
                archive.write(file, Path("adokernels") / file.relative_to(folder))
    return tmp_path / "own.whl"


def test_a_run_stops_and_continues(wheel, tmp_path, monkeypatch, capsys):
    stored = tmp_path / "gate.json"
    only = ["--only", "component/simd", "call/component", "transpose/nothing"]
    arguments = ["gate.py", *map(str, [wheel, wheel, "--json", stored])]
    for more in ([], ["--resume"]):
        monkeypatch.setattr(sys, "argv", [*arguments, "--seconds", "2", *more, *only])
        with pytest.raises(SystemExit) as ended:
            gate.main()
        assert ended.value.code == 0
        assert "own.whl and own.whl" in capsys.readouterr().out
    state = gate.State(**json.loads(stored.read_text()))
    assert len(state.rounds) >= 2
    for times in (times for both in state.rounds for times in both):
        assert set(times) == {"import", "first call", "component/simd", "call/component"}
        assert all(0 < seconds < 60 for seconds in times.values())
