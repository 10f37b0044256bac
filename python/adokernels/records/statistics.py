"""Order statistics of timing samples, and the comparison of two sets of them.

No distribution is assumed, because timings are skewed and their noise comes in bursts.
Source: Hoefler & Belli, "Scientific Benchmarking of Parallel Computing Systems", SC15.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adokernels.text import StrEnum, number, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self

    Samples = Sequence[float] | NDArray[np.float64]  # seconds

Z95 = 1.96
Z999 = 3.29
_LONGEST_NAME = 200  # characters
#: Largest difference that the sentence about an unclear comparison calls small.
_SMALL = 0.1
#: The smallest difference for the verdicts "faster" and "slower", for paired and for other samples.
_MARGINS = {True: 0.01, False: 0.05}
#: Minimum number of samples for an interval. The range of 11 independent samples contains the
#: median with a probability of 99.9 %, 1 - 2 ** -10. For 95 %, 6 independent samples would be
#: enough, but successive samples are not independent.
FEWEST_SAMPLES = 11
#: If at least 5 samples all differ by a factor of 2, the verdict needs no interval. To make it
#: wrong, other work must double every time of one side and no time of the other.
_FEWEST_PLAIN, _PLAIN = 5, 2.0


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
        Ratio of the median times; above 1 if the first measurement is faster.
    interval
        Its 99.9 % confidence interval; with fewer than 11 samples, the range of the ratios.
    ours, theirs
        The names of the measurements.
    samples
        The number of rounds without a disturbed sample. For measurements that were not interleaved,
        the smaller of the two numbers of undisturbed samples. If too few are undisturbed, all
        count.
    reason
        Why the verdict is withheld and therefore ``"unclear"``: too few samples, or a busy machine.
        Empty if it is not withheld.
    resolution
        The smallest difference that 95 of 100 such runs would find, as a fraction; infinite with
        fewer than 11 samples.
    """

    ours: str
    theirs: str
    samples: int
    reason: str
    resolution: float

    def __new__(
        cls,
        verdict: Verdict,
        ratio: float,
        interval: tuple[float, float],
        *,
        ours: str,
        theirs: str,
        samples: int,
        reason: str = "",
        resolution: float = math.inf,
    ) -> Self:
        """Make a comparison of two named measurements."""
        comparison = super().__new__(cls, verdict, ratio, interval)
        comparison.ours, comparison.theirs, comparison.samples = ours, theirs, samples
        comparison.reason, comparison.resolution = reason, resolution
        return comparison

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that make a copy: for pickle and copy."""
        return tuple(self), vars(self)

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
        elif self.reason:
            words = f"No verdict on {ours} and {theirs}, because {self.reason}"
        elif self.limit:
            words = f"The difference between {ours} and {theirs} is {self.limit}"
        else:
            words = f"It is unclear whether {ours} or {theirs} is faster"
        digits = 4 if self.verdict is Verdict.SAME else 3
        limits = f"{low:.{digits}g} to {high:.{digits}g}"
        if self.confidence is None:
            return f"{words} (only {self.samples} samples; range of the ratio: {limits})."
        resolution = f"resolution: {rounded_up(self.resolution)}"
        return f"{words} (99.9 % interval of the ratio: {limits}; {resolution})."

    @property
    def confidence(self) -> float | None:
        """0.999, or None for fewer than 11 samples, because ``interval`` is then a range."""
        return 0.999 if self.samples >= FEWEST_SAMPLES else None

    @property
    def doubt(self) -> str:
        """Why neither is known to be faster: ``"the times are the same"``; empty if one is."""
        if self.verdict in (Verdict.FASTER, Verdict.SLOWER):
            return ""
        if self.verdict is Verdict.SAME:
            return "the times are the same"
        if self.reason:
            return self.reason
        if self.confidence is None:
            return f"only {self.samples} samples"
        resolution = f"differences below {rounded_up(self.resolution)} are not found reliably"
        return f"the difference is {self.limit}" if self.limit else resolution

    @property
    def limit(self) -> str:
        """For example ``"smaller than 1.7 %"``, if that is all that is known, else empty."""
        low, high = self.interval
        difference = max(high - 1, 1 / low - 1)
        unclear = self.verdict is Verdict.UNCLEAR and not self.reason
        return f"smaller than {rounded_up(difference)}" if unclear and difference <= _SMALL else ""


def rounded_up(share: float) -> str:
    """A percentage with two digits, rounded up because it is an upper limit: ``"1.8 %"``."""
    if not 0 < share < math.inf:
        return f"{100 * share:g} %"
    step = 10.0 ** (math.floor(math.log10(100 * share)) - 1)
    return f"{number(math.ceil(100 * share / step - 1e-9) * step, 2)} %"


def median_interval(samples: Samples, z: float = Z95) -> tuple[float, float]:
    """Confidence interval of the median by order statistics (default 95 %).

    With fewer than 11 samples, the result is the range of the samples, not a confidence interval.
    """
    ordered = np.sort(np.asarray(samples, dtype=float))
    n = len(ordered)
    low = math.floor((n - z * math.sqrt(n)) / 2) - 1
    high = math.ceil(1 + (n + z * math.sqrt(n)) / 2) - 1
    return float(ordered[max(low, 0)]), float(ordered[min(high, n - 1)])


def ratio_of_medians(ours: Samples, theirs: Samples) -> float:
    """The ratio of times; above 1 if ``ours`` took less time."""
    return float(np.median(theirs) / np.median(ours))


def compare(
    ours: Samples, theirs: Samples, ratio: float, *, paired: bool, z: float = Z999
) -> tuple[Verdict, tuple[float, float]]:
    """Decide whether ``ours`` took less time than ``theirs``.

    Paired samples were taken in the same rounds, in random order, so that slow drift (temperature,
    clocks, other load) cancels in their ratio. A small difference between unpaired samples may be
    drift, so a larger difference is required.

    The verdict is "faster" or "slower" only if the whole interval of the ratio differs from 1 by
    more than 1 % (5 % unpaired), and each half of the rounds alone agrees at 95 %; "same" if the
    interval is within 2 % of 1. Fewer than 11 samples cannot give a 99.9 % interval, so the range
    of their ratios decides. The interval is of the median of the ratios per round, or of the ratio
    of the medians if the samples are not paired. It contains `ratio`, which is shown with it. `z`
    is half its width in standard errors.
    """
    n = min(len(ours), len(theirs))
    ratios = np.asarray(theirs[:n], float) / np.asarray(ours[:n], float)  # per round
    if paired:
        found = median_interval(ratios, z)
    else:
        mine, other = (median_interval(samples, z) for samples in (ours, theirs))
        found = other[0] / mine[1], other[1] / mine[0]
    low, high = interval = min(found[0], ratio), max(found[1], ratio)
    if n < FEWEST_SAMPLES:
        if n >= _FEWEST_PLAIN and (low >= _PLAIN or high <= 1 / _PLAIN):
            return (Verdict.FASTER if low >= _PLAIN else Verdict.SLOWER), interval
        return Verdict.UNCLEAR, interval
    parts = (ratios[: n // 2], ratios[n // 2 :])
    halves = [median_interval(part) for part in parts] if paired else [interval]
    if beyond_margin(interval, paired=paired):
        if low > 1 and all(half[0] > 1 for half in halves):
            return Verdict.FASTER, interval
        if high < 1 and all(half[1] < 1 for half in halves):
            return Verdict.SLOWER, interval
    if low >= 0.98 and high <= 1.02:
        return Verdict.SAME, interval
    return Verdict.UNCLEAR, interval


def beyond_margin(interval: tuple[float, float], *, paired: bool) -> bool:
    """Whether the whole interval differs from 1 by more than the margin."""
    (low, high), margin = interval, _MARGINS[paired]
    return low > 1 + margin or high < 1 - margin


def resolution(ratio: float, interval: tuple[float, float], *, paired: bool) -> float:
    """The smallest difference that 95 of 100 such runs would find, as a fraction.

    The 99.9 % interval is 3.29 standard errors wide on each side of the ratio. The ratio of a run
    is at most 1.645 standard errors, half of that, below the true one in 95 of 100 runs.
    """
    low, high = interval
    return _MARGINS[paired] + 1.5 * (high - low) / 2 / ratio
