"""Machine code (SASS) of the kernels of an extension module or of a cubin.

A cubin is an ELF file with the machine code of one architecture.
"""

from __future__ import annotations

import math
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from adokernels import _core, toolkit
from adokernels.fat_binary import architectures_in, cubins_in
from adokernels.records.forms import Block
from adokernels.records.instructions import cleaned
from adokernels.records.kernels import Kernel
from adokernels.records.sass import KernelSass

_MAGIC = b"\x7fELF"
_SYMBOL_TABLE, _FUNCTION, _ENTRY = 2, 2, 0x10
#: Attributes of the sections ``.nv.info`` and ``.nv.info.KERNEL``.
_REGISTER_COUNT, _REGISTER_LIMIT, _MOST_THREADS, _PARAMETER = 0x2F, 0x1B, 0x05, 0x17
#: Format of an attribute that is followed by data; the other formats have at most two bytes.
_WITH_DATA = 4


def sass_of_module(
    module: Path,
    launched: Iterable[Kernel],
    *,
    arch: str | None,
    source: str,
    path_of: Callable[[str], str],
) -> tuple[str, tuple[KernelSass, ...]]:
    """The architecture, and the machine code of launched kernels of an extension module.

    Each pair of kernel and block shape is shown once. The default of `arch` is the architecture of
    the current GPU. If several files have a kernel of this name, those in the folder `source` are
    searched first. `path_of` returns the name of a source file for the recorded path. ValueError is
    raised if the module lacks a kernel or code for `arch`, and Unavailable if it has no machine
    code at all, or a tool is missing.
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
    for name, block, most in dict.fromkeys((k.name, k.block, k.most_registers) for k in launched):
        if name not in found:
            raise ValueError(
                f"kernels must be kernels of this build, not of other libraries, got {name}"
            )
        kernels.append(sass_of(*found[name], name, block, most, path_of))
    return arch, tuple(kernels)


def sass_of(
    cubin: bytes,
    kernel: CubinKernel,
    name: str,
    block: Block,
    most_registers: int | None,
    path_of: Callable[[str], str],
) -> KernelSass:
    """Disassemble a kernel of a cubin, with source lines if the cubin has them."""
    listing = disassembled(cubin, "-g", "-fun", str(kernel.index))
    return KernelSass(
        name=name,
        block=block,
        registers=kernel.registers,
        register_limit=kernel.register_limit,
        most_registers=most_registers,
        listing=cleaned(listing, path_of),
    )


def disassembled(cubin: bytes, *options: str) -> str:
    """The listing of nvdisasm of a cubin."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [tool("nvdisasm"), "-c", *options, str(file)]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        except OSError as error:
            raise _unavailable(f"{command[0]} cannot be run: {error}") from error
        if done.returncode:
            reason = " ".join((done.stderr or done.stdout).split())[-500:]
            raise _unavailable(
                f"{command[0]} ended with status {done.returncode}: {reason}",
                "use tools that are at least as new as the compiler: ",
            )
        return done.stdout


def kernels_of_module(
    module: Path, arch: str, source: str
) -> Mapping[str, tuple[bytes, CubinKernel]]:
    """The kernels of an extension module for one architecture, by readable name, with their cubins.

    See :func:`sass_of_module` for `source`.
    """
    found = dict[str, tuple[bytes, CubinKernel]]()
    cubins = cubins_of(module, arch)
    for path in sorted(cubins, key=lambda path: f"/{source}/" not in path):
        for kernel in kernels_in(cubins[path]):
            found.setdefault(_core.kernel_name(kernel.symbol), (cubins[path], kernel))
    return found


def _arch_on_device(known: Sequence[str]) -> str:
    """The architecture whose code the current GPU runs, or the first one if it cannot run any."""
    if _core.why_no_cuda():
        return known[0]
    compute = int(_core.cuda_properties()["compute"])
    # Code runs on GPUs of the same major version that are not older.
    usable = {n: arch for arch in known if (n := int(arch.removeprefix("sm_"))) <= compute}
    same = [n for n in usable if n // 10 == compute // 10]
    return usable[max(same)] if same else known[0]


def _unavailable(reason: str, remedy: str = "") -> _core.Unavailable:
    toolkits = f"install a CUDA toolkit, or {toolkit.installation('kernels')}"
    return _core.Unavailable(f"machine code cannot be shown: {reason}; remedy: {remedy}{toolkits}")


def tool(name: str) -> str:
    """The path of a disassembler; Unavailable is raised if it is not installed."""
    if found := toolkit.program(name):
        return found
    raise _unavailable(f"{name} is missing")


def architectures(module: Path) -> list[str]:
    """The architectures for which an extension module contains machine code, in order."""
    return architectures_in(_fatbins_of(module))


def cubins_of(module: Path, arch: str) -> dict[str, bytes]:
    """The cubins of an extension module for one architecture, by the path of the source file."""
    return cubins_in(_fatbins_of(module), int(arch.removeprefix("sm_")))


def _fatbins_of(module: Path) -> memoryview:
    """The fat binaries of an extension module; empty if it has no CUDA kernels."""
    found = (s.content for s in _sections(module.read_bytes()) if s.name == ".nv_fatbin")
    return memoryview(next(found, b""))


def registers_in(fatbin: memoryview, compute: int = 90) -> dict[str, int]:
    """Registers per thread of each kernel of a fat binary, by mangled name; for the core.

    Without machine code for exactly this architecture, the result is empty.
    """
    cubins = cubins_in(fatbin, compute).values()
    return {kernel.symbol: kernel.registers for cubin in cubins for kernel in kernels_in(cubin)}


@dataclass(frozen=True)
class CubinKernel:
    """A kernel in a cubin."""

    symbol: str  # the mangled name
    index: int  # position in the symbol table; nvdisasm selects by it
    registers: int  # per thread
    register_limit: int  # from launch bounds, from options, or of the architecture
    most_threads: int  # per block, from launch bounds, or 1024
    parameter_bytes: tuple[int, ...] = ()


class _Section(NamedTuple):
    name: str
    kind: int
    link: int
    content: bytes


def kernels_in(cubin: bytes) -> list[CubinKernel]:
    """The kernels in a cubin, in the order of the symbol table; ValueError for other code."""
    try:
        return list(_kernels(_sections(cubin)))
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise ValueError(f"code must be a cubin, got {len(cubin)} bytes: {error}") from error


def _sections(cubin: bytes) -> list[_Section]:
    if not cubin.startswith(_MAGIC):
        raise ValueError("the ELF header is missing")
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<3H", cubin, 0x3A)
    heads = [struct.unpack_from("<IIQQQQII", cubin, start + i * size) for i in range(count)]
    texts = heads[names][4] if count else 0
    return [
        _Section(_text_at(cubin, texts + name), kind, link, cubin[at : at + length])
        for name, kind, _, _, at, length, link, _ in heads
    ]


def _text_at(content: bytes, start: int) -> str:
    return content[start : content.index(b"\0", start)].decode()


def _kernels(sections: list[_Section]) -> Iterator[CubinKernel]:
    by_name = {section.name: section.content for section in sections}
    registers = dict[int, int]()
    for kind, _, data in _attributes(by_name.get(".nv.info", b"")):
        if kind == _REGISTER_COUNT:
            symbol, count = struct.unpack_from("<II", data)
            registers[symbol] = count
    for table in (section for section in sections if section.kind == _SYMBOL_TABLE):
        texts = sections[table.link].content
        for index, entry in enumerate(struct.iter_unpack("<IBBHQQ", table.content)):
            name, info, other = entry[:3]
            if info & 0xF != _FUNCTION or not other & _ENTRY:
                continue
            symbol = _text_at(texts, name)
            limit, threads, sizes = 255, 1024, dict[int, int]()
            for kind, value, data in _attributes(by_name.get(f".nv.info.{symbol}", b"")):
                if kind == _REGISTER_LIMIT:
                    limit = value
                elif kind == _MOST_THREADS:
                    threads = math.prod(struct.unpack_from("<3I", data))
                elif kind == _PARAMETER:
                    _, number, _, size = struct.unpack_from("<IHHI", data)
                    sizes[number] = size >> 18
            ordered = tuple(sizes[number] for number in sorted(sizes))
            yield CubinKernel(symbol, index, registers.get(index, 0), limit, threads, ordered)


def _attributes(section: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, value and data of the attributes. The value is valid only without data."""
    at = 0
    while at < len(section):
        form, kind, value = struct.unpack_from("<BBH", section, at)
        at += 4
        length = value if form == _WITH_DATA else 0
        yield kind, value, section[at : at + length]
        at += length
