"""Launches of kernels that were compiled at run time: on the emulator, or in another process."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adokernels import _core

#: Memory whose address the program knows and may pass to kernels as a number. The key is its first
#: address. The value is the address after its end, and a function that tests whether it exists.
_known: dict[int, tuple[int, Callable[[], bool]]] = {}


def array_of(name: str, value: Any) -> NDArray[Any] | None:
    """A NumPy array, or the memory of a torch tensor from its first element; else None."""
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "untyped_storage"):
        return None
    if value.device.type != "cpu":
        raise ValueError(f"{name} must be in host memory, got a tensor on {value.device}")
    storage = value.untyped_storage()
    low = storage.data_ptr()
    return _bytes_at(low, low + storage.nbytes())[value.data_ptr() - low :]


def memory_of(array: NDArray[Any]) -> tuple[int, int]:
    """The bounds of the memory of an array, or of the arrays to which a view belongs."""
    bounds, owner = byte_bounds(array), array.base
    while owner is not None:
        if isinstance(owner, np.ndarray):
            outer = byte_bounds(owner)
            bounds = min(bounds[0], outer[0]), max(bounds[1], outer[1])
        owner = getattr(owner, "base", None)
    return bounds


def byte_bounds(array: NDArray[Any]) -> tuple[int, int]:
    """The address of the first byte of an array, and the address after its last byte."""
    below, above = reach(array.shape, array.strides, array.itemsize)
    return array.ctypes.data - below, array.ctypes.data + above


def reach(shape: Sequence[int], strides: Sequence[int] | None, itemsize: int) -> tuple[int, int]:
    """The bytes of an array below its first element, and from its first element on."""
    if 0 in shape:
        return 0, 0
    if strides is None:
        return 0, math.prod(shape) * itemsize
    steps = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    return -sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps) + itemsize


def _bytes_at(low: int, high: int) -> NDArray[np.uint8]:
    memory: Any = (ctypes.c_uint8 * (high - low)).from_address(low)
    return np.frombuffer(memory, np.uint8)


def know_address(low: int, high: int, exists: Callable[[], bool]) -> None:
    """Let later launches access memory at its own address, as long as it exists."""
    known = _known.get(low)
    if low < high and not (known and known[0] >= high and known[1]()):
        _known[low] = high, exists


def _is_known(low: int, high: int) -> bool:
    return any(first <= low and high <= last for first, (last, _) in _known.items())


@contextmanager
def _known_memory() -> Iterator[None]:
    for low in [low for low, (_, exists) in _known.items() if not exists()]:
        del _known[low]
    low_to_high = {low: high for low, (high, _) in _known.items()}
    for low, high in low_to_high.items():
        _core.use_host_memory(low, high - low, "an array at a known address")
    try:
        yield
    finally:
        for low in low_to_high:
            _core.forget_host_memory(low)


class _Shared(NamedTuple):
    """Memory that arrays share, the numbers of these arrays, and its copy on the emulator."""

    memory: NDArray[np.uint8]
    numbers: list[int]
    copy: _core.DeviceArray

    @classmethod
    def of(cls, arrays: Sequence[NDArray[Any]]) -> list[_Shared]:
        """Copy the memory of arrays, unless the program knows its address.

        Arrays that share memory still share it.
        """
        bounds = list(map(memory_of, arrays))
        groups: list[tuple[int, int, list[int]]] = []
        for i in sorted(range(len(arrays)), key=bounds.__getitem__):
            low, high = bounds[i]
            if low == high or _is_known(low, high):
                continue  # an empty array has no memory
            if groups and low < groups[-1][1]:
                first, last, numbers = groups[-1]
                groups[-1] = first, max(last, high), [*numbers, i]
            else:
                groups.append((low, high, [i]))
        memories = ((_bytes_at(low, high), numbers) for low, high, numbers in groups)
        return [
            cls(memory, found, _core.to_device(memory, "emulator")) for memory, found in memories
        ]

    def offset(self, array: NDArray[Any]) -> int:
        """The offset of an array's first element in the memory, in bytes."""
        return int(array.ctypes.data - self.memory.ctypes.data)


@contextmanager
def on_emulator(arrays: Sequence[NDArray[Any]], names: Sequence[str]) -> Iterator[list[int]]:
    """The addresses of arrays in memory of the emulator, which is copied back at the exit.

    The memory begins at an aligned address, like memory of cudaMalloc. Memory whose address the
    program knows is not copied. ValueError is raised if a read-only array has changed.
    """
    addresses = [a.ctypes.data if a.size else 0 for a in arrays]
    copied = _Shared.of(arrays)
    for shared in copied:
        name = " and ".join(dict.fromkeys(names[i] for i in shared.numbers))
        base = _core.emulated_address(shared.copy, name)
        for i in shared.numbers:
            addresses[i] = base + shared.offset(arrays[i])
    yield addresses
    for shared in copied:
        found = shared.copy.numpy()
        for i in shared.numbers:
            array = arrays[i]
            if not array.flags.writeable:
                start = shared.offset(array)
                now = np.ndarray(array.shape, array.dtype, found, start, array.strides)
                if now.tobytes() != array.tobytes():
                    raise ValueError(
                        f"{names[i]} must be writable, because the kernel writes to it"
                    )
        if any(arrays[i].flags.writeable for i in shared.numbers):
            shared.memory[...] = found


@lru_cache(maxsize=256)
def emulated_kernel(ptx: bytes, symbol: str) -> _core.CudaKernel:
    """A kernel that is loaded on the emulator; Unavailable if the emulator cannot decode it."""
    try:
        return _core.CudaModule(ptx, "emulator").kernel(symbol)
    except RuntimeError as error:
        raise _core.Unavailable(str(error)) from error


def emulate(
    code: bytes,
    symbol: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    shared_bytes: int,
    arguments: Mapping[str, NDArray[Any] | bytes],
) -> None:
    """Execute a kernel in PTX on the emulator. The arrays then have the values that it wrote.

    `arguments` has one entry per parameter of the kernel, by name. For an array, the kernel
    receives its address. Bytes are the value of the parameter itself.
    """
    arrays = {name: each for name, each in arguments.items() if isinstance(each, np.ndarray)}
    with _known_memory(), on_emulator(list(arrays.values()), list(arrays)) as addresses:
        pointers = (np.uintp(address).tobytes() for address in addresses)
        values = [e if isinstance(e, bytes) else next(pointers) for e in arguments.values()]
        emulated_kernel(code, symbol).launch(grid, block, shared_bytes, values).run(0)


class LaunchPlan(NamedTuple):
    """The launch of a kernel in any process: indices of arrays stand for their addresses."""

    code: bytes
    symbol: str  # the kernel's mangled name
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    arguments: Sequence[int | bytes]
    names: Sequence[str]  # names of the arrays, for error messages
    zeroed: Sequence[int]  # arrays that are set to 0 before the launch

    def values(self, addresses: Sequence[int]) -> list[bytes]:
        """The values of the parameters."""
        return [
            a if isinstance(a, bytes) else np.uintp(addresses[a]).tobytes() for a in self.arguments
        ]

    def launch(
        self, kernel: _core.CudaKernel, addresses: Sequence[int], sizes: Sequence[int]
    ) -> _core.KernelLaunch:
        """The launch for arrays with these addresses and sizes in bytes."""
        zeroed = [(addresses[i], sizes[i]) for i in self.zeroed]
        shape = self.grid, self.block, self.shared_bytes
        return kernel.launch(*shape, self.values(addresses), zeroed)
