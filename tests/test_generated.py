"""Generated files are up to date; facts that two files state agree."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import load_script

import adokernels as ado

ROOT = Path(__file__).parent.parent


@pytest.fixture
def generate():
    return load_script(".ci/generate.py")


def test_stubs_and_tables_are_up_to_date():
    command = [sys.executable, str(ROOT / ".ci" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_markers_are_filled(generate):
    text = "a\n<!-- ladder x -->\nold\n<!-- end -->\nb\n<!-- sweep s.json -->\n<!-- end -->\n"
    filled = generate.fill_markers(text, {"ladder x": "new", "sweep s.json": "table\n"}, ["x"])
    assert filled == text.replace("old", "new").replace("json -->\n", "json -->\ntable\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- ladder x -->\n<!-- end -->\n<!-- ladder y -->\n<!-- end -->", "ladder y"),
        ("<!-- ladder x -->\n<!-- end -->\n<!-- sweep s.json -->\n<!-- end -->", "sweep s.json"),
        ("<!-- ladder x -->\nno end\n<!-- ladder x2 -->\n<!-- end -->", "ladder x --> has no"),
        ("no marker at all", "for the routine x"),
    ],
)
def test_a_marker_that_cannot_be_filled_is_an_error(generate, text, message):
    with pytest.raises(ValueError, match=message):
        generate.fill_markers(text, {"ladder x": "", "ladder x2": ""}, ["x"])


def test_a_chart_is_drawn_again_only_if_its_source_changed(generate, tmp_path, monkeypatch, capsys):
    data = tmp_path / "notebooks" / "data"
    data.mkdir(parents=True)
    stored = ROOT / "notebooks" / "data" / "sobel-2560x1600.json"
    copy = data / stored.name
    copy.write_bytes(stored.read_bytes())
    monkeypatch.setattr(generate, "ROOT", tmp_path)

    def drawn():
        generate.draw_charts()
        return bool(capsys.readouterr().out)

    assert drawn()
    assert not drawn()
    copy.write_bytes(stored.read_bytes() + b"\n")
    assert drawn()


def test_pre_commit_uses_the_versions_of_pyproject():
    command = [sys.executable, str(ROOT / ".ci" / "requirements.py"), "run", "lint"]
    known = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert "ruff==" in hooks
    for tool in re.findall(r"[\w-]+==[\w.]+|[\w-]+>=[\w.]+", hooks):
        assert tool in known


def test_the_example_of_the_readme_is_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"<!-- example -->\n```python\n(.*?)```\n<!-- end example -->", text, re.S)
    test = doctest.DocTestParser().get_doctest(example[1], {}, "README.md", "README.md", 0)
    assert len(test.examples) >= 8
    assert doctest.DocTestRunner().run(test).failed == 0
    assert (tmp_path / "ladder.json").exists()


def test_public_names_exist():
    assert sorted(set(ado.__all__)) == sorted(ado.__all__)
    for name in ado.__all__:
        assert getattr(ado, name) is not None
