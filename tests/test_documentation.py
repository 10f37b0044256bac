"""The README and the pages of docs: links, and facts that other files also state."""

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
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


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


def test_the_citation_names_the_last_release():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version = re.search(r"^version: (.*)$", citation, re.M)[1]
    date = re.search(r'^date-released: "(.*)"$', citation, re.M)[1]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\S+) \((.*)\)$", changelog, re.M)
    assert next(s for s in sections if s[1] != "unreleased") == (version, date)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    number = re.search(r'^number = "(.+)"$', project, re.M)[1]
    assert sections[0][0] == number.removesuffix(".dev0")
    assert (sections[0][1] == "unreleased") == number.endswith(".dev0")
