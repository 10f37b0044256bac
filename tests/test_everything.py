"""benchmarks/everything.py: resuming, changes of the board, refusals, and transfer."""

import dataclasses
import io
import tarfile
import time

import pytest
from scripts import ROOT, load_script

import adokernels as ado

everything = load_script("benchmarks/everything.py")
#: A script that writes a record. If the file "LATER" exists and the record is named b, it fails.
FAKE = """
import pathlib, sys
file, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
if file.stem == "b" and (here / "LATER").exists():
    sys.exit("not yet")
file.write_text('{"written": true}')
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for fake stages on the board "first"; b fails until LATER is removed."""
    (tmp_path / "fake.py").write_text(FAKE)
    (tmp_path / "LATER").touch()
    set_board(monkeypatch, "first")
    monkeypatch.setattr(everything.importlib.metadata, "version", lambda _: "1.0+gabc")
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def set_board(monkeypatch, name):
    monkeypatch.setattr(everything, "boards", lambda: {"cuda": name, "cpu": "host"})


def fakes(folder, **pages):
    """Fake stages, by name the pages that show them."""
    script = folder.parent / "fake.py"
    return [
        everything.Stage(name, shown, f"{script} {{}}/results/{name}.json")
        for name, shown in pages.items()
    ]


def run(stages, folder, seconds=600):
    return everything.run(stages, stages, folder, time.monotonic() + seconds)


def boards_of(stages, folder):
    return {name: done["board"] for name, done in everything.load_state(stages, folder).items()}


def test_a_second_call_runs_the_missing_stages(folder, capsys):
    stages = fakes(folder, a="01", b="01", c="01")
    assert run(stages, folder) == 1
    assert "b: FAILED: RuntimeError('status 1: not yet')" in capsys.readouterr().out
    (folder.parent / "LATER").unlink()
    assert run(stages, folder) == 0
    printed = capsys.readouterr().out
    assert "b: about" in printed
    assert "a: about" not in printed
    (folder / "results/a.json").unlink()
    assert set(everything.load_state(stages, folder)) == {"b", "c"}


def test_only_stages_that_fit_are_started_and_long_ones_are_ended(folder, capsys, monkeypatch):
    script, late = folder.parent / "sleeping.py", folder / "late"
    command = "subprocess.run(['sh', '-c', 'sleep 2; touch $0', sys.argv[1]])"
    script.write_text(f"import subprocess, sys\n{command}")
    monkeypatch.setattr(everything, "MINUTES", {"short": 0})
    stages = [everything.Stage(name, "", f"{script} {{}}/late") for name in ("long", "short")]
    assert run(stages, folder, seconds=1) == 2
    printed = capsys.readouterr().out
    assert "long" not in printed
    assert "short: FAILED" in printed
    time.sleep(2)
    assert not late.exists()


def test_incomplete_pages_start_again_on_another_board(folder, monkeypatch, capsys):
    stages = fakes(folder, a="01", b="01 02", c="03", d="04")
    assert run(stages[:3], folder) == 1
    (folder.parent / "LATER").unlink()
    set_board(monkeypatch, "second")
    assert run(stages, folder) == 0
    assert "dropped a: another board" in capsys.readouterr().out
    assert boards_of(stages, folder) == {"a": "second", "b": "second", "c": "first", "d": "second"}


def test_records_of_shared_pages_are_dropped_together(folder):
    stages = fakes(folder, a="01", b="01 02", c="02")
    done = {"board": "first", "code": "1.0"}
    state, complete = {"a": done, "b": done}, dict.fromkeys("abc", done)
    assert everything.kept(stages, state, {"cuda": "second"}, "1.0") == {}
    assert everything.kept(stages, state, {"cuda": "first"}, "1.0") == state
    assert everything.kept(stages, complete, {}, "1.0") == complete
    assert everything.kept(stages, complete, {}, "1.1") == {}
    mixed = complete | {"c": done | {"board": "second"}}
    assert everything.kept(stages, mixed, {}, "1.0") == {}


def test_disturbed_records_are_refused(tmp_path):
    sweep = ado.load(ROOT / "notebooks/data/transpose-float32-8192.json.xz")
    sweep.save(tmp_path / "sweep.json")
    everything.require_undisturbed(tmp_path / "sweep.json")
    busy = {"contention": {"gpu_utilization": 60}}
    measured = tuple(dataclasses.replace(m, context=m.context | busy) for m in sweep.measurements)
    dataclasses.replace(sweep, measurements=measured).save(tmp_path / "sweep.json")
    with pytest.raises(ValueError, match=r"sweep.json: .*used the GPU"):
        everything.require_undisturbed(tmp_path / "sweep.json")


def test_transfer_and_publishing(folder, tmp_path):
    stages = fakes(folder, a="01", c="01", b="02", d="02")
    run(stages, folder)
    everything.pack(folder, tmp_path / "e.tar.xz")
    copy, root = tmp_path / "copy", tmp_path / "root"
    copy.mkdir()
    everything.unpack(stages, tmp_path / "e.tar.xz", copy)
    assert boards_of(stages, copy) == dict.fromkeys("acd", "first")
    assert not list(copy.rglob("cache"))
    assert everything.publish(stages, copy, root) == ["d"]
    assert sorted(path.name for path in root.rglob("*.json")) == ["a.json", "c.json"]
    (tmp_path / "LATER").unlink()
    assert run(stages, folder) == 0
    everything.unpack(stages, tmp_path / "e.tar.xz", folder)  # keeps the stages that it lacks
    assert set(boards_of(stages, folder)) == set("abcd")


@pytest.mark.parametrize("code", ["1.0+gabc.dirty", "1.0+gdef"])
def test_versions_that_are_not_published(folder, tmp_path, code):
    stages = fakes(folder, a="01", c="02")
    run(stages, folder)
    state = everything.load_state(stages, folder)
    everything.save_state(folder, state | {"c": state["c"] | {"code": code}})
    with pytest.raises(SystemExit, match="of one version without uncommitted changes"):
        everything.publish(stages, folder, tmp_path / "root")
    assert not (tmp_path / "root").exists()


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="no extraction filters")
def test_bad_archives_change_nothing(folder, tmp_path):
    stages = fakes(folder, a="01")
    run(stages, folder)
    everything.pack(folder, tmp_path / "cut.tar.xz")
    whole = (tmp_path / "cut.tar.xz").read_bytes()
    (tmp_path / "cut.tar.xz").write_bytes(whole[: len(whole) // 2])
    with tarfile.open(tmp_path / "outside.tar.xz", "w:xz") as tar:
        tar.addfile(tarfile.TarInfo("../victim.json"), io.BytesIO())
    before = sorted(tmp_path.rglob("*"))
    for name in ("cut.tar.xz", "outside.tar.xz"):
        with pytest.raises((EOFError, tarfile.TarError)):
            everything.unpack(stages, tmp_path / name, folder)
    assert sorted(tmp_path.rglob("*")) == before


def test_commands_exist():
    for stage in everything.stages():
        first, second, *_ = stage.command.split()
        exists = second in ("pytest", "adokernels") if first == "-m" else (ROOT / first).exists()
        assert exists, stage.name
