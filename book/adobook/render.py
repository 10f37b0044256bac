"""Renders the sources of the notebooks in notebooks/text to notebooks/*.ipynb.

A source is Markdown, as jupytext reads it: Python blocks are cells. Text can contain expressions in
double braces. Jinja evaluates them in the namespace of the notebook at that place.
``python -m adobook.render [NAME...]`` writes notebooks, and with ``--check`` compares their text.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jinja2
import jupytext
import nbformat
from nbclient import NotebookClient

from adobook.pages.stored import ROOT
from adokernels.text import number, percent, quantity

NOTEBOOKS = ROOT / "notebooks"
#: A call in a cell that replaces text with expressions while the notebook runs.
_FILL = "__import__('adobook.render').render.fill({!r}, globals())"
_ENVIRONMENT = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
_ENVIRONMENT.filters.update(number=number, percent=percent, unit=quantity)


class Filled:
    """Text with values in place of expressions; shown as Markdown."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_markdown_(self) -> str:
        return self.text


def fill(text: str, names: dict[str, Any]) -> Filled:
    """Replace the expressions in double braces by their values.

    The filters ``number``, ``percent`` and ``unit("s")`` write a value with three digits, or the
    number of digits of their last argument. ``jinja2.UndefinedError``: a name does not exist.
    """
    return Filled(_ENVIRONMENT.from_string(text).render(names))


def read(source: Path) -> nbformat.NotebookNode:
    """The notebook of a source, with expressions in its text and without outputs."""
    notebook = jupytext.read(source, fmt="md")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata = nbformat.from_dict({"kernelspec": kernel})
    for number_of_cell, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number_of_cell}", nbformat.from_dict({})
    return notebook


def render(source: Path) -> nbformat.NotebookNode:
    """Execute a notebook, and fill the expressions in its text."""
    notebook = read(source)
    filled = [c for c in notebook.cells if c.cell_type == "markdown" and "{{" in c.source]
    for cell in filled:
        cell.update(cell_type="code", source=_FILL.format(cell.source), outputs=[])
        cell.execution_count = None
    options = {"timeout": 600, "record_timing": False, "kernel_name": "python3"}
    NotebookClient(notebook, resources={"metadata": {"path": NOTEBOOKS}}, **options).execute()
    for cell in filled:
        (output,) = cell.pop("outputs")
        del cell["execution_count"]
        cell.update(cell_type="markdown", source=output.data["text/markdown"])
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, start=1):
        cell.execution_count = count
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
    return notebook


def path_of(source: Path) -> Path:
    """The notebook to which a source is rendered."""
    return NOTEBOOKS / f"{source.stem}.ipynb"


def sources() -> list[Path]:
    """The sources of all notebooks."""
    return sorted((NOTEBOOKS / "text").glob("*.md"))


def main(arguments: list[str]) -> int:
    """Write notebooks, or compare the text and code of stored notebooks with ``--check``."""
    check, names = "--check" in arguments, [name for name in arguments if name != "--check"]
    stale = 0
    for source in (s for s in sources() if not names or s.stem in names):
        notebook, path = render(source), path_of(source)
        if not check:
            nbformat.write(notebook, path)
            print(f"wrote {path.relative_to(ROOT)}")
            continue
        stored = nbformat.read(path, as_version=4)
        if [c.source for c in stored.cells] != [c.source for c in notebook.cells]:
            print(f"out of date: {path.relative_to(ROOT)} (make notebooks)")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
