"""Disassembly of the kernels of an extension module or of a cubin."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from adokernels import _core, toolkit
from adokernels.machine_code.cubin import CubinKernel, kernels_in
from adokernels.records.forms import Block
from adokernels.records.instructions import cleaned
from adokernels.records.sass import KernelSass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from adokernels.records.kernels import Kernel

_REMEDY = "install a CUDA toolkit, or pip install 'adokernels[kernels]'"
#: The message of cuobjdump for a file without code for GPUs.
_NO_CODE = "does not contain device code"
_CUBIN = re.compile(r"(?P<source>[^\s/]+)\.(?P<arch>sm_\d+[af]?)\.cubin")


class LaunchedKernel(NamedTuple):
    """A kernel to disassemble, as a variant launches it.

    Attributes
    ----------
    name
        The readable name with template arguments.
    block
        The block shape.
    most_registers
        The largest number of registers per thread that does not reduce the resident blocks; None if
        it is unknown.
    """

    name: str
    block: Block
    most_registers: int | None


def launched_kernels(kernels: Iterable[Kernel]) -> list[LaunchedKernel]:
    """The kernels to disassemble: each pair of kernel and block shape once, in order."""
    found = (LaunchedKernel(k.name, k.block, k.most_registers) for k in kernels)
    return list(dict.fromkeys(found))


def sass_of_module(
    module: Path,
    launched: Iterable[LaunchedKernel],
    *,
    arch: str | None,
    source: str,
    path_of: Callable[[str], str],
) -> tuple[str, tuple[KernelSass, ...]]:
    """Disassemble kernels of an extension module.

    Parameters
    ----------
    module
        The file of the extension module.
    launched
        The kernels.
    arch
        The architecture; None for that of the current GPU.
    source
        The source file, without suffix, that is searched first: files can have kernels of equal
        names.
    path_of
        Returns the name of a source file for the recorded path.

    Returns
    -------
    tuple
        The architecture, and the machine code of the kernels.

    Raises
    ------
    ValueError
        If the module has no machine code for the architecture, or does not contain a kernel.
    Unavailable
        If the module has no machine code at all, or a tool is missing.
    """
    known = architectures(module)
    if not known:
        raise _core.Unavailable(
            "machine code cannot be shown: the CUDA kernels are not built; remedy: install "
            "adokernels where nvcc is on the PATH"
        )
    if arch is None:
        arch = _arch_on_device(known)
    elif arch not in known:
        raise ValueError(f"arch must be one of {', '.join(known)}, got {arch!r}")
    found = kernels_of_module(module, arch, source)
    kernels = []
    for launch in launched:
        if launch.name not in found:
            raise ValueError(
                f"kernels must be kernels of this build, not of other libraries, got {launch.name}"
            )
        cubin, kernel = found[launch.name]
        kernels.append(sass_of(cubin, kernel, launch, path_of))
    return arch, tuple(kernels)


def sass_of(
    cubin: bytes, kernel: CubinKernel, launch: LaunchedKernel, path_of: Callable[[str], str]
) -> KernelSass:
    """Disassemble a kernel of a cubin."""
    return KernelSass(
        name=launch.name,
        block=launch.block,
        registers=kernel.registers,
        register_limit=kernel.register_limit,
        most_registers=launch.most_registers,
        listing=cleaned(listing_of(cubin, kernel), path_of),
    )


def kernels_of_module(
    module: Path, arch: str, source: str
) -> Mapping[str, tuple[bytes, CubinKernel]]:
    """The kernels of an extension module for one architecture, by readable name, with their cubins.

    See :func:`sass_of_module` for `source`.
    """
    found = dict[str, tuple[bytes, CubinKernel]]()
    cubins = cubins_of(module, arch)
    for name in sorted(cubins, key=lambda name: name != source):
        for kernel in kernels_in(cubins[name]):
            found.setdefault(_core.kernel_name(kernel.symbol), (cubins[name], kernel))
    return found


def _arch_on_device(known: Sequence[str]) -> str:
    """The architecture whose code the current GPU runs; the first one without such code."""
    if _core.why_no_cuda():
        return known[0]
    compute = int(_core.cuda_properties()["compute"])
    # Code runs on GPUs of the same major version that are not older.
    usable = {n: arch for arch in known if (n := int(arch[3:].rstrip("af"))) <= compute}
    same = [n for n in usable if n // 10 == compute // 10]
    return usable[max(same)] if same else known[0]


def tool(name: str) -> str:
    """The path of a disassembler; Unavailable is raised if it is not installed."""
    if found := toolkit.program(name):
        return found
    raise _core.Unavailable(f"machine code cannot be shown: {name} is missing; remedy: {_REMEDY}")


def architectures(module: Path) -> list[str]:
    """The architectures for which an extension module contains machine code, in order."""
    listed = _run([tool("cuobjdump"), "-lelf", str(module)], accepted=_NO_CODE)
    return list(dict.fromkeys(match["arch"] for match in _CUBIN.finditer(listed)))


def cubins_of(module: Path, arch: str) -> dict[str, bytes]:
    """The cubins of an extension module for one architecture, by the name of the source file."""
    with tempfile.TemporaryDirectory() as folder:
        _run([tool("cuobjdump"), "-xelf", f".{arch}.cubin", str(module.resolve())], folder)
        files = sorted(Path(folder).iterdir())
        named = [(match, file) for file in files if (match := _CUBIN.fullmatch(file.name))]
        return {match["source"]: file.read_bytes() for match, file in named}


def listing_of(cubin: bytes, kernel: CubinKernel) -> str:
    """The listing of a kernel in a cubin, with source lines if the cubin has them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [tool("nvdisasm"), "-c", "-g", "-fun", str(kernel.index), str(file)]
        return _run(command)


def _run(command: Sequence[str], folder: str | None = None, accepted: str = "") -> str:
    """Run a tool and return its output; empty if it fails with the message `accepted`.

    Raises
    ------
    Unavailable
        If the tool cannot be run, or fails with another message.
    """
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
