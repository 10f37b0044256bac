"""Launches of Triton kernels on the emulator."""

from __future__ import annotations

import copyreg
import functools
import itertools
import linecache
import math
import re
import struct
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import triton
from triton import knobs, testing
from triton.backends.compiler import GPUTarget
from triton.runtime import autotuner, driver, jit

from adokernels import _core
from adokernels.kernels.interception import Refusing, replaced, untested
from adokernels.kernels.launch import array_of, emulate, know_address, memory_of
from adokernels.machine_code import kernels_in

_TESTED = "3.9"
#: Arguments of the decorator that a decorated function stores.
_SETTINGS = (
    *("version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline"),
    "launch_metadata",
)
#: LLVM counts lines in inline assembly from the line of the operation, so .loc is wrong there.
_INLINE = re.compile(r"// begin inline asm\n.*?// end inline asm", re.DOTALL)
_LOC = re.compile(r"^\s*\.loc\s[^\n]*\n", re.MULTILINE)
_TENSOR_MAP, _TENSOR_MAP_MARK = struct.Struct("<QQ5I4x4Q5H5B3B?"), 0x70616D2D6F6461FF
#: Functions of triton.testing that measure the time of a function.
_BENCHMARKS = ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton")
_FLOATS = {"fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d"}


class _Pointer:
    """The properties of an array that Triton reads: its type, and its address modulo 256."""

    def __init__(self, array: Any, dtype: Any) -> None:
        self.dtype = dtype
        self._offset: int = array.ctypes.data - memory_of(array)[0]

    def data_ptr(self) -> int:
        return self._offset


class _Driver:
    """The driver of the emulated GPU."""

    def __init__(self, compute: int) -> None:
        self._compute = compute
        self._ptx = b""
        self.utils = self
        self.launcher_cls = functools.partial(functools.partial, _launch)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._compute, 32)

    def get_current_device(self) -> str:
        """The key of compiled kernels, which differs from the numbers of GPUs."""
        return f"emulator of sm_{self._compute}"

    def set_current_device(self, device: object) -> None:
        """There is one device."""

    def get_current_stream(self, device: object) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        return sys.modules["torch"].device("cpu")

    def get_device_interface(self) -> Any:
        raise _core.Unavailable("the emulator does not measure time")

    def get_device_properties(self, device: object) -> Mapping[str, int]:
        found = _core.cuda_properties("emulator")
        return {
            "max_shared_mem": found["shared_bytes"],
            "multiprocessor_count": found["multiprocessors"],
            "max_num_regs": 65536,
            "warpSize": 32,
        }

    def before_loading(
        self, module: object, function: object, name: str, files: Any, *_: Any
    ) -> None:
        """Keep the PTX of the kernel that is loaded next."""
        path = next((path for file, path in files.items() if file.endswith(".ptx")), None)
        if path is None:
            raise _core.Unavailable(
                f"{name}: Triton must store the PTX of kernels; unset TRITON_STORE_BINARY_ONLY"
            )
        self._ptx = _INLINE.sub(lambda asm: _LOC.sub("", asm[0]), Path(path).read_text()).encode()

    def load_binary(
        self, name: str, cubin: bytes, *_: Any
    ) -> tuple[None, tuple[bytes, str], int, int, int]:
        (kernel,) = (each for each in kernels_in(cubin) if each.symbol == name)
        return None, (self._ptx, name), kernel.registers, 0, 1024


def _launch(
    source: Any, metadata: Any, x: int, y: int, z: int, stream: object, kernel: tuple[bytes, str],
    packed: object, description: object, enter: object, leave: object, *arguments: Any,
) -> None:  # fmt: skip
    """Launch a kernel, as a launcher of Triton's drivers does."""
    refused = {
        "a cluster": metadata.num_ctas != 1,
        "a cooperative grid": metadata.launch_cooperative_grid,
    }
    for what, needed in refused.items():
        if needed:
            raise _core.Unavailable(f"{metadata.name}: the emulator cannot launch {what} of Triton")
    found: dict[str, Any] = {}
    maps = iter(getattr(metadata, "tensordesc_meta", None) or itertools.repeat(None))
    described = [True]  # emptied after the launch
    for (name, kind), value in zip(source.signature.items(), arguments, strict=True):
        _add(found, name, kind, value, maps, described)
    programs = x * y * z
    if programs == 0:
        return
    for name in ("global_scratch", "profile_scratch"):
        found[name] = np.zeros(programs * getattr(metadata, f"{name}_size"), np.uint8)
    block = (32 * metadata.num_warps,)
    try:
        emulate(*kernel, (x, y, z), block, metadata.shared, found)
    finally:
        described.clear()


def _add(
    found: dict[str, Any], name: str, kind: Any, value: Any, maps: Iterator[Any], described: Any
) -> None:
    """Add the parameters of the kernel for an argument of the function."""
    if kind == "constexpr":
        return
    if isinstance(kind, tuple):
        names = getattr(value, "_fields", range(len(kind)))
        for part, of_part, each in zip(names, kind, value, strict=True):
            _add(found, f"{name}.{part}", of_part, each, maps, described)
    elif kind.startswith("tensordesc"):
        # Older versions, which lack these names, are refused before any launch.
        from triton.backends.driver import decompose_descriptor, expand_signature

        how = next(maps)
        kinds = expand_signature([kind], how, "nvTmaDesc")
        values = decompose_descriptor(value)
        if how is not None:
            values = [_tensor_map(name, value, how, described), *value.shape, *value.strides]
        for i, pair in enumerate(zip(kinds, values, strict=True)):
            _add(found, f"{name}.{i}" if i else name, *pair, maps, described)
    elif kind == "nvTmaDesc":
        found[name] = value
    else:
        found[name] = _parameter(name, kind, value)


def _tensor_map(name: str, tensor: Any, how: Mapping[str, Any], described: Any) -> bytes:
    """Describe a tensor by a TensorMap (emulator.hpp). The tensor is accessed in place."""
    if how["fp4_padded"] or how.get("is_im2col"):
        raise _core.Unavailable(f"{name}: the emulator has no tensor maps of FP4 or im2col")
    array = array_of(name, tensor.base)
    if array is None:
        raise TypeError(f"{name} must describe an array in host memory, got {tensor.base!r}")
    know_address(*memory_of(array), lambda: bool(described))
    ranks, size = len(tensor.shape), how["elem_size"]
    ones = [1] * (5 - ranks)
    return _TENSOR_MAP.pack(
        _TENSOR_MAP_MARK,
        array.ctypes.data,
        *reversed(tensor.shape), *ones,
        *(size * stride for stride in reversed(tensor.strides[:-1])), *ones,
        *reversed(how["block_size"]), *ones,
        *[1] * 5,
        ranks,
        size,
        16 << how["swizzle"] if how["swizzle"] else 0,
        tensor.padding == "nan",
    ).ljust(128, b"\0")  # fmt: skip


def _parameter(name: str, kind: str, value: Any) -> Any:
    """An array, or the bytes of a number, for a parameter."""
    value = getattr(value, "base", value) if isinstance(value, jit.TensorWrapper) else value
    if kind[0] == "*":
        if value is None:
            return bytes(8)
        if (array := array_of(name, value)) is None:
            raise TypeError(f"{name} must be an array in host memory, got {type(value).__name__}")
        return array
    if kind in _FLOATS:
        return struct.pack(_FLOATS[kind], value)
    if kind == "bf16":
        return struct.pack("<f", value)[2:]
    size = max(int(kind[1:]) // 8, 1)
    return (int(value) % (1 << 8 * size)).to_bytes(size, "little")


def _specialised(native: Callable[..., Any]) -> Callable[..., Any]:
    """Triton's specialisation of a kernel for an argument, extended to NumPy's arrays."""

    def specialised(backend: Any, value: Any, *how: Any) -> Any:
        try:
            return native(backend, described(value), *how)
        except KeyError as error:  # from Triton's table of types
            raise TypeError(
                f"an argument must have an element type of Triton, got {error.args[0]}; convert it "
                "with .astype()"
            ) from error

    def described(value: Any) -> Any:
        if isinstance(value, tuple):
            parts = map(described, value)
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        base = value.base if isinstance(value, jit.TensorWrapper) else value
        if isinstance(base, np.generic):
            return base.item()
        array = array_of("an argument", base)
        return value if array is None else _Pointer(array, value.dtype)

    return specialised


def _first(prune: Callable[..., Any]) -> Callable[..., Any]:
    """The first configuration that an autotuner would try."""

    def first(tuner: Any, options: Mapping[str, Any]) -> Sequence[Any]:
        configs: Sequence[Any] = prune(tuner, options)
        warnings.warn(
            f"{tuner.base_fn.__name__}: the emulator does not measure time, so autotuning takes "
            f"the first configuration: {configs[0]}",
            stacklevel=6,
        )
        return configs[:1]

    return first


def _untimed(
    fn: Callable[[], object], *_: Any, quantiles: Any = None, return_mode: str = "mean", **__: Any
) -> Any:
    """Replacement of a benchmark of Triton: call the function once. All times are NaN."""
    warnings.warn("the emulator does not measure time: do_bench returns NaN", stacklevel=2)
    fn()
    many = len(quantiles) if quantiles is not None else int(return_mode == "all")
    return [math.nan] * many or math.nan


def _no_report(mark: Any, *_: Any, **__: Any) -> None:
    """Skip a report, because its problems would take hours."""
    name = mark.fn.__name__
    warnings.warn(f"the emulator does not measure time: skipped {name}", stacklevel=2)


@contextmanager
def intercepted(compute: int) -> Iterator[None]:
    """Run launches on the emulator. At the exit, the state of Triton is restored.

    Another version of Triton may be loaded only because torch needs it: its launches are refused.
    """
    if reason := untested("Triton", triton.__version__, _TESTED):
        with replaced(driver, _active=Refusing(reason)):
            yield
        return
    ours, tuners = _Driver(compute), {}
    run = autotuner.Autotuner.run

    def run_untimed(tuner: Any, *args: Any, **options: Any) -> Any:
        if id(tuner) not in tuners:
            tuners[id(tuner)] = tuner, vars(tuner).copy()
            tuner.cache = {}
        return run(tuner, *args, **options)

    knobs.runtime.kernel_load_start_hook.add(ours.before_loading)
    tuner_class = autotuner.Autotuner
    try:
        with (
            replaced(driver, _active=ours),
            # The cache on the disk returns kernels of equal source with the path of another file.
            replaced(knobs.compilation, always_compile=True),
            replaced(jit, native_specialize_impl=_specialised(jit.native_specialize_impl)),
            replaced(tuner_class, run=run_untimed, prune_configs=_first(tuner_class.prune_configs)),
            replaced(testing, **dict.fromkeys(_BENCHMARKS, _untimed)),
            replaced(testing.Mark, run=_no_report),
        ):
            yield
    finally:
        knobs.runtime.kernel_load_start_hook.remove(ours.before_loading)
        for tuner, state in tuners.values():
            vars(tuner).clear()
            vars(tuner).update(state)


def _unpickled(function: Any, file: str, lines: Sequence[str], first: int, settings: Any) -> Any:
    """A decorated function in another process, which may lack its file."""
    function.__code__ = function.__code__.replace(co_filename=file)  # cloudpickle omits it
    if linecache.getlines(file)[first - 1 : first - 1 + len(lines)] != list(lines):
        text = [*["\n"] * (first - 1), *lines]
        linecache.cache[file] = (sum(map(len, text)), None, text, file)
    return jit.JITFunction(function, **settings)


def _reduced(kernel: Any) -> tuple[Any, ...]:
    """The state of a decorated function for pickle, without its lock and compiled kernels."""
    settings = {name: getattr(kernel, name) for name in _SETTINGS} | {"repr": kernel._repr}
    place = kernel.file_name, kernel.raw_src, kernel.starting_line_number
    return _unpickled, (kernel.fn, *place, settings)


copyreg.pickle(jit.JITFunction, _reduced)
