"""Capture of the launches of a function: kernels, arguments and memory."""

from __future__ import annotations

import gc
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from adokernels import _core
from adokernels.fat_binary import cubins_in, ptx_in
from adokernels.kernels.captured import Allocation, CapturedLaunch, Launches
from adokernels.kernels.emulated import LATEST_COMPUTE
from adokernels.measuring.functions import Function, leaves, name_of, require_function
from adokernels.measuring.profiling import of_kernel
from adokernels.model.binary import given_source, is_ptx, with_lines
from adokernels.model.compiler import CompilationError, CompiledKernel, compile_cuda, compiled
from adokernels.model.libraries import address_range, is_on_device

#: The latest target that the emulator executes.
_ARCH = f"compute_{LATEST_COMPUTE}"
#: Machine code of earlier captures, by mangled C++ name: libraries do not load another version.
_seen: dict[str, bytes] = {}
_SEVERAL = (
    "several modules have a kernel of this name, and the driver does not tell which one was "
    "launched; capture it in a process that loads only one of them"
)
_FILES = re.compile(r'^\s*\.file\s+\d+\s+"([^"]+)"', re.MULTILINE)


def capture(
    function: Callable[..., Any],
    *args: Any,
    kernel: str | None = None,
    max_bytes: int = 1 << 30,
    **options: Any,
) -> Launches:
    """Record the kernels that a function launches on a GPU, with their arguments and memory.

    A launch can be saved, repeated on another GPU or on the emulator, profiled, and sent with a bug
    report. The saved file contains the memory and the source files of the kernel.

    The function is called twice, and the second call is captured. Before the second call, arrays
    among the arguments get their initial values again, and free memory of torch is overwritten.

    Parameters
    ----------
    function, *args, **options
        The function and its arguments. Its kernels can be of any front end: CUDA C++, Triton,
        torch.compile, CuPy, Numba.
    kernel
        The name of the kernel whose launches are returned. Default: all kernels.
    max_bytes
        The limit of the captured memory, in bytes. It includes all bytes of the allocations to
        which arguments point. torch allocates at least 2 MiB. Equal contents count once.

    Returns
    -------
    Launches
        The launches in order. ``.hottest`` is the launch that took the longest time.

    Raises
    ------
    Unavailable
        If there is no GPU, or the driver cannot be observed.
    ValueError
        If the function launches no kernel with the name `kernel`.

    Notes
    -----
    The driver does not return machine code, so code that was loaded before `capture` is known only
    for Triton. PTX is known for kernels of Triton, of Numba, of ``cupy.RawKernel``, of this
    package and of ``ado.cuda_variant``. Kernels of a CUDA graph are not captured when the graph is
    launched. Variables of a module (``__constant__``, ``__device__``) are not captured: a repeated
    launch finds their initial values.

    Examples
    --------
    >>> ado.capture(model, x).hottest.save("launch.ado")  # doctest: +SKIP
    >>> ado.heatmap(ado.load("launch.ado"), device="emulator")  # doctest: +SKIP
    """
    require_function(function, None, "function")
    if reason := _core.why_no_cuda():
        raise _core.Unavailable(f"launches cannot be captured: {reason}")
    work = Function(name_of(function), function, args, options, caller=capture)
    returned: list[Any] = []  # the first result, so that the second one has other memory
    arrays = [each for each in leaves((args, options)) if is_on_device(each)]
    ranges = [(low, high - low) for low, high in map(address_range, arrays) if high > low]
    launches, cubins, graphs = _core.capture(
        lambda: returned.append(work.run()), ranges, _free_memory, max_bytes
    )
    properties = _core.cuda_properties()
    symbols = {launch["symbol"] for launch in launches}
    names = {_core.kernel_name(symbol).partition("<")[0] for symbol in symbols}
    known = [*compiled_kernels(symbols | names)]
    found = launches_of(launches, cubins, known, int(properties["compute"]), properties["name"])
    chosen = of_kernel(kernel, [launch.name for launch in found], work.name)
    return Launches([found[i] for i in chosen], graphs)


def captured(
    function: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    kernel: str | None,
) -> tuple[Sequence[CapturedLaunch], dict[str, Any]]:
    """The launches of a function, or a captured launch, with the labels of their record."""
    name = name_of(function)
    if isinstance(function, CapturedLaunch):
        of_kernel(kernel, [function.name], name)
        return [function], {"routine": "", "variant": name, "problem": ""}
    launches = capture(function, *args, kernel=kernel, **options)
    if not launches:
        raise ValueError(f"{name} launches no kernels outside of CUDA graphs")
    problem = str(Function(name, function, tuple(args)).inputs)
    return launches, {"routine": "", "variant": name, "problem": problem}


class Known(NamedTuple):
    """A kernel that a front end has compiled in this process."""

    name: str
    cubin: bytes  # empty if it is not stored
    ptx: Callable[[], str]
    function: int = 0  # the handle of the loaded kernel, if it is known
    sources: Mapping[str, str] = {}  # source texts that are not in files


def _free_memory() -> list[tuple[int, int]]:
    """The free memory that torch keeps for later tensors."""
    if "torch" not in sys.modules or not sys.modules["torch"].cuda.is_initialized():
        return []
    found = []
    for segment in sys.modules["torch"].cuda.memory_snapshot():
        at = segment["address"]
        of_graph = segment.get("segment_pool_id", (0, 0)) != (0, 0)
        for block in segment["blocks"]:
            if block["state"] == "inactive" and not of_graph:
                found.append((at, block["size"]))
            at += block["size"]
    return found


def launches_of(
    records: Sequence[Mapping[str, Any]],
    cubins: Sequence[bytes],
    known: Sequence[Known] = (),
    compute: int = 90,
    device: str = "",
) -> list[CapturedLaunch]:
    """Convert the records of the core to launches, with the code of their kernels."""
    codes: dict[tuple[int, str, int], dict[str, Any]] = {}
    several: dict[tuple[int, str, int], bool] = {}
    found = []
    for record in records:
        symbol, modules = record["symbol"], record["modules"]
        key = record["function"], symbol, modules
        if key not in codes:
            loaded = list(dict.fromkeys(c for c in cubins[:modules] if _has(c, symbol)))
            exact = any(each.function == key[0] and each.cubin for each in known)
            several[key] = len(loaded) > 1 and not exact
            cubin = loaded[-1] if loaded else _seen.get(symbol, b"")
            codes[key] = _code_of(symbol, key[0], cubin, known, compute)
            if symbol.startswith("_Z"):
                _seen[symbol] = codes[key]["cubin"]
        code = codes[key]
        fields = {k: v for k, v in record.items() if k not in ("function", "modules")}
        if several[key]:
            fields["lacks"] = record["lacks"] or _SEVERAL
        fields["arguments"] = tuple(record["arguments"])
        fields["allocations"] = tuple(Allocation(*each) for each in record["allocations"])
        found.append(CapturedLaunch(**fields, **code, arch=f"sm_{compute}", device=device))
    return found


def _has(cubin: bytes, symbol: str) -> bool:
    """Whether machine code has a kernel of this name, by the name of its section."""
    return f".text.{symbol}\0".encode() in cubin


def _code_of(
    symbol: str, function: int, cubin: bytes, known: Sequence[Known], compute: int
) -> dict[str, Any]:
    """The machine code, the PTX and the sources of a kernel, as fields of a captured launch."""
    ptx, sources = "", dict[str, str]()
    named = {each.cubin for each in known if each.name == symbol and not each.function}
    if not cubin and len(named) == 1:  # loaded before, and the only one with its name
        cubin = next(iter(named))
    for each in known:
        if each.function:
            is_same = each.function == function
        else:
            is_same = each.name == symbol and each.cubin in (b"", cubin)
        if is_same:
            cubin, sources = each.cubin or cubin, dict(each.sources)
            with suppress(_core.Unavailable, CompilationError, ValueError):  # the kernel has no PTX
                ptx = each.ptx()
            break
    if fatbin := _core.fatbins().get(symbol):
        ptx = ptx_in(fatbin, LATEST_COMPUTE).rstrip(b"\0").decode()
        built = cubins_in(fatbin, compute).values()
        cubin = cubin or next((code for code in built if _has(code, symbol)), b"")
    files = {path: "".join(linecache.getlines(path)) for path in _FILES.findall(ptx)}
    texts = {path: text for path, text in files.items() if text}
    return {"cubin": cubin, "ptx": ptx, "sources": texts | sources}


def compiled_kernels(names: set[str]) -> Iterator[Known]:
    """The kernels with these names that front ends have compiled in this process."""
    classes = {
        getattr(sys.modules.get(module), name, None): adapter
        for module, name, adapter in (
            ("triton.compiler.compiler", "CompiledKernel", of_triton),
            ("numba.cuda.dispatcher", "_Kernel", _of_numba),
            ("cupy", "RawKernel", _of_cupy),
            (CompiledKernel.__module__, "CompiledKernel", _of_source),
        )
    }
    for each in gc.get_objects():
        adapter = classes.get(type(each))
        with suppress(AttributeError, KeyError, TypeError):  # the object is incomplete
            if adapter and (found := adapter(each, names)):
                yield found


def of_triton(kernel: Any, names: set[str]) -> Known | None:
    """A compiled kernel of Triton, if it has one of these names and is loaded."""
    asm = vars(kernel)["asm"]
    found = Known(kernel.name, asm["cubin"], lambda: str(asm["ptx"]), kernel.function or 0)
    return found if kernel.name in names and found.function else None


def _of_numba(kernel: Any, names: set[str]) -> Known | None:
    name = kernel.entry_name
    return Known(name, b"", kernel._codelibrary.get_asm_str) if name in names else None


def _of_cupy(kernel: Any, names: set[str]) -> Known | None:
    name = str(kernel.name)
    if name.partition("<")[0] not in names:
        return None
    given, file = given_source(kernel), f"{name}.cu"

    def ptx() -> str:
        return compile_cuda(
            given.text, name, arch=_ARCH, file=file, options=given.options, trusted=True
        ).code.decode()

    return Known(name, b"", ptx, kernel.kernel.ptr, {file: given.text})


def _of_source(kernel: CompiledKernel, names: set[str]) -> Known | None:
    def ptx() -> str:
        if is_ptx(kernel.source):
            return with_lines(kernel.source, kernel.file)
        return compiled(
            kernel.source, kernel.kernel, _ARCH, kernel.file, kernel.options
        ).code.decode()

    is_known = kernel.symbol in names and kernel.source and kernel.arch.startswith("sm_")
    sources = {kernel.file: kernel.source}
    return Known(kernel.symbol, kernel.code, ptx, sources=sources) if is_known else None
