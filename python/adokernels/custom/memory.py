"""Memory for the arrays of custom variants, with red zones on both sides.

A red zone is a range of bytes with a known value. A write beyond the end of an array changes them.
A read beyond the end finds NaN, or an unlikely integer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.arrays.libraries import DeviceView, HostView

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RED_ZONE_BYTES = 4096
#: Floating-point numbers of these bytes are NaN. Integers are rarer in results than 0 and 1.
_POISON, _POISON_OF_FLOATS = 0xA5, 0xFF


class GuardedArray:
    """An array with red zones, on the host or on the GPU.

    Attributes
    ----------
    shape, dtype
        Of the array; it is packed, row-major.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: str) -> None:
        self.shape, self.dtype = shape, dtype
        self._poison = _POISON_OF_FLOATS if dtype.kind in "fc" else _POISON
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self._inside = slice(_RED_ZONE_BYTES, _RED_ZONE_BYTES + count)
        whole = np.full(count + 2 * _RED_ZONE_BYTES, self._poison, np.uint8)
        self._host = whole
        self._device = _core.to_device(whole) if device == "cuda" else None

    @classmethod
    def like(cls, array: NDArray[Any], device: str) -> GuardedArray:
        """A copy of an array."""
        guarded = cls(array.shape, array.dtype, device)
        guarded.write(array)
        return guarded

    @property
    def memory(self) -> NDArray[Any] | DeviceView:
        """The array in the memory in which variants use it."""
        view = self.view()
        return view.array if isinstance(view, HostView) else view

    def view(self) -> HostView | DeviceView:
        """The array, for the libraries that variants use."""
        if self._device is None:
            return HostView(self._array())
        return DeviceView(self._device, self._inside.start, self.shape, self.dtype)

    def write(self, values: NDArray[Any]) -> None:
        """Replace the values of the array and restore the red zones."""
        self._host[: self._inside.start] = self._poison
        self._host[self._inside.stop :] = self._poison
        self._array()[...] = values
        self._upload()

    def poison(self) -> None:
        """Overwrite the array and the red zones with bytes that are no result."""
        self._host[:] = self._poison
        self._upload()

    def read(self) -> NDArray[Any]:
        """The values of the array on the host; on the CPU, the array itself.

        Raises
        ------
        ValueError
            If a red zone has changed.
        """
        if self._device is not None:
            self._host = self._device.numpy()
        for name, zone in (
            ("before its first element", self._host[: self._inside.start]),
            ("after its last element", self._host[self._inside.stop :]),
        ):
            changed = np.flatnonzero(zone != self._poison)
            if len(changed):
                distance = len(zone) - changed[-1] if name.startswith("before") else changed[0] + 1
                raise ValueError(
                    f"wrong result: it writes outside of an array ({distance} B {name})"
                )
        return self._array()

    def _array(self) -> NDArray[Any]:
        return self._host[self._inside].view(self.dtype).reshape(self.shape)

    def _upload(self) -> None:
        if self._device is not None:
            self._device.copy_from(self._host)
