"""benchmarks/everything.py: its stages, resuming, changes of the board, refusals, and transfer."""

import collections
import dataclasses
import json
import re
import sys
import time
from pathlib import Path

import pytest
from scripts import ROOT, load_script

import adokernels as ado
from adokernels import _core

everything = load_script("benchmarks/everything.py")
STAGES = everything.stages()
#: Counts that test_heatmap repeats without a GPU.
EMULATED = "notebooks/data/emulated/*.json"
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
#: GPUs that only published figures name, among the models that MODEL matches.
PUBLISHED = {"A100"}
MODEL = r"\b(?:[AHBL]\d{2,3}|G[HB]\d{3})\b"
#: A script that writes a record of the board in the file BOARD. Arguments: the record's path, and
#: a file; if that file exists, the script fails.
FAKE = """
import json, pathlib, sys
file, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
if len(sys.argv) > 2 and (here / sys.argv[2]).exists():
    sys.exit("not yet")
cuda = {"uuid": (here / "BOARD").read_text()}
file.write_text(json.dumps({"context": {"adokernels": "1.0+gabc", "cuda": cuda}}))
"""


def test_one_stage_writes_each_stored_record():
    folders = ("notebooks/data", "benchmarks/results", "tests/data/emulator")
    stored = {path for name in folders for path in (ROOT / name).rglob("*.json")}
    stored |= set(ROOT.glob("notebooks/data/course/*.csv"))
    stored -= set(ROOT.glob(EMULATED))
    writers = collections.Counter(
        path for stage in STAGES for p in stage.patterns for path in ROOT.glob(p)
    )
    verdicts = ROOT / "benchmarks/results/verdicts.json"  # of six series
    assert writers.pop(verdicts) == 6
    assert {path: writers[path] for path in stored - {verdicts} if writers[path] != 1} == {}


def cells_of(path, kind):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == kind]


def records_of(path):
    """The stored records of the stages that a notebook shows."""
    patterns = [p for s in STAGES if path.name[:2] in s.pages for p in s.patterns]
    return [file for pattern in patterns for file in ROOT.glob(pattern)]


each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@each_notebook
def test_stages_name_the_notebooks_that_show_their_records(path):
    code = "\n".join("".join(cell["source"]) for cell in cells_of(path, "code"))
    files = re.findall(r"\b(?:load|import_ncu)\([^()]*?\"([^\"]+)\"\s*\)", code)
    loaded = {re.sub(r"{.*?}", "*", f if "." in f else f"{f}.json") for f in files} - {"mine.json"}
    written = records_of(path)
    assert [name for name in loaded if not any(file.match(name) for file in written)] == []
    assert loaded


@each_notebook
def test_notebooks_are_executed_after_their_records_and_name_their_gpus(path):
    texts = [file.read_text(encoding="utf-8") for file in records_of(path)]
    documents = [json.loads(text) for text in texts if text.startswith(("{", "["))]
    contexts = [c for document in documents for c in everything.contexts(document)]
    executed = min(
        cell["metadata"]["execution"]["iopub.execute_input"]
        for cell in cells_of(path, "code")
        if cell["execution_count"]
    )
    assert max(context["time"] for context in contexts if "time" in context) <= executed
    markdown = "\n".join("".join(cell["source"]) for cell in cells_of(path, "markdown"))
    measured = " ".join({c["cuda"]["name"] for c in contexts if "cuda" in c})
    assert set(re.findall(MODEL, markdown)) <= PUBLISHED | set(re.findall(MODEL, measured))


def test_all_records_of_a_page_are_of_one_board_and_version():
    state = {}
    for stage in STAGES:
        files = [path for pattern in stage.patterns for path in ROOT.glob(pattern)]
        texts = [path.read_text(encoding="utf-8") for path in files if path.suffix == ".json"]
        found = [c for text in texts for c in everything.contexts(json.loads(text))]
        if not found:  # machine code, for example
            continue
        boards = {c["cuda"]["uuid"] for c in found if "cuda" in c} or {""}
        versions = {c["adokernels"] for c in found}
        assert len(boards) == len(versions) == 1, stage.name
        state[stage.name] = everything.Done(*boards, *versions, 0.0, ())
    known = [stage for stage in STAGES if stage.name in state]
    for version in {done.code for done in state.values()}:
        assert everything.kept(known, state, {}, version) == state


def test_commands_exist():
    for stage in STAGES:
        first, second, *_ = stage.command.removeprefix("ADOKERNELS_ISA=").split()
        file = second if stage.command.startswith("ADOKERNELS_ISA=") else first
        modules = ("pytest", "adokernels.cli", "adobook.unseen")
        assert second in modules if file == "-m" else (ROOT / file).is_file(), stage.name


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for fake stages on the board "first"."""
    (tmp_path / "fake.py").write_text(FAKE)
    set_board(tmp_path, monkeypatch, "first")
    monkeypatch.setattr(everything.importlib.metadata, "version", lambda _: "1.0+gabc")
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def set_board(path, monkeypatch, name):
    (path / "BOARD").write_text(name)
    monkeypatch.setattr(everything, "boards", lambda: {"cuda": name, "cpu": "host"})


def fake(folder, name, shown="01", unless=""):
    """A stage that fails as long as the file `unless` exists."""
    file = f"{{}}/notebooks/data/{name}.json"
    command = f"{folder.parent}/fake.py {file} {unless}"
    return everything.Stage(name, command, 0.01, file, shown)


def run(stages, folder, seconds=60, **options):
    end = time.monotonic() + seconds
    return everything.run(stages, stages, folder, end, small=False, **options)


def test_a_second_call_runs_the_missing_stages(folder, capsys):
    stages = [fake(folder, "a"), fake(folder, "b", unless="LATER"), fake(folder, "c")]
    (folder.parent / "LATER").touch()
    assert run(stages, folder) == 1
    assert "b: FAILED: status 1: not yet" in capsys.readouterr().out
    (folder.parent / "LATER").unlink()
    assert run(stages, folder) == 0
    printed = capsys.readouterr().out
    assert "[2/3] b" in printed
    assert "] a" not in printed
    assert set(everything.load_state(stages, folder)) == {"a", "b", "c"}


def test_only_stages_that_fit_are_started_and_long_ones_are_ended(folder, capsys):
    long = fake(folder, "long")._replace(minutes=2)
    child, script = folder.parent / "child", folder.parent / "sleeping.py"
    script.write_text(
        "import pathlib, subprocess, time\n"
        f"pathlib.Path({str(child)!r}).write_text(str(subprocess.Popen(['sleep', '77']).pid))\n"
        "time.sleep(77)\n"
    )
    assert run([long, everything.Stage("late", str(script), 0.001)], folder, seconds=3) == 2
    printed = capsys.readouterr().out
    assert "long" not in printed
    assert "late: FAILED: it was ended after 3 s" in printed
    status = Path(f"/proc/{child.read_text()}/status")
    assert not status.exists() or "zombie" in status.read_text()


def test_incomplete_pages_start_again_on_another_board(folder, monkeypatch, capsys):
    stages = [
        fake(folder, "a", "01"),
        fake(folder, "b", "01 02", unless="LATER"),
        fake(folder, "c", "03"),
        fake(folder, "d", "04"),
    ]
    (folder.parent / "LATER").touch()
    assert run(stages[:3], folder) == 1
    (folder.parent / "LATER").unlink()
    set_board(folder.parent, monkeypatch, "second")
    assert run(stages, folder) == 0
    assert "dropped a: another board" in capsys.readouterr().out
    boards = {name: done.board for name, done in everything.load_state(stages, folder).items()}
    assert boards == {"a": "second", "b": "second", "c": "first", "d": "second"}


def test_records_of_shared_pages_are_dropped_together():
    stages = [
        everything.Stage(n, "", 1, "", s) for n, s in {"a": "01", "b": "01 02", "c": "02"}.items()
    ]
    done = everything.Done("first", "1.0", 1.0, ())
    state = {"a": done, "b": done}
    assert everything.kept(stages, state, {"cuda": "second"}, "1.0") == {}
    assert everything.kept(stages, state, {"cuda": "first"}, "1.0") == state
    assert everything.kept(stages, state | {"c": done}, {}, "1.0") == state | {"c": done}
    assert everything.kept(stages, state | {"c": done}, {}, "1.1") == {}


def test_records_of_another_board_or_version_fail(folder, monkeypatch, capsys):
    stages = [fake(folder, "a")]
    monkeypatch.setattr(everything, "boards", lambda: {"cuda": "other", "cpu": "host"})
    assert run(stages, folder) == 1
    assert "it is of board first, not other" in capsys.readouterr().out
    set_board(folder.parent, monkeypatch, "first")
    monkeypatch.setattr(everything.importlib.metadata, "version", lambda _: "1.0+gdef")
    assert run(stages, folder) == 1
    assert "it is of version 1.0+gabc, not 1.0+gdef" in capsys.readouterr().out


def test_a_bad_record_fails_only_its_stage(folder, capsys):
    (folder.parent / "bad.py").write_text(FAKE.replace('"cuda": cuda', '"cuda": None'))
    bad = fake(folder, "bad")
    stages = [bad._replace(command=bad.command.replace("fake.py", "bad.py")), fake(folder, "a")]
    assert run(stages, folder) == 1
    reason = "FAILED: notebooks/data/bad.json: AttributeError"
    assert reason in capsys.readouterr().out
    assert reason in everything.log_of(folder, "bad").read_text()
    assert "a" in everything.load_state(stages, folder)


def test_disturbed_records_are_refused(tmp_path):
    sweep = ado.load(ROOT / "notebooks/data/transpose-float32-8192.json")
    context = sweep.fastest.context
    done = everything.Done(context["cuda"]["uuid"], context["adokernels"], 1.0, ())
    sweep.save(tmp_path / "sweep.json")
    assert everything.objection(tmp_path / "sweep.json", done, "cuda") == ""
    busy = {"contention": {"gpu_utilization": 60}}
    measured = tuple(dataclasses.replace(m, context=m.context | busy) for m in sweep.measurements)
    dataclasses.replace(sweep, measurements=measured).save(tmp_path / "sweep.json")
    assert "used the GPU" in everything.objection(tmp_path / "sweep.json", done, "cuda")
    (tmp_path / "shapes.json").write_text('{"wrong": ["7x7"]}')
    assert "wrong" in everything.objection(tmp_path / "shapes.json", done, "cuda")


def test_transfer_in_parts_and_publishing(folder, tmp_path, monkeypatch):
    stages = [
        fake(folder, "a"),
        fake(folder, "b"),
        fake(folder, "c", "02"),
        fake(folder, "d", "02"),
    ]
    assert run(stages[:3], folder) == 0
    monkeypatch.setattr(everything, "PART", 300)
    (tmp_path / "e.tar.xz.07").write_text("of an earlier archive")
    parts = everything.pack(folder, tmp_path / "e.tar.xz")
    assert len(parts) > 1
    assert all(path.stat().st_size <= 300 for path in parts)
    assert sorted(tmp_path.glob("e.tar.xz*")) == parts
    copy, root = tmp_path / "copy", tmp_path / "root"
    everything.unpack(stages, reversed(parts), copy)
    assert everything.load_state(stages, copy) == everything.load_state(stages, folder)
    assert not (copy / "work" / "first" / "cache").exists()
    (root / "notebooks/data").mkdir(parents=True)
    (root / "notebooks/data/a.json").write_text("old")
    assert everything.publish(stages, copy, root) == {"c": "incomplete, or of several boards: 02"}
    published = sorted(path.name for path in root.rglob("*.json"))
    assert published == ["a.json", "b.json"]
    assert "1.0+gabc" in (root / "notebooks/data/a.json").read_text()
    assert run(stages, folder) == 0
    everything.unpack(stages, parts, folder)  # keeps the stages that the archive lacks
    assert sorted(everything.load_state(stages, folder)) == ["a", "b", "c", "d"]


def test_the_board_is_the_first_visible_gpu(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *--id=*) echo "${*##*--id=}" ;; *) echo GPU-1-a ;; esac'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert everything.boards()["cuda"] == "1a"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-2-b,GPU-1-a")
    assert everything.boards()["cuda"] == "2b"


def test_an_interruption_keeps_the_stored_state_and_archive(folder, tmp_path, monkeypatch):
    everything.save_state(folder, {})
    everything.pack(folder, tmp_path / "e.tar.xz")
    files = (folder / "stages.json", tmp_path / "e.tar.xz")
    stored = [path.read_bytes() for path in files]
    (folder / "new").touch()
    monkeypatch.setattr("os.replace", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        everything.save_state(folder, {"a": everything.Done("first", "1.0", 1.0, ())})
    with pytest.raises(ZeroDivisionError):
        everything.pack(folder, tmp_path / "e.tar.xz")
    assert [path.read_bytes() for path in files] == stored


def test_stored_names_are_not_trusted(folder, tmp_path):
    names = ("victim.json", "victim.log", "notebooks/data/b.json")
    victims = [tmp_path / name for name in names]
    for path in (*victims, folder / "logs/a.log", folder / "notebooks/data/b.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    stages = [fake(folder, name) for name in "ab"]
    old = everything.Done("first", "0.9", 1.0, ())
    state = {
        "a": dataclasses.replace(old, files=("notebooks/data/../../../victim.json",)),
        "b": dataclasses.replace(old, files=(str(victims[2]),)),
        "../../victim": old,
    }
    everything.save_state(folder, state)
    assert everything.load_state(stages, folder) == {}
    assert run(stages, folder) == 0
    assert [path for path in victims if not path.exists()] == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"small": True}, "small"),
        ({"code": "1.0+gabc.dirty"}, "uncommitted"),
        ({"code": "1.0+gdef"}, "others of 1.0+gabc"),
        ({"board": "second"}, "board"),
    ],
)
def test_refused_for_publishing(folder, tmp_path, changes, reason):
    stages = [
        fake(folder, "a"),
        fake(folder, "b"),
        fake(folder, "c", "02"),
        fake(folder, "d", "02"),
    ]
    assert run(stages, folder) == 0
    state = everything.load_state(stages, folder)
    state["a"] = dataclasses.replace(state["a"], **changes)
    everything.save_state(folder, state)
    refused = everything.publish(stages, folder, tmp_path / "root")
    assert set(refused) == {"a", "b"}
    assert reason in refused["a"]
    assert sorted(path.name for path in (tmp_path / "root").rglob("*.json")) == ["c.json", "d.json"]


@pytest.mark.skipif(bool(_core.why_no_emulator()), reason="built without CUDA")
def test_small_problems_run_here_and_are_marked(tmp_path, monkeypatch, capsys):
    out, archive = str(tmp_path / "out"), str(tmp_path / "new" / "e.tar.xz")
    words = ["everything.py", out, "--small", "--only", "ladder transpose-float32-odd"]
    monkeypatch.setattr(sys, "argv", [*words, "--pack", archive])
    assert everything.main() == 0
    assert "packed" in capsys.readouterr().out
    state = everything.load_state(STAGES, tmp_path / "out")
    (done,) = state.values()
    assert done.small
    assert ado.load(tmp_path / "out" / done.files[0]).routine == "transpose"
    monkeypatch.setattr(sys, "argv", ["everything.py", out, "--unpack", archive, "--publish"])
    assert everything.main() == 1
    assert "its problems are small" in capsys.readouterr().out
    for other, small in (([*words[:2], *words[3:]], True), (words, False)):
        changed = {name: dataclasses.replace(done, small=small) for name in state}
        everything.save_state(tmp_path / "out", changed)
        (tmp_path / "new/e.tar.xz").unlink()
        monkeypatch.setattr(sys, "argv", [*other, "--pack", archive])
        with pytest.raises(SystemExit, match=f"records of {'small' if small else 'full'} problems"):
            everything.main()
        assert (tmp_path / "new/e.tar.xz").exists()  # packed after any error
        assert everything.load_state(STAGES, tmp_path / "out") == changed
