"""The gain that a step is expected to have, with an interval, from counters before the step.

A step can remove a share of the time: the time for excess sectors, for bank conflicts, for waits.
This share follows from the counters, for each category of steps. The prediction is that a step
realises half of it, on a logarithmic scale: if a step could halve the time, it gains the square
root of 2. The interval contains the middle 80 % of the steps to which it is fitted. The project
tests it on ladders that were left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from adokernels.diagnosis.advice import bound_of
from adokernels.diagnosis.evidence import WIDEST, Facts, KernelFacts
from adokernels.records.definitions import NOTABLE
from adokernels.records.limiter import Step
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.text import number, percent, ratio

#: The part of the removable time that a step realises, as an exponent of the ratio of times.
REALISED = 0.5
#: The 10 % and 90 % quantiles of the stored steps' deviations from the prediction. Each routine has
#: the same weight.
DEVIATIONS = (-0.54, 0.7)
#: Deviations are relative to the logarithm of the largest ratio of times plus this value.
FLOOR = 0.4
#: Time that no step removes.
_KEPT = 0.03
#: Instructions that are removed with a memory access: address, bounds test, conversion.
_PER_ACCESS = 4


@dataclass(frozen=True)
class Prediction:
    """The expected ratio of the times before and after a step.

    Attributes
    ----------
    gain, low, high
        The expected ratio, and the interval that contains 80 % of the fitted steps.
    removable
        The share of the time that the step could remove.
    """

    gain: float
    low: float
    high: float
    removable: float

    def __contains__(self, realised: float) -> bool:
        return self.low <= realised <= self.high

    def __str__(self) -> str:
        text = f"{ratio(self.gain)} ({number(self.low)} to {number(self.high)})"
        return f"{text}: could remove {percent(self.removable)} of the time"


def predict(
    m: Measurement, steps: Iterable[Step], machine: Machine | None = None
) -> Prediction | None:
    """Predict the gain of a step that makes these changes; None without counters.

    The step with the largest removable share of the time decides. No prediction exceeds the bound.
    """
    facts = Facts(m, machine)
    changes = list(steps)
    if facts.longest is None or not facts.longest.profile.units:
        return None
    removed = max((removable(facts, step) for step in changes), default=0.0)
    bounds = [bound for step in changes if (bound := bound_of(facts, step)[0]) is not None]
    return expected(headroom(removed, min(bounds, default=math.inf)), min(bounds, default=math.inf))


def headroom(removed: float, bound: float = math.inf) -> float:
    """The logarithm of the largest ratio of times if this share of the time is removed."""
    return min(-math.log(max(1 - removed, _KEPT)), math.log(bound))


def expected(
    largest: float, bound: float = math.inf, deviations: tuple[float, float] = DEVIATIONS
) -> Prediction:
    """The prediction for a logarithm of the largest ratio of times."""
    middle = REALISED * largest
    low, high = (middle + q * (FLOOR + largest) for q in deviations)
    gain, least, most = (min(math.exp(v), bound) for v in (middle, low, max(high, middle)))
    return Prediction(gain, least, most, removable=1 - math.exp(-largest))


def removable(facts: Facts, step: Step) -> float:
    """The share of the time that a step of this category could remove, from the counters."""
    k = facts.longest
    estimate = _ESTIMATES.get(step)
    if k is None or estimate is None:
        return 0.0
    return min(max(estimate(facts, k), 0.0), 1 - _KEPT)


def _share(k: KernelFacts, *levels: str) -> float:
    """The largest utilisation of the units of some levels."""
    busiest = [unit.share for level in levels if (unit := k.profile.busiest(level))]
    of_dram = k.of_dram if "DRAM" in levels else None
    return max([*busiest, of_dram or 0.0], default=0.0)


def _idle(k: KernelFacts) -> float:
    """The share of the cycles in which schedulers issue nothing: only then stalls cost time."""
    return 1 - (k.get("issue_active") or 0.0)


def _waits(k: KernelFacts) -> float:
    """The share of the time that waits for memory cost."""
    return k.memory_stalls * _idle(k)


def _fences(k: KernelFacts) -> float:
    """The share of the time that waits at memory fences cost, for atomic operations and stores.

    The other warps of a block wait at a barrier for the warp at the fence.
    """
    fences = k.stall("membar")
    return (fences + k.stall("barrier") if fences >= NOTABLE else fences) * _idle(k)


def _instructions(k: KernelFacts) -> float:
    """The share of the time in which instructions limit: the busiest unit of compute."""
    return max(_share(k, "compute"), k.get("issue_active") or 0.0)


def _accesses(k: KernelFacts, *kinds: str) -> float:
    """The share of the instructions that belong to accesses to global memory."""
    share = sum(k.ratio(f"{kind}_requests", "instructions") or 0.0 for kind in kinds)
    return min(_PER_ACCESS * share, 1.0)


def _coalescing(_: Facts, k: KernelFacts) -> float:
    excess = k.excess("load") + k.excess("store")
    return excess * max(_share(k, "L1", "L2", "DRAM"), _waits(k))


def _bank_conflicts(_: Facts, k: KernelFacts) -> float:
    waits = k.stall("short_scoreboard", "mio_throttle")
    return (k.get("conflict_share") or 0.0) * max(_share(k, "L1"), waits)


def _parallelism(_: Facts, k: KernelFacts) -> float:
    """The share of idle multiprocessors; if all are busy, half of the idle issue slots, a guess."""
    if k.blocks < k.profile.multiprocessors:
        return 1 - k.blocks / k.profile.multiprocessors
    missing = max(1 - k.profile.waves, 0.0)
    return 0.5 * _idle(k) * (missing + k.stall("wait")) if missing else 0.0


def _occupancy(_: Facts, k: KernelFacts) -> float:
    eligible = k.get("eligible_warps")
    helps = eligible is None or eligible < 1
    return 0.3 * (1 - k.profile.kernel.occupancy) * _waits(k) if helps else 0.0


def _in_flight(_: Facts, k: KernelFacts) -> float:
    return 0.0 if k.queued else _waits(k) * (1 - _share(k, "DRAM"))


def _wider(facts: Facts, k: KernelFacts) -> float:
    """Fewer instructions, or fewer waits because wider loads have more bytes in flight."""
    narrow = {kind: 1 - (k.bytes_per_lane(kind) or 4.0) / WIDEST for kind in ("load", "store")}
    fewer = sum(max(n, 0.0) * _accesses(k, kind) for kind, n in narrow.items())
    in_l1 = 0.5 * _share(k, "L1") * narrow["load"]
    return max(fewer * (k.get("issue_active") or 0.0), 0.5 * _in_flight(facts, k), in_l1)


def _reuse(_: Facts, k: KernelFacts) -> float:
    repeated = 1 - 1 / max(k.loads_per_byte or 1.0, 1.0)
    issued = _accesses(k, "load") * (k.get("issue_active") or 0.0)
    global_loads = repeated * max(_share(k, "L1", "L2"), _waits(k), issued)
    return max(global_loads, _fences(k), 0.5 * (k.shared_of_l1 or 0.0) * _share(k, "L1"))


def _operations(facts: Facts, k: KernelFacts) -> float:
    """FLOPs beyond the useful ones; or else a third of the instructions, which nothing counts.

    Fewer blocks also wait less often at the fence at their end. A warp that waits neither for
    memory nor for other warps waits for its own instructions.
    """
    waits = k.memory_stalls + k.stall("barrier", "membar") if k.stalls else 1.0
    return max(facts.excess_arithmetic, _fences(k), max(_instructions(k), 1 - waits) / 3)


def _fma(_: Facts, k: KernelFacts) -> float:
    fused = k.get("fma_share")
    return 0.0 if fused is None else 0.5 * (1 - fused) * _share(k, "compute")


def _divergence(_: Facts, k: KernelFacts) -> float:
    lanes = k.get("unpredicated_lanes")
    return 0.0 if lanes is None else (1 - lanes / 32) * _instructions(k)


def _spills(_: Facts, k: KernelFacts) -> float:
    return (k.ratio("local_bytes", "l1_bytes") or 0.0) * _share(k, "L1")


def _barriers(_: Facts, k: KernelFacts) -> float:
    return k.stall("barrier", "membar") * _idle(k)


def _dram_reuse(facts: Facts, k: KernelFacts) -> float:
    return (1 - 1 / max(facts.traffic or 1.0, 1.0)) * _share(k, "DRAM")


def _fusion(facts: Facts, k: KernelFacts) -> float:
    """Launches and gaps, half of the shorter kernels, and the traffic of intermediate results."""
    gaps = 1 - min(facts.share_of_kernels or 1.0, 1.0)
    several = _dram_reuse(facts, k) if len(facts.kernels) > 1 else 0.0
    return gaps + 0.5 * (1 - facts.share_of_longest) + several


_ESTIMATES: Mapping[Step, Callable[[Facts, KernelFacts], float]] = {
    Step.COALESCING: _coalescing,
    Step.BANK_CONFLICTS: _bank_conflicts,
    Step.PARALLELISM: _parallelism,
    Step.OCCUPANCY: _occupancy,
    Step.IN_FLIGHT: _in_flight,
    Step.WIDER: _wider,
    Step.REUSE: _reuse,
    Step.OPERATIONS: _operations,
    Step.FMA: _fma,
    Step.DIVERGENCE: _divergence,
    Step.SPILLS: _spills,
    Step.BARRIERS: _barriers,
    Step.DRAM_REUSE: _dram_reuse,
    Step.FUSION: _fusion,
}
