"""The README and the pages of docs: links, examples, and facts that other files also state."""

import ast
import doctest
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

import adokernels as ado
from adokernels import cli

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
#: Maximum number of lines of the README, so that a new user finds the essentials.
MOST_LINES = 170


def name_of(path):
    return str(path.relative_to(ROOT))


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


@cache
def anchors_of(page):
    """The anchors of headings, as repository hosts and MyST derive them."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        headings = re.findall(r"^#+ +(.*?) *$", without_code(text), re.M)
        return {heading.replace(" ", "-") for heading in headings}
    seen, found = Counter(), set()
    for heading in re.findall(r"^#+ +(.*?) *$", without_code(page.read_text("utf-8")), re.M):
        text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def broken_links(page):
    """Relative links of a page whose file or anchor does not exist."""
    text = re.sub(r"`[^`\n]*`", "", without_code(page.read_text(encoding="utf-8")))
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    targets += re.findall(r"^\[[^\]]+\]: +(\S+)", text, re.M)
    broken = []
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        path = (page.parent / file).resolve() if file else page
        if not path.exists() or (anchor and anchor not in anchors_of(path)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page):
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path):
    other = tmp_path / "other.md"
    other.write_text("# A `title`, twice\n```\n# no heading\n```\n## A title twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#a-title-twice) [b](other.md#a-title-twice-1) ![c](other.md) `[d](e)`\n"
        "[f](other.md#no-heading) [g](missing.md) [h](#here) [i][ref] <https://example.org>\n"
        "\n[ref]: missing.png\n# There\n"
    )
    expected = ["other.md#no-heading", "missing.md", "#here", "missing.png"]
    assert broken_links(page) == expected


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_the_examples_of_the_readme_are_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pattern = r"<!-- example -->\n```python\n(.*?)```\n<!-- end example -->"
    examples = re.findall(pattern, README.read_text(encoding="utf-8"), re.S)
    assert len(examples) == 2
    names = {}
    for text in examples:
        test = doctest.DocTestParser().get_doctest(text, names, "README.md", "README.md", 0)
        assert len(test.examples) >= 4
        assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
        names = test.globs
    assert (tmp_path / "edges.json").exists()


@pytest.mark.parametrize("page", [README, *GUIDE], ids=name_of)
def test_python_code_uses_existing_names(page):
    text = page.read_text(encoding="utf-8")
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M):
        if not code.startswith(">>>"):  # these are run
            ast.parse(code)
    for name in re.findall(r"\bado\.([A-Za-z_]+)", re.sub(r"```c.*?```", "", text, flags=re.S)):
        if name != "ROUTINE":
            assert hasattr(ado, name), name


def test_the_guide_lists_every_command(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    commands = re.findall(r"^    ([a-z]+)  ", capsys.readouterr().out, re.M)
    assert "bench" in commands
    text = (ROOT / "docs" / "guide" / "command_line.md").read_text(encoding="utf-8")
    assert set(commands) <= set(re.findall(r"`adokernels ([a-z]+)", text))


def test_the_guide_lists_every_routine():
    text = (ROOT / "docs" / "guide" / "ladders.md").read_text(encoding="utf-8")
    for name, routine in ado.routines.items():
        options = "".join(f", {option}=" for option in routine.options)
        operands = ", ".join(p.name for p in routine.parameters if p.role == "input")
        assert f"`{name}({operands}{options})`" in text


def test_versions_agree():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.*)"$', project, re.M)[1]
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == version
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    date = re.search(r'^date-released: "(.*)"$', citation, re.M)[1]
    assert f"\n## {version} ({date})\n" in changelog
