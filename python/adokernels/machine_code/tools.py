"""The disassemblers of the CUDA toolkit."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from adokernels import _core, toolkit
from adokernels.machine_code.cubin import CubinKernel

if TYPE_CHECKING:
    from collections.abc import Sequence

_REMEDY = "install a CUDA toolkit, or pip install 'adokernels[kernels]'"
#: The message of cuobjdump for a file without code for GPUs.
_NO_CODE = "does not contain device code"
_CUBIN = re.compile(r"(?P<source>[^\s/]+)\.(?P<arch>sm_\d+[af]?)\.cubin")


def tool(name: str) -> str:
    """The path of a disassembler.

    Raises
    ------
    Unavailable
        If it is not installed.
    """
    if found := toolkit.program(name):
        return found
    raise _core.Unavailable(f"machine code cannot be shown: {name} is missing; remedy: {_REMEDY}")


def architectures(module: Path) -> list[str]:
    """The architectures for which an extension module contains machine code, in order.

    Raises
    ------
    Unavailable
        If the tool is missing or fails.
    """
    listed = _run([tool("cuobjdump"), "-lelf", str(module)], accepted=_NO_CODE)
    return list(dict.fromkeys(match["arch"] for match in _CUBIN.finditer(listed)))


def cubins_of(module: Path, arch: str) -> dict[str, bytes]:
    """The cubins of an extension module for one architecture, by the name of the source file.

    Raises
    ------
    Unavailable
        If the tool is missing or fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        _run([tool("cuobjdump"), "-xelf", f".{arch}.cubin", str(module.resolve())], folder)
        files = sorted(Path(folder).iterdir())
        named = [(match, file) for file in files if (match := _CUBIN.fullmatch(file.name))]
        return {match["source"]: file.read_bytes() for match, file in named}


def disassembly(cubin: bytes, kernel: CubinKernel) -> str:
    """The listing of a kernel in a cubin, with source lines if the cubin has them.

    Raises
    ------
    Unavailable
        If the tool is missing or fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [tool("nvdisasm"), "-c", "-g", "-fun", str(kernel.index), str(file)]
        return _run(command)


def _run(command: Sequence[str], folder: str | None = None, accepted: str = "") -> str:
    """Run a tool and return its output; empty if it fails with the message `accepted`."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise _core.Unavailable(
            f"machine code cannot be shown: {command[0]} cannot be run: {error}; remedy: {_REMEDY}"
        ) from error
    if done.returncode and accepted and accepted in done.stdout + done.stderr:
        return ""
    if done.returncode:
        reason = " ".join((done.stderr or done.stdout).split())[-500:]
        raise _core.Unavailable(
            f"machine code cannot be shown: {command[0]} ended with status {done.returncode}: "
            f"{reason}; remedy: use tools that are at least as new as the compiler: {_REMEDY}"
        )
    return done.stdout
