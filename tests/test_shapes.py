"""benchmarks/shapes.py: random problems, reference results, statistics, and one run on the CPU."""

import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import adokernels as ado
from adokernels import _core
from adokernels.model.tasks import TASKS

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))
try:
    import beside_peers
    import cliffs
    import image_peers
    import random_shapes
    import rounds
    import shape_peers
    import shape_references
    import shape_report
    import shapes
finally:
    sys.path.remove(str(FOLDER))

Case = random_shapes.Case
FILTERS = image_peers.FILTERS
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
    arrays = [np.empty(s, case.dtype) for s in shape_references.operand_shapes(case)]
    for array in arrays:
        shape_references.fill_randomly(array, np, np.random.default_rng(5))
    return arrays


def reference(case, arrays):
    """The result, and the allowed error per element or None."""
    if case.routine in FILTERS:
        return shape_references.filtered(np, case.routine, *arrays), None
    if case.routine == "average_matvec":
        return shape_references.averages(np, *arrays)
    return getattr(shape_references, case.routine)(np, *arrays), None


@pytest.mark.parametrize("routine", random_shapes.DRAW)
def test_problems_are_repeatable_valid_and_within_the_limits(routine):
    found = drawn(routine)
    assert found == drawn(routine)
    assert found != drawn(routine, seed=8)
    assert all(length >= 1 for case in found for length in case.shape)
    limits = random_shapes.LIMITS["cuda"]
    for case in found:
        if routine == "gpp":
            limit = random_shapes.LARGEST_GPP
            assert all(n <= most for n, most in zip(case.shape, limit, strict=True))
        else:
            # Lengths are rounded, some of them to powers of two.
            size = max(map(math.prod, shape_references.operand_shapes(case)))
            assert size * np.dtype(case.dtype).itemsize <= 3 * limits.bytes


@pytest.mark.parametrize("routine", ["transpose", "max_plus"])
def test_problems_include_difficult_shapes(routine):
    found = drawn(routine, 2000)
    long = [n for case in found for n in case.shape if n > 32]
    shares = {
        "single": np.mean([min(case.shape) == 1 for case in found]),
        "thin": np.mean([2 <= min(case.shape) <= 32 for case in found]),
        "odd": np.mean([n % 2 for case in found for n in case.shape]),
        "power of two": np.mean([n.bit_count() == 1 for n in long]),
        "neighbour": np.mean([(n - 1).bit_count() == 1 or (n + 1).bit_count() == 1 for n in long]),
        "pages": np.mean([n % random_shapes.PAGE == 0 and n.bit_count() > 1 for n in long]),
    }
    assert shares["single"] > 0.1
    assert shares["thin"] > 0.2
    assert 0.5 < shares["odd"] < 0.95
    assert shares["power of two"] > 0.05
    assert shares["neighbour"] > 0.05
    assert shares["pages"] > 0.01
    assert any(
        min(s) > 32 and all(n.bit_count() == 1 for n in s) for s in (case.shape for case in found)
    )
    sizes = [math.prod(case.shape) * np.dtype(case.dtype).itemsize for case in found]
    assert min(sizes) <= 16
    assert max(sizes) > 4 * 2**30


def test_images_have_all_ranks_and_channels():
    found = drawn("grayscale")
    assert {case.shape[-1] for case in found} == {3, 4}
    assert {len(case.shape) for case in found} == {3, 4}
    assert {len(case.shape) for case in drawn("sobel")} == {2, 3}
    assert {case.dtype for case in drawn("transpose")} == {"u1", "u2", "f4", "f8", "c16"}


def test_cpu_problems_are_smaller():
    for routine in ("transpose", "average_matvec", "sobel"):
        for case in drawn(routine, device="cpu"):
            for shape in shape_references.operand_shapes(case):
                assert math.prod(shape) * np.dtype(case.dtype).itemsize <= 3 * 256e6


@pytest.mark.parametrize("piece", [1, 13, 1 << 24])
@pytest.mark.parametrize("routine", SMALL)
def test_references_agree_with_the_tasks(routine, piece, monkeypatch):
    monkeypatch.setitem(shape_references.PIECE, "numpy", piece)
    case = Case(routine, *SMALL[routine])
    arrays = random_operands(case)
    expected, unit = reference(case, arrays)
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
    case = Case(routine, *SMALL[routine])
    expected, unit = reference(case, random_operands(case))
    kind = expected.dtype if unit is None else np.float32
    right = expected.astype(kind)
    assert shape_references.error(np, right, expected, unit) <= 1
    for index in (0, -1):
        wrong = right.copy()
        wrong.flat[index] = wrong.flat[index] + 1 if kind != np.uint8 else wrong.flat[index] ^ 1
        assert shape_references.error(np, wrong, expected, unit) >= 1
        if kind != np.uint8:
            wrong.flat[index] = np.nan
            assert shape_references.error(np, wrong, expected, unit) >= 1
    assert shape_references.error(np, right[:1], expected, unit) == np.inf


def record(ours, peers, *, size=100, copy=1.0, extra=(), shape=(5, 7)):
    times = {shape_peers.OURS: ours, shape_peers.COPY: copy, **peers}
    return shape_report.Record(
        Case("sobel", shape, "u1"),
        "tiled",
        size,
        {name: rounds.Times(np.array([t, t, 9.0])) for name, t in times.items()},
        wrong={},
        left_out={},
        phases={"check": 0.5},
        extra=frozenset(extra),
    )


def test_the_ratio_uses_the_fastest_peer():
    one = record(2.0, {"slow": 6.0, "fast": 4.0, "listed": 1.0}, extra=["listed"])
    assert (one.best_peer, one.ratio, one.share_of_copy) == ("fast", 2.0, 0.5)
    alone = record(2.0, {})
    assert math.isnan(alone.ratio)
    found = shape_report.summary([one, record(2.0, {"fast": 1.0}), alone])
    assert found["best peer"] == {
        "shapes": 2, "geometric_mean": 1.0, "worst": 0.5, "share_below_0.97": 0.5
    }  # fmt: skip
    assert found["copy"]["shapes"] == 3
    assert found["slow"]["worst"] == 3.0


def test_tables_have_the_worst_problems_and_all_wrong_results():
    records = [record(1.0, {"peer": 1.0 + i}) for i in range(12)]
    records[0].wrong["peer"] = "off"
    console = Console(width=150, record=True, file=io.StringIO())
    shape_report.show("sobel", records, console)
    text = console.export_text()
    assert "the 10 worst" in text
    assert "WRONG: peer of sobel (5, 7) u1: off" in text
    assert text.index("1.000") < text.index("10.000")


def test_failing_peers_and_wrong_peers_are_distinguished():
    peers = {"fails": lambda: 1 // 0, "good": lambda: 1, "wrong": lambda: 3}
    makers = {"no_such_library": lambda: peers, "json": lambda: 1 // 0, "numpy": lambda: peers}
    kept, left_out, wrong = beside_peers.correct(makers, (), lambda result: abs(result - 1), 1)
    assert list(kept) == ["good"]
    error = "ZeroDivisionError: integer division or modulo by zero"
    assert left_out == {"no_such_library": "not installed", "json": error, "fails": error}
    assert wrong == {"wrong": "error 2 exceeds the tolerance of 1"}


def test_slow_functions_are_sampled_less(monkeypatch):
    seconds = {"ours": 9.0, "copy": 0.1, "fast": 1.0, "slow": 4.0, "very slow": 40.0}
    samples = dict.fromkeys(seconds, 0)

    def take_of(work):
        def take():
            samples[work] += 1
            return seconds[work], True

        return take

    monkeypatch.setattr(rounds, "on_cpu", take_of)
    functions = {name: name for name in samples}
    found = rounds.interleaved(functions, "ours", "copy", "cpu", 1.0)
    assert samples == {name: len(times.seconds) for name, times in found.items()}
    most = rounds.MOST["cpu"]
    assert list(samples.values()) == [most, most, most, 3, 1]


def test_one_side_grows_by_10_percent():
    rng = np.random.default_rng(3)
    found = {cliffs.grown(Case("sobel", (100, 9, 200), "u1"), rng).shape for _ in range(40)}
    assert found == {(110, 9, 200), (100, 9, 220)}
    assert cliffs.grown(Case("grayscale", (9, 5, 4), "u1"), rng) is None


def test_cliffs_are_increases_and_decreases():
    case = Case("sobel", (5, 7), "u1")
    ratios = {0.7: True, 0.8: False, 1.1: False, 1.4: False, 1.5: True}
    for ratio, is_cliff in ratios.items():
        assert cliffs.Step(case, case, ("a", "a"), (1.0, ratio)).is_cliff == is_cliff


def test_cliffs_script_runs(monkeypatch, capsys):
    tiny = random_shapes.Limits(1e5, pixels=1e5, flops=1e5, gpp_terms=1e5)
    monkeypatch.setitem(cliffs.LIMITS, "cpu", tiny)
    monkeypatch.setitem(cliffs.SECONDS, "cpu", 1e-3)
    monkeypatch.setattr(sys, "argv", ["cliffs.py", "--count", "3", "sobel", "grayscale"])
    device = _core.device()
    assert cliffs.main() in (0, 1)
    ado.settings.device = device
    assert "cliffs in" in capsys.readouterr().out


def run(monkeypatch, tmp_path, *words):
    arguments = ["shapes.py", "--seconds", "0.001", "--json", str(tmp_path), *words]
    monkeypatch.setattr(sys, "argv", arguments)
    device = _core.device()
    try:
        return shapes.main()
    finally:
        ado.settings.device = device


def test_a_run_stores_its_results(monkeypatch, tmp_path, capsys):
    lengths = {"transpose": "5x7", "average_matvec": "3x5x7", "sobel": "9x11", "gpp": "4x3x5x1"}
    for routine, given in lengths.items():
        assert run(monkeypatch, tmp_path, routine, "--shapes", given) == 0
        stored = json.loads((tmp_path / f"shapes-cpu-{_core.isa()}-{routine}-0.json").read_text())
        (one,) = stored["shapes"]
        assert "x".join(map(str, one["shape"])) == given
        assert one["variant"] in ado.routines[routine]
        assert {shape_peers.OURS, shape_peers.COPY} < set(one["times"])
        assert stored["against"]["best peer"]["shapes"] == 1
        assert stored["versions"]["numpy"] == np.__version__
        assert routine in capsys.readouterr().out


def test_wrong_results_make_the_exit_code_1(monkeypatch, tmp_path, capsys):
    right = shape_references.max_plus
    monkeypatch.setattr(shape_references, "max_plus", lambda *given: right(*given) + 1)
    assert run(monkeypatch, tmp_path, "max_plus", "--shapes", "3x5", "--dtypes", "f8") == 1
    stored = json.loads((tmp_path / f"shapes-cpu-{_core.isa()}-max_plus-0.json").read_text())
    assert len(stored["wrong"]) == 1
    assert stored["shapes"] == []
    assert "WRONG: max_plus (3, 5) f8: error 1" in capsys.readouterr().out


def test_random_shapes_run(monkeypatch, tmp_path, capsys):
    tiny = random_shapes.Limits(1e4, pixels=1e4, flops=1e5, gpp_terms=1e5)
    monkeypatch.setitem(shapes.LIMITS, "cpu", tiny)
    assert run(monkeypatch, tmp_path, "--count", "2", "--verbose") == 0
    assert len(list(tmp_path.iterdir())) == len(random_shapes.DRAW)
    assert "WRONG" not in capsys.readouterr().out


@pytest.mark.parametrize("routine", ["transpose", "average_matvec", "max_plus"])
def test_results_are_preallocated_for_both_sides_or_for_neither(
    routine, monkeypatch, tmp_path, capsys
):
    given = "3x5x70000" if routine == "average_matvec" else "5x40000"
    common = (routine, "--shapes", given, "--dtypes", "f4", "f8")
    assert run(monkeypatch, tmp_path, *common) == 0
    assert run(monkeypatch, tmp_path, *common, "--new-results") == 0
    stored = json.loads((tmp_path / f"shapes-cpu-{_core.isa()}-{routine}-0.json").read_text())
    assert stored["new_results"]
    assert [set(one["left_out"]) - {"cv2"} for one in stored["shapes"]] == [set(), set()]
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path, "--new-results", "--device", "cuda")
    assert "requires --device cpu" in capsys.readouterr().err


def test_unknown_routines_are_rejected(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path, "no_such_routine")
    assert "must be one of transpose" in capsys.readouterr().err
