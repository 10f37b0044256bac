"""The structure of the Python package: no import cycles, one point of access to the C++ core."""

import ast
import re
from pathlib import Path

import pytest

import adokernels as ado

PACKAGE = Path(ado.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(path):
    parts = ("adokernels", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imports_of(path, *, types=False):
    """Names that a file imports, also inside functions; those only for type checking if `types`."""

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not types:
            children = node.orelse
        else:
            children = ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        for child in children:
            yield from visit(child)

    for name in visit(ast.parse(path.read_text(encoding="utf-8"))):
        if name.startswith("adokernels._core"):
            continue  # the extension module imports nothing
        # The name of a module, or of an object in a module.
        known = [n for n in (name, name.rpartition(".")[0]) if n in MODULES]
        yield from known[:1]


def cycle_in(graph):
    """A path of the graph that returns to its start, if there is one."""
    done = set()

    def search(node, path):
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        for other in sorted(graph[node]):
            if found := search(other, [*path, node]):
                return found
        done.add(node)
        return None

    return next((found for node in graph if (found := search(node, []))), None)


def test_modules_import_each_other_without_cycles():
    graph = {name: set(imports_of(path)) - {name} for name, path in MODULES.items()}
    assert len(graph) > 30
    assert any(graph.values())
    assert cycle_in(graph) is None


def test_the_model_has_no_cycles_of_types():
    model = {name for name in MODULES if name.startswith("adokernels.model")}
    graph = {n: (set(imports_of(MODULES[n], types=True)) & model) - {n} for n in model}
    assert cycle_in(graph) is None


def test_problem_is_the_name_of_one_class():
    """Besides it, there are a named tuple of operands and the record of a problem."""
    pattern = re.compile(r"^class (\w*Problem\w*)", re.MULTILINE)
    found = [n for path in FILES for n in pattern.findall(path.read_text(encoding="utf-8"))]
    assert set(found) <= {"Problem", "GppProblem"}


def test_packages_import_each_other_without_cycles():
    def package(module):
        return module.split(".")[1] if "." in module else module

    graph = {package(name): set() for name in MODULES}
    for name, path in MODULES.items():
        others = {package(other) for other in imports_of(path)}
        graph[package(name)] |= others - {package(name)}
    assert cycle_in(graph) is None


def test_importing_a_module_changes_no_other_object():
    """Names are imported at their first use, so no object may depend on another import."""
    assignments = (ast.Assign, ast.AnnAssign, ast.AugAssign)
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            changed = any(isinstance(target, ast.Attribute) for target in targets)
            assert not (isinstance(node, assignments) and changed), f"{path}:{node.lineno}"


def test_cycles_are_found():
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": set()}) is None
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_only_ladders_know_the_core_of_a_routine():
    root = Path(__file__).parents[1]
    folders = [root / name for name in (".ci", "tests", "benchmarks")]
    scripts = [path for folder in folders for path in folder.rglob("*.py")]
    for path in [*FILES, *scripts]:
        if path.is_relative_to(PACKAGE / "model"):
            continue
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"[\w)]\._core\.(?!_)", text), path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
