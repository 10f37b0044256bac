"""The command line, as typed."""

import dataclasses
import json
import shlex
import subprocess
from pathlib import Path

import pytest
from charting import make_gpp, make_offloads, make_transpose
from conftest import run_python
from rich.cells import cell_len
from rich.console import Console

import adokernels as ado
from adokernels import _core, cli
from adokernels.cli import program
from adokernels.tables.rendering import table_of


def run(capsys, *arguments):
    status = cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def shown(capsys, *arguments):
    """The output of a command that succeeds."""
    status, out, _ = run(capsys, *arguments)
    assert status == 0
    return out


def test_list(capsys):
    out = shown(capsys, "list")
    assert " `x[offset::stride].copy()`." in out
    first_words = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert [word for word in first_words if word in ado.routines] == list(ado.routines)
    assert "adokernels list NAME" in out
    assert "pipeline_naive_loops" not in out  # the ladders would fill several screens


@pytest.mark.parametrize("name", ado.routines)
def test_list_of_one_routine(capsys, name):
    out = shown(capsys, "list", name)
    for variant in ado.routines[name]:
        assert variant.name in out


def test_info(capsys):
    out = shown(capsys, "info")
    assert _core.isa() in out
    assert "DRAM copy" in out


def test_bench_stores_what_it_prints(capsys, tmp_path):
    store, plot = tmp_path / "t.json", tmp_path / "t.png"
    command = "bench transpose --shape 40x30 --dtype int16 --device cpu --seconds 0.02"
    arguments = [*command.split(), "--variants", "naive_loops,simd"]
    out = shown(capsys, *arguments, "--json", str(store), "--plot", str(plot))
    assert "simd" in out
    sweep = ado.load(store)
    assert [m.variant for m in sweep] == ["naive_loops", "simd"]
    assert sweep.measurements[0].problem.operands == (("a", (40, 30), "int16"),)
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_diagnosis_of_a_stored_sweep(capsys):
    store = Path(__file__).parent.parent / "notebooks" / "data" / "transpose-float32-8192.json.xz"
    out = shown(capsys, "diagnose", str(store))
    assert "Proposed, and what the next variant did" in out
    assert " \n" not in out
    assert "avoid bank" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list", "transpos"], "did you mean 'transpose'?"),
        (["bench", "transpose", "--variants", "naive_lops"], "did you mean 'naive_loops'?"),
        (["bench", "transpose", "--shape", "3x4x5"], "must be rows x cols, got 3 x 4 x 5"),
        (["bench", "max_plus", "--shape", "64x-1"], "must not be negative, got -1"),
        (["bench", "max_plus", "--shape", "-64x1"], "must not be negative, got -64"),
        (["bench", "transpose", "--dtype", "S3", "--shape", "3x4"], "1, 2, 4, 8 or 16 bytes"),
        (["bench", "transpose", "--set", "seconds=3"], "transpose takes no options"),
        (["bench", "gaussian_blur", "--set", "border=a", "--set", "border=b"], "each option once"),
        (["bench", "sobel", "--dtype", "f4"], "gray must have uint8"),
        (["bench", "gaussian_blur", "--set", "border=x", "--shape", "3x4"], "'replicate'"),
        (["report", "no-such-file.json"], "no-such-file.json"),
        (["diagnose", "no-such-file.json"], "no-such-file.json: No such file"),
        (["diagnose", __file__], "the method save and the option --json write records"),
        (["compare", "a.json", "b.json", "--setup", "x = 1"], "--setup is for expressions"),
        (
            ["compare", "len", "max"],
            "'len': it fails with TypeError: it must be a call, such as len(x)",
        ),
        (["report", str(Path(__file__).parent / "typing")], "comparisons, got none"),
        (["check", __file__, "--kernel", "f", "--routine", "sobel", "--timeout", "0"], "positive"),
        (["check", "sweep.json", "--kernel", "f", "--routine", "sobel"], "must be CUDA C++ (.cu)"),
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
        ["tuor"],
        ["bench", "transpose", "--shape", "axb"],
        ["check", "mine.cu", "--routine", "transpose", "--kernel", "mine", "--block", "5000"],
        ["check", "mine.cu", "--routine", "transpose", "--kernel", "mine", "--block", "1x1x1x1"],
        ["bench", "transpose", "--shape", "99999999999999999999x2"],
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
    assert f"{_core.why_no_cuda()}; remedy: --device emulator" in err


@pytest.mark.skipif(bool(_core.why_no_emulator()), reason="built without CUDA")
def test_commands_that_time_refuse_the_emulator(capsys, monkeypatch):
    monkeypatch.setattr(_core, "device", lambda: "emulator")
    status, _, err = run(capsys, "scan", "branch", "--shapes", "100", "--device", "emulator")
    assert status == 3
    assert "the emulator does not measure time: pass device='cpu'" in err


@pytest.mark.skipif(bool(_core.why_no_emulator()), reason="built without CUDA")
def test_counts_are_drawn_and_diagnosed(capsys, tmp_path):
    store, plot = str(tmp_path / "e.json"), tmp_path / "e.png"
    command = "bench transpose --device emulator --shape 64x48 --dtype float32"
    shown(capsys, *command.split(), "--json", store, "--plot", str(plot))
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "coalesce accesses" in shown(capsys, "diagnose", store)
    page = ("--out", str(tmp_path / "r.html"))
    status, _, err = run(capsys, "report", store, *page)
    assert status == 2
    assert "a sweep on the emulator has counts; use adokernels diagnose" in err
    status, out, _ = run(capsys, "report", str(tmp_path), *page)
    assert (status, out.startswith("refused")) == (2, True)


@pytest.mark.skipif(bool(_core.why_no_emulator()), reason="built without CUDA")
def test_default_problems_on_the_emulator_are_small_and_fit_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    command = "bench transpose --device emulator --variants tiled"
    out = shown(capsys, *command.split())
    assert "(128, 128)" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "omitted at this width" in out
    out = shown(capsys, "profile", "gather", "--device", "emulator")
    assert "emulated" in out
    what_if = "what-if transpose naive --shape 64x96 --device emulator --json"
    out = shown(capsys, *what_if.split())
    trials = {trial["experiment"]: trial for trial in json.loads(out)["trials"]}
    assert trials["stores coalesced (near)"]["after"] == 4


def test_bench_takes_options(capsys, tmp_path):
    command = "bench gaussian_blur --shape 3x20x30 --device cpu --seconds 0.02 --variants threaded"
    options = ["--set", "border=replicate", "--set", "taps=1,1,1,1,1,1,1"]
    store = tmp_path / "blur.json"
    assert run(capsys, *command.split(), *options, "--json", str(store))[0] == 0
    (m,) = ado.load(store).measurements
    assert m.problem.operands == (("gray", (3, 20, 30), "uint8"),)
    assert m.problem.options == {"border": "replicate", "taps": (1,) * 7}


def test_scan_stores_and_draws_what_it_prints(capsys, tmp_path):
    store, plot = tmp_path / "s.json", tmp_path / "s.svg"
    command = "scan transpose --shapes 16x16 64x32 --device cpu --variants simd --seconds 0.01"
    files = ["--json", str(store), "--plot", str(plot)]
    out = shown(capsys, *command.split(), "--dtype", "int16", *files)
    assert "16 x 16" in out
    scan = ado.load(store)
    shapes = [s.measurements[0].problem.operands[0].shape for s in scan]
    assert shapes == [(16, 16), (64, 32)]
    assert {m.variant for s in scan for m in s} == {"simd"}
    assert {m.cache for s in scan for m in s} == {"warm"}
    assert plot.read_bytes().startswith(b"<?xml")


def test_scan_with_copies_prints_the_break_even_size(capsys, monkeypatch):
    asked = {}
    monkeypatch.setattr(ado, "scan", lambda _, **given: asked.update(given) or make_offloads())
    out = shown(capsys, "scan", "transpose", "--copies")
    assert asked["copies"] is True
    assert "With copies, the GPU is not faster than the CPU up to 512 MiB" in " ".join(out.split())


@pytest.mark.parametrize(
    ("command", "measured", "words"),
    [
        ("bench", dataclasses.replace(make_transpose(), interrupted=True), "padded"),
        ("scan", ado.records.Scan(routine="gpp", sweeps=(make_gpp(),), interrupted=True), "fused"),
    ],
)
def test_an_interrupted_command_keeps_what_was_measured(
    capsys, tmp_path, monkeypatch, command, measured, words
):
    name = {"bench": "sweep", "scan": "scan"}[command]
    monkeypatch.setattr(ado, name, lambda *_, **__: measured)
    store = tmp_path / "part.json"
    shape = ["--shape", "8x8"] if command == "bench" else []
    status, out, _ = run(capsys, command, "transpose", *shape, "--json", str(store))
    assert status == 130
    assert words in out
    assert ado.load(store).interrupted


def test_an_interruption_before_a_result_is_one_line_and_status_130(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ado, "sweep", interrupted)
    status, out, err = run(capsys, "bench", "transpose", "--shape", "8x8")
    assert (status, out, err) == (130, "", "adokernels: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["bench", "transpose", "--plot", "{}/no/chart.png"], "no such folder"),
        (["bench", "transpose", "--json", "{}"], "got the folder"),
        (["bench", "transpose", "--plot", "{}/chart.xyz"], "must end in .png, .svg, .pdf"),
        (["scan", "transpose", "--json", "{}/file/x.json"], "got a file"),
        (["profile", "transpose", "--ncu", "{}/no/r.ncu-rep"], "no such folder"),
        (["profile", "transpose", "--ncu", "{}/r.txt"], "must end in .ncu-rep"),
        (["compare", "a", "b", "--plot", "{}/no/chart.png"], "no such folder"),
        (["report", "a", "--out", "{}/no/r.html"], "no such folder"),
        (["check", "a", "--routine", "r", "--kernel", "k", "--json", "{}"], "got the folder"),
        (["tour", "--out", "{}/file"], "must be a folder, got a file"),
        (["tour", "--out", "{}/file/tour"], "must be a folder, got a file"),
    ],
)
def test_paths_are_checked_before_anything_runs(capsys, tmp_path, arguments, text):
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as stop:
        cli.main([word.format(tmp_path) for word in arguments])
    assert stop.value.code == 2
    assert text in capsys.readouterr().err


def test_every_command_has_a_sentence_and_an_example_that_parses(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    overview = capsys.readouterr().out
    assert overview.count("\n  adokernels ") == 2
    commands = ["tour", "info", "list", "bench", "scan", "check", "profile", "compare", "report"]
    for command in [*commands, "diagnose", "puzzles", "what-if"]:
        assert f"\n    {command} " in overview
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        text = capsys.readouterr().out
        examples = text.split("example:\n")[1].strip().splitlines()
        assert all(program.parse(shlex.split(e)[1:]).command == command for e in examples)


@pytest.mark.parametrize(
    ("command", "nearest"),
    [
        *[("benhc transpose", "bench"), ("tuor", "tour"), ("--versoin", "--version")],
        *[("--vers", "--version"), ("bench transpose --var naive", "--variants")],
        *[("bench transpose --shpe 3x3", "--shape"), ("bench transpose --shpe=-3x3", "--shape")],
    ],
)
def test_the_nearest_name_is_suggested(capsys, command, nearest):
    with pytest.raises(SystemExit) as stop:
        cli.main(command.split())
    assert stop.value.code == 2
    assert f"id you mean '{nearest}'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bench", "bench --all"])
def test_a_missing_routine_names_the_command_that_measures_all(capsys, command):
    with pytest.raises(SystemExit) as stop:
        cli.main(command.split())
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert "required: routine; adokernels list shows all routines, adokernels tour --all " in err


def test_the_shell_completes_commands_options_and_routines(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--completion"])
    assert stop.value.code == 0
    script = capsys.readouterr().out
    for words, expected in [
        ("be", "bench"),
        ("bench --sh", "--shape"),
        ("scan aver", "average_matvec"),
        ("diagnose tran", ""),
        ("list transpose pre", ""),
        ("profile transpose pre", "prefetch"),
        ("bench transpose --variants na", "naive_loops naive narrow_blocks"),
        ("puzzles so", "solution softmax"),
    ]:
        line = f"COMP_WORDS=(adokernels {words}); COMP_CWORD={len(words.split())}"
        command = f'{script}\n{line}; _adokernels; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert done.stdout.split() == expected.split()


def test_a_report_needs_more_than_experiments(capsys, tmp_path):
    file = tmp_path / "wi.json"
    about = {"routine": "transpose", "variant": "naive", "problem": "", "source": "emulator"}
    ado.records.WhatIf(**about, block=None, kernels=(), trials=()).save(file)
    status, _, err = run(capsys, "report", str(file))
    assert status == 2
    assert "a report needs sweeps, scans or comparisons, got only results of what-if" in err


def test_a_report_skips_files_that_are_not_records(capsys, tmp_path):
    make_transpose().save(tmp_path / "t.json")
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    out = shown(capsys, "report", str(tmp_path), "--out", str(tmp_path / "r.html"))
    assert "skipped:" in out
    assert "a.json" in out
    assert "<svg" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.skipif(bool(_core.why_no_emulator()), reason="built without CUDA")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("profile transpose naive --metrics dram__bytes.sum", "metrics must be 'default' on"),
        ("bench transpose --counters", "counters must be False on the emulator"),
    ],
)
def test_choices_that_the_emulator_lacks_are_errors(capsys, command, text):
    status, _, err = run(capsys, *command.split(), "--shape", "8x8", "--device", "emulator")
    assert status == 2
    assert text in err


def test_a_call_does_not_load_libraries_that_show_results():
    code = """
import sys
import numpy as np
import adokernels as ado
ado.transpose(np.zeros((2, 3)))
print({"rich", "pygments", "matplotlib", "concurrent", "importlib.metadata"} & {*sys.modules})
"""
    assert run_python(code) == "set()"


def test_json_alone_on_standard_output(capsys, tmp_path, monkeypatch):
    """Remarks go to standard error. A word without a dot and a separator is not a file."""
    for words in (["list", "--json", "transpose"], ["list", "transpose", "--json", "-"]):
        out = shown(capsys, *words)
        assert json.loads(out)["ladders"][0]["name"] == "transpose"
    sweep, file = tmp_path / "sweep.json", tmp_path / "file.json"
    make_transpose().save(sweep)
    for words, kind in (("list transpose", "ladders"), (f"diagnose {sweep}", "diagnosis")):
        shown(capsys, *words.split(), "--json", str(file))
        assert json.loads(file.read_text())["kind"] == kind
    monkeypatch.chdir(tmp_path)  # whose modules can be imported
    (tmp_path / "ado_test_operand.py").write_text("import numpy as np\nx = np.ones(9)")
    how = ("--setup", "from ado_test_operand import x", "--seconds", "0.1", "--json")
    out = shown(capsys, "compare", "np.sum(x)", "x.sum()", *how)
    (row,) = json.loads(out)["records"]
    assert row["variant"] == "x.sum()"
    assert row["ratio"] == pytest.approx(row["before"] / row["after"])
    assert row["ci_low"] <= row["ratio"] <= row["ci_high"]
    assert row["verdict"] in ("faster", "slower", "same", "unclear")


@pytest.mark.parametrize("width", [60, 80])
def test_tables_fit_a_narrow_terminal(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    path = Path(__file__).parent.parent / "notebooks" / "data" / "transpose-float32-8192.json.xz"
    sweep = ado.load(path)
    for arguments in (["list"], ["list", "max_plus"], ["diagnose", str(path)]):
        out = shown(capsys, *arguments)
        assert max(map(cell_len, out.splitlines())) <= width
        assert "…" not in out
    assert all(m.variant in out for m in sweep.variants)
    assert "omitted at this width: " in out


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        ("list transpose", "variant what it changes available"),
        ("puzzles", "puzzle track state attempts hints"),
        ("bench transpose --shape 8x8", "variant time speed-up (step) step is of roof"),
        ("compare np.sum(x) x.sum() --setup x=np.ones(9) --seconds 0", "speed-up x.sum() is"),
        pytest.param(
            "what-if transpose naive --shape 64x96 --device emulator",
            "if ... it changes remarks",
            marks=pytest.mark.skipif(bool(_core.why_no_emulator()), reason="built without CUDA"),
        ),
    ],
)
def test_a_narrow_table_keeps_important_columns(capsys, tmp_path, monkeypatch, command, headers):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(ado, "sweep", lambda *_, **__: make_transpose())
    monkeypatch.chdir(tmp_path)  # without progress in puzzles
    lines = shown(capsys, *command.split()).splitlines()
    assert max(map(cell_len, lines)) <= 60
    rule = next(i for i, line in enumerate(lines) if line.startswith(" ──"))
    assert set(headers.split()) <= set(" ".join(lines[:rule]).split())


def test_a_narrow_table_keeps_its_first_column(capsys, monkeypatch):
    """An expression can be equal to the header of the first column."""
    monkeypatch.setenv("COLUMNS", "40")
    words = ["compare", "function", "1", "--setup", "function = 1", "--seconds", "0"]
    lines = shown(capsys, *words).splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith(" ──"))
    assert lines[rule - 1].endswith(" 1 is")
    assert lines[rule + 1].startswith(" 1   ")  # the name of the row


def test_notes_below_a_narrow_table_have_the_width_of_the_page(capsys):
    note = "Resolution: " + 20 * "word "
    table = table_of("Title", [{"a": "1"}], notes=[note])
    Console(width=200).print(table)
    assert note.strip() in capsys.readouterr().out
