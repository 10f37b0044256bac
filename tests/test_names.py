"""Import of the package's names at their first use: loaded modules, and names that exist."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import adokernels as ado
from adokernels.names import PUBLIC, RECORDS


def loaded_by(statements):
    """The modules that statements load in a fresh process with NumPy, except Python's own."""
    program = (
        f"import sys, numpy; before = set(sys.modules); {statements};"
        "new = set(sys.modules) - before;"
        "print(*(m for m in new if m.partition('.')[0] not in sys.stdlib_module_names))"
    )
    return set(subprocess.check_output([sys.executable, "-c", program], text=True).split())


def packages_loaded_by(statements):
    return {module.partition(".")[0] for module in loaded_by(statements)}


def test_import_loads_the_core_and_nothing_else():
    own = ("_core", "later", "names", "wiring")
    expected = {"adokernels", *(f"adokernels.{name}" for name in own)}
    assert loaded_by("import adokernels") == expected


def test_matplotlib_and_pillow_are_not_loaded_without_a_chart_or_picture():
    draws = ("adokernels.charts.", "adokernels.report.", "adokernels.pictures")
    names = [name for name, module in PUBLIC.items() if not module.startswith(draws)]
    assert {"sweep", "compare", "bank_conflicts", "transpose"} <= set(names)
    packages = packages_loaded_by(
        f"from adokernels import {', '.join(names)}; from adokernels.records import *"
    )
    assert "rich" in packages
    assert not packages & {"matplotlib", "PIL", "pandas", "IPython", "cuda"}


def test_reading_a_record_loads_no_library():
    path = Path(__file__).parent.parent / "notebooks" / "data" / "transpose-float32-8192.json.xz"
    packages = packages_loaded_by(f"from adokernels import load; load({str(path)!r})")
    assert packages <= {"adokernels", "numpy"}


def test_settings_are_read_and_assigned():
    before = ado.settings.threads
    try:
        ado.settings.threads = 1
        assert (ado.settings.threads, "threads=1" in repr(ado.settings)) == (1, True)
        with pytest.raises(ValueError, match="at least 1 and at most 2147483647, got 0"):
            ado.settings.threads = 0
    finally:
        ado.settings.threads = before
    with pytest.raises(AttributeError, match="device"):
        ado.settings.devise = "cpu"


def test_every_module_and_name_exists():
    for package, names in ((ado, PUBLIC), (ado.records, RECORDS)):
        for name, module in names.items():
            assert getattr(importlib.import_module(module), name) is getattr(package, name), name


def test_no_name_is_that_of_a_submodule():
    """Importing the submodule would replace the object."""
    assert not set(PUBLIC) & {module.name for module in pkgutil.iter_modules(ado.__path__)}


def test_dir_and_star_import_contain_all_names():
    assert dir(ado) == sorted(ado.__all__) == sorted(PUBLIC)
    assert dir(ado.records) == sorted(RECORDS)
    namespace = {}
    exec("from adokernels import *", namespace)
    assert set(ado.__all__) <= set(namespace)


def test_a_routine_is_checked_and_extended_without_other_imports():
    transpose = "import adokernels as ado; a = numpy.ones((2, 3)); r = ado.transpose;"
    assert "matplotlib" not in packages_loaded_by(
        transpose + "ado.sweep(r, a, device='cpu', seconds=0.01, ceilings=False, progress=False)"
    )
    packages_loaded_by(transpose + "r.problem(a, device='cpu').prepare('simd').run()")
    packages_loaded_by(transpose + "r.with_variants(numpy.transpose)")


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(AttributeError, match="sweep"):
        ado.swep  # noqa: B018
    assert not hasattr(ado, "nonsense")
