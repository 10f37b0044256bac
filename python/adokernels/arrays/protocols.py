"""Types of the arrays of other libraries in annotations."""

from __future__ import annotations

from typing import Any, Protocol


class CudaArray(Protocol):
    """An array with the CUDA array interface: DeviceArray, CuPy, torch, Numba."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Address, shape, strides and type of the array."""


class DLPackArray(Protocol):
    """An array with DLPack that can be moved to another device, such as those of JAX.

    A NumPy array has DLPack, too. Its ``to_device`` accepts the CPU only, so it does not match.
    """

    def __dlpack__(self) -> Any:
        """Return a DLPack capsule."""

    def to_device(self, device: object, /) -> Any:
        """Return a copy on another device."""


OnDevice = CudaArray | DLPackArray
