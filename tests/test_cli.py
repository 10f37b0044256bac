"""The command line, as typed."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import adokernels as ado
from adokernels import _core, cli, tour


def run(capsys, *arguments):
    status = cli.main(arguments)
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
    arguments = [*command.split(), "--variants", "naive_loops,simd"]
    status, out, _ = run(capsys, *arguments, "--json", str(store), "--plot", str(plot))
    assert status == 0
    assert "simd" in out
    sweep = ado.load(store)
    assert [m.variant for m in sweep] == ["naive_loops", "simd"]
    assert sweep.measurements[0].problem.operands == (("a", (40, 30), "int16"),)
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_diagnosis_of_a_stored_sweep(capsys):
    store = Path(__file__).parent.parent / "notebooks" / "data" / "transpose-float32-8192.json"
    status, out, _ = run(capsys, "diagnose", str(store))
    assert status == 0
    assert "Proposed, and what the next variant did" in out
    assert "avoid bank conflicts" in " ".join(out.split())


def test_report_from_stored_measurements(capsys, tmp_path):
    sweep = ado.sweep(ado.transpose, np.zeros((9, 9)), device="cpu", seconds=0.01, progress=False)
    store, page = tmp_path / "t.json", tmp_path / "r.html"
    sweep.save(store)
    assert run(capsys, "report", str(store), "--out", str(page))[0] == 0
    assert "data:image/svg+xml" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list", "transpos"], "did you mean 'transpose'?"),
        (["bench", "transpose", "--variants", "naive_lops"], "did you mean 'naive_loops'?"),
        (
            ["bench", "transpose", "--shape", "3x4x5"],
            "must be rows x cols, got 3 x 4 x 5",
        ),
        (["bench", "max_plus", "--shape", "64x-1"], "must not be negative, got -1"),
        (["bench", "transpose", "--dtype", "S3", "--shape", "3x4"], "1, 2, 4, 8 or 16 bytes"),
        (["bench", "transpose", "--set", "seconds=3"], "transpose takes no options"),
        (["bench", "gaussian_blur", "--set", "border=a", "--set", "border=b"], "each option once"),
        (["bench", "sobel", "--dtype", "f4"], "gray must have uint8"),
        (["bench", "gaussian_blur", "--set", "border=x", "--shape", "3x4"], "'replicate'"),
        (["report", "no-such-file.json"], "no-such-file.json"),
        (["diagnose", "no-such-file.json"], "no-such-file.json"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(capsys, arguments, text):
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert err.startswith("adokernels: ")
    assert text in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench"],
        ["fly"],
        ["bench", "transpose", "--shape", "axb"],
        ["bench", "transpose", "--set", "border"],
        ["bench", "transpose", "--plot", "chart.xyz"],
        ["bench", "transpose", "--dtype", "f4,("],
        ["--dtype"],
    ],
)
def test_usage_errors_are_status_2(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2


@pytest.mark.skipif(not _core.why_no_cuda(), reason="there is a CUDA device")
def test_missing_device_is_status_3(capsys):
    status, _, err = run(capsys, "bench", "transpose", "--device", "cuda", "--shape", "8x8")
    assert status == 3
    assert _core.why_no_cuda() in err


def test_tour(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(tour, "_SECONDS_PER_VARIANT", 0.02)
    status, out, _ = run(capsys, "tour", "--out", str(tmp_path), "--size", "300")
    assert status == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "http" not in page.replace("http://www.w3.org/", "")  # opens offline
    names = {p.name for p in tmp_path.iterdir()}
    assert {"edges.png", "report.html", "cpu-photograph.png", "cpu-photograph.json"} <= names
    for routine in ado.routines:
        assert f"cpu-{routine}.svg" in names
        assert json.loads((tmp_path / f"cpu-{routine}.json").read_text())["kind"] == "sweep"
        assert re.search(rf"{routine} of .* times faster than ", " ".join(out.split()))
    assert "Hotspots" in out


def test_tour_of_a_picture(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(tour, "_SECONDS_PER_VARIANT", 0.02)
    picture = tmp_path / "palette.png"
    Image.fromarray(np.eye(40, dtype=np.uint8) * 255).convert("P").save(picture)
    command = ["tour", "--image", str(picture), "--out", str(tmp_path / "out"), "--size", "50"]
    assert run(capsys, *command)[0] == 0
    picture.write_bytes(b"no picture")
    status, _, err = run(capsys, *command)
    assert status == 2
    assert "palette.png" in err


def test_bench_takes_options(capsys, tmp_path):
    command = "bench gaussian_blur --shape 3x20x30 --device cpu --seconds 0.02 --variants threaded"
    options = ["--set", "border=replicate", "--set", "taps=1,1,1,1,1,1,1"]
    store = tmp_path / "blur.json"
    assert run(capsys, *command.split(), *options, "--json", str(store))[0] == 0
    (m,) = ado.load(store).measurements
    assert m.problem.operands == (("gray", (3, 20, 30), "uint8"),)
    assert m.problem.options == {"border": "replicate", "taps": (1,) * 7}
