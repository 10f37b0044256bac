"""benchmarks/everything.py: resuming, and transfer."""

import dataclasses
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
    monkeypatch.setattr(everything, "boards", lambda: {"cuda": "first", "cpu": "host"})
    monkeypatch.setattr(everything.importlib.metadata, "version", lambda _: "1.0+gabc")
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def fakes(folder, **pages):
    """Fake stages, by name the pages that show them."""
    script = folder.parent / "fake.py"
    return [
        everything.Stage(name, shown, f"{script} {{}}/results/{name}.json")
        for name, shown in pages.items()
    ]


def run(stages, folder):
    return everything.run(stages, stages, folder, time.monotonic() + 600)


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


def test_commands_exist():
    for stage in everything.stages():
        first, second, *_ = stage.command.split()
        exists = second in ("pytest", "adokernels") if first == "-m" else (ROOT / first).exists()
        assert exists, stage.name
