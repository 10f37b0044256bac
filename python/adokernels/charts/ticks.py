"""Ticks of logarithmic axes with few decades."""

from __future__ import annotations

import math

import numpy as np

#: Candidates for ticks, as multiples of powers of ten. The first candidate with enough ticks is
#: used.
_MULTIPLES: tuple[tuple[float, ...], ...] = (
    (1,),
    (1, 3),
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 7),
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
)
_FEWEST_TICKS = 4


def log_ticks(low: float, high: float) -> list[float]:
    """Round times within the range: powers of ten, and their multiples if there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for multiples in _MULTIPLES:
        found = [m * 10.0**p for p in powers for m in multiples if low <= m * 10.0**p <= high]
        if len(found) >= _FEWEST_TICKS:
            return found
    return [float(f"{t:.2g}") for t in np.geomspace(low * 1.05, high / 1.05, _FEWEST_TICKS)]
