"""The metric that each category of optimisation steps should change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from adokernels.records.limiter import Step
from adokernels.records.profile import Profile
from adokernels.text import number, percent, quantity

#: Minimum relative change for an improved metric.
_MOVED = 0.02

_Value = Callable[["Profile"], float]


@dataclass(frozen=True)
class Target:
    """One counted metric that a step should change."""

    title: str  # in tables
    unit: str  # "%" (a fraction), "B", "B/s", or empty
    lower: bool  # whether the step should reduce it
    value: _Value  # raises KeyError or ZeroDivisionError if it is unknown

    def of(self, profile: Profile | None) -> float | None:
        """The metric of one profile, or None if it is unknown."""
        with suppress(KeyError, ZeroDivisionError):
            return self.value(profile) if profile else None
        return None

    def shown(self, value: float) -> str:
        """Format one value with its unit."""
        if self.unit == "%":
            return percent(value)
        return quantity(value, self.unit).strip() if abs(value) >= 1000 else number(value)


def _sectors_over_ideal(p: Profile) -> float:
    ideal = p["ideal_load_sectors"] + p["ideal_store_sectors"]
    return (p["load_sectors"] + p["store_sectors"]) / ideal


_RAISE, _LOWER = False, True
_DRAM_BYTES = Target("DRAM bytes", "B", _LOWER, lambda p: p["dram_bytes"])

TARGETS: dict[Step, Target] = {
    Step.COALESCING: Target("sectors over ideal", "", _LOWER, _sectors_over_ideal),
    Step.BANK_CONFLICTS: Target(
        "wavefronts that are bank conflicts", "%", _LOWER, lambda p: p["conflict_share"]
    ),
    # The mean over all multiprocessors. Idle multiprocessors count as unused issue slots.
    Step.PARALLELISM: Target(
        "used issue slots", "%", _RAISE, lambda p: p["sm_active"] * p["issue_active"]
    ),
    Step.OCCUPANCY: Target("achieved occupancy", "%", _RAISE, lambda p: p["occupancy"]),
    Step.IN_FLIGHT: Target(
        "DRAM bandwidth", "B/s", _RAISE, lambda p: p["dram_bytes"] / p["seconds"]
    ),
    Step.WIDER: Target(
        "global memory instructions", "", _LOWER, lambda p: p["load_requests"] + p["store_requests"]
    ),
    Step.REUSE: Target(
        "bytes in L1 and shared memory", "B", _LOWER, lambda p: p["l1_bytes"] + p["shared_bytes"]
    ),
    Step.OPERATIONS: Target("warp instructions", "", _LOWER, lambda p: p["instructions"]),
    Step.FMA: Target("FMAs", "%", _RAISE, lambda p: p["fma_share"]),
    Step.DIVERGENCE: Target("active lanes", "", _RAISE, lambda p: p["unpredicated_lanes"]),
    Step.SPILLS: Target("local memory", "B", _LOWER, lambda p: p["local_bytes"]),
    Step.BARRIERS: Target(
        "barrier stalls", "%", _LOWER, lambda p: p["stall_barrier"] / p["warp_latency"]
    ),
    Step.DRAM_REUSE: _DRAM_BYTES,
    Step.FUSION: _DRAM_BYTES,
}


@dataclass(frozen=True, kw_only=True)
class MetricChange:
    """The target metric before and after a step."""

    title: str
    before: float
    after: float
    moved: bool
    text: str


def change(step: Step, before: Profile | None, after: Profile | None) -> MetricChange | None:
    """Compare the target metric of `step`; return None if it does not exist or is unknown."""
    target = TARGETS.get(step)
    if target is None:
        return None
    first, second = target.of(before), target.of(after)
    if first is None or second is None:
        return None
    better = second < first * (1 - _MOVED) if target.lower else second > first * (1 + _MOVED)
    text = f"{target.title}: {target.shown(first)} to {target.shown(second)}"
    return MetricChange(title=target.title, before=first, after=second, moved=better, text=text)
