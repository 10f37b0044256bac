"""Arrays that begin or end at a page that must not be accessed."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
SENTINEL = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)
_PROT_NONE = 0


class Region:
    """Memory between two inaccessible pages. An access to one of them ends the process."""

    def __init__(self, size: int) -> None:
        pages = -(-max(size, 1) // PAGE)
        whole = np.frombuffer(mmap.mmap(-1, (pages + 2) * PAGE), np.uint8)
        self.bytes = whole[PAGE:-PAGE]
        self.bytes[:] = SENTINEL
        for page in (whole.ctypes.data, whole.ctypes.data + (pages + 1) * PAGE):
            if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), _PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The lowest address that the elements occupy, relative to the first one, and the highest."""
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(min(0, r) for r in reach), sum(max(0, r) for r in reach) + itemsize


class Operand:
    """An array in a region of its own.

    Attributes
    ----------
    array
        The array.
    region
        Its memory.
    """

    def __init__(
        self, values: NDArray[Any], strides: tuple[int, ...], place: str = "end", shift: int = 0
    ) -> None:
        low, high = extent(values.shape, strides, values.itemsize)
        self.region = Region(high - low + shift)
        room = self.region.bytes.size - (high - low)
        first = {"start": shift, "end": room - shift}[place]
        self.array: NDArray[Any] = np.ndarray(
            values.shape, values.dtype, self.region.bytes, first - low, strides
        )
        self.fill(values)

    def fill(self, values: NDArray[Any]) -> None:
        """Set the elements, byte by byte."""
        raw = f"V{values.itemsize}"
        target = np.ndarray(
            self.array.shape, raw, self.region.bytes, self._offset(), self.array.strides
        )
        target[...] = np.ascontiguousarray(values).view(raw).reshape(values.shape)
        self.before = self.region.bytes.tobytes()

    def _offset(self) -> int:
        start: int = self.region.bytes.ctypes.data
        return int(self.array.__array_interface__["data"][0]) - start

    def unchanged(self) -> bool:
        """Whether no byte of the region has changed since the elements were set."""
        return self.region.bytes.tobytes() == self.before

    def only_elements_changed(self, initial: NDArray[Any]) -> bool:
        """Set the elements to their initial values again, and compare the region."""
        before = self.before
        self.fill(initial)
        return self.before == before
