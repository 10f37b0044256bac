"""Sectors and cache lines that the requests of a warp touch in global memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.table import Table

from adokernels.patterns.accesses import OfAccesses, WarpAccesses, distinct, quantities_table, share
from adokernels.records.metrics import SECTOR
from adokernels.text import count, quantity

#: Bytes of a cache line: four sectors.
LINE = 128


@dataclass(frozen=True, eq=False, repr=False)
class Sectors(OfAccesses):
    """What the memory system transfers for an access pattern; made by :func:`sectors`.

    Attributes
    ----------
    accesses
        The element of each lane.
    request_sectors, request_lines
        Number of 32-byte sectors, and of 128-byte cache lines, that each request touches.
    requested_bytes
        Bytes that the active lanes request.
    used_bytes
        Requested bytes, where bytes that several lanes of a request access count once.
    ideal_sectors
        The number of sectors if the used bytes of each request were contiguous and aligned.
    """

    request_sectors: NDArray[np.int64]
    request_lines: NDArray[np.int64]
    requested_bytes: int
    used_bytes: int
    ideal_sectors: int

    @property
    def sectors(self) -> int:
        """Number of 32-byte sectors that all requests transfer."""
        return int(self.request_sectors.sum())

    @property
    def lines(self) -> int:
        """Number of 128-byte cache lines that all requests touch."""
        return int(self.request_lines.sum())

    @property
    def moved_bytes(self) -> int:
        """Bytes of all sectors."""
        return SECTOR * self.sectors

    @property
    def sectors_per_request(self) -> float:
        """Mean number of sectors per request."""
        return self.sectors / self.requests

    @property
    def utilisation(self) -> float:
        """Fraction of the moved bytes that the lanes use (the degree of coalescing)."""
        return self.used_bytes / self.moved_bytes

    def _tables(self) -> list[Table]:
        rows = {
            "requests": count(self.requests),
            "active lanes per request": count(float(self.accesses.active.sum()) / self.requests),
            "32-byte sectors": count(self.sectors),
            "32-byte sectors per request": count(self.sectors_per_request),
            "32-byte sectors, ideal": count(self.ideal_sectors),
            "128-byte cache lines": count(self.lines),
            "bytes requested by lanes": _bytes(self.requested_bytes),
            "bytes used (shared bytes once)": _bytes(self.used_bytes),
            "bytes moved": _bytes(self.moved_bytes),
            "utilisation": share(self.utilisation),
        }
        return [quantities_table(f"Sectors: {self.accesses}", rows)]


def _bytes(value: int) -> str:
    return f"{value} B" if value < 100_000 else quantity(value, "B")


def sectors(
    offsets: str | ArrayLike, itemsize: int = 4, *, active: ArrayLike | None = None
) -> Sectors:
    """Count the sectors of global memory that warps access with one instruction.

    A warp sends one request per load or store instruction. Memory transfers whole sectors of 32
    bytes, so the cost of a request is the number of sectors that its lanes touch. If the lanes
    access neighbouring elements, the request is coalesced, and most bytes of its sectors are used.

    Parameters
    ----------
    offsets
        The element that each lane accesses, relative to an address that is a multiple of 128 bytes;
        or the name of a pattern:

        - ``"aligned"``: lane `i` accesses element `i`;
        - ``"shifted n"``: element `i + n`; ``"shifted"`` is shifted by one;
        - ``"stride n"``: element `n * i`;
        - ``"column of RxC"``: element `C * i`, a column of a tile with R rows and C columns;
        - ``"random"``: 32 random elements of a large array;
        - ``"same word"``: element 0.

        In an array of one dimension, every 32 consecutive lanes are a request. In an array of two
        dimensions, each row of up to 32 lanes is a request.
    itemsize
        Bytes per element: 1, 2, 4, 8 or 16, the sizes that one instruction can access.
    active
        Which lanes are active; by default all. Has the shape of `offsets`.

    Raises
    ------
    ValueError, TypeError
        If an argument has a wrong shape, type or value.

    Notes
    -----
    Elements of 8 and 16 bytes remain one request: aligned ones touch 8 and 16 sectors. The L1 cache
    processes this request per half or quarter warp, 128 bytes at a time.

    The counters of a load are ``load_requests`` and ``load_sectors`` in ``ado.profile``.

    Examples
    --------
    >>> [ado.sectors(p).sectors for p in ("aligned", "shifted", "stride 2", "stride 3")]
    [4, 5, 8, 12]
    """
    accesses = WarpAccesses.of(offsets, itemsize, active)
    first_byte, lanes = accesses.offsets * accesses.itemsize, accesses.active
    used = accesses.itemsize * distinct(accesses.offsets, lanes)
    return Sectors(
        accesses,
        request_sectors=distinct(first_byte // SECTOR, lanes),
        request_lines=distinct(first_byte // LINE, lanes),
        requested_bytes=accesses.itemsize * int(lanes.sum()),
        used_bytes=int(used.sum()),
        ideal_sectors=int((-(-used // SECTOR)).sum()),
    )
