"""Generated files are up to date; facts that two files state agree."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
from charting import make_offloads
from scripts import load_script

import adokernels as ado
from adobook.pages import break_even, results, stored

ROOT = Path(__file__).parent.parent


@pytest.fixture
def generate():
    return load_script(".ci/generate.py")


def test_stubs_and_tables_are_up_to_date():
    command = [sys.executable, str(ROOT / ".ci" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_shows_every_stored_sweep(monkeypatch):
    sweeps = stored.sweeps()
    headings = re.findall(r"^## (.*)$", "\n".join(results.pages(sweeps, {}, {}).values()), re.M)
    assert {name: headings.count(name) for name in sweeps} == dict.fromkeys(sweeps, 1)
    monkeypatch.setattr(results, "PAGES", results.PAGES[1:])
    with pytest.raises(ValueError, match="no page shows transpose-float32-8192"):
        results.pages(sweeps, {}, {})


def test_break_even_sizes_have_a_page_and_a_chart(generate, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stored, "DATA", tmp_path)
    monkeypatch.setattr(generate.gallery, "pictures", tuple)  # which are in the tree
    assert not stored.scans()
    folder = tmp_path / "break_even"
    folder.mkdir()
    rates = {"transpose": (2e-6, 3.2e9), "sobel": (3e-6, 40e9), "gather": (1e-3, 1e9)}
    for name, cpu in rates.items():
        dataclasses.replace(make_offloads(cpu=cpu), routine=name).save(folder / f"{name}.json.xz")
    scans = stored.scans()
    assert set(scans) == set(rates)
    found = results.pages({}, scans, {})
    lines = found["break_even.md"].splitlines()
    rows = {name: next(line for line in lines if f"[{name}]" in line) for name in rates}
    assert "(32 KiB to 128 KiB) | 8 KiB or less" in rows["transpose"]
    assert "none up to 512 MiB | 8 KiB or less" in rows["sobel"]
    assert "| 8 KiB or less | 8 KiB or less" in rows["gather"]
    generate.draw_charts()
    assert "drew break_even.png" in capsys.readouterr().out
    generate.draw_charts()
    assert not capsys.readouterr().out
    assert "for 2 of 3 routines" in break_even.draw(scans).axes[0].get_title(loc="left")


def test_pre_commit_uses_the_versions_of_pyproject():
    command = [sys.executable, str(ROOT / ".ci" / "requirements.py"), "run", "lint"]
    known = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert "ruff==" in hooks
    for tool in re.findall(r"[\w-]+==[\w.]+|[\w-]+>=[\w.]+", hooks):
        assert tool in known


def test_no_requirement_is_a_name_that_is_on_no_index():
    """Anybody could register the name of the book; the Makefile installs it from its folder."""
    book = (ROOT / "book" / "pyproject.toml").read_text(encoding="utf-8")
    name = re.search(r'^name = "(\w+)"$', book, re.MULTILINE)[1]
    product = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"{name}"' not in product
    assert "--editable book" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_all_files_name_the_same_version():
    lines = {
        "pyproject.toml": r'^number = "(.+)"$',
        "book/pyproject.toml": r'^version = "(.+)"$',
        "CMakeLists.txt": r"^project\(adokernels VERSION (\S+) ",
    }
    found = [
        re.search(line, (ROOT / name).read_text(encoding="utf-8"), re.M)[1]
        for name, line in lines.items()
    ]
    assert found[0] == found[1]
    assert {number.removesuffix(".dev0") for number in found} == {found[2]}


def test_the_installed_version_belongs_to_this_tree():
    number = re.search(r'^number = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)[1]
    assert ado.__version__.partition("+")[0] == number
    assert ".dev" not in number or re.fullmatch(
        r"(g[0-9a-f]+(\.dirty)?)?", ado.__version__.partition("+")[2]
    )
