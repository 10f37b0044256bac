"""The tour, with a small part of the photograph and small problems."""

import dataclasses
import re

import numpy as np
import pytest
from charting import make_gpp, make_transpose
from matplotlib import pyplot as plt
from PIL import Image

import adokernels as ado
from adokernels import _core, cli, tour
from adokernels.model.tasks import TASKS

NO_CUDA = bool(_core.why_no_cuda())
QUICK = ["photograph", "transpose", "average_matvec"]


@pytest.fixture
def small_photograph(monkeypatch):
    whole = tour.photograph()
    monkeypatch.setattr(tour, "photograph", lambda: whole[100:160, 200:250])


@pytest.fixture
def taken(monkeypatch):
    """The calls of ``ado.sweep``, which return synthetic sweeps; charts and report are empty."""
    calls = []

    def sweep(routine, *operands, **options):
        calls.append((routine.name, [o.shape for o in operands], options))
        return dataclasses.replace(make_transpose(), routine=routine.name)

    monkeypatch.setattr(ado, "sweep", sweep)
    monkeypatch.setattr(ado, "write_report", lambda path, **_: path)
    monkeypatch.setattr(tour, "picture", lambda _: plt.figure(figsize=(1, 1)).add_subplot())
    return calls


@pytest.fixture
def run(capsys, tmp_path):
    def run_tour(*arguments):
        status = cli.main(["tour", "--out", str(tmp_path / "out"), *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run_tour


def test_the_short_tour(run, tmp_path, monkeypatch, small_photograph):
    """The only test of the tour that measures."""
    monkeypatch.setattr(tour, "_SECONDS", 0.01)
    status, out, err = run("--size", "48")
    assert status == 0, err
    folder = tmp_path / "out"
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "http" not in page  # opens offline
    device = "cpu" if NO_CUDA else "cuda"
    names = {p.name for p in folder.iterdir()}
    for name in ["cpu-photograph", *(f"{device}-{name}" for name in QUICK)]:
        assert {f"{name}.json", f"{name}.png"} <= names
        sweep = ado.records.Sweep.load(folder / f"{name}.json")
        assert len(sweep.variants) > 1
        assert f"\n{tour.summary(sweep)}\n" in out
    assert {"edges.png", "report.html"} <= names
    assert str(folder / "report.html") in out
    assert out.count("\n") == (8 if NO_CUDA else 9) + out.count("\n\n")


def test_all_measures_every_ladder(run, taken, small_photograph):
    status, out, _ = run("--all", "--size", "20")
    assert status == 0
    for device in ["cpu"] if NO_CUDA else ["cpu", "cuda"]:
        ladders = {name for name, _, options in taken if options["device"] == device}
        expected = {r.name for r in ado.routines.values() if any(v.device == device for v in r)}
        assert ladders == expected
    assert all(max(np.ravel(shapes[0])) <= 60 for _, shapes, _ in taken)
    assert out.count(" times as fast as ") == len(taken)


def test_a_picture_of_the_user(run, taken, tmp_path):
    picture = tmp_path / "palette.png"
    Image.fromarray(np.eye(40, dtype=np.uint8) * 255).convert("P").save(picture)
    assert run("--image", str(picture))[0] == 0
    assert taken[0][1] == [(40, 40, 3)]


def test_wrong_edges_are_an_error(run, taken, monkeypatch, small_photograph):
    task = TASKS["edge_detect"]
    wrong = dataclasses.replace(task, expected=lambda rgba: task.expected(rgba) + 1)
    monkeypatch.setitem(TASKS, "edge_detect", wrong)
    status, _, err = run()
    assert status == 2
    assert "disagrees with the reference" in err
    assert not taken


def test_an_interrupted_tour_writes_its_report(run, tmp_path, monkeypatch, small_photograph):
    """The second sweep is interrupted after its first sample."""
    sweeps = iter([make_transpose(), dataclasses.replace(make_gpp(), interrupted=True)])

    def sweep(*_, **__):
        if found := next(sweeps, None):
            return found
        raise KeyboardInterrupt

    monkeypatch.setattr(ado, "sweep", sweep)
    assert run()[0] == 130
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count('<section id="sweep-') == 2
    assert "gpp (interrupted)" in page


def test_the_line_of_a_ladder():
    sweep = make_transpose()
    line = tour.summary(sweep)
    assert re.fullmatch(
        r"transpose on cuda: \w+ 1\d\d µs \(tied with swizzled: the times are the same\), "
        r"15\.\d times as fast as naive, 97 % of the roof",
        line,
    )
    noisy = dataclasses.replace(sweep["naive"], variant="again")
    same = dataclasses.replace(sweep, measurements=(sweep["naive"], noisy))
    assert "(" not in tour.summary(dataclasses.replace(sweep, measurements=(sweep["naive"],)))
    assert "no variant" in tour.summary(dataclasses.replace(sweep, measurements=()))
    assert tour.summary(same).startswith("transpose on cuda: naive 2.00 ms")
