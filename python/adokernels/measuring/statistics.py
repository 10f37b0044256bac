"""Order statistics of timing samples, and the comparison of two sets of them.

No distribution is assumed, because timings are skewed and their noise comes in bursts.
Source: Hoefler & Belli, "Scientific Benchmarking of Parallel Computing Systems", SC15.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from adokernels.str_enum import StrEnum
from adokernels.tables.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self

Z95 = 1.96
Z999 = 3.29
_LONGEST_NAME = 200  # characters
#: The smallest number of samples whose order statistics give a 99.9 % interval: 2 ** -10 < 0.001.
_FEWEST = 11


class Verdict(StrEnum):
    """The result of comparing two sets of timings."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNCLEAR = "unclear"


class _Ratio(NamedTuple):
    verdict: Verdict
    ratio: float
    interval: tuple[float, float]


class Comparison(_Ratio):
    """The comparison of two measurements: a tuple that is shown as a sentence.

    Attributes
    ----------
    verdict
        The first measurement is ``"faster"``, ``"slower"``, ``"same"`` or ``"unclear"``.
    ratio
        Ratio of times; above 1 if the first measurement is faster.
    interval
        Its 99.9 % confidence interval.
    ours, theirs
        The names of the measurements.
    """

    ours: str
    theirs: str

    def __new__(
        cls,
        verdict: Verdict,
        ratio: float,
        interval: tuple[float, float],
        *,
        ours: str,
        theirs: str,
    ) -> Self:
        """Make a comparison of two named measurements."""
        comparison = super().__new__(cls, verdict, ratio, interval)
        comparison.ours, comparison.theirs = ours, theirs
        return comparison

    def __repr__(self) -> str:
        low, high = self.interval
        ours, theirs = (printable(name, _LONGEST_NAME) for name in (self.ours, self.theirs))
        if self.verdict is Verdict.SLOWER:
            words = f"{ours} takes {1 / self.ratio:.3g} times as long as {theirs}"
            low, high = 1 / high, 1 / low
        elif self.verdict is Verdict.FASTER:
            words = f"{ours} is {self.ratio:.3g} times as fast as {theirs}"
        elif self.verdict is Verdict.SAME:
            words = f"{ours} takes the same time as {theirs}"
        else:
            words = f"It is unclear whether {ours} or {theirs} is faster"
        digits = 4 if self.verdict is Verdict.SAME else 3
        return f"{words} (99.9 % interval of the ratio: {low:.{digits}g} to {high:.{digits}g})."


def median_interval(
    samples: Sequence[float] | NDArray[np.float64], z: float = Z95
) -> tuple[float, float]:
    """Confidence interval of the median by order statistics (default 95 %).

    With too few samples for the requested level, the interval is the whole range.
    """
    ordered = np.sort(np.asarray(samples, dtype=float))
    n = len(ordered)
    low = math.floor((n - z * math.sqrt(n)) / 2) - 1
    high = math.ceil(1 + (n + z * math.sqrt(n)) / 2) - 1
    return float(ordered[max(low, 0)]), float(ordered[min(high, n - 1)])


def compare(
    ours: Sequence[float] | NDArray[np.float64],
    theirs: Sequence[float] | NDArray[np.float64],
    *,
    paired: bool,
) -> tuple[Verdict, float, tuple[float, float]]:
    """Decide whether ``ours`` took less time than ``theirs``.

    Parameters
    ----------
    ours, theirs
        Seconds. Paired samples were taken in the same rounds, in random order, so that slow drift
        (temperature, clocks, other load) cancels in their ratio.
    paired
        Whether the samples are paired. A small difference between unpaired samples may be drift, so
        a larger difference is required.

    Returns
    -------
    verdict
        "faster" or "slower" only if the 99.9 % interval of the ratio lies beyond 1 % (5 %
        unpaired), and each half of the rounds alone agrees at 95 %; "same" if the interval lies
        within 2 %; else "unclear". Fewer than 11 samples cannot give a 99.9 % interval, so a
        difference of more than 50 % is then required.
    ratio
        Median of theirs / ours; above 1 if ours is faster.
    interval
        Its 99.9 % confidence interval.
    """
    first, second = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    if paired:
        n = min(len(first), len(second))
        ratios = second[:n] / first[:n]
        centre, interval = float(np.median(ratios)), median_interval(ratios, Z999)
        halves = [
            median_interval(half) for half in (ratios[: n // 2], ratios[n // 2 :]) if len(half)
        ]
        margin = 0.01 if n >= _FEWEST else 0.5
    else:
        centre = float(np.median(second) / np.median(first))
        interval = _quotient(median_interval(second, Z999), median_interval(first, Z999))
        halves = [interval]
        n = min(len(first), len(second))
        margin = 0.05 if n >= _FEWEST else 0.5
    low, high = interval
    if low > 1 + margin and all(half[0] > 1 for half in halves):
        return Verdict.FASTER, centre, interval
    if high < 1 - margin and all(half[1] < 1 for half in halves):
        return Verdict.SLOWER, centre, interval
    if n >= _FEWEST and low >= 0.98 and high <= 1.02:
        return Verdict.SAME, centre, interval
    return Verdict.UNCLEAR, centre, interval


def _quotient(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return a[0] / b[1], a[1] / b[0]
