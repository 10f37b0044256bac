"""benchmarks/gate.py: statistic, verdict, and a short run."""

import json
import math
import shutil
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


def test_the_mean_leaves_out_delayed_samples():
    assert gate.fast_mean([5.0, 1.0, 2.0, 900.0]) == 1.5
    assert gate.fast_mean([3.0]) == 3.0


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


def test_a_variant_that_one_wheel_lacks_is_broken():
    item = gate.Item(declined=("", "KeyError: transpose has no variant 'wide'"))
    assert item.verdict == "BROKEN"
    item.declined = "a has more than 256 rows", "more than 256 rows"
    assert item.verdict == "declined"


@pytest.fixture
def wheel(tmp_path):
    """A wheel of the installed package, which consists of two folders if it is editable."""
    with zipfile.ZipFile(tmp_path / "own.whl", "w") as archive:
        for folder in map(Path, adokernels.__path__):
            for file in (*folder.rglob("*.py"), *folder.glob("*.so")):
                archive.write(file, Path("adokernels") / file.relative_to(folder))
    return tmp_path / "own.whl"


def test_a_round_in_two_processes(wheel, tmp_path):
    folders = [tmp_path / name for name in ("old", "new")]
    for folder in folders:
        shutil.unpack_archive(wheel, folder, "zip")
    state = gate.State(["", ""], "cpu")
    only = ["component/simd", "call/component", "transpose/nothing"]
    gate.one_round(state, folders, only, math.inf)
    assert set(state.items) == {"import", "first call", "component/simd", "call/component"}
    for item in state.items.values():
        ((old, new),) = item.seconds
        assert 0 < old < 60
        assert 0 < new < 60
    assert state.items["component/simd"].operands
    lines = list(gate.report(state))
    assert any(line.startswith("component/simd ") for line in lines)
    assert lines[-1].startswith("too few rounds: 4: call/component, ")


def test_a_run_stops_and_continues(wheel, tmp_path, monkeypatch, capsys):
    stored = tmp_path / "gate.json"
    arguments = ["gate.py", *map(str, [wheel, wheel, "--json", stored])]
    for seconds, more in (3, []), (3, ["--resume"]):
        monkeypatch.setattr(sys, "argv", [*arguments, "--seconds", str(seconds), *more])
        with pytest.raises(SystemExit) as ended:
            gate.main()
        assert ended.value.code == 0
        assert "own.whl and own.whl" in capsys.readouterr().out
    state = gate.State(**json.loads(stored.read_text()))
    assert len(state.items["import"].ratios) >= 2
