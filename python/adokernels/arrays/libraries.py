"""Arrays of other libraries: conversion of memory to them, and of their results to NumPy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The libraries whose arrays a function can receive. "ado" is the CUDA array interface alone.
LIBRARIES = ("numpy", "ado", "cupy", "torch", "jax", "numba")
_ON_DEVICE = ("ado", "cupy", "torch", "jax", "numba")
_ON_HOST = ("numpy", "torch", "jax")


def require_library(library: str, device: str) -> None:
    """Raise ValueError if a library has no arrays in the memory of a device.

    Raises
    ------
    ValueError
        If the library is unknown, or has no arrays in this memory.
    """
    if library not in LIBRARIES:
        raise ValueError(
            f"arrays must be a known library, got {library!r}"
            f"{_core.suggest(library, list(LIBRARIES))}"
        )
    known = _ON_DEVICE if device == "cuda" else _ON_HOST
    if library not in known:
        raise ValueError(f"arrays on {device} must be one of {', '.join(known)}, got {library!r}")


def library_of(array: Any) -> str | None:
    """The library of an array; None if it is not an array of a known library."""
    if isinstance(array, np.ndarray):
        return "numpy"
    if isinstance(array, _core.DeviceArray):
        return "ado"
    module = type(array).__module__.partition(".")[0]
    module = {"jaxlib": "jax"}.get(module, module)
    return module if module in LIBRARIES and hasattr(array, "shape") else None


def is_on_device(array: Any) -> bool:
    """Whether an array is in the memory of a GPU."""
    if library_of(array) in (None, "numpy"):
        return False
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[0]) == _CUDA
    return hasattr(array, "__cuda_array_interface__")


_CUDA = 2  # kDLCUDA


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


class HostView:
    """A NumPy array that can be converted to arrays of other libraries that share its memory."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array

    def as_library(self, library: str) -> Any:
        """The array as an array of a library."""
        if library == "torch":
            return importlib.import_module("torch").from_numpy(self.array)
        if library == "jax":
            return importlib.import_module("jax").device_put(self.array)
        return self.array


class DeviceView:
    """GPU memory with a shape and a type, for libraries that read the CUDA array interface."""

    def __init__(
        self, owner: _core.DeviceArray, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.pointer: int = owner.__cuda_array_interface__["data"][0] + offset
        self.shape, self.dtype = shape, dtype
        self._owner = owner

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": 1,  # the legacy default stream
            "version": 3,
        }

    def as_library(self, library: str) -> Any:
        """The memory as an array of a library."""
        if library == "cupy":
            return importlib.import_module("cupy").asarray(self)
        if library == "torch":
            return importlib.import_module("torch").as_tensor(self, device="cuda")
        if library == "numba":
            return importlib.import_module("numba.cuda").as_cuda_array(self)
        if library == "jax":
            cupy = importlib.import_module("cupy")
            return importlib.import_module("jax").dlpack.from_dlpack(cupy.asarray(self))
        return self


def share_memory(a: Any, b: Any) -> bool:
    """Whether the address ranges of two arrays overlap; False for a host and a device array."""
    if is_on_device(a) != is_on_device(b):
        return False
    (a_low, a_high), (b_low, b_high) = address_range(a), address_range(b)
    return max(a_low, b_low) < min(a_high, b_high)


def address_range(array: Any) -> tuple[int, int]:
    """The first address of an array, and the address after its last byte; 0 and 0 if unknown."""
    for interface in ("__array_interface__", "__cuda_array_interface__"):
        try:
            facts = getattr(array, interface)
        except (AttributeError, TypeError, RuntimeError):  # PyTorch: wrong memory
            continue
        if 0 in facts["shape"]:
            break
        low = high = facts["data"][0]
        size = np.dtype(facts["typestr"]).itemsize
        strides = facts.get("strides") or _packed_strides(facts["shape"], size)
        for length, stride in zip(facts["shape"], strides, strict=True):
            reach = (length - 1) * stride
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high + size
    return 0, 0


def _packed_strides(shape: tuple[int, ...], size: int) -> list[int]:
    strides: list[int] = []
    for length in reversed(shape):
        strides.insert(0, size)
        size *= length
    return strides
