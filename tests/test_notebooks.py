"""The notebooks: executed without errors, with little visible code."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
#: Maximum number of lines of code that a reader sees: those of cells without the tag "hide-input".
MOST_LINES = 250

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def lines_of(cell):
    return "".join(cell["source"]).splitlines()


@each_notebook
def test_little_code_is_visible(path):
    visible = [c for c in code_cells(path) if "hide-input" not in c["metadata"].get("tags", [])]
    assert sum(len(lines_of(cell)) for cell in visible) <= MOST_LINES


@each_notebook
def test_all_cells_are_executed_without_errors(path):
    for cell in code_cells(path):
        assert cell["execution_count"] or not lines_of(cell)
        errors = [out for out in cell["outputs"] if out["output_type"] == "error"]
        assert not errors, lines_of(cell)


@each_notebook
def test_cells_that_only_print_are_hidden(path):
    """Text that is computed belongs to the reader, the code that formats it does not."""
    for cell in code_cells(path):
        if "hide-input" in cell["metadata"].get("tags", []):
            continue
        for line in lines_of(cell):
            assert not line.startswith(("say(", "course.say(", "table(", "course.table(")), line


@each_notebook
def test_helpers_come_from_the_package(path):
    for cell in code_cells(path):
        for name in ("say", "table", "between", "step"):
            assert not any(line.startswith(f"def {name}(") for line in lines_of(cell))
