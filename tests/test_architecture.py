"""The structure of the Python package: layers without cycles; mistakes for its tests."""

import ast
import json
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import adokernels as ado

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = Path(ado.__file__).parent
PLANTED = Path(__file__).parent / "planted"


def module_of(path):
    parts = ("adokernels", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


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


#: Packages and top-level modules. Each imports only earlier ones, also for type checking.
ORDER = (
    *("names", "later", "text", "process", "code_text", "storage", "toolkit", "pictures"),
    *("records", "cache"),
    *("ptx", "fat_binary", "machine_code", "kernels", "model"),
    "isolation",
    *("measuring", "large", "distributed", "whatif", "puzzles"),
    "diagnosis",  # explain
    *("tables", "patterns", "charts", "report"),  # show
    *("tour", "cli", "__main__"),
    "wiring",  # gives methods of earlier packages the functions in later.py
    "adokernels",
)


def test_modules_import_each_other_without_cycles():
    graph = {name: set(imports_of(path)) - {name} for name, path in MODULES.items()}
    assert any(graph.values())
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_packages_import_earlier_packages_only():
    assert {package_of(name) for name in MODULES} == set(ORDER)
    found = {
        (package_of(name), package_of(other))
        for name, path in MODULES.items()
        for other in imports_of(path)
        if other != "adokernels"  # the names of the package, and the core
    }
    assert not {(a, b) for a, b in found if ORDER.index(b) > ORDER.index(a)}


def test_the_product_does_not_need_the_book():
    for path in MODULES.values():
        assert "adobook" not in path.read_text(encoding="utf-8"), path


def test_planted_mistakes_belong_to_the_code():
    """Each mistake changes one place of a file; caught.json has the test that noticed it."""
    repository = Path(__file__).parents[1]
    mistakes = tomllib.loads((PLANTED / "mistakes.toml").read_text(encoding="utf-8"))["mistake"]
    for mistake in mistakes:
        text = (repository / mistake["file"]).read_text(encoding="utf-8")
        assert text.count(mistake["old"].strip("\n")) == 1, mistake["name"]
    caught = json.loads((PLANTED / "caught.json").read_text(encoding="utf-8"))
    assert {mistake["name"] for mistake in mistakes} >= caught.keys()
