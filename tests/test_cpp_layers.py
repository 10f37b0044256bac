"""The layers of the C++ code: which folder may include which."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: The folders whose headers the files of a folder may include, besides their own.
LAYERS = {
    "src/core": (),
    "src/routines": ("core",),
    "src/cpu": ("core", "routines", "cpu"),
    "cuda": ("core", "routines", "common", "image", "strided"),
    "src/device": ("core", "common", "emulator"),
    "src/emulator": ("core",),
    "src/runtime": ("core", "routines", "device"),
    "src/bindings": ("core", "device", "emulator", "runtime"),
}
INCLUDE = re.compile(r'^#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
FILES = sorted(
    path
    for folder in ("src", "cuda")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".hpp", ".cpp", ".cuh", ".cu")
)
if not FILES:
    pytest.skip("needs the repository", allow_module_level=True)


def layer_of(path):
    name = str(path.relative_to(ROOT))
    return next((folder for folder in LAYERS if name.startswith(folder + "/")), "")


def includes_of(path):
    return [own or system for own, system in INCLUDE.findall(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("folder", LAYERS)
def test_files_include_only_lower_layers(folder):
    files = [path for path in FILES if layer_of(path) == folder]
    assert files
    for path in files:
        own = path.relative_to(ROOT / folder).parts[0] if folder == "cuda" else Path(folder).name
        for name in includes_of(path):
            first = name.split("/")[0]
            ours = (ROOT / "src" / first).is_dir() or (ROOT / "cuda" / first).is_dir()
            if "/" in name and ours:
                assert first in (*LAYERS[folder], own), f"{path} includes {name}"


def test_only_bindings_include_python():
    for path in FILES:
        python = [n for n in includes_of(path) if n.startswith(("pybind11/", "Python.h"))]
        assert not python or layer_of(path) == "src/bindings", f"{path} includes {python}"


def test_only_kernels_and_the_device_runtime_include_cuda():
    for path in FILES:
        names = [n for n in includes_of(path) if re.match(r"cu(da|pti|blas)[_./]|cuda\.h|cub/", n)]
        assert not names or layer_of(path) in ("cuda", "src/device"), f"{path} includes {names}"


def test_nvcc_compiles_only_files_of_the_device_runtime_with_kernels():
    """g++ compiles the same host code in less time."""
    for path in FILES:
        if layer_of(path) == "src/device" and path.suffix in (".cpp", ".cu"):
            kernels = "__global__" in path.read_text(encoding="utf-8")
            assert kernels == (path.suffix == ".cu"), path
