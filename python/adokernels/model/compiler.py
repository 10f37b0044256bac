"""Compilation of CUDA C++ source with NVRTC and ``cuda.core``, to machine code or PTX."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adokernels import _core
from adokernels.toolkit import installation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_ARCH_WITHOUT_GPU = "sm_90"
#: Standard headers that NVRTC lacks.
_STANDARD_HEADERS = Path(__file__).parent / "headers"
#: The name of the declaration that NVRTC appends to the source to look up the kernel.
_NAME_MAP = "__nv_name_map"
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


def compile_cuda(
    source: str,
    kernel: str,
    *,
    arch: str | None = None,
    file: str = "kernel.cu",
    options: Sequence[str] = (),
    trusted: bool = False,
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
    can read.

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
        If ``cuda.core`` or NVRTC is not installed.
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
    if not trusted:
        _require_headers_only(source, options)
    current = "" if _core.why_no_cuda() else f"sm_{_core.cuda_properties()['compute']}"
    arch = arch or current or _ARCH_WITHOUT_GPU
    if not re.fullmatch(r"(sm|compute)_\d{2,3}[af]?", arch):
        raise ValueError(f"arch must have the form 'sm_90', 'sm_90a' or 'compute_90', got {arch!r}")
    compile_it = _compiled if _may_be_kept(source, options) else _compiled.__wrapped__
    return compile_it(source, kernel.strip(), arch, file, tuple(options))


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


def _require_headers_only(source: str, options: Sequence[str]) -> None:
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
    for option in program_options(options).get("ptxas_options", ()):
        for part in option.split(","):
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
    settings = {"std": "c++20", "lineinfo": True, **settings}
    log = io.StringIO()
    try:
        chosen = program_options_class(**settings, arch=arch, name=file)
        if arch.startswith("compute_"):
            code, symbol, text = _ptx(source, kernel, file, chosen.as_bytes("nvrtc"))
            log.write(text)
        else:
            compiled = program(source, "c++", options=chosen).compile(
                "cubin", name_expressions=(kernel,), logs=log
            )
            code, (symbol,) = bytes(compiled.code), compiled.symbol_mapping.values()
    except Exception as error:
        raise _explained(error, source, kernel, file) from error
    return CompiledKernel(
        code=code,
        symbol=symbol.decode() if isinstance(symbol, bytes) else symbol,
        kernel=kernel,
        arch=arch,
        file=file,
        source=source,
        log=_cleaned(log.getvalue()),
    )


def _ptx(source: str, kernel: str, file: str, options: list[bytes]) -> tuple[bytes, bytes, str]:
    """Return the PTX, the mangled name of the kernel, and the compiler's log.

    ``cuda.core`` needs a driver for PTX; NVRTC itself does not. Errors have the same text as errors
    of ``cuda.core``.
    """
    from cuda.bindings import nvrtc

    def checked(call: Any, *arguments: Any) -> Any:
        status, *values = call(*arguments)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"{status.name}\ncompilation log:\n{log()}")
        return values[0] if values else None

    def text(size: Any, read: Any) -> bytes:
        (_, count) = size(program)
        # NVRTC writes into the object. Python shares objects of up to one byte.
        buffer = bytes(max(count, 2))
        if count:
            read(program, buffer)
        return buffer.rstrip(b"\0")

    def log() -> str:
        return text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(
            "utf-8", "replace"
        )

    program = None
    program = checked(nvrtc.nvrtcCreateProgram, source.encode(), file.encode(), 0, [], [])
    try:
        checked(nvrtc.nvrtcAddNameExpression, program, kernel.encode())
        checked(nvrtc.nvrtcCompileProgram, program, len(options), options)
        symbol = checked(nvrtc.nvrtcGetLoweredName, program, kernel.encode())
        ptx = text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        # NVRTC prefixes a relative path with the working directory.
        return ptx.replace(f'"{Path.cwd() / file}"'.encode(), f'"{file}"'.encode()), symbol, log()
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _cuda_core() -> tuple[Any, Any]:
    """``Program`` and ``ProgramOptions`` of ``cuda.core``."""
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise _core.Unavailable(
            f"CUDA C++ source cannot be compiled: {error}; remedy: {installation('kernels')}"
        ) from error
    return Program, ProgramOptions


def _cuda_headers() -> Iterator[str]:
    """The header folders of CUDA and CCCL, from wheels or else from a toolkit."""
    from cuda.pathfinder import find_nvidia_header_directory

    for component in ("cudart", "cccl"):
        if folder := find_nvidia_header_directory(component):
            yield folder


def _may_be_kept(source: str, options: Sequence[str]) -> bool:
    """Whether the result can be cached: it depends on no file that a user can change."""
    own_header = re.search(r'^\s*#\s*include\s*"', source, re.MULTILINE)
    return not own_header and not any("-I" in o or "include" in o for o in options)


#: Characters of a compiler's log that are kept at its beginning and at its end.
_KEPT = 1 << 16, 1 << 12


def _cleaned(log: str) -> str:
    """The log without null characters, and without the middle of a long one."""
    text, (first, last) = log.replace("\0", "").strip(), _KEPT
    if len(text) <= first + last:
        return text
    left_out = len(text) - first - last
    return f"{text[:first]}\n... {left_out} characters left out ...\n{text[-last:]}"


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
            f"CUDA C++ source cannot be compiled: {text.splitlines()[0]}; "
            f"remedy: {installation('kernels')}"
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
        hints.append(_HEADER_HINT.format(remedy=installation("kernels")))
    if "not allowed in JIT mode" in log:
        hints.append(_HOST_HINT)
    # Removes the lines about the kernel's name and the number of errors.
    shown = re.sub(rf"^{_NAME_MAP}.*\n(?: .*\n)*\n?", "", log, flags=re.MULTILINE)
    shown = re.sub(r"^\d+ (?:catastrophic )?errors? detected in .*", "", shown, flags=re.MULTILINE)
    return CompilationError(
        f"{file} does not compile:\n\n{shown.strip()}" + "\n\n".join(hints), log, file, source
    )


class _Option(NamedTuple):
    """An option of nvcc: the setting of ``ProgramOptions``, and the type of its value."""

    setting: str
    read: Callable[[str], Any] | None = None  # None for an option without a value
    repeated: bool = False


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _macro(text: str) -> str | tuple[str, str]:
    name, equals, content = text.partition("=")
    return (name, content) if equals else name


#: A value follows as ``-name=value`` or ``-name value``. Options of one letter need no separator:
#: ``-DTILE=32``.
_OPTIONS = {
    "use_fast_math": _Option("use_fast_math"),
    "extra-device-vectorization": _Option("extra_device_vectorization"),
    "default-device": _Option("device_as_default_execution_space"),
    "device-as-default-execution-space": _Option("device_as_default_execution_space"),
    "device-int128": _Option("device_int128"),
    "restrict": _Option("restrict"),
    "w": _Option("disable_warnings"),
    "disable-warnings": _Option("disable_warnings"),
    "G": _Option("debug"),
    "device-debug": _Option("debug"),
    "std": _Option("std", str),
    "maxrregcount": _Option("max_register_count", int),
    "ftz": _Option("ftz", _boolean),
    "prec-sqrt": _Option("prec_sqrt", _boolean),
    "prec-div": _Option("prec_div", _boolean),
    "fmad": _Option("fma", _boolean),
    "D": _Option("define_macro", _macro, repeated=True),
    "define-macro": _Option("define_macro", _macro, repeated=True),
    "U": _Option("undefine_macro", str, repeated=True),
    "undefine-macro": _Option("undefine_macro", str, repeated=True),
    "I": _Option("include_path", str, repeated=True),
    "include-path": _Option("include_path", str, repeated=True),
    "Xptxas": _Option("ptxas_options", str, repeated=True),
    "ptxas-options": _Option("ptxas_options", str, repeated=True),
    "diag-suppress": _Option("diag_suppress", int, repeated=True),
}


def program_options(options: Sequence[str]) -> dict[str, Any]:
    """The keyword arguments of ``cuda.core.ProgramOptions`` for options in the syntax of nvcc."""
    settings: dict[str, Any] = {}
    remaining = iter(options)
    for option in remaining:
        name, has_value, value = _split(option)
        known = _OPTIONS.get(name)
        if known is None or (has_value and not known.read):
            names = ", ".join(f"-{name}" for name in _OPTIONS)
            raise ValueError(f"options must be among {names}, got {option!r}")
        item: Any = True
        if known.read:
            value = value if has_value else next(remaining, None)
            if value is None:
                raise ValueError(f"the option {option} must be followed by a value")
            try:
                item = known.read(value)
            except (ValueError, KeyError):
                kind = "true or false" if known.read is _boolean else "an integer"
                raise ValueError(f"the value of -{name} must be {kind}, got {value!r}") from None
        if known.repeated:
            settings.setdefault(known.setting, []).append(item)
        else:
            settings[known.setting] = item
    return settings


def _split(option: str) -> tuple[str, bool, str | None]:
    """The name of an option without hyphens, whether it contains a value, and the value."""
    if option[:1] != "-":
        return option, False, ""
    if option[1:2] in ("D", "U", "I") and option[2:]:
        return option[1], True, option[2:].removeprefix("=")
    name, equals, value = option.lstrip("-").partition("=")
    return name, bool(equals), value
