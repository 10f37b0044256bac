"""The command line, as typed."""

import json

import numpy as np
import pytest

import adokernels as ado
from adokernels import _cli, _core, _tour


def run(capsys, *arguments):
    status = _cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_list(capsys):
    status, out, _ = run(capsys, "list")
    assert status == 0
    for routine in ado.routines.values():
        for variant in routine:
            assert variant.name in out


def test_info(capsys):
    status, out, _ = run(capsys, "info")
    assert status == 0
    assert _core.isa() in out
    assert "DRAM copy" in out


def test_bench_stores_what_it_prints(capsys, tmp_path):
    store, plot = tmp_path / "t.json", tmp_path / "t.png"
    command = "bench transpose --shape 40x30 --dtype int16 --device cpu --seconds 0.02"
    arguments = [*command.split(), "--variants", "textbook,simd"]
    status, out, _ = run(capsys, *arguments, "--json", str(store), "--plot", str(plot))
    assert status == 0
    assert "simd" in out
    sweep = ado.load(store)
    assert [m.variant for m in sweep] == ["textbook", "simd"]
    assert "(40, 30) int16" in sweep.measurements[0].problem
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_report_from_stored_measurements(capsys, tmp_path):
    sweep = ado.sweep(ado.transpose, np.zeros((9, 9)), device="cpu", seconds=0.01, progress=False)
    store, page = tmp_path / "t.json", tmp_path / "r.html"
    sweep.save(store)
    assert run(capsys, "report", str(store), "--out", str(page))[0] == 0
    assert "data:image/svg+xml" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list", "transpos"], "Did you mean 'transpose'?"),
        (["bench", "transpose", "--variants", "txtbook"], "Did you mean 'textbook'?"),
        (["bench", "transpose", "--shape", "3x4x5"], "must have shape (rows, cols)"),
        (["bench", "transpose", "--dtype", "S3", "--shape", "3x4"], "1, 2, 4, 8 or 16 bytes"),
        (["report", "no-such-file.json"], "no-such-file.json"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(capsys, arguments, text):
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert err.startswith("adokernels: ")
    assert text in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["bench"], ["fly"], ["bench", "transpose", "--shape", "axb"], ["--dtype"]]
)
def test_usage_errors_are_status_2(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        _cli.main(arguments)
    assert stop.value.code == 2


@pytest.mark.skipif(not _core.why_no_cuda(), reason="there is a CUDA device")
def test_missing_device_is_status_3(capsys):
    status, _, err = run(capsys, "bench", "transpose", "--device", "cuda", "--shape", "8x8")
    assert status == 3
    assert _core.why_no_cuda() in err


def test_tour(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(_tour, "_SECONDS_PER_RUNG", 0.02)
    status, out, _ = run(capsys, "tour", "--out", str(tmp_path), "--size", "300")
    assert status == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "http" not in page.replace("http://www.w3.org/", "")  # opens offline
    names = {p.name for p in tmp_path.iterdir()}
    assert {"photograph.png", "report.html", "roofline-cpu-large.png"} <= names
    assert {"roofline-cpu-large.svg", "transpose-cpu-photograph.json"} <= names
    stored = json.loads((tmp_path / "transpose-cpu-large.json").read_text())
    assert stored["kind"] == "sweep"
    assert "times faster than the first rung" in " ".join(out.split())


def test_the_photograph_is_real():
    photo = _tour.photograph()
    assert photo.shape == (600, 512, 3)
    assert photo.dtype == np.uint8
    assert photo.std() > 30
