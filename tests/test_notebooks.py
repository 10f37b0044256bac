"""The notebooks: rendered from their sources, short, and executed without errors."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

from adobook import render

SOURCES = render.sources()
NOTEBOOKS = sorted(render.NOTEBOOKS.glob("*.ipynb"))
#: The largest number of words of text and of output, code cells, and lines per cell.
MOST_WORDS, MOST_CELLS, MOST_LINES = 2500, 30, 8

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_source = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def cells_of(path, kind):
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == kind]


def words(text):
    """The number of words, without those in code blocks."""
    return len(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split())


def shown(output):
    """The text of an output; a chart has none."""
    if "data" not in output:
        return output.get("text", "")
    data = output.data
    return "" if "image/png" in data else data.get("text/markdown", data.get("text/plain", ""))


@each_notebook
def test_all_cells_are_executed_without_errors(path):
    for cell in cells_of(path, "code"):
        assert cell.execution_count
        assert not [out for out in cell.outputs if out.output_type == "error"], cell.source


def differs(template, text):
    """Whether a text cannot be the template with values in place of its expressions."""
    parts = re.split(r"\{\{.*?\}\}", template, flags=re.DOTALL)
    return not re.fullmatch(".+?".join(map(re.escape, parts)), text, re.DOTALL)


@each_source
def test_a_notebook_has_the_text_and_the_code_of_its_source(source):
    stored = nbformat.read(render.path_of(source), as_version=4).cells
    template = render.read(source).cells
    assert [c.cell_type for c in stored] == [c.cell_type for c in template]
    for cell, of_source in zip(stored, template, strict=True):
        compared = differs if cell.cell_type == "markdown" else str.__ne__
        assert not compared(of_source.source, cell.source), "make notebooks"


def test_the_comparison_of_texts_fails():
    assert not differs("It takes {{ x | unit('s') }}.", "It takes 3 ms.")
    for wrong in ("It takes .", "It takes 3 ms", "it takes 3 ms.", "It takes 3 ms. Twice."):
        assert differs("It takes {{ x }} ms.", wrong)


def test_expressions_of_a_text_are_filled(monkeypatch, tmp_path):
    source = tmp_path / "x.md"
    code = "```python\nx = 0.00321\n```"
    source.write_text(f"{{{{ 1 + 1 }}}}\n\n{code}\n\n{{{{ x | unit('s') }}}} \\ 'a' {{{{ x }}}}\n")
    monkeypatch.setattr(render, "NOTEBOOKS", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(render.__file__).parents[1]))  # of the kernel
    assert [c.source for c in render.render(source).cells] == [
        "2",
        "x = 0.00321",
        "3.21 ms \\ 'a' 0.00321",
    ]


@each_source
def test_a_notebook_is_short(source):
    path = render.path_of(source)
    code = cells_of(path, "code")
    assert sum(words(c.source) for c in cells_of(path, "markdown")) <= MOST_WORDS
    assert sum(words(shown(out)) for c in code for out in c.outputs) <= MOST_WORDS
    assert len(code) <= MOST_CELLS


@each_source
def test_cells_are_short_and_visible_and_print_no_sentences(source):
    for cell in cells_of(render.path_of(source), "code"):
        assert len(cell.source.splitlines()) <= MOST_LINES, cell.source
        assert not cell.metadata
        nodes = list(ast.walk(ast.parse(cell.source)))
        assert not any(isinstance(node, ast.JoinedStr) for node in nodes), cell.source
