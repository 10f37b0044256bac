"""The notebooks: executed without errors, with little visible code."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
#: Maximum number of visible lines of code, in cells without the tag "hide-input".
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


def only_prints(code):
    """Whether all statements are calls of say and table."""
    printing = ("say", "table", "course.say", "course.table", "display")
    return all(
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and ast.unparse(statement.value.func) in printing
        for statement in ast.parse(code).body
    )


@each_notebook
def test_cells_that_only_print_are_hidden(path):
    for cell in code_cells(path):
        if "hide-input" not in cell["metadata"].get("tags", []):
            code = "".join(cell["source"])
            assert not only_prints(code), code


@each_notebook
def test_helpers_come_from_the_package(path):
    for cell in code_cells(path):
        for name in ("say", "table", "between", "step"):
            assert not any(line.startswith(f"def {name}(") for line in lines_of(cell))
