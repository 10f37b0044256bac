"""benchmarks/shapes.py: random problems, reference results, statistics, and runs on the CPU."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.model.tasks import TASKS
from adokernels.storage import read_file

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))
try:
    import random_shapes
    import shapes
finally:
    sys.path.remove(str(FOLDER))

Case = random_shapes.Case
SMALL = {
    "transpose": ((5, 7), "c16"),
    "average_matvec": ((3, 5, 7), "f4"),
    "max_plus": ((5, 7), "f8"),
    **{name: ((2, 9, 11, 3), "u1") for name in ("grayscale", "edge_detect")},
    **{name: ((2, 9, 11), "u1") for name in ("gaussian_blur", "sobel")},
}


def random_operands(case):
    arrays = [np.empty(s, case.dtype) for s in case.operand_shapes]
    for array in arrays:
        random_shapes.fill_randomly(array, np, np.random.default_rng(5))
    return arrays


@pytest.mark.parametrize("piece", [1, 13, 1 << 24])
@pytest.mark.parametrize("routine", SMALL)
def test_references_agree_with_the_tasks(routine, piece, monkeypatch):
    monkeypatch.setitem(random_shapes.PIECE, "numpy", piece)
    arrays = random_operands(Case(routine, *SMALL[routine]))
    expected, unit = random_shapes.reference(np, routine, arrays)
    task = TASKS[routine]
    wanted = task.expected(*arrays)
    if routine == "average_matvec":
        allowed = task.error_unit(*arrays)
        assert np.allclose(unit, allowed, rtol=1e-6)
        assert (np.abs(expected - wanted) <= allowed).all()
    elif routine == "grayscale":  # the kernels' weights differ from the exact ones
        assert np.abs(expected.astype(int) - wanted).max() <= task.tolerance
    else:
        assert np.array_equal(expected, wanted)


@pytest.mark.parametrize("routine", SMALL)
def test_error_finds_every_wrong_element(routine):
    arrays = random_operands(Case(routine, *SMALL[routine]))
    expected, unit = random_shapes.reference(np, routine, arrays)
    kind = expected.dtype if unit is None else np.float32
    right = expected.astype(kind)
    assert random_shapes.error(np, right, expected, unit) <= (unit is not None)
    for index in (0, -1):
        wrong = right.copy()
        wrong.flat[index] = wrong.flat[index] + 1 if kind != np.uint8 else wrong.flat[index] ^ 1
        assert random_shapes.error(np, wrong, expected, unit) >= 1
        if kind != np.uint8:
            wrong.flat[index] = np.nan
            assert random_shapes.error(np, wrong, expected, unit) >= 1
    assert random_shapes.error(np, right[:1], expected, unit) == np.inf


def run(monkeypatch, tmp_path, *words):
    arguments = ["shapes.py", "--seconds", "0.001", "--json", str(tmp_path), *words]
    monkeypatch.setattr(sys, "argv", arguments)
    device = _core.device()
    try:
        return shapes.main()
    finally:
        ado.settings.device = device


def test_a_run_stores_its_results(monkeypatch, tmp_path):
    lengths = {"transpose": "5x7", "average_matvec": "3x5x7", "sobel": "9x11", "gpp": "4x3x5x1"}
    for routine, given in lengths.items():
        assert run(monkeypatch, tmp_path, routine, "--shapes", given) == 0
        stored = json.loads(read_file(tmp_path / f"shapes-cpu-{_core.isa()}-{routine}-0.json.xz"))
        (one,) = stored["shapes"]
        assert "x".join(map(str, one["shape"])) == given
        assert one["variant"] in ado.routines[routine]
        assert {"adokernels", "copy", one["best_peer"]} <= set(one["times"])
        assert one["ratio"] > 0


def test_wrong_results_make_the_exit_code_1(monkeypatch, tmp_path, capsys):
    right = random_shapes.reference
    monkeypatch.setattr(random_shapes, "reference", lambda *given: (right(*given)[0] + 1, None))
    assert run(monkeypatch, tmp_path, "max_plus", "--shapes", "3x5", "--dtypes", "f8") == 1
    stored = json.loads(read_file(tmp_path / f"shapes-cpu-{_core.isa()}-max_plus-0.json.xz"))
    assert stored["shapes"] == []
    assert "WRONG: max_plus (3, 5) f8: the error is 1" in capsys.readouterr().out
