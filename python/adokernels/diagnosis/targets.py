"""The target metric of each optimisation step, and whether it improved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adokernels.diagnosis.steps import Step
from adokernels.text import number, percent, quantity

if TYPE_CHECKING:
    from adokernels.records.profile import Profile

#: Minimum relative change for an improved metric.
_MOVED = 0.02

_Value = Callable[["Profile"], float]


@dataclass(frozen=True)
class Target:
    """One counted metric that a step should change.

    Attributes
    ----------
    title
        Its name in tables.
    unit
        ``"%"`` (a fraction), ``"B"``, or empty.
    lower
        Whether the step should reduce it.
    value
        Computes it from a profile; raises KeyError or ZeroDivisionError if it is unknown.
    """

    title: str
    unit: str
    lower: bool
    value: _Value

    def of(self, profile: Profile | None) -> float | None:
        """The metric of one profile; None if it is unknown."""
        if profile is None:
            return None
        try:
            return self.value(profile)
        except (KeyError, ZeroDivisionError):
            return None

    def shown(self, value: float) -> str:
        """Format one value with its unit."""
        if self.unit == "%":
            return percent(value)
        return quantity(value, self.unit).strip() if abs(value) >= 1000 else number(value)


def _sectors_over_ideal(p: Profile) -> float:
    ideal = p["ideal_load_sectors"] + p["ideal_store_sectors"]
    return (p["load_sectors"] + p["store_sectors"]) / ideal


def _of_quantity(name: str) -> _Value:
    return lambda p: p[name]


def _stall(name: str) -> _Value:
    return lambda p: p[f"stall_{name}"] / p["warp_latency"]


def _accesses(p: Profile) -> float:
    return p["load_requests"] + p["store_requests"]


_dram_rate = Target(
    "DRAM bandwidth", "B", lower=False, value=lambda p: p["dram_bytes"] / p["seconds"]
)
_dram_bytes = Target("DRAM bytes", "B", lower=True, value=_of_quantity("dram_bytes"))

TARGETS: dict[Step, Target] = {
    Step.COALESCING: Target("sectors over ideal", "", lower=True, value=_sectors_over_ideal),
    Step.BANK_CONFLICTS: Target(
        "wavefronts that are bank conflicts", "%", lower=True, value=_of_quantity("conflict_share")
    ),
    # The mean over all multiprocessors. Idle multiprocessors count as unused issue slots.
    Step.PARALLELISM: Target(
        "used issue slots",
        "%",
        lower=False,
        value=lambda p: p["sm_active"] * p["issue_active"],
    ),
    Step.OCCUPANCY: Target("achieved occupancy", "%", lower=False, value=_of_quantity("occupancy")),
    Step.IN_FLIGHT: _dram_rate,
    Step.WIDER: Target("global memory instructions", "", lower=True, value=_accesses),
    Step.REUSE: Target(
        "bytes in L1 and shared memory",
        "B",
        lower=True,
        value=lambda p: p["l1_bytes"] + p["shared_bytes"],
    ),
    Step.OPERATIONS: Target(
        "warp instructions", "", lower=True, value=_of_quantity("instructions")
    ),
    Step.FMA: Target("FMAs", "%", lower=False, value=_of_quantity("fma_share")),
    Step.DIVERGENCE: Target(
        "active lanes", "", lower=False, value=_of_quantity("unpredicated_lanes")
    ),
    Step.SPILLS: Target("local memory", "B", lower=True, value=_of_quantity("local_bytes")),
    Step.BARRIERS: Target("barrier stalls", "%", lower=True, value=_stall("barrier")),
    Step.DRAM_REUSE: _dram_bytes,
    Step.FUSION: _dram_bytes,
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """The target metric before and after a step."""

    title: str
    before: float
    after: float
    moved: bool
    text: str


def change(step: Step, before: Profile | None, after: Profile | None) -> Change | None:
    """Compare the target metric of `step`; None if there is none or it is unknown."""
    target = TARGETS.get(step)
    if target is None:
        return None
    first, second = target.of(before), target.of(after)
    if first is None or second is None:
        return None
    better = second < first * (1 - _MOVED) if target.lower else second > first * (1 + _MOVED)
    text = f"{target.title}: {target.shown(first)} to {target.shown(second)}"
    return Change(title=target.title, before=first, after=second, moved=better, text=text)
