"""Launches of Numba's CUDA kernels on the emulator."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary, ref

import numba_cuda
import numpy as np
from numba import cuda
from numba.cuda import args, compiler, dispatcher, types
from numba.cuda.cudadrv import devices

from adokernels import _core
from adokernels.kernels.interception import replaced, untested
from adokernels.kernels.launch import array_of, emulate, know_address, memory_of

_TESTED = "0.30"
#: The number of threads per block of ``kernel.forall(n)``, which a driver would choose.
_THREADS = 256
_FLOATS = {types.float16: "<e", types.float32: "<f", types.float64: "<d"}
#: Compiled kernels per dispatcher, by compute capability and argument types.
_compiled: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


#: The functions of CUDA's device runtime that wait for all blocks of a grid. The first block adds
#: a number that flips the highest bit when all other blocks have added 1.
_GRID_SYNC = """
.global .align 4 .u32 grid_arrivals;
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope) {
  .reg .b64 %rd;
  mov.u64 %rd, 1;
  st.param.b64 [handle], %rd;
  ret;
}
.visible .func (.param .b32 status) cudaCGSynchronize(.param .b64 handle, .param .b32 flags) {
  .reg .b32 %r<8>;
  .reg .pred %p;
  barrier.sync 0;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %tid.y;
  mov.u32 %r2, %tid.z;
  or.b32 %r0, %r0, %r1;
  or.b32 %r0, %r0, %r2;
  setp.ne.u32 %p, %r0, 0;
  @%p bra DONE;
  mov.u32 %r0, %nctaid.x;
  mov.u32 %r1, %nctaid.y;
  mov.u32 %r2, %nctaid.z;
  mul.lo.u32 %r0, %r0, %r1;
  mul.lo.u32 %r0, %r0, %r2;
  sub.u32 %r0, 0x80000001, %r0;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ctaid.y;
  mov.u32 %r3, %ctaid.z;
  or.b32 %r1, %r1, %r2;
  or.b32 %r1, %r1, %r3;
  setp.eq.u32 %p, %r1, 0;
  selp.u32 %r0, %r0, 1, %p;
  fence.acq_rel.gpu;
  atom.global.add.u32 %r4, [grid_arrivals], %r0;
WAIT:
  ld.acquire.gpu.global.u32 %r5, [grid_arrivals];
  xor.b32 %r5, %r5, %r4;
  setp.ge.s32 %p, %r5, 0;
  @%p bra WAIT;
DONE:
  barrier.sync 0;
  mov.u32 %r0, 0;
  st.param.b32 [status], %r0;
  ret;
}
"""


class OnHost(np.ndarray[Any, Any]):
    """The result of `cuda.to_device` in the context: an array on the host."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The description of the array, whose address kernels can use."""
        owner: Any = self
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        reference = ref(owner)
        know_address(*memory_of(self), lambda: reference() is not None)
        return self.__array_interface__ | {"stream": None}

    def copy_to_host(self, ary: Any = None, stream: object = 0) -> Any:
        """Copy the values to the host."""
        if ary is None:
            return np.array(self)
        ary[...] = self
        return ary

    def copy_to_device(self, ary: Any, stream: object = 0) -> None:
        """Replace the values."""
        self[...] = ary


def _to_device(obj: Any, stream: object = 0, copy: bool = True, to: Any = None) -> Any:
    if to is None:
        return np.array(obj).view(OnHost)
    to[...] = obj
    return to


def _device_array(
    shape: Any, dtype: Any = np.float64, *, order: Any = "C", stream: object = 0
) -> Any:
    return np.empty(shape, dtype, order).view(OnHost)


class _Stream(SimpleNamespace):
    """A stream: launches end before they return."""

    def synchronize(self) -> None:
        """All work is done."""

    @contextmanager
    def auto_synchronize(self) -> Iterator[_Stream]:
        """Return the stream."""
        yield self


def _configured(
    kernel: Any, griddim: Any, blockdim: Any, stream: object = 0, sharedmem: int = 0
) -> Callable[..., None]:
    """A kernel with its launch configuration."""
    grid, block = dispatcher.normalize_kernel_dimensions(griddim, blockdim)

    def launch(*arguments: Any) -> None:
        if 0 in (*grid, *block):
            raise ValueError(f"grid and block must be at least 1, got {grid} and {block}")
        _launch(kernel, grid, block, sharedmem, arguments)

    return launch


def _for_all(
    kernel: Any, ntasks: int, tpb: int = 0, stream: object = 0, sharedmem: int = 0
) -> Callable[..., None]:
    """A kernel with a launch configuration of one thread per task."""
    threads = tpb or _THREADS
    if not ntasks:
        return lambda *arguments: None
    return _configured(kernel, math.ceil(ntasks / threads), threads, stream, sharedmem)


def _launch(kernel: Any, grid: Any, block: Any, shared_bytes: int, arguments: Any) -> None:
    """Compile a kernel for its arguments, unless it is compiled, and launch it."""
    given = [each.value if isinstance(each, args.ArgHint) else each for each in arguments]
    given = [np.asarray(each) if isinstance(each, OnHost) else each for each in given]
    names = list(kernel.py_func.__code__.co_varnames[: kernel.py_func.__code__.co_argcount])
    if len(names) != len(given):
        raise TypeError(f"{kernel.__name__} must have {len(names)} arguments, got {len(given)}")
    kinds = tuple(map(kernel.typeof_pyval, given))
    if not kernel._can_compile:  # it has explicit signatures
        signatures = [found.signature for found in kernel.overloads.values()]
        indexed = (pair for signature in signatures for pair in enumerate(signature.args))
        pointers = {i: kind for i, kind in indexed if isinstance(kind, types.CPointer)}
        kinds = tuple(pointers.get(i, kind) for i, kind in enumerate(kinds))
        kinds = kernel.typingctx.resolve_overload(kernel.py_func, signatures, kinds, {}).args
    key = (cuda.get_current_device().compute_capability, kinds)
    cache = _compiled.setdefault(kernel, {})
    if key not in cache:
        options = kernel.targetoptions | {"debug": False, "lineinfo": True}
        found = dispatcher._Kernel(kernel.py_func, kinds, **options)
        # The mangled name contains the hash of the options, which no message needs.
        ptx = found.library.get_asm_str().replace(found.entry_name, kernel.__name__)
        for file in found.library._linking_files:
            if not (isinstance(file, str) and file.endswith(".ptx")):
                raise _core.Unavailable(
                    f"{kernel.__name__}: code that is linked must be PTX on the emulator, "
                    f"got {file}"
                )
            ptx += Path(file).read_text()
        cache[key] = (ptx + _GRID_SYNC * found.cooperative).encode()
    flat: dict[str, Any] = {}
    records: list[tuple[Any, Any]] = []
    for name, kind, value in zip(names, kinds, given, strict=True):
        for extension in reversed(kernel.extensions or ()):
            kind, value = extension.prepare_args(kind, value, stream=0, retr=[])  # noqa: PLW2901
        _add(flat, records, name, kind, value)
    emulate(cache[key], kernel.__name__, grid, block, shared_bytes, flat)
    for record, copy in records:
        for field in record.dtype.names:
            record[field] = copy[field]


def _add(flat: dict[str, Any], records: list[Any], name: str, kind: Any, value: Any) -> None:
    """Add the parameters of the kernel for an argument of the function."""
    if isinstance(kind, types.Array):
        array = array_of(name, value)
        if array is None:
            raise TypeError(f"{name} must be a NumPy array, got a {type(value).__name__}")
        flat |= {f"{name}.meminfo": bytes(8), f"{name}.parent": bytes(8)}
        numbers = {"nitems": array.size, "itemsize": array.itemsize}
        flat |= {f"{name}.{of}": number.to_bytes(8, "little") for of, number in numbers.items()}
        flat[name] = array
        for of in ("shape", "strides"):
            for i, number in enumerate(getattr(array, of)):
                flat[f"{name}.{of}[{i}]"] = number.to_bytes(8, "little", signed=True)
    elif isinstance(kind, types.Record):
        copy = np.array(value)
        records.append((value, copy))
        flat[name] = copy
    elif isinstance(kind, types.BaseTuple):
        for i, (of_item, item) in enumerate(zip(kind, value, strict=True)):
            _add(flat, records, f"{name}[{i}]", of_item, item)
    elif isinstance(kind, types.EnumMember):
        _add(flat, records, name, kind.dtype, value.value)
    elif isinstance(kind, types.Complex):
        part = struct.Struct("<f" if kind == types.complex64 else "<d")
        flat |= {f"{name}.real": part.pack(value.real), f"{name}.imag": part.pack(value.imag)}
    elif isinstance(kind, types.NPDatetime | types.NPTimedelta):
        flat[name] = value.view(np.int64).tobytes()
    elif isinstance(kind, types.Boolean):
        flat[name] = bytes([bool(value)])
    elif isinstance(kind, types.CPointer):
        flat[name] = int(value).to_bytes(8, "little")
    elif isinstance(kind, types.Integer):
        flat[name] = int(value).to_bytes(kind.bitwidth // 8, "little", signed=kind.signed)
    elif kind in _FLOATS:
        flat[name] = struct.pack(_FLOATS[kind], value)
    else:
        raise TypeError(f"{name} must be an array or a number, got Numba's type {kind}")


@contextmanager
def intercepted(compute: int) -> Iterator[None]:
    """Run launches on the emulator. At the exit, the functions of Numba are restored."""
    if reason := untested("numba-cuda", numba_cuda.__version__, _TESTED):
        raise _core.Unavailable(reason)
    gpu = _core.cuda_properties("emulator")
    device = SimpleNamespace(
        compute_capability=divmod(compute, 10),
        name=gpu["name"],
        id=0,
        MULTIPROCESSOR_COUNT=gpu["multiprocessors"],
        MAX_THREADS_PER_BLOCK=1024,
        WARP_SIZE=32,
    )

    def resident_blocks(kernel: Any, blockdim: Any, dynsmemsize: int = 0) -> int:
        resident: int = gpu["threads_per_multiprocessor"] // int(np.prod(blockdim))
        return resident * int(gpu["multiprocessors"])

    compile_cuda = compiler.compile_cuda

    def compile_with_lines(*arguments: Any, **options: Any) -> Any:
        return compile_cuda(*arguments, **options | {"debug": False, "lineinfo": True})

    api = {
        "is_available": lambda: True,
        "get_current_device": lambda: device,
        "select_device": lambda device_id: device,
        "to_device": _to_device,
        "device_array": _device_array,
        "pinned_array": _device_array,
        "mapped_array": _device_array,
        "device_array_like": lambda ary, stream=0: _device_array(ary.shape, ary.dtype),
        "synchronize": lambda: None,
        "stream": _Stream,
        "default_stream": _Stream,
    }
    with (
        replaced(cuda, **api),
        replaced(devices, get_context=lambda *_: SimpleNamespace(device=device)),
        replaced(dispatcher, get_current_device=lambda: device, compile_cuda=compile_with_lines),
        replaced(dispatcher.CUDADispatcher, configure=_configured, forall=_for_all),
        replaced(
            dispatcher._Kernel,
            bind=lambda kernel: None,
            max_cooperative_grid_blocks=resident_blocks,
        ),
    ):
        yield
