"""Kernels that were compiled elsewhere: PTX, cubins and fat binaries, and objects with a source."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.fat_binary import cubins_in, ptx_in
from adokernels.kernels.emulated import LATEST_COMPUTE
from adokernels.machine_code import kernels_in
from adokernels.model.arguments import Parameter
from adokernels.model.compiler import CompiledKernel
from adokernels.model.values import is_array
from adokernels.ptx import parameters_in, signatures
from adokernels.text import kind_of

_PTX = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)
_CUBIN, _FATBIN = b"\x7fELF", b"\x50\xed\x55\xba"
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
#: C++ types of the parameters of PTX that hold one number. PTX has no types of pointers, and not
#: always signs: see :func:`with_type`.
_NUMBERS = {"f16": "__half", "f32": "float", "f64": "double"}
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_SIGNED = {1: "signed char", 2: "short", 4: "int", 8: "long long"}


@dataclass(frozen=True)
class Given:
    """A source as it was given: text in CUDA C++ or PTX, or a binary; and what an object states."""

    text: str = ""
    binary: bytes = b""
    kernel: str = ""
    options: tuple[str, ...] = ()


#: A name that is not code.
_FILE = re.compile(r"\S+\.(cu|cuh|cpp|h|hpp|ptx|cubin|fatbin)")


def given_source(source: Any) -> Given:
    """The source in a string, in bytes, in a file, or in an object of CuPy or cuda.core.

    TypeError is raised if an object has no source, and ValueError for bytes of another kind or the
    name of a file.
    """
    if isinstance(source, str):
        if source.startswith(_CUBIN.decode()):
            raise ValueError("source must be CUDA C++ or PTX, got machine code; pass it as bytes")
        if _FILE.fullmatch(source):
            raise ValueError(f"source must be code, got a file name: pass source=Path({source!r})")
        return Given(source)
    if isinstance(source, os.PathLike):
        return given_source(Path(source).read_bytes())
    if isinstance(source, bytes):
        if source.startswith((_CUBIN, _FATBIN)):
            return Given(binary=source)
        try:
            return Given(source.rstrip(b"\0").decode())
        except UnicodeDecodeError:
            words = "source must be text, a cubin or a fat binary"
            raise ValueError(f"{words}, got {len(source)} bytes of another kind") from None
    code = getattr(source, "code", None) or getattr(source, "file_path", None)
    if not isinstance(code, str | bytes):
        raise TypeError(
            "source must be a str, bytes, a path, or an object with a source such as "
            f"cupy.RawKernel or cuda.core.ObjectCode, got {kind_of(source)}"
        )
    is_file = getattr(source, "code", None) is None
    found = given_source(Path(str(code)) if is_file else code)
    name = getattr(source, "name", "") if hasattr(source, "options") else ""
    options = tuple(getattr(source, "options", ()))
    return Given(found.text, found.binary, name or "", options)


def is_ptx(text: str) -> bool:
    """Whether a text is PTX."""
    return bool(_PTX.search(text))


def loaded(given: Given, kernel: str, file: str, arch: str | None) -> CompiledKernel:
    """A kernel of PTX or of a binary; PTX if `arch` begins with "compute", else a cubin.

    Unavailable is raised if the source has no such code, and ValueError if it has no such kernel.
    """
    text, binary = given.text, given.binary
    if arch is None and not _core.why_no_cuda():
        arch = f"sm_{_core.cuda_properties()['compute']}"
    compute = int(re.sub(r"\D", "", arch or "90"))
    if (arch or "").startswith("compute"):
        if binary.startswith(_CUBIN):
            raise _core.Unavailable(
                f"{file}: the emulator executes PTX, got machine code; pass the PTX of the kernel"
            )
        text = text or ptx_in(memoryview(binary), compute).rstrip(b"\0").decode()
        return _of_ptx(text, kernel, file, arch or "")
    if text:
        raise _core.Unavailable(f"{file}: PTX runs on the emulator; pass a cubin for a GPU")
    if binary.startswith(_FATBIN):
        found = cubins_in(memoryview(binary), compute)
        if not found:
            words = f"the fat binary has no machine code for sm_{compute}"
            raise _core.Unavailable(f"{file}: {words}")
        binary = next(iter(found.values()))
    kernels = {each.symbol: each for each in kernels_in(binary)}
    symbol = _symbol(kernel, list(kernels), file)
    parameters = tuple(Parameter(n, 0, f"{n} bytes") for n in kernels[symbol].parameter_bytes)
    return _compiled(binary, symbol, arch or "sm_90", file, "", parameters)


def _of_ptx(text: str, kernel: str, file: str, arch: str) -> CompiledKernel:
    target = _TARGET.search(text)
    if target and int(target[1]) > LATEST_COMPUTE:
        raise _core.Unavailable(
            f"{file}: the emulator does not execute kernels for compute capability 10, such as "
            f"tcgen05, got PTX for sm_{target[1]}"
        )
    kernels = signatures(text)
    symbol = _symbol(kernel, list(kernels), file)
    found = parameters_in(kernels[symbol]).values()
    parameters = tuple(Parameter(p.bytes, 0, f".{p.type}") for p in found)
    return _compiled(with_lines(text, file).encode(), symbol, arch, file, text, parameters)


def _compiled(
    code: bytes, symbol: str, arch: str, file: str, text: str, parameters: tuple[Parameter, ...]
) -> CompiledKernel:
    facts: dict[str, Any] = {"arch": arch, "file": file, "source": text, "log": ""}
    name = _core.kernel_name(symbol)
    return CompiledKernel(code=code, symbol=symbol, kernel=name, parameters=parameters, **facts)


def _symbol(kernel: str, symbols: list[str], file: str) -> str:
    """The mangled name of a kernel with this mangled or plain name, or of the only kernel."""
    for symbol in symbols:
        if kernel in (symbol, name := _core.kernel_name(symbol), name.partition("<")[0]):
            return symbol
    if len(symbols) == 1:
        return symbols[0]
    names = [_core.kernel_name(symbol) for symbol in symbols]
    hint = _core.suggest(kernel, names)
    raise ValueError(f"kernel must be the name of a kernel in {file}, got {kernel!r}{hint}")


def with_lines(ptx: str, file: str) -> str:
    """PTX with line information. If it has none, instructions get their lines in the PTX."""
    if re.search(r"^\s*\.loc\s", ptx, re.MULTILINE):
        return ptx
    lines, depth, is_start = [], 0, False
    for number, line in enumerate(ptx.splitlines(), 1):
        code = line.partition("//")[0].strip()
        if depth and is_start and re.match(r"[@a-z]", code):
            lines.append(f".loc 1 {number} 0")
        lines.append(line)
        depth += code.count("{") - code.count("}")
        is_start = code.endswith((";", "{", "}", ":")) or (is_start and not code)
    return "\n".join([*lines, f'.file 1 "{file}"', ""])


def with_type(parameter: Parameter, value: Any) -> Parameter:
    """A parameter of PTX or of a cubin, with the C++ type that suits the argument.

    PTX does not distinguish pointers from integers, and a cubin has only sizes: a number for a
    parameter of a cubin must be a NumPy scalar of its size.
    """
    size, kind = parameter.bytes, parameter.type.removeprefix(".")
    if kind not in _NUMBERS and size == 8 and is_array(value) and value.ndim:
        return Parameter(8, 0, "void*")
    if not parameter.type.startswith("."):
        return parameter
    if kind in _NUMBERS:
        return Parameter(size, 0, _NUMBERS[kind])
    negative = isinstance(value, int | np.integer) and value < 0
    return Parameter(size, 0, (_SIGNED if negative else _UNSIGNED).get(size, f"{size} bytes"))
