"""Reports for Nsight Compute: the command, its errors, and the process that ncu observes."""

import pickle
import subprocess

import numpy as np
import pytest
from conftest import NO_CUDA

import adokernels as ado
from adokernels import _core, cli, toolkit
from adokernels.measuring import nsight_report, stored_call
from adokernels.measuring.nsight_report import write_nsight_report
from adokernels.measuring.stored_call import StoredCall, prepared, store
from adokernels.model.routine import BuiltInVariant
from adokernels.model.source import sources_folder

#: Writes its arguments, one per line, as the report; keeps the call beside itself.
WRITE = """
folder=$(for last; do :; done; echo "$last")
for argument; do echo "$argument"; done > "$folder/report.ncu-rep"
cp "$folder/work.pickle" "$0.pickle"
"""


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """A function that replaces ncu by a shell script, and returns the path of the copied call.

    CUDA variants are said to be available.
    """
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setattr(toolkit, "folders", lambda: [str(folder)])
    monkeypatch.setattr(BuiltInVariant, "why_unavailable", "")

    def replace(script):
        path = folder / "ncu"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return folder / "ncu.pickle"

    return replace


def run(capsys, *arguments):
    status = cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_command(ncu, tmp_path, capsys):
    stored = ncu(WRITE)
    report = tmp_path / "naive.ncu-rep"
    command = "profile transpose naive --shape 40x30 --dtype int16 --ncu"
    status, out, _ = run(capsys, *command.split(), str(report))
    assert status == 0
    assert f"wrote {report}" in out.replace("\n", "")
    arguments = report.read_text(encoding="utf-8").splitlines()
    text = " ".join(arguments)
    assert "--set full --import-source yes --source-folders" in text
    assert str(sources_folder() / "cuda") in arguments
    assert "--clock-control none --cache-control all" in text
    assert "--profile-from-start off" in text
    assert arguments[-4:-1] == ["-m", "adokernels.measuring.stored_call", "profile"]
    call = pickle.loads(stored.read_bytes())
    assert (call.routine, call.variant, call.block) == ("transpose", "naive", None)
    assert call.arrays[0].dtype == np.int16


def test_warm_caches_blocks_and_replacement(ncu, tmp_path):
    stored = ncu(WRITE)
    report = tmp_path / "x.ncu-rep"
    report.write_text("old", encoding="utf-8")
    variant = ado.transpose["tiled"]
    write_nsight_report(report, variant, np.zeros((4, 4)), cache="warm", block=variant.blocks[-1])
    text = report.read_text(encoding="utf-8")
    assert "--cache-control\nnone" in text
    assert pickle.loads(stored.read_bytes()).block == variant.blocks[-1]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1",
         "may not read the counters; remedy: run as root"),
        ("echo '==ERROR== Failed to initialize the profiler' >&2; exit 9",
         "ncu ended with status 9: ==ERROR== Failed to initialize the profiler"),
        ("echo '==WARNING== No kernels were profiled.'",
         "ncu ended with status 0: ==WARNING== No kernels were profiled."),
    ],
)  # fmt: skip
def test_failures_of_ncu(ncu, tmp_path, capsys, script, message):
    ncu(script)
    report = tmp_path / "x.ncu-rep"
    report.write_text("old", encoding="utf-8")
    status, _, err = run(
        capsys, "profile", "sobel", "naive", "--shape", "9x9", "--ncu", str(report)
    )
    assert status == 3
    assert message in err
    assert report.read_text(encoding="utf-8") == "old"


@pytest.mark.skipif(not NO_CUDA, reason="there is a CUDA device")
def test_without_a_gpu(ncu, tmp_path, monkeypatch):
    ncu("exit 0")
    monkeypatch.setattr(BuiltInVariant, "why_unavailable", NO_CUDA)
    with pytest.raises(ado.Unavailable, match=f"no report can be written: {NO_CUDA}"):
        write_nsight_report(tmp_path / "x.ncu-rep", ado.transpose["naive"])


def test_the_path_is_checked_before_the_run(ncu, tmp_path, monkeypatch):
    monkeypatch.setattr(nsight_report, "run_ncu", lambda *arguments: pytest.fail("ncu was run"))
    ncu("exit 0")
    variant = ado.transpose["naive"]
    folder = tmp_path / "folder.ncu-rep"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        write_nsight_report(folder, variant)
    with pytest.raises(FileNotFoundError, match="must be a folder, and does not exist"):
        write_nsight_report(tmp_path / "missing" / "x.ncu-rep", variant)
    with pytest.raises(ValueError, match=r"must end in \.ncu-rep, got 'x\.json'"):
        write_nsight_report("x.json", variant)
    with pytest.raises(ValueError, match="must be a CUDA variant"):
        write_nsight_report(tmp_path / "x.ncu-rep", ado.transpose["naive_loops"])
    with pytest.raises(TypeError):  # an operand is missing
        write_nsight_report(tmp_path / "x.ncu-rep", ado.max_plus["one_block"], np.zeros((2, 2)))


def test_json_excludes_ncu(capsys):
    command = "profile transpose naive --shape 4x4 --ncu x.ncu-rep --json x.json"
    status, _, err = run(capsys, *command.split())
    assert (status, "--json must not be combined with --ncu" in err) == (2, True)


def test_the_second_run_is_profiled(tmp_path, monkeypatch):
    store(StoredCall.of(ado.transpose["naive_loops"], [np.zeros((3, 4))], {}, None), tmp_path)
    _, work = prepared(tmp_path)
    events = []

    def run():
        assert work.__self__.variant == "naive_loops"
        work()
        events.append("run")

    monkeypatch.setattr(stored_call, "_profiler", events.append)
    monkeypatch.setattr(_core, "synchronize", lambda: events.append("wait"))
    stored_call.run_profiled(run)
    assert events == ["run", "wait", "cuProfilerStart", "run", "wait", "cuProfilerStop"]


@pytest.mark.gpu
@pytest.mark.skipif(not toolkit.program("ncu"), reason="ncu is missing")
def test_a_report_of_a_gpu(tmp_path):
    report = tmp_path / "naive.ncu-rep"
    try:
        write_nsight_report(report, ado.transpose["naive"], np.zeros((256, 256), np.float32))
    except ado.Unavailable as error:
        pytest.skip(str(error))
    command = [toolkit.program("ncu"), "--import", str(report), "--page", "details"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.count("transpose_naive") == 1
