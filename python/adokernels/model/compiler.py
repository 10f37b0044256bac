"""Compilation of CUDA C++ source with NVRTC, to machine code or PTX."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from adokernels import _core, toolkit
from adokernels.model.arguments import Parameter, parameters_in
from adokernels.text import printable

_ARCH_WITHOUT_GPU = "sm_90"
_LONGEST_LOG = 1 << 16  # characters
#: Standard headers that NVRTC lacks.
_STANDARD_HEADERS = Path(__file__).parent / "headers"
#: The name of the declaration that NVRTC appends to the source to look up the kernel.
_NAME_MAP = "__nv_name_map"
#: A header that NVRTC includes first, and the variable whose name has the types of parameters.
_PARAMETERS_HEADER = "adokernels_parameters.h"
_PARAMETERS = "&adokernels_parameters::list<decltype(adokernels_parameters::of({}))>"
_ERROR = re.compile(r"^(.*?)(?:\(\d+\))?: (?:catastrophic )?error: (.*)$", re.MULTILINE)
_HEADER_HINT = (
    "NVRTC contains few headers. The headers of CUDA (cuda_fp16.h, cooperative_groups.h) and of "
    "CCCL (cuda/std, cub) come with {remedy} or a CUDA toolkit ($CUDA_HOME). Of the C++ "
    "library, only headers for device code are available. Headers are searched in the folder of "
    "the file and in the folders of the option -I."
)
_HOST_HINT = (
    "Only device code is compiled. Enclose host code in #ifndef __CUDACC_RTC__ ... #endif. Mark "
    "functions that the kernel calls with __device__, or use the option -default-device."
)


class CompilationError(ValueError):
    """Error for CUDA C++ source that does not compile.

    Attributes
    ----------
    log, file, source : str
        The compiler's output; the name and the text of the source.
    """

    def __init__(self, message: str, log: str = "", file: str = "", source: str = "") -> None:
        super().__init__(message)
        self.log, self.file, self.source = log, file, source


class UnknownKernel(CompilationError):
    """The source does not define the kernel."""


@dataclass(frozen=True, kw_only=True)
class CompiledKernel:
    """The code of a kernel, with the arguments of :func:`compile_cuda`."""

    code: bytes = field(repr=False)  # a cubin or PTX, with line information
    symbol: str  # the mangled name of the kernel in `code`
    kernel: str
    arch: str
    file: str
    source: str = field(repr=False)
    log: str = field(repr=False)  # the compiler's warnings
    parameters: tuple[Parameter, ...] = field(repr=False)
    options: tuple[tuple[str, str], ...] = ()


def compile_cuda(
    source: str,
    kernel: str,
    *,
    arch: str | None = None,
    file: str = "kernel.cu",
    options: Sequence[str] = (),
    trusted: bool = False,
    run: Callable[..., CompiledKernel] | None = None,
) -> CompiledKernel:
    """Compile a kernel of CUDA C++ source, as C++20 and with line information.

    The result is cached in memory for further calls with the same arguments, unless the source
    includes the user's own files, which can change.

    `source` is device code: host code must be enclosed in ``#ifndef __CUDACC_RTC__``. `kernel` is
    the name of a ``__global__`` function, with template arguments and namespaces:
    ``"mine::tiled<float, 32>"``. The default of `arch` is the architecture of the current GPU, or
    ``"sm_90"`` without a GPU; ``"compute_90"`` compiles to PTX instead of a cubin. `file` is the
    name or path of the source in messages and line information; its folder is searched for headers.
    `options` have the syntax of nvcc: ``"-DTILE=32"``, ``"-I/path"``, ``"-use_fast_math"``,
    ``"-std=c++17"``, ``"-maxrregcount=64"``.

    Unless `trusted`, the compiler reads no file outside of the folders of headers: `source` may
    only include files with a literal relative path, and ``-Xptxas`` accepts only options that
    concern the machine code. The compiler's messages could otherwise show any file that the process
    can read. `run` calls :func:`compiled` with the same arguments in another process.

    Raises
    ------
    CompilationError
        If the source does not compile, or does not contain the kernel.
    ValueError
        If the architecture or an option is unknown, if the name of the file begins with a hyphen,
        or if the source or an option could read other files and `trusted` is false.
    TypeError
        If the source is not a string.
    Unavailable
        If NVRTC or ``cuda.bindings`` is not installed.
    """
    for name, value in (("source", source), ("kernel", kernel), ("file", file)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    if isinstance(options, str):
        raise TypeError(f"options must be a sequence of str, got the str {options!r}")
    if not kernel.strip():
        raise ValueError(f"kernel must be the name of a __global__ function, got {kernel!r}")
    if file.startswith("-"):
        raise ValueError(f"file must not begin with '-', as options do, got {file!r}")
    chosen = _nvrtc_options(options)
    if not trusted:
        _require_headers_only(source, chosen)
    current = "" if _core.why_no_cuda() else f"sm_{_core.cuda_properties()['compute']}"
    arch = arch or current or _ARCH_WITHOUT_GPU
    if not re.fullmatch(r"(sm|compute)_\d{2,3}[af]?", arch):
        raise ValueError(f"arch must have the form 'sm_90', 'sm_90a' or 'compute_90', got {arch!r}")
    own_header = re.search(r'^\s*#\s*include\s*"', source, re.MULTILINE)
    own_folder = any(name in ("-I", "--include-path") for name, _ in chosen)
    in_process = compiled.__wrapped__ if own_header or own_folder else compiled
    return (run or in_process)(source, kernel.strip(), arch, file, tuple(chosen))


#: Options of NVRTC that name no files, except folders of headers. A value follows as
#: ``-name=value`` or ``-name value``; ``-D``, ``-U`` and ``-I`` need no separator.
_WITH_VALUE = {
    *("-D", "--define-macro", "-U", "--undefine-macro", "-I", "--include-path"),
    *("-std", "-maxrregcount", "-ftz", "-prec-sqrt", "-prec-div", "-fmad", "-diag-suppress"),
    *("-Xptxas", "--ptxas-options"),
}
_WITHOUT_VALUE = {
    *("-use_fast_math", "-extra-device-vectorization", "-device-int128", "-restrict"),
    *("-default-device", "--device-as-default-execution-space"),
    *("-w", "--disable-warnings", "-G", "--device-debug"),
}


def _nvrtc_options(options: Sequence[str]) -> list[tuple[str, str]]:
    """The names and values of options; a name has as many hyphens as in NVRTC's documentation."""
    known = {name.lstrip("-"): name for name in (*_WITH_VALUE, *_WITHOUT_VALUE)}
    found, remaining = [], iter(options)
    for option in remaining:
        name, equals, value = option.partition("=")
        if option.startswith(("-D", "-U", "-I")) and option[2:]:
            name, equals, value = option[:2], "=", option[2:].removeprefix("=")
        name = known.get(name.lstrip("-"), "") if option.startswith("-") else ""
        if not name or (equals and name in _WITHOUT_VALUE):
            raise ValueError(f"options must be among {', '.join(known.values())}, got {option!r}")
        if name in _WITH_VALUE and not equals:
            value = next(remaining, "")
        if name == "-std" and value in ("c++03", "c++11"):
            raise ValueError(f"-std must be c++14 or later, got {value}")
        found.append((name, value))
    return found


#: A directive that names a file, at the beginning of a line or after a comment, and its operand.
_GAP = r"(?:\s|/\*.*?\*/)*"
_NAMING = re.compile(
    rf"(?:^|\*/){_GAP}"
    rf"(?:(?:\#|%:){_GAP}(?:(?:include(?:_next)?|import|embed|line)\b|(?=\d))|import(?={_GAP}[<\"]))"
    r"(?P<operand>(?:[^\S\n]|/\*.*?\*/)*[^\n]*)",
    re.MULTILINE | re.DOTALL,
)
#: An operand without macros: a path, or a line number and optionally a path.
_LITERAL = re.compile(
    rf'{_GAP}(?:(?P<line>\d+)(?!{_GAP}["\w<])|(?:\d+{_GAP})?(?:<(?P<system>[^>]+)>|"(?P<own>[^"]+)"))',
    re.DOTALL,
)
#: Options of ptxas that select the machine code and its statistics. Others can name files.
_PTXAS_OPTIONS = {
    *("v", "verbose", "w", "disable-warnings", "g", "device-debug", "lineinfo"),
    *("O", "opt-level", "fmad", "maxrregcount", "register-usage-level"),
    *("dlcm", "def-load-cache", "dscm", "def-store-cache", "flcm", "force-load-cache"),
    *("fscm", "force-store-cache", "allow-expensive-optimizations", "warn-spills"),
    *("warn-lmem-usage", "warn-double-usage", "disable-optimizer-constants", "Werror"),
}


def _require_headers_only(source: str, options: Sequence[tuple[str, str]]) -> None:
    """Raise ValueError if the compiler could read files outside of the folders of headers."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace("??=", "#").replace("??/", "\\")  # trigraphs, until C++14
    for found in _NAMING.finditer(re.sub(r"\\[ \t]*\n", "", text)):
        literal = _LITERAL.match(found["operand"])
        if literal and literal["line"]:
            continue
        path = (literal["system"] or literal["own"]).replace("\\", "/") if literal else "/"
        if path.startswith("/") or ".." in path.split("/") or path[1:2] == ":":
            raise ValueError(
                "source must name files by a literal relative path without '..' unless "
                f"trusted=True, got {found['operand'].strip()[:80]}"
            )
    for option, value in options:
        for part in value.split(",") if option in ("-Xptxas", "--ptxas-options") else ():
            name = part.lstrip("-").partition("=")[0].strip()
            name = re.sub(r"^O\d$", "O", name)
            if not part.startswith("-") or name not in _PTXAS_OPTIONS:
                known = ", ".join(sorted(_PTXAS_OPTIONS))
                raise ValueError(
                    f"-Xptxas must be followed by one of -({known}) unless trusted=True, "
                    f"got {part!r}"
                )


def kernels_in(source: str) -> list[str]:
    """The names of the ``__global__`` functions in a source; a template as ``"saxpy<...>"``."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", source, flags=re.DOTALL)
    # Between __global__ and the name: the return type and attributes with nested parentheses.
    attribute = r"__\w+__\s*(?:\((?:[^()]|\([^()]*\))*\))?"
    pattern = rf"__global__\s*(?:(?:void|static|inline|{attribute})\s*)*(?!__)\b(\w+)\s*\("
    found = []
    for match in re.finditer(pattern, code):
        declaration = re.split(r"[;{}]", code[: match.start()])[-1]
        template = re.search(r"\btemplate\s*<", declaration)
        found.append(f"{match[1]}<...>" if template else match[1])
    return list(dict.fromkeys(found))


def why_no_compiler() -> str:
    """Reason why CUDA C++ cannot be compiled here, and the remedy; empty if it can."""
    try:
        _nvrtc()
    except _core.Unavailable as error:
        return str(error)
    return ""


@lru_cache(maxsize=256)
def compiled(
    source: str, kernel: str, arch: str, file: str, options: tuple[tuple[str, str], ...]
) -> CompiledKernel:
    """The kernel for arguments that :func:`compile_cuda` has checked."""
    nvrtc = _nvrtc()
    from cuda.pathfinder import find_nvidia_header_directory

    # Wheels of other packages can lack headers, for example crt/. Toolkits have all headers.
    folders = [_STANDARD_HEADERS, *map(find_nvidia_header_directory, ("cudart", "cccl"))]
    folders += [str(path) for path in toolkit.headers()]
    flags = [f"{name}={value}" if name in _WITH_VALUE else name for name, value in options]
    flags += [f"-arch={arch}", "-lineinfo", *(f"-I={folder}" for folder in folders if folder)]
    if not any(name == "-std" for name, _ in options):
        flags.append("-std=c++20")
    flags.append(f"--pre-include={_PARAMETERS_HEADER}")
    names = kernel, _PARAMETERS.format(kernel)

    def checked(call: Any, *arguments: Any) -> Any:
        status, *values = call(*arguments)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            if status == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION:
                raise _compilation_error(log(), source, kernel, file)
            if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
                raise ValueError(f"arch and options must be known to NVRTC: {log()}")
            raise RuntimeError(f"{status.name}: {log()}")
        return values[0] if values else None

    def output(size: Any, read: Any) -> bytes:
        _, count = size(program)
        buffer = bytes(max(count or 0, 2))  # NVRTC writes into it; Python shares shorter objects
        read(program, buffer)
        return buffer

    def log() -> str:
        """The messages, without the middle of long ones."""
        text = output(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).rstrip(b"\0")
        return printable(text.decode("utf-8", "replace"), _LONGEST_LOG, lines=True).strip()

    program = None
    program = checked(nvrtc.nvrtcCreateProgram, source.encode(), file.encode(), 0, [], [])
    try:
        for name in names:
            checked(nvrtc.nvrtcAddNameExpression, program, name.encode())
        checked(nvrtc.nvrtcCompileProgram, program, len(flags), [f.encode() for f in flags])
        if arch.startswith("compute_"):
            ptx = output(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0")
            # NVRTC prefixes a relative path with the working directory.
            code = ptx.replace(f'"{Path.cwd() / file}"'.encode(), f'"{file}"'.encode())
        else:
            code = output(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        symbol, types = (
            checked(nvrtc.nvrtcGetLoweredName, program, name.encode()).decode() for name in names
        )
        return CompiledKernel(
            code=code,
            symbol=symbol,
            kernel=kernel,
            arch=arch,
            file=file,
            source=source,
            log=log(),
            options=options,
            parameters=parameters_in(_core.kernel_name(types)),
        )
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _nvrtc() -> Any:
    """The functions of NVRTC."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library
    except (ImportError, RuntimeError) as error:
        raise _core.Unavailable(
            f"CUDA C++ source cannot be compiled: {str(error).splitlines()[0]}; "
            f"remedy: {toolkit.installation('kernels')}"
        ) from error
    return nvrtc


def _compilation_error(log: str, source: str, kernel: str, file: str) -> CompilationError:
    errors = _ERROR.findall(log)
    if errors and all(place == _NAME_MAP for place, _ in errors):
        names = ", ".join(kernels_in(source)) or "none"
        reason = next(text for _, text in errors if "adokernels_parameters" not in text)
        message = (
            f"kernel must name one __global__ function of {file}, got {kernel!r}: {reason}; "
            f"__global__ functions found: {names}"
        )
        return UnknownKernel(message, log, file, source)
    hints = [""]
    if re.search(r"(could not|cannot) open source file", log):
        hints.append(_HEADER_HINT.format(remedy=toolkit.installation("kernels")))
    if "not allowed in JIT mode" in log:
        hints.append(_HOST_HINT)
    # Removes the lines about the kernel's name and the number of errors.
    ours = rf"^(?:{_NAME_MAP}|.*{_PARAMETERS_HEADER}\().*\n(?: .*\n)*\n?"
    shown = re.sub(ours, "", log, flags=re.MULTILINE)
    shown = re.sub(r"^\d+ (?:catastrophic )?errors? detected in .*", "", shown, flags=re.MULTILINE)
    return CompilationError(
        f"{file} does not compile:\n\n{shown.strip()}" + "\n\n".join(hints), log, file, source
    )
