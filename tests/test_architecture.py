"""The structure of the Python package: layers without cycles, one point of access to the core."""

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


def imports_of(path):
    """Modules of the package that a file imports, also inside functions and for type checking."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("adokernels._core"):
                continue  # the extension module imports nothing
            # The name of a module, or of an object in a module.
            known = [n for n in (name, name.rpartition(".")[0]) if n in MODULES]
            yield from known[:1]


def package_of(module):
    """The package or the top-level module that contains a module."""
    return module.split(".")[1] if "." in module else module


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


#: Packages and top-level modules. Each imports only earlier ones, also for type checking.
#: names.py has the names of public objects, and of objects that methods find in later packages.
ORDER = (
    *("names", "text", "process", "code_text", "storage", "cache", "toolkit", "pictures"),
    "records",
    *("machine_code", "fat_binary", "model"),
    *("measuring", "large", "distributed"),
    "diagnosis",  # explain
    *("tables", "patterns", "charts", "report"),  # show
    *("tour", "cli"),
    "adokernels",
)


def test_modules_import_each_other_without_cycles():
    graph = {name: set(imports_of(path)) - {name} for name, path in MODULES.items()}
    assert len(graph) > 30
    assert any(graph.values())
    assert cycle_in(graph) is None


def test_packages_import_earlier_packages_only():
    assert {package_of(name) for name in MODULES} == set(ORDER)
    found = {
        (package_of(name), package_of(other))
        for name, path in MODULES.items()
        for other in imports_of(path)
        if other != "adokernels"  # the names of the package, and the core
    }
    upward = {(one, other) for one, other in found if ORDER.index(other) > ORDER.index(one)}
    assert not upward


def test_problem_is_the_name_of_one_class():
    pattern = re.compile(r"^class (\w*Problem\w*)", re.MULTILINE)
    found = [n for path in FILES for n in pattern.findall(path.read_text(encoding="utf-8"))]
    assert set(found) <= {"Problem", "GppOperands"}


def test_objects_of_later_packages_are_found_by_name_in_one_module():
    """Methods of earlier packages find them in names.py, which imports nothing but the core."""
    assert not set(imports_of(PACKAGE / "names.py"))
    for path in FILES:
        place = ORDER.index(package_of(module_of(path)))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
            if name in MODULES and name != "adokernels" and path.name != "names.py":
                assert ORDER.index(package_of(name)) <= place, f"{path}: {name}"


def test_the_product_does_not_need_the_book():
    for path in FILES:
        assert "adobook" not in path.read_text(encoding="utf-8"), path


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
    folders = [root / name for name in (".ci", "book", "tests", "benchmarks")]
    scripts = [path for folder in folders for path in folder.rglob("*.py")]
    for path in [*FILES, *scripts]:
        if path.is_relative_to(PACKAGE / "model"):
            continue
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"[\w)]\._core\.(?!_)", text), path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
