"""benchmarks/shapes.py: random problems, reference results, statistics, and runs on the CPU."""

import json
import math
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
    import peers
    import random_shapes
    import shapes
finally:
    sys.path.remove(str(FOLDER))

Case, Limits = random_shapes.Case, random_shapes.Limits
SMALL = {
    "transpose": ((5, 7), "c16"),
    "average_matvec": ((3, 5, 7), "f4"),
    "max_plus": ((5, 7), "f8"),
    **{name: ((2, 9, 11, 3), "u1") for name in ("grayscale", "edge_detect")},
    **{name: ((2, 9, 11), "u1") for name in ("gaussian_blur", "sobel")},
}


def drawn(routine, count=400, seed=7, device="cuda"):
    return list(random_shapes.cases(routine, seed, count, random_shapes.LIMITS[device]))


def random_operands(case):
    rng = np.random.default_rng(5)
    return [random_shapes.random_array(s, case.dtype, rng) for s in case.operand_shapes]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("routine", random_shapes.DRAW)
def test_problems_are_repeatable_valid_and_within_the_limits(routine, device):
    found = drawn(routine, device=device)
    assert found == drawn(routine, device=device)
    assert found != drawn(routine, seed=8, device=device)
    assert all(length >= 1 for case in found for length in case.shape)
    limit = random_shapes.LARGEST_GPP
    for case in found:
        if routine == "gpp":
            assert all(n <= most for n, most in zip(case.shape, limit, strict=True))
        else:
            # Lengths are rounded, some of them to powers of two.
            size = max(map(math.prod, case.operand_shapes))
            most = 3 * random_shapes.LIMITS[device].bytes
            assert size * np.dtype(case.dtype).itemsize <= most


@pytest.mark.parametrize("routine", ["transpose", "max_plus"])
def test_problems_include_difficult_shapes(routine):
    found = drawn(routine, 2000)
    long = [n for case in found for n in case.shape if n > 32]
    assert np.mean([min(case.shape) == 1 for case in found]) > 0.1
    assert np.mean([2 <= min(case.shape) <= 32 for case in found]) > 0.2
    assert 0.5 < np.mean([n % 2 for case in found for n in case.shape]) < 0.95
    assert np.mean([n.bit_count() == 1 for n in long]) > 0.05
    assert np.mean([(n - 1).bit_count() == 1 or (n + 1).bit_count() == 1 for n in long]) > 0.05
    assert np.mean([n % random_shapes.PAGE == 0 and n.bit_count() > 1 for n in long]) > 0.01
    sizes = [math.prod(case.shape) * np.dtype(case.dtype).itemsize for case in found]
    assert min(sizes) <= 16
    assert max(sizes) > 4 * 2**30


def test_images_have_all_ranks_and_channels():
    found = drawn("grayscale")
    assert {case.shape[-1] for case in found} == {3, 4}
    assert {len(case.shape) for case in found} == {3, 4}
    assert {len(case.shape) for case in drawn("sobel")} == {2, 3}
    assert {case.dtype for case in drawn("transpose")} == {"u1", "u2", "f4", "f8", "c16"}


@pytest.mark.parametrize("routine", random_shapes.FILTERS)
def test_filters_in_numpy_agree_with_the_tasks(routine):
    (image,) = random_operands(Case(routine, *SMALL[routine]))
    found, task = random_shapes.filtered(routine, image), TASKS[routine]
    apart = np.abs(found.astype(int) - task.expected(image))  # grayscale: the weights differ
    assert apart.max() <= (task.tolerance if routine == "grayscale" else 0)


def test_the_unit_of_averages_bounds_the_one_of_the_task():
    case = Case("average_matvec", *SMALL["average_matvec"])
    unit = shapes.rounding_unit(case)
    assert unit >= TASKS[case.routine].error_unit(*random_operands(case)).max()
    assert shapes.rounding_unit(Case("max_plus", (5, 7), "f8")) == 0


@pytest.mark.parametrize(("dtype", "unit"), [("u1", 0), ("c16", 0), ("f4", 1e-6)])
def test_every_wrong_element_is_found(dtype, unit):
    right = random_shapes.random_array((5, 7), dtype, np.random.default_rng(5))
    assert random_shapes.worst_error(right, right, unit) == 0
    for index in (0, -1):
        wrong = right.copy()
        wrong.flat[index] = wrong.flat[index] + 1 if dtype != "u1" else wrong.flat[index] ^ 1
        assert random_shapes.worst_error(wrong, right, unit) >= 1
        if dtype != "u1":
            wrong.flat[index] = np.nan
            assert random_shapes.worst_error(wrong, right, unit) >= 1
    assert random_shapes.worst_error(right[:1], right, unit) == np.inf


def test_the_report_has_the_worst_problems_and_the_reasons():
    records = [
        {
            **{"shape": (i, 7), "dtype": "u1", "variant": "tiled", "left_out": {}},
            "times": {n: {"median": t} for n, t in (("adokernels", 1), ("copy", 1), ("peer", i))},
            **{"ratio": float(i), "best_peer": "peer", "share_of_copy": 1.0},
        }
        for i in range(1, 13)
    ]
    records[0]["left_out"]["other"] = "WRONG: off"
    lines = [*shapes.report("sobel", records)]
    assert "12 shapes" in lines[1]
    assert "worst 1.000" in lines[1]
    shown = [line for line in lines if "ratio" in line]
    assert [line.split("x")[0] for line in shown] == [str(i) for i in range(1, 11)]
    assert lines[-1] == "left out other of 1 shapes: WRONG: off"


def test_failing_and_wrong_peers_are_left_out():
    functions = {"good": lambda: 1, "wrong": lambda: 3, "fails": lambda: 1 // 0}
    makers = {"absent": lambda: __import__("no_such_library"), "mixed": lambda: functions}
    kept, left_out = peers.correct(makers, (), lambda result: abs(result - 1), 1)
    assert list(kept) == ["good"]
    assert left_out == {
        "absent": "ModuleNotFoundError: No module named 'no_such_library'",
        "wrong": "WRONG: error 2 exceeds 1",
        "fails": "ZeroDivisionError: integer division or modulo by zero",
    }


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
    monkeypatch.setattr(shapes, "worst_error", lambda *given: 1.0)
    assert run(monkeypatch, tmp_path, "max_plus", "--shapes", "3x5", "--dtypes", "f8") == 1
    stored = json.loads(read_file(tmp_path / f"shapes-cpu-{_core.isa()}-max_plus-0.json.xz"))
    assert stored["shapes"] == []
    assert "WRONG: max_plus (3, 5) f8: the error is 1" in capsys.readouterr().out


def test_random_shapes_run(monkeypatch, tmp_path, capsys):
    tiny = Limits(1e4, pixels=1e4, flops=1e5, gpp_terms=1e5)
    monkeypatch.setitem(shapes.LIMITS, "cpu", tiny)
    assert run(monkeypatch, tmp_path, "--count", "2", "--verbose") == 0
    assert len(list(tmp_path.iterdir())) == len(random_shapes.DRAW)
    assert "WRONG" not in capsys.readouterr().out
