"""The fuzz suite of tests/fuzz with few cases, and planted faults that it must find.

`python tests/fuzz --cases 10000` runs more; docs/reliability.md has the figures.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import run_seed

import adokernels as ado

FUZZ = Path(__file__).parent / "fuzz"

# Every third call of sobel is wrong, or the other function is.
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
FAULTY_FUNCTION = """
import adokernels as ado

{fault}
"""
INPUTS = {
    "records": ("ado.load = lambda path: 1 / 0", r"unexpected ZeroDivisionError"),
    "producers": ("ado.transpose = lambda a: 1", r"no error, expected ValueError"),
    "maps": ("ado.transpose = lambda a, out: None", r"wrong result|no error, expected ValueError"),
    "settings": ("ado.steps = lambda a: [][0]", r"unexpected IndexError"),
    "hostile": ("ado.max_plus = lambda a, b: memoryview(str(b).encode())", r"wrong result"),
    "errors": (
        "from adokernels.large import communicators\ncommunicators._text_of = lambda error: b'x'",
        r"RuntimeError\('rank \d failed with x'\)",
    ),
}
FAULTS = {
    "result": ("result[(0,) * result.ndim] ^= 1", "wrong result"),
    "operand": (
        "np.asarray(arguments[0]).flags.writeable and arguments[0].__setitem__("
        "(0,) * result.ndim, 7 ^ arguments[0][(0,) * result.ndim])",
        "changed an operand",
    ),
    "error": ("raise RuntimeError('sobel: no')", r"RuntimeError\('sobel: no'\)"),
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
    for suites, cases in ((ado.routines, 48), (INPUTS, 240)):
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


def planted(suite, source, folder):
    """The output of a suite that must fail because of the source in sitecustomize.py."""
    (folder / "sitecustomize.py").write_text(source)
    paths = [str(folder), str(Path(ado.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    code, text = fuzz(suite, "--cases", "24", "--processes", "2", seed=0, **environment)
    assert code == 1, text
    assert re.search(rf"python tests/fuzz {suite} --seed \d+ --first \d+ --cases 1", text)
    assert not re.search(rf"^{suite}: .* 0 failures", text, re.M)
    return text


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, tmp_path):
    statement, message = FAULTS[fault]
    text = planted("sobel", FAULTY_CALL.format(fault=statement), tmp_path)
    assert re.search(message, text), text


@pytest.mark.parametrize("suite", INPUTS)
def test_planted_faults_of_other_suites_are_found(suite, tmp_path):
    statement, message = INPUTS[suite]
    text = planted(suite, FAULTY_FUNCTION.format(fault=statement), tmp_path)
    assert re.search(message, text), text


def test_either_of_two_faults_may_be_reported(monkeypatch):
    """Operands without a result (M is 0), and a variant that does not exist."""
    monkeypatch.syspath_prepend(FUZZ)
    from cases import Case, Operand
    from check import Wrong, check_error

    vectors, matrix = np.empty((2, 3, 0)), np.empty((3, 3))
    operands = [Operand(a, a.strides) for a in (vectors, matrix)]
    case = Case(ado.average_matvec, 0, 0, [vectors, matrix], operands=operands)
    case.invalid("variant='fastest'", KeyError)
    for keywords in ({}, {"variant": "fastest"}):
        with pytest.raises((ValueError, KeyError)) as raised:
            ado.average_matvec(vectors, matrix, **keywords)
        check_error(case, raised.value)
    with pytest.raises(Wrong, match=r"ValueError.*expected"):
        check_error(case, ValueError("average_matvec: another reason"))
