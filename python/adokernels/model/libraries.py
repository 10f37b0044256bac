"""Arrays of other libraries: conversion of memory to them, and of their results to NumPy."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.kernels.launch import reach

#: The libraries whose arrays a function can receive. "ado" is the CUDA array interface alone.
LIBRARIES = ("numpy", "ado", "cupy", "torch", "jax", "numba")
_ON_DEVICE = ("ado", "cupy", "torch", "jax", "numba")
_ON_HOST = ("numpy", "torch", "jax")


def require_library(library: str, device: str) -> None:
    """Raise ValueError if a library is unknown or does not support arrays on a device."""
    known = _ON_DEVICE if device == "cuda" else _ON_HOST
    if library not in known:
        hint = _core.suggest(library, list(known))
        raise ValueError(f"arrays on {device} must be of a known library, got {library!r}{hint}")


def library_of(array: Any) -> str | None:
    """The library of an array, or None if it is not an array of a known library."""
    if isinstance(array, np.ndarray):
        return "numpy"
    if isinstance(array, _core.DeviceArray):
        return "ado"
    module = type(array).__module__.partition(".")[0]
    module = {"jaxlib": "jax"}.get(module, module)
    return module if module in LIBRARIES and hasattr(array, "shape") else None


def is_on_device(array: Any) -> bool:
    """Whether an array is in the memory of a GPU or of the emulator."""
    if isinstance(array, _core.DeviceArray):
        return True
    if library_of(array) in (None, "numpy"):
        return False
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[0]) == 2  # kDLCUDA
    return hasattr(array, "__cuda_array_interface__")


def on_host(array: Any) -> NDArray[Any]:
    """Convert an array of any library to NumPy; only arrays on a GPU are copied."""
    if isinstance(array, np.ndarray):
        return array
    for method in ("numpy", "get", "copy_to_host"):  # adokernels, CuPy, Numba
        if hasattr(array, method):
            try:
                return np.asarray(getattr(array, method)())
            except TypeError:  # PyTorch raises it for an array on the GPU
                continue
    if hasattr(array, "detach"):  # PyTorch
        return np.asarray(array.detach().cpu())
    return np.asarray(array)


class CudaArray(Protocol):
    """An array with the CUDA array interface: DeviceArray, CuPy, torch, Numba."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Address, shape, strides and element type of the array."""


class DLPackArray(Protocol):
    """An array that supports DLPack and can be moved to another device, such as a JAX array.

    A NumPy array also supports DLPack, but its ``to_device`` accepts only the CPU. It does not
    match this type.
    """

    def __dlpack__(self) -> Any:
        """Return a DLPack capsule."""

    def to_device(self, device: object, /) -> Any:
        """Return a copy on another device."""


OnDevice = CudaArray | DLPackArray


class DeviceView:
    """GPU memory with a shape and a type, for libraries that read the CUDA array interface."""

    def __init__(
        self,
        owner: _core.DeviceArray,
        offset: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.pointer: int = owner.__cuda_array_interface__["data"][0] + offset
        self.shape, self.dtype, self.strides = shape, dtype, strides
        self._owner = owner

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": self.strides,
            "stream": 1,  # the legacy default stream
            "version": 3,
        }


def as_library(memory: NDArray[Any] | DeviceView, library: str) -> Any:
    """An array of a library that shares this memory."""
    on_device = isinstance(memory, DeviceView)
    if library in ("numpy", "ado"):
        return memory
    if library == "numba":
        return importlib.import_module("numba.cuda").as_cuda_array(memory)
    module = importlib.import_module(library)
    if library == "cupy":
        return module.asarray(memory)
    if library == "torch":
        return module.as_tensor(memory, device="cuda") if on_device else module.from_numpy(memory)
    if on_device:
        return module.dlpack.from_dlpack(importlib.import_module("cupy").asarray(memory))
    return module.device_put(memory)


def share_memory(a: Any, b: Any) -> bool:
    """Whether the address ranges of two arrays overlap; False for a host and a device array."""
    if is_on_device(a) != is_on_device(b):
        return False
    (a_low, a_high), (b_low, b_high) = address_range(a), address_range(b)
    return max(a_low, b_low) < min(a_high, b_high)


def address_range(array: Any) -> tuple[int, int]:
    """The first address of an array, and the address after its last byte; 0 and 0 if unknown."""
    facts = memory_of(array)
    if facts is None or 0 in facts["shape"]:
        return 0, 0
    size = np.dtype(facts["typestr"]).itemsize
    below, above = reach(facts["shape"], facts.get("strides"), size)
    return facts["data"][0] - below, facts["data"][0] + above


def memory_of(array: Any) -> dict[str, Any] | None:
    """Address, shape, type and strides of an array, as its array interface, or None if unknown."""
    for interface in ("__array_interface__", "__cuda_array_interface__"):
        try:
            facts: dict[str, Any] = getattr(array, interface)
        except (AttributeError, TypeError, RuntimeError):  # PyTorch: memory of another device
            continue
        return facts
    return None


def packed_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides of a packed, row-major array in bytes."""
    return tuple(math.prod(shape[d + 1 :]) * itemsize for d in range(len(shape)))


def shares_elements(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether elements share memory, as in broadcast dimensions, or are interleaved."""
    end = itemsize
    for stride, length in sorted(zip(map(abs, strides), shape, strict=True)):
        if length > 1 and stride < end:
            return 0 not in shape
        end += (length - 1) * stride
    return False


def result_on_host(returned: Any) -> Any:
    """A copy of results on the host, which can be arrays of any library."""
    arrays = returned if isinstance(returned, tuple) else (returned,)
    for array in arrays:
        masked = isinstance(array, np.ma.MaskedArray)
        if masked or (library_of(array) is None and not np.isscalar(array)):
            raise ValueError(f"wrong result: it returns a {type(array).__name__}, not an array")
    copies = tuple(np.array(on_host(array)) for array in arrays)
    return copies if isinstance(returned, tuple) else copies[0]


def require_no_view(returned: Any, operands: Sequence[Any]) -> None:
    """Raise ValueError if a result shares memory with an operand: returning a view does no work."""
    for array in returned if isinstance(returned, tuple) else (returned,):
        if any(share_memory(array, operand) for operand in operands):
            raise ValueError("wrong result: it returns a view of an operand, not data")
