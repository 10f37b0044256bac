"""Python for 64-bit Arm on Debian with another processor: headers, and an emulator that runs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The Debian releases whose Python has one of the versions of the wheels.
RELEASES = {"3.11": "bookworm", "3.13": "trixie"}
#: Programs, and the packages that contain them.
PROGRAMS = {
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "mmdebstrap": "mmdebstrap",
    "qemu-aarch64-static": "qemu-user-static",
}
CONTENT = "base-files,libpython3-dev,libstdc++6,python3"


class System:
    """The unpacked packages of Python. `folder` keeps them for later runs."""

    MACHINE = "aarch64"

    def __init__(self, version: str, folder: Path) -> None:
        missing = [package for name, package in PROGRAMS.items() if not shutil.which(name)]
        if missing:
            raise SystemExit(f"64-bit Arm needs the Debian packages {' '.join(missing)}")
        self.version = version
        self.root = folder / f"{self.MACHINE}-{version}"
        self.headers = self.root / "usr" / "include" / f"python{version}"
        # Debian's pyconfig.h includes aarch64-linux-gnu/python3.11/pyconfig.h.
        link = self.headers / "aarch64-linux-gnu"
        if not link.is_symlink():
            shutil.rmtree(self.root, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            options = ["--quiet", "--variant=extract", "--arch=arm64", f"--include={CONTENT}"]
            subprocess.run(["mmdebstrap", *options, RELEASES[version], self.root], check=True)
            link.symlink_to("../aarch64-linux-gnu")

    def cmake_arguments(self) -> list[str]:
        """Arguments that cross-compile the extension module."""
        suffix = f".cpython-{self.version.replace('.', '')}-aarch64-linux-gnu.so"
        return [
            f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'aarch64.cmake'}",
            f"-DPython_INCLUDE_DIR={self.headers}",
            f"-DPYTHON_MODULE_EXTENSION={suffix}",
            # Otherwise, pybind11 replaces the extension if the interpreter has changed.
            "-UPYBIND11_PYTHON_EXECUTABLE_LAST",
        ]

    def pip_options(self, folder: Path) -> list[str]:
        """Options with which pip installs packages for this system in a folder."""
        # glibc 2.36
        platforms = [f"--platform=manylinux_2_{minor}_{self.MACHINE}" for minor in range(17, 37)]
        options = ["--only-binary=:all:", f"--python-version={self.version}", f"--target={folder}"]
        return [*options, *platforms]

    def python(self) -> list[str | Path]:
        """The command that runs Python in the emulator."""
        program = self.root / "usr" / "bin" / f"python{self.version}"
        # QEMU 7.2 computes wrong matrix products with the SVE kernels of OpenBLAS in NumPy 2.5.
        emulator = [shutil.which("qemu-aarch64-static") or "", "-cpu", "max,sve=off"]
        return [*emulator, "-L", self.root, program]
