"""Types for annotations: arrays of other libraries."""

from __future__ import annotations

from typing import Any, Protocol


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
