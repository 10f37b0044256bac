"""Compilation of CUDA C++ source to machine code with NVRTC and ``cuda.core``, without a GPU."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.model.compiler_options import program_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_REMEDY = "pip install 'adokernels[kernels]'"
_ARCH_WITHOUT_GPU = "sm_90"
#: Standard headers that NVRTC lacks.
_STANDARD_HEADERS = Path(__file__).parent / "headers"
#: The name of the declaration that NVRTC appends to the source to look up the kernel.
_NAME_MAP = "__nv_name_map"
_HEADER_HINT = (
    "NVRTC contains few headers. Those of CUDA (cuda_fp16.h, cooperative_groups.h) and of "
    f"CCCL (cuda/std, cub) come with {_REMEDY} or a CUDA toolkit ($CUDA_HOME). Only those headers "
    "of the C++ library are available that are usable in device code. Headers are searched in the "
    "folder of the file and in the folders of the option -I."
)
_HOST_HINT = (
    "Only device code is compiled. Enclose host code in #ifndef __CUDACC_RTC__ ... #endif. Mark "
    "functions that the kernel calls with __device__, or use the option -default-device."
)


class CompilationError(ValueError):
    """Error for CUDA C++ source that does not compile.

    Attributes
    ----------
    log
        The compiler's output.
    file
        The name of the source.
    source
        The source.
    """

    def __init__(self, message: str, log: str = "", file: str = "", source: str = "") -> None:
        super().__init__(message)
        self.log = log
        self.file = file
        self.source = source


@dataclass(frozen=True, kw_only=True)
class CompiledKernel:
    """The machine code of a kernel.

    Attributes
    ----------
    code
        A cubin with line information.
    symbol
        The mangled name of the kernel in `code`.
    kernel
        The kernel's name as requested, for example ``"saxpy<float>"``.
    arch
        The architecture, for example ``"sm_90"``.
    file
        The name of the source in messages and in the line information.
    source
        The source.
    log
        The compiler's warnings; empty if there are none.
    """

    code: bytes = field(repr=False)
    symbol: str
    kernel: str
    arch: str
    file: str
    source: str = field(repr=False)
    log: str = field(repr=False)


def compile_cuda(
    source: str,
    kernel: str,
    *,
    arch: str | None = None,
    file: str = "kernel.cu",
    options: Sequence[str] = (),
) -> CompiledKernel:
    """Compile a kernel of CUDA C++ source, as C++20 and with line information.

    The result is cached in memory for further calls with the same arguments, unless the source
    includes the user's own files, which can change.

    Parameters
    ----------
    source : str
        Device code. Host code must be enclosed in ``#ifndef __CUDACC_RTC__``.
    kernel : str
        The name of a ``__global__`` function, with template arguments and namespaces:
        ``"saxpy"``, ``"saxpy<float>"``, ``"mine::tiled<float, 32>"``.
    arch : str, optional
        For example ``"sm_90"``. Default: the current GPU, or ``"sm_90"`` without one.
    file : str
        The name or path of the source, for messages and line information. Its folder is searched
        for headers.
    options : sequence of str
        Options of nvcc: ``"-DTILE=32"``, ``"-I/path"``, ``"-use_fast_math"``, ``"-std=c++17"``,
        ``"-maxrregcount=64"``.

    Returns
    -------
    CompiledKernel
        The machine code and the kernel's mangled name.

    Raises
    ------
    CompilationError
        If the source does not compile, or does not contain the kernel.
    ValueError
        If the architecture or an option is unknown.
    TypeError
        If the source is not a string.
    Unavailable
        If ``cuda.core`` or NVRTC is not installed.
    """
    for name, value in (("source", source), ("kernel", kernel), ("file", file)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    if isinstance(options, str):
        raise TypeError(f"options must be a sequence of str, got the str {options!r}")
    if not kernel.strip():
        raise ValueError(f"kernel must be the name of a __global__ function, got {kernel!r}")
    arch = arch or _default_arch()
    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise ValueError(f"arch must have the form 'sm_90' or 'sm_90a', got {arch!r}")
    compile_it = _compiled if _may_be_kept(source, options) else _compiled.__wrapped__
    return compile_it(source, kernel.strip(), arch, file, tuple(options))


def kernels_in(source: str) -> list[str]:
    """The names of the ``__global__`` functions in a source; a template as ``"saxpy<...>"``."""
    return list(dict.fromkeys(_kernels_in(source)))


def why_no_compiler() -> str:
    """Reason why CUDA C++ cannot be compiled here, and the remedy; empty if it can."""
    try:
        _cuda_core()
    except _core.Unavailable as error:
        return str(error)
    return ""


@lru_cache(maxsize=256)
def _compiled(
    source: str, kernel: str, arch: str, file: str, options: tuple[str, ...]
) -> CompiledKernel:
    program, program_options_class = _cuda_core()
    settings = program_options(options)
    settings["include_path"] = [
        *settings.pop("include_path", []),
        str(_STANDARD_HEADERS),
        *_cuda_headers(),
    ]
    log = io.StringIO()
    try:
        compiled = program(
            source,
            "c++",
            options=program_options_class(
                **{"std": "c++20", "lineinfo": True, **settings}, arch=arch, name=file
            ),
        ).compile("cubin", name_expressions=(kernel,), logs=log)
    except Exception as error:
        raise _explained(error, source, kernel, file) from error
    (symbol,) = compiled.symbol_mapping.values()
    return CompiledKernel(
        code=bytes(compiled.code),
        symbol=symbol.decode() if isinstance(symbol, bytes) else symbol,
        kernel=kernel,
        arch=arch,
        file=file,
        source=source,
        log=_cleaned(log.getvalue()),
    )


def _cuda_core() -> tuple[Any, Any]:
    """``Program`` and ``ProgramOptions`` of ``cuda.core``."""
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise _core.Unavailable(
            f"CUDA C++ source cannot be compiled: {error}; remedy: {_REMEDY}"
        ) from error
    return Program, ProgramOptions


def _cuda_headers() -> Iterator[str]:
    """The header folders of CUDA and CCCL, from wheels or else from a toolkit."""
    from cuda.pathfinder import find_nvidia_header_directory

    for component in ("cudart", "cccl"):
        if folder := find_nvidia_header_directory(component):
            yield folder


def _default_arch() -> str:
    if _core.why_no_cuda():
        return _ARCH_WITHOUT_GPU
    return f"sm_{_core.cuda_properties()['compute']}"


def _may_be_kept(source: str, options: Sequence[str]) -> bool:
    """Whether the result can be cached: it depends on no file that a user can change."""
    own_header = re.search(r'^\s*#\s*include\s*"', source, re.MULTILINE)
    return not own_header and not any("-I" in o or "include" in o for o in options)


def _cleaned(log: str) -> str:
    return log.replace("\0", "").strip()


def _explained(error: Exception, source: str, kernel: str, file: str) -> Exception:
    """The exception to raise for an exception of ``cuda.core``."""
    text = str(error)
    head, found, log = text.partition("compilation log:")
    log = _cleaned(log)
    if "NVRTC_ERROR_COMPILATION" in head and found:
        return _compilation_error(log, source, kernel, file)
    if "NVRTC_ERROR_INVALID_OPTION" in head:
        return ValueError(f"arch and options must be known to NVRTC: {log or head}")
    if "NotFoundError" in type(error).__name__:  # cuda.pathfinder does not find a library
        return _core.Unavailable(
            f"CUDA C++ source cannot be compiled: {text.splitlines()[0]}; remedy: {_REMEDY}"
        )
    return error


def _compilation_error(log: str, source: str, kernel: str, file: str) -> CompilationError:
    errors = re.findall(r"^(.*?)(?:\(\d+\))?: (?:catastrophic )?error: (.*)$", log, re.MULTILINE)
    if errors and all(place == _NAME_MAP for place, _ in errors):
        names = ", ".join(kernels_in(source)) or "none"
        message = (
            f"kernel must name one __global__ function of {file}, got {kernel!r}: {errors[0][1]}; "
            f"__global__ functions found: {names}"
        )
        return CompilationError(message, log, file, source)
    hints = [""]
    if re.search(r"(could not|cannot) open source file", log):
        hints.append(_HEADER_HINT)
    if "not allowed in JIT mode" in log:
        hints.append(_HOST_HINT)
    # Removes the lines about the kernel's name and the number of errors.
    shown = re.sub(rf"^{_NAME_MAP}.*\n(?: .*\n)*\n?", "", log, flags=re.MULTILINE)
    shown = re.sub(r"^\d+ (?:catastrophic )?errors? detected in .*", "", shown, flags=re.MULTILINE)
    return CompilationError(
        f"{file} does not compile:\n\n{shown.strip()}" + "\n\n".join(hints), log, file, source
    )


def _kernels_in(source: str) -> Iterator[str]:
    code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", source, flags=re.DOTALL)
    # Between __global__ and the name: the return type and attributes with nested parentheses.
    attribute = r"__\w+__\s*(?:\((?:[^()]|\([^()]*\))*\))?"
    pattern = rf"__global__\s*(?:(?:void|static|inline|{attribute})\s*)*(?!__)\b(\w+)\s*\("
    for match in re.finditer(pattern, code):
        declaration = re.split(r"[;{}]", code[: match.start()])[-1]
        template = re.search(r"\btemplate\s*<", declaration)
        yield f"{match[1]}<...>" if template else match[1]
