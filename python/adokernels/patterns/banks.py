"""Bank conflicts of the requests of a warp to shared memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.table import Table

from adokernels.patterns.accesses import OfAccesses, WarpAccesses, firsts, quantities_table
from adokernels.records.metrics import WARP
from adokernels.text import count

#: Number of banks of shared memory, and bytes per word of a bank.
BANKS, WORD = 32, 4


@dataclass(frozen=True, eq=False, repr=False)
class BankConflicts(OfAccesses):
    """How shared memory serves an access pattern; made by :func:`bank_conflicts`.

    Attributes
    ----------
    accesses
        The element of each lane.
    words
        Number of different words per bank. Shape: (requests, phases, 32 banks). A phase is the part
        of the warp that is served at a time: all lanes, or half or a quarter of them.
    """

    words: NDArray[np.int64]

    @property
    def phases(self) -> int:
        """Number of parts in which the lanes of a request are served: 1, 2 or 4."""
        return int(self.words.shape[1])

    @property
    def ways(self) -> int:
        """The n of an n-way bank conflict: 1 without conflicts, at most 32."""
        return int(self.words.max())

    @property
    def wavefronts(self) -> int:
        """Number of passes through the banks that all requests need."""
        return int(self.words.max(axis=2).sum())

    @property
    def ideal_wavefronts(self) -> int:
        """Number of wavefronts without conflicts: one per phase with active lanes."""
        return int((self.words.max(axis=2) > 0).sum())

    @property
    def conflicts(self) -> int:
        """Number of additional wavefronts, which the counters call bank conflicts."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def wavefronts_per_request(self) -> float:
        """Mean number of wavefronts per request."""
        return self.wavefronts / self.requests

    def _tables(self) -> list[Table]:
        parts = {1: "the whole warp", 2: "half a warp", 4: "a quarter of a warp"}
        rows = {
            "requests": count(self.requests),
            "lanes served at a time": parts[self.phases],
            "bank conflict": f"{self.ways}-way" if self.ways > 1 else "none",
            "wavefronts": count(self.wavefronts),
            "wavefronts per request": count(self.wavefronts_per_request),
            "wavefronts, ideal": count(self.ideal_wavefronts),
            "wavefronts that are conflicts": count(self.conflicts),
        }
        return [quantities_table(f"Bank conflicts: {self.accesses}", rows)]


def bank_conflicts(
    offsets: str | ArrayLike, itemsize: int = 4, *, active: ArrayLike | None = None
) -> BankConflicts:
    """Count the bank conflicts of accesses to shared memory.

    Shared memory has 32 banks. Consecutive words of 4 bytes are in consecutive banks. A wavefront
    delivers one word per bank. If the lanes access n different words of a bank, the request needs n
    wavefronts: an n-way bank conflict. Lanes that access the same word share it (broadcast).

    Parameters
    ----------
    offsets
        The element that each lane accesses, relative to an address that is a multiple of 128 bytes;
        or the name of a pattern, as in :func:`sectors`. ``"column of 32x32"`` is a column of a
        square tile, and ``"column of 32x33"`` is one of a padded tile.
    itemsize
        Bytes per element: 1, 2, 4, 8 or 16.
    active
        Which lanes are active; by default all. It must have the shape of `offsets`.

    Raises
    ------
    ValueError, TypeError
        If an argument has a wrong shape, type or value.

    Notes
    -----
    Elements of 8 bytes are served per half warp, elements of 16 bytes per quarter warp, because a
    wavefront delivers at most 128 bytes. Loads whose neighbouring lanes access the same element may
    need fewer wavefronts than this model predicts.

    The corresponding counters of loads are ``shared_load_wavefronts`` and
    ``shared_load_conflicts`` in ``ado.profile``.

    Examples
    --------
    >>> ado.bank_conflicts("column of 32x32").ways, ado.bank_conflicts("column of 32x33").ways
    (32, 1)
    """
    accesses = WarpAccesses.of(offsets, itemsize, active)
    parts = max(1, accesses.itemsize // WORD)  # words per element, and phases per request
    words = accesses.offsets[:, :, None] * accesses.itemsize // WORD + np.arange(parts)
    lanes = np.repeat(accesses.active[:, :, None], parts, axis=2)
    ordered, first = firsts(words.reshape(-1, WARP), lanes.reshape(-1, WARP))
    rows = np.repeat(np.arange(len(ordered))[:, None], WARP, axis=1)
    places = (BANKS * rows + ordered % BANKS)[first]
    counts = np.bincount(places, minlength=BANKS * len(ordered))
    return BankConflicts(accesses, counts.reshape(accesses.requests, parts, BANKS))
