"""The fuzz suite of tests/fuzz with few cases, and planted faults that it must find.

`python tests/fuzz --cases 10000` runs more; docs/reliability.md has the figures.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import run_seed

import adokernels as ado

FUZZ = Path(__file__).parent / "fuzz"

# Every third call of sobel is wrong.
FAULTY_CALL = """
import ctypes
import numpy as np
import adokernels as ado

sobel = ado.routines["sobel"]


class Faulty:
    calls = 0

    def __getattr__(self, name):
        return getattr(sobel, name)

    def __call__(self, *arguments, **keywords):
        self.calls += 1
        result = sobel(*arguments, **keywords)
        if self.calls % 3 == 0 and result.size:
            {fault}
        return result


ado.routines["sobel"] = Faulty()
"""
INPUTS = ("records", "producers", "maps", "settings", "hostile", "errors")
FAULTS = {
    "result": ("result[(0,) * result.ndim] ^= 1", "wrong result"),
    "crash": ("ctypes.string_at(result.ctypes.data, 1 << 24)", "the process ended .SIGSEGV"),
}


def fuzz(*arguments, seed=None, **environment):
    """Run the suite; return its exit status and output."""
    done = subprocess.run(
        [sys.executable, FUZZ, *arguments, "--seed", str(run_seed() if seed is None else seed)],
        env={**os.environ, "ADOKERNELS_DEVICE": "cpu", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("threads", ["1", "16"])
def test_random_calls(threads):
    for suites, cases in ((ado.routines, 32), (INPUTS, 160)):
        code, text = fuzz(*suites, "--cases", str(cases), "--threads", threads)
        assert code == 0, text
        form = rf"^(\w+): {cases} cases, (\d+) results, \d+ errors, 0 failures"
        results = {name: int(number) for name, number in re.findall(form, text, re.M)}
        assert list(results) == list(suites)
        assert any(results.values())


def test_the_page_on_reliability_names_all_suites():
    page = (FUZZ.parents[1] / "docs" / "reliability.md").read_text(encoding="utf-8")
    _, random, allocations = page.split("\n| --- | --: | --: | --: |\n")
    names = [re.findall(r"^\| `(\w+)` \|", part, re.M) for part in (random, allocations)]
    assert names[0][: len(ado.routines) + len(INPUTS)] == [*ado.routines, *INPUTS]
    assert names[1][: len(ado.routines)] == list(ado.routines)


@pytest.mark.gpu
def test_random_calls_on_a_gpu():
    code, text = fuzz("--cases", "300", "--device", "cuda", ADOKERNELS_DEVICE="cuda")
    assert code == 0, text


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, tmp_path):
    """The fault is in sitecustomize.py."""
    statement, message = FAULTS[fault]
    (tmp_path / "sitecustomize.py").write_text(FAULTY_CALL.format(fault=statement))
    paths = [str(tmp_path), str(Path(ado.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    code, text = fuzz("sobel", "--cases", "24", "--processes", "2", seed=0, **environment)
    assert code == 1, text
    assert re.search(r"python tests/fuzz sobel --seed \d+ --first \d+ --cases 1", text)
    assert not re.search(r"^sobel: .* 0 failures", text, re.M)
    assert re.search(message, text), text
