"""The bound of the gain of a step.

A bound holds for the proposed step even if it is combined with others. It is computed from the work
that no variant can avoid (compulsory bytes, useful FLOPs), at measured ceilings with a margin of
3 %, and from the units whose utilisation the step does not reduce. A bound is at least 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from adokernels.diagnosis.evidence import MARGIN, Facts, KernelFacts
from adokernels.diagnosis.steps import Step
from adokernels.records.limiter import Provenance
from adokernels.text import number, percent

#: Steps that do not change the number of instructions.
_SAME_INSTRUCTIONS = {Step.COALESCING, Step.BANK_CONFLICTS, Step.OCCUPANCY, Step.PARALLELISM}
#: Parts of the names of compute units that execute instructions without memory access.
_PIPES = ("slots", "instructions", "ALU", "FMA", "FP64", "tensor", "XU", "uniform")


#: Lower bound of the remaining time as a share of the current time, the reason, and its sources.
_Floor = tuple[float, str, tuple[Provenance, ...]]
#: A smaller share of the time does not limit the gain, and its inverse may overflow.
_NEGLIGIBLE = 1e-9


def bound_of(facts: Facts, step: Step) -> tuple[float | None, str, tuple[Provenance, ...]]:
    """The largest gain of a step (None without a bound), its reason, and sources of its numbers."""
    floors = [floor for floor in _floors(facts, step) if floor[0] > _NEGLIGIBLE]
    if not floors:
        return None, "", ()
    share, basis, provenance = max(floors, key=lambda floor: floor[0])
    return max(1 / share, 1.0), basis, provenance


def _floors(facts: Facts, step: Step) -> Iterator[_Floor]:
    ceiling = (Provenance.MODELLED, Provenance.CEILING)
    if facts.compulsory:
        share, name = facts.compulsory
        text = f"the compulsory bytes need {percent(share)} of the time at the measured {name}"
        yield share / MARGIN, f"{text} bandwidth", ceiling
    if facts.useful_arithmetic:
        text = f"the useful FLOPs need {percent(facts.useful_arithmetic)} of the time at the"
        yield facts.useful_arithmetic / MARGIN, f"{text} measured peak", ceiling
    kept = facts.dram_with_layout
    if step is Step.IN_FLIGHT and kept:
        text = f"the DRAM transfers remain, {percent(kept)} of the bandwidth measured on this"
        yield kept / MARGIN, f"{text} device", (Provenance.COUNTED, Provenance.CEILING)
    if len(facts.kernels) == 1:  # a step may change several kernels at once
        for share, text in _floors_of_kernel(facts.kernels[0], step):
            yield share, text, (Provenance.COUNTED,)


def _floors_of_kernel(k: KernelFacts, step: Step) -> Iterator[tuple[float, str]]:
    """Yield the shares of the time of a single kernel that remain, from its counters."""
    pipes = [u for u in k.units if u.level == "compute" and any(p in u.name for p in _PIPES)]
    busy = k.get("sm_active") if step is Step.PARALLELISM else None
    if step is Step.PARALLELISM and busy:
        l1 = k.busiest("L1")
        for unit in (*pipes[:1], *([l1] if l1 else [])):
            text = f"{unit.name} at {percent(min(unit.share / busy, 1))} on each multiprocessor"
            yield unit.share, f"{text} with work, {percent(busy)} of all"
    elif step in _SAME_INSTRUCTIONS and pipes:
        text = f"the number of instructions does not change: {pipes[0].name} at"
        yield pipes[0].share, f"{text} {percent(pipes[0].share)} of peak"
    if step is Step.OCCUPANCY:
        for unit in k.units[:1]:
            yield unit.share, f"{unit.name} at {percent(unit.share)} of peak"
        if occupancy := k.get("occupancy"):
            yield occupancy, f"{percent(occupancy)} of the possible warps are already active"
    if step is Step.BANK_CONFLICTS and (l1 := k.busiest("L1")):
        remaining = l1.share * (1 - min(k.get("conflict_share") or 0.0, 1.0))
        yield remaining, "the L1 wavefronts without bank conflicts remain"
    if step is Step.DIVERGENCE and pipes and (lanes := k.get("unpredicated_lanes")):
        text = f"{number(lanes)} of 32 lanes are already active"
        yield pipes[0].share * min(lanes / 32, 1.0), text
    if step is Step.FMA and pipes and (fused := k.get("fma_share")) is not None:
        text = "FMAs halve the number of the other floating-point instructions"
        yield pipes[0].share * (1 - 0.5 * (1 - fused)), text
