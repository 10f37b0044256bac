"""benchmarks/gate.py: statistic, verdict, comparison of machine code, and a short run."""

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scripts import load_script

import adokernels
from adokernels import _core

gate = load_script("benchmarks/gate.py")


@pytest.fixture
def rng():
    """Each run has the same noise, because a verdict on random noise can be wrong by chance."""
    return np.random.default_rng(1)


def rounds(rng, ratio, noise=0.003, count=20):
    """Ratios of rounds: every process is faster or slower than others by the noise."""
    return list(ratio * np.exp(noise * (rng.standard_normal(count) - rng.standard_normal(count))))


def test_a_wheel_is_as_fast_as_itself(rng):
    verdicts = [gate.verdict(rounds(rng, 1)) for _ in range(500)]
    assert set(verdicts) <= {"same", "unclear"}
    assert verdicts.count("same") > 450
    # The level allows one wrong verdict in 1000.
    assert sum(gate.verdict(rounds(rng, 1, noise=0.1)).isupper() for _ in range(500)) <= 5


def test_a_change_of_two_percent_is_found(rng):
    assert [gate.verdict(rounds(rng, 1.02)) for _ in range(100)].count("SLOWER") > 95
    assert [gate.verdict(rounds(rng, 0.98)) for _ in range(100)].count("FASTER") > 95


def test_other_code_must_have_the_same_speed(rng):
    ratios = [0.95, 1.02, 1.05] * 5
    assert gate.verdict(ratios, "same") == gate.verdict(ratios) == "unclear"
    assert gate.verdict(ratios, "differs") == gate.verdict(ratios, "launch differs")
    assert gate.verdict(ratios, "differs") == "CODE DIFFERS"
    assert gate.verdict(rounds(rng, 1), "differs") == "same"


def test_only_instruction_words_count():
    found = gate.kernels_of(Path(_core.__file__).parent.parent)
    if not found:
        pytest.skip("no kernels")
    single, double = (found[f"average_matvec_combine<{kind}>"] for kind in ("float", "double"))
    assert single != double
    assert len({digest for digests in found.values() for digest in digests}) > 0.9 * len(found)
    assert gate.kernels_of(Path(__file__).parent) == {}


def test_kernels_and_launches_are_compared_in_order():
    kernels = [{"first": ["a"], "second": ["b"]}, {"one": ["a"], "two": ["b"]}]
    old = [["first", [[8], [256], 0]], ["second", [[1], [32], 0]]]
    new = [["one", [[8], [256], 0]], ["two", [[1], [32], 0]]]
    assert gate.compare_code(kernels, [old, new]) == "same"
    assert gate.compare_code(kernels, [old, new[::-1]]) == "differs"
    new[0][1] = [[4], [512], 0]
    assert gate.compare_code(kernels, [old, new]) == "launch differs"
    assert gate.compare_code([{}, {}], [old, new]) == ""
    assert gate.compare_code(kernels, [[], []]) == ""


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
    arguments = ["gate.py", *map(str, [wheel, wheel, "--json", stored])]
    for seconds, more in (3, []), (3, ["--resume"]):
        monkeypatch.setattr(sys, "argv", [*arguments, "--seconds", str(seconds), *more])
        with pytest.raises(SystemExit) as ended:
            gate.main()
        assert ended.value.code == 0
        assert "own.whl and own.whl" in capsys.readouterr().out
    state = gate.State(**json.loads(stored.read_text()))
    assert len(state.items["import"].ratios) >= 2
