"""The limiter of a variant: compute, a memory level, latency, or too little work.

With counters, this is the decision tree of Nsight Compute (SOLBottleneck). Each share is the
utilisation of a unit over the kernel's time, relative to its peak. The limiter is the unit with the
largest share if it is at least 60 %. Otherwise it is unknown, if a level was not collected; too
little work, if the grid has fewer than 0.9 waves of blocks; or else latency. Tables, charts and
advice use this result. Evidence adds the share of the DRAM bandwidth measured on the device,
because no kernel reaches the theoretical bandwidth.

On a CPU, experiments show the limiter (:mod:`adokernels.diagnosis.cpu_rules`). Without counters and
experiments, a limiter is named only if it follows from the time and from the counts that the
variant declares. The threshold is the same, relative to measured ceilings.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from adokernels.diagnosis.cpu_rules import by_experiment
from adokernels.diagnosis.evidence import (
    Facts,
    KernelFacts,
    at,
    ceiling_named,
    highest_of_dram,
)
from adokernels.records.definitions import BALANCED, BOUND, FULL, LANES, LIMITING, NOTABLE, STALL
from adokernels.records.forms import number_in
from adokernels.records.limiter import Evidence, Kind, Limiter, Provenance
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import LEVELS, MEMORY_BREAKDOWN, Unit, mix_limit
from adokernels.text import NO_LIMIT, number, percent

_COUNTED = Provenance.COUNTED
#: The utilisation of all memory units may differ from the busiest unit's by this much.
_APART = 0.02
#: The metrics to collect for the shares of compute and of the memory levels.
_COLLECT = {"compute": "sm__throughput"}
_OF_LEVELS = "gpu__compute_memory_throughput"


def limiter(m: Measurement, machine: Machine | None = None) -> Limiter:
    """Find the limiter of a variant, or of its longest kernel if it has several.

    With counters, the ceilings of the machine are evidence only. Without the utilisation of any
    unit, the limiter is derived as without counters.
    """
    if not isinstance(m, Measurement):
        raise TypeError(f"m must be a Measurement, got {type(m).__name__}")
    facts = Facts(m, machine)
    if facts.longest and _levels(facts.longest):
        return _with_counters(facts, facts.longest)
    return by_experiment(m, machine) or _without_counters(facts)


# --- with counters -------------------------------------------------------------------------------


def _with_counters(facts: Facts, k: KernelFacts) -> Limiter:
    kind, unit, first = _decide(k)
    evidence = [*first, *_details(k, kind)]
    working = facts.share_of_kernels
    if working is not None and working < BOUND:
        text = f"kernels take {percent(working)} of the measured time; the rest is launches and"
        evidence.append(Evidence(f"{text} gaps", working, BOUND, Provenance.TIMED))
    return Limiter(
        kind=kind,
        unit=unit.name if unit else "",
        share=unit.share if unit else None,
        evidence=tuple(evidence),
        counted=True,
        kernel=k.profile.kernel.name.partition("<")[0],
        share_of_time=facts.share_of_longest if len(facts.kernels) > 1 else 1.0,
        unknown=_not_collected(k) if kind in (Kind.MEMORY, Kind.UNKNOWN) else "",
    )


def _levels(k: KernelFacts) -> list[tuple[Kind, Unit]]:
    """Compute and the memory levels with their busiest units, the busiest first."""
    found = []
    for unit in filter(None, map(k.profile.busiest, LEVELS)):
        shared = unit.level == "L1" and (k.shared_of_l1 or 0.0) > 0.5
        named = Unit("DRAM", "DRAM", unit.share) if unit.level == "DRAM" else unit
        found.append((Kind.SHARED if shared else Kind(unit.level), named))
    known = max((u.share for kind, u in found if kind is not Kind.COMPUTE), default=0.0)
    whole = _of_memory(k)
    if whole is not None and whole > known + _APART:
        found.append((Kind.MEMORY, Unit("memory (level not collected)", "memory", whole)))
    return sorted(found, key=lambda level: -level[1].share)


def _missing(k: KernelFacts) -> list[str]:
    """Compute and the memory levels without a collected unit."""
    return [level for level in LEVELS if k.profile.busiest(level) is None]


def _throughputs(k: KernelFacts) -> dict[str, float]:
    """Nsight Compute's throughputs of L1 and L2, which are at least the shares of these levels."""
    l1, l2 = k.get("l1_active"), k.get("l2_all")
    found = {"L1": None if l1 is None else l1 * (k.get("sm_active") or 1.0), "L2": l2}
    return {level: share for level, share in found.items() if share is not None}


def _of_memory(k: KernelFacts) -> float | None:
    """The utilisation of the memory levels that were not collected; None if it is unknown."""
    missing = _missing(k)
    if not set(missing) & set(MEMORY_BREAKDOWN):
        return None
    shares = [share for level, share in _throughputs(k).items() if level in missing]
    return whole if (whole := k.get("memory_sol")) is not None else max(shares, default=None)


def _not_collected(k: KernelFacts) -> str:
    """Name the levels that were not collected, and what to collect."""
    missing = _missing(k)
    metrics = dict.fromkeys(_COLLECT.get(level, _OF_LEVELS) for level in missing)
    text = f"not collected: {', '.join(missing)}; collect the breakdown of {' and '.join(metrics)}"
    return f"{text}, for example with ncu --set full"


def _decide(k: KernelFacts) -> tuple[Kind, Unit | None, list[Evidence]]:
    """Apply the decision tree; return the kind, the unit, and the decisive statements."""
    (kind, unit), *others = _levels(k)
    if unit.share < LIMITING:
        return _below_all(k, unit)
    statements = [at(unit.name, unit.share, LIMITING, _COUNTED), *_of_measured(k, kind)]
    close = max(unit.share - BALANCED, LIMITING)
    for place, (other, next_unit) in enumerate(others):
        e = at(next_unit.name, next_unit.share, close, _COUNTED)
        if e.value > close or (place == 0 and kind is not Kind.DRAM):
            relation = "balanced with" if e.value > close else "the second is"
            text = f"{relation} {e.statement}"
            statements.append(Evidence(text, e.value, close, e.provenance))
            statements += _of_measured(k, other)
    return kind, unit, statements


def _of_measured(k: KernelFacts, kind: Kind) -> list[Evidence]:
    """Evidence of the share of the measured bandwidth, for DRAM."""
    if kind is not Kind.DRAM or k.of_dram is None:
        return []
    text = f"{percent(k.of_dram)} of the DRAM bandwidth measured on this device"
    return [Evidence(text, k.of_dram, None, Provenance.CEILING)]


def _below_all(k: KernelFacts, unit: Unit) -> tuple[Kind, Unit | None, list[Evidence]]:
    busiest = at(unit.name, unit.share, LIMITING, _COUNTED)
    covered = MEMORY_BREAKDOWN if k.get("memory_sol") is not None else _throughputs(k)
    if set(_missing(k)) - set(covered):
        text = f"the busiest collected unit: {busiest.statement}"
        return Kind.UNKNOWN, None, [Evidence(text, unit.share, LIMITING, _COUNTED)]
    text = f"no unit above {percent(LIMITING)}; the busiest: {busiest.statement}"
    statements = [Evidence(text, unit.share, LIMITING, _COUNTED)]
    if k.profile.waves < FULL:
        waves = k.profile.waves
        text = f"{_blocks_on(k.blocks, k.profile.multiprocessors)}, {number(waves)} waves"
        return (
            Kind.PARALLELISM,
            None,
            [Evidence(text, waves, FULL, Provenance.COMPILED), *statements],
        )
    if k.busy_while_active and (active := k.get("sm_active")):
        inside, share = k.busy_while_active
        text = f"{inside.name} at {percent(share)} of peak on active multiprocessors"
        text += f" (active for {percent(active)} of the time)"
        statements.append(Evidence(text, share, LIMITING, _COUNTED))
    return Kind.LATENCY, None, statements


def _blocks_on(blocks: int, processors: float) -> str:
    return f"{blocks} block{'s' if blocks != 1 else ''} on {processors} multiprocessors"


def _details(k: KernelFacts, kind: Kind) -> list[Evidence]:
    """Statements that explain the limiter, in order of importance."""
    found: list[tuple[str, float, float]] = []
    if kind in (Kind.L1, Kind.L2, Kind.MEMORY, Kind.LATENCY):
        for access in ("store", "load"):
            times = k.over_ideal(access)
            if k.excess(access) >= NOTABLE and times:
                text = f"{access}s transfer {k.times_ideal(access)} times the ideal number of"
                found.append((f"{text} sectors", times, 1.0))
    conflicts = k.get("conflict_share")
    if (
        kind in (Kind.L1, Kind.SHARED, Kind.MEMORY, Kind.LATENCY)
        and conflicts
        and conflicts >= NOTABLE
    ):
        text = f"{percent(conflicts)} of the shared-memory wavefronts are bank conflicts"
        found.append((text, conflicts, NOTABLE))
    issue = k.get("issue_active")
    if kind in (Kind.LATENCY, Kind.PARALLELISM) and issue is not None:
        found.append((f"schedulers issue in {percent(issue)} of the cycles", issue, LIMITING))
    if kind is Kind.LATENCY or (issue is not None and issue < LIMITING and kind is not Kind.DRAM):
        for name, share in k.stalls[:2]:
            text = f"stall {name.replace('_', ' ')}: {percent(share)} of the time of a warp"
            found.append((text, share, STALL))
    lanes = k.get("unpredicated_lanes")
    if kind in (Kind.COMPUTE, Kind.LATENCY) and lanes is not None and lanes < LANES:
        found.append((f"{number(lanes)} of 32 lanes are active per instruction", lanes, LANES))
    spilled = k.ratio("local_bytes", "l1_bytes")
    if spilled is not None and spilled >= NOTABLE:
        found.append((f"{percent(spilled)} of the bytes in L1 are local memory", spilled, NOTABLE))
    return [Evidence(*statement, _COUNTED) for statement in found]


_ONLY_COUNTED = (
    "latency, excess traffic, bank conflicts and pipe utilisation are known only with counters"
)
_NOT_COUNTED = "instruction mix, cache misses and stalls of CPU variants are not counted"


# --- without counters ----------------------------------------------------------------------------


class _Rate(NamedTuple):
    """The minimum share of a ceiling, from the time and the counts that the variant declares."""

    kind: Kind
    unit: str
    share: float
    text: str

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.text, self.share, LIMITING, Provenance.MODELLED)


def _rates(facts: Facts) -> list[_Rate]:
    found, m, machine = [], facts.m, facts.machine
    share = None
    if not facts.fits_in_cache:
        share = facts.compulsory[0] if facts.compulsory else None
    elif m.device == "cpu" and m.cache == "cold" and (bandwidth := highest_of_dram(machine)):
        share = m.bytes_per_second / bandwidth
    if share:
        text = f"the compulsory bytes alone are {percent(share)} of the measured DRAM bandwidth"
        found.append(_Rate(Kind.DRAM, "DRAM", share, text))
    peak = machine.fastest(m.problem.precision, m.flops_per_second) if machine else None
    if peak and m.executed_flops:
        share = m.flops_per_second / peak.measured
        precision = peak.level if peak.kind == "tensor" else m.problem.precision or "floating-point"
        text = f"the executed FLOPs are {percent(share)} of the measured {precision} peak"
        if m.device != "cpu" and m.fma_share is not None and peak.kind != "tensor":
            share /= mix_limit(m.fma_share)
            text += f", {percent(share)} of the peak with {percent(m.fma_share)} FMAs"
        found.append(_Rate(Kind.COMPUTE, f"{precision} arithmetic", share, text))
    # Requested bytes may hit in L1, so they are evidence only of the utilisation of L1.
    ceiling = ceiling_named(machine, "L1 read") if m.device != "cpu" else None
    if ceiling and m.requested_bytes:
        share = m.requested_bytes / m.seconds / ceiling
        text = f"the requested bytes are {percent(share)} of the measured L1 bandwidth"
        found.append(_Rate(Kind.L1, Kind.L1, share, text))
    return found


def _from_rates(rates: list[_Rate], others: list[Evidence], unknown: str) -> Limiter:
    """The limiter with the largest share; unknown if the share is below the threshold."""
    rates = sorted((r for r in rates if r.share <= NO_LIMIT), key=lambda rate: -rate.share)
    evidence = tuple([*(rate.evidence for rate in rates), *others])
    if not rates or rates[0].share < LIMITING:
        return Limiter(kind=Kind.UNKNOWN, evidence=evidence, unknown=unknown)
    kind, unit, share, _ = rates[0]
    return Limiter(kind=kind, unit=unit, share=share, evidence=evidence, unknown=unknown)


def _without_counters(facts: Facts) -> Limiter:
    m, machine = facts.m, facts.machine
    rates = _rates(facts)
    if m.device == "cpu":
        return _from_rates(rates, [], _NOT_COUNTED)
    processors = number_in((machine or m).context, "cuda", "multiprocessors")
    others = []
    if m.kernels:
        blocks = max(math.prod(kernel.grid) for kernel in m.kernels)
        if processors and blocks < processors and all(rate.share < LIMITING for rate in rates):
            text = _blocks_on(blocks, processors)
            work = Evidence(text, blocks, processors, Provenance.COMPILED)
            evidence = (work, *(rate.evidence for rate in rates))
            return Limiter(kind=Kind.PARALLELISM, evidence=evidence, unknown=_ONLY_COUNTED)
        occupancy = min(kernel.occupancy for kernel in m.kernels)
        text = f"theoretical occupancy is {percent(occupancy)}"
        others.append(Evidence(text, occupancy, BOUND, Provenance.COMPILED))
    return _from_rates(rates, others, _ONLY_COUNTED)
