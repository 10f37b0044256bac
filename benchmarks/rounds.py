"""Times functions in interleaved rounds with few samples, to compare them on many problems.

``ado.sweep`` samples until the medians have converged, which takes seconds per problem. On the CPU
it excludes the overhead of Python calls, which is significant for small operands. Here, a sample on
the CPU includes this overhead. It follows an untimed call of the same function.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from timeit import Timer
from typing import Any

import numpy as np

from adokernels.measuring.sampling import Sampler

SAMPLE_SECONDS = 100e-6  # CPU: a sample repeats calls for about this time
LONG_CALL = 10e-3  # CPU: no untimed call before samples of calls that take longer
FEWEST, MOST = {"cpu": 7, "cuda": 5}, {"cpu": 61, "cuda": 25}  # number of rounds
#: (slowdown, samples): maximum number of samples for a slowdown relative to the fastest function.
FEW_SAMPLES = ((3.0, 3), (30.0, 1))
FEWEST_OF_LONG = 3  # minimum number of rounds after more than 4 times the sampling time


@dataclass
class Times:
    """Seconds per call, one number per round."""

    seconds: np.ndarray
    hidden: bool = True  # whether launch overhead is excluded

    def at(self, quantile: float) -> float:
        """A quantile of the samples."""
        return float(np.quantile(self.seconds, quantile))

    def to_dict(self) -> dict[str, Any]:
        """Statistics of the samples, as JSON types."""
        low, median, high = (self.at(q) for q in (0.25, 0.5, 0.75))
        return {
            "median": median,
            "quartiles": [low, high],
            "minimum": float(self.seconds.min()),
            "samples": len(self.seconds),
            "launch_overhead_hidden": self.hidden,
        }


Take = Callable[[], tuple[float, bool]]


def on_cpu(work: Callable[[], object]) -> Take:
    timer = Timer(work)
    once = timer.timeit(1)
    if short := once < LONG_CALL:
        once = min(once, *timer.repeat(2, 1))
    calls = max(1, min(1000, int(SAMPLE_SECONDS / max(once, 1e-8))))

    def take() -> tuple[float, bool]:
        if short:
            work()
        return timer.timeit(calls) / calls, True

    return take


def on_cuda(work: Any) -> Take:
    """Sample with cold caches.

    `work` is a prepared call, or a function that launches on the default stream.
    """
    if hasattr(work, "variant"):
        sampler = Sampler.of_call(work, cold=True)
    else:
        sampler = Sampler.of_function(work, "cuda", cold=True)

    def take() -> tuple[float, bool]:
        seconds, _, hidden, _ = sampler.take(1)
        return seconds, hidden

    take()  # loads the code
    return take


def interleaved(
    functions: Mapping[str, Any], ours: str, copy: str, device: str, seconds: float
) -> dict[str, Times]:
    """Sample all functions once per round, in random order, for about `seconds` in total.

    Peers that are much slower than the fastest function are sampled in the first rounds only. The
    copy is ignored when the fastest function is determined.
    """
    takes = {n: (on_cpu if device == "cpu" else on_cuda)(work) for n, work in functions.items()}
    found: dict[str, list[float]] = {name: [] for name in takes}
    hidden = dict.fromkeys(takes, True)
    start = time.perf_counter()
    for done in range(MOST[device]):
        spent = time.perf_counter() - start
        enough = FEWEST[device] if spent <= 4 * seconds else FEWEST_OF_LONG
        if spent > seconds and done >= enough:
            break
        names = sampled_on(found, ours, copy) if done else list(takes)
        random.shuffle(names)
        for name in names:
            sample, ok = takes[name]()
            found[name].append(sample)
            hidden[name] &= ok
    return {name: Times(np.array(found[name]), hidden[name]) for name in takes}


def sampled_on(found: Mapping[str, Sequence[float]], ours: str, copy: str) -> list[str]:
    """Return the functions that need more samples, given the samples so far."""
    fastest = min(min(samples) for name, samples in found.items() if name != copy)

    def enough(name: str) -> bool:
        slowness = min(found[name]) / fastest
        return any(slowness >= s and len(found[name]) >= few for s, few in FEW_SAMPLES)

    return [name for name in found if name in (ours, copy) or not enough(name)]
