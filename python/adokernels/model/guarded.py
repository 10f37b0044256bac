"""Memory with red zones for the operands and results of a problem.

A red zone is a range of bytes with a known value. A write beyond the end of an array changes it. A
read beyond the end returns NaN, or an integer that is unlikely in results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.kernels.launch import reach
from adokernels.model.libraries import DeviceView, packed_strides, shares_elements

_RED_ZONE_BYTES = 4096
#: The address of a guarded copy is equal to the address of the original modulo this number.
_ALIGNMENT = 256
#: Reading how much memory is available takes longer than copying this number of bytes.
_ALWAYS_AVAILABLE = 64 << 10
#: Sentinel bytes. As floating-point numbers they are NaN. As integers they are rare in results.
_POISON, _POISON_OF_FLOATS = 0xA5, 0xFF


class GuardedArray:
    """An array with red zones, on the host or on a GPU.

    By default, it is packed and row-major. `address` is the address of the array whose alignment
    is preserved.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        device: str,
        strides: tuple[int, ...] | None = None,
        address: int = 0,
    ) -> None:
        packed = packed_strides(shape, dtype.itemsize)
        self.shape, self.dtype, self.strides = shape, dtype, strides or packed
        self.is_packed = 0 in shape or all(
            n == 1 or s == p for n, s, p in zip(shape, self.strides, packed, strict=True)
        )
        self.poison_byte = _POISON_OF_FLOATS if dtype.kind in "fc" else _POISON
        below, above = reach(shape, self.strides, dtype.itemsize)
        self.nbytes, self.device = below + above, device
        self._size = self.nbytes + 2 * _RED_ZONE_BYTES + _ALIGNMENT
        self._host = np.empty(self._size, np.uint8) if device == "cpu" else None
        self._on_device: _core.DeviceArray | None = None  # its address is aligned
        base = 0 if self._host is None else self._host.ctypes.data
        start = _RED_ZONE_BYTES + (address - below - base - _RED_ZONE_BYTES) % _ALIGNMENT
        self._inside = slice(start, start + self.nbytes)
        self._first = start + below

    @property
    def memory(self) -> NDArray[Any] | DeviceView:
        """The array that variants use: a NumPy array, or a view of device memory."""
        if self._on_device is None:
            return self._array(self.block)
        strides = None if self.is_packed else self.strides
        return DeviceView(self._on_device, self._first, self.shape, self.dtype, strides)

    def with_layout(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values; if elements of this array share memory, a copy in which they do, too."""
        if not shares_elements(self.shape, self.strides, self.dtype.itemsize):
            return values
        copied = self._array(np.empty(self._size, np.uint8))
        self._raw(copied)[...] = self._raw(values)
        return copied

    @property
    def block(self) -> NDArray[np.uint8]:
        """The bytes with the red zones on the host; for a GPU, new memory that is uploaded."""
        return np.empty(self._size, np.uint8) if self._host is None else self._host

    @property
    def layout(self) -> dict[str, Any]:
        """How another process allocates the same array on the host."""
        assert self._host is not None
        place = {"bytes": self._size, "address": self._host.ctypes.data}
        offset = self._first if self.nbytes else 0
        return {**place, "offset": offset, "shape": self.shape, "strides": self.strides,
                "dtype": self.dtype}  # fmt: skip

    def write(self, values: NDArray[Any]) -> None:
        """Replace the values of the array and restore the red zones."""
        memory = self.block
        if self.is_packed:
            memory[: self._inside.start] = memory[self._inside.stop :] = self.poison_byte
        else:
            memory[:] = self.poison_byte
        self._raw(self._array(memory))[...] = self._raw(values)
        self._upload(memory)

    def change_sentinel(self) -> None:
        """Exchange the two sentinel bytes, from the next :meth:`poison` on."""
        self.poison_byte ^= _POISON ^ _POISON_OF_FLOATS

    def poison(self) -> None:
        """Overwrite the array and the red zones with sentinel bytes."""
        memory = self.block
        memory[:] = self.poison_byte
        self._upload(memory)

    def read(self) -> NDArray[Any]:
        """The array on the host (on the CPU, not a copy); ValueError if a red zone has changed."""
        memory = self.block if self._on_device is None else self._on_device.numpy()
        for name, zone in (
            ("before its first element", memory[: self._inside.start]),
            ("after its last element", memory[self._inside.stop :]),
        ):
            changed = np.flatnonzero(zone != self.poison_byte)
            if len(changed):
                distance = len(zone) - changed[-1] if name.startswith("before") else changed[0] + 1
                raise ValueError(
                    f"wrong result: it writes outside of an array ({distance} B {name})"
                )
        return self._array(memory)

    def _array(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        offset = self._first if self.nbytes else 0
        return np.ndarray(self.shape, self.dtype, memory, offset, self.strides)

    def _raw(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array as plain bytes if NumPy would not copy the padding inside its structures."""
        return array.view(f"V{self.dtype.itemsize}") if self.dtype.names else array

    def _upload(self, memory: NDArray[np.uint8]) -> None:
        if self.device == "cpu":
            return
        if self._on_device is None:
            self._on_device = _core.to_device(memory, self.device)
        else:
            self._on_device.copy_from(memory)


def require_host_memory(wanted: int, what: str) -> None:
    """Raise MemoryError if less host memory than this number of bytes is available.

    Linux grants more memory than it has, and ends the process when the memory is used.
    """
    if wanted < _ALWAYS_AVAILABLE:
        return
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:  # not Linux
        return
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    if found and wanted > (free := int(found[0]) << 10):
        raise MemoryError(f"{what} need {wanted} B of host memory, {free} B are free")
