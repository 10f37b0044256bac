"""What is derived from the rows is up to date: stubs and the README's tables."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import adokernels as ado

ROOT = Path(__file__).parent.parent


def test_stubs_and_tables_are_up_to_date():
    command = [sys.executable, str(ROOT / ".ci" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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
