"""The limiter of a variant: compute, a memory level, latency, or too little work.

With counters, this is the decision tree of Nsight Compute (SOLBottleneck). In addition, DRAM is
compared with the bandwidth measured on the device, because no kernel reaches the theoretical
bandwidth. Without counters, a limiter is named only if it follows from the time and from the counts
that the variant declares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from adokernels.diagnosis.evidence import (
    BALANCED,
    BOUND,
    LANES,
    LEANING,
    NOTABLE,
    STALL,
    Facts,
    KernelFacts,
    Unit,
    at,
    bandwidth_of_dram,
    ceiling_named,
)
from adokernels.records.forms import number_in
from adokernels.records.limiter import Evidence, Kind, Limiter, Provenance
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.text import NO_LIMIT, number, percent

_COUNTED = Provenance.COUNTED


def limiter(m: Measurement, machine: Machine | None = None) -> Limiter:
    """Find the limiter of a variant.

    Parameters
    ----------
    m
        A measurement; with hardware counters (``m.profile``) if it was profiled.
    machine
        The ceilings of its device, from :func:`adokernels.machine` or ``sweep.machine``. Without
        them, counters are compared only with the hardware's maximum.

    Returns
    -------
    Limiter
        For a variant of several kernels, the limiter of the longest.

    Raises
    ------
    TypeError
        If `m` is not a measurement.
    """
    if not isinstance(m, Measurement):
        raise TypeError(f"m must be a Measurement, got {type(m).__name__}")
    facts = Facts(m, machine)
    if facts.longest:
        return _with_counters(facts, facts.longest)
    return _without_counters(facts) if m.device != "cpu" else _on_cpu(facts)


# --- with counters -------------------------------------------------------------------------------


def _with_counters(facts: Facts, k: KernelFacts) -> Limiter:
    kind, unit, first = _decide(k)
    evidence = [*first, *_details(k, kind)]
    working = facts.share_of_kernels
    if working is not None and working < BOUND:
        text = (
            f"kernels take {percent(working)} of the measured time; the rest is launches and gaps"
        )
        evidence.append(Evidence(text, working, BOUND, Provenance.TIMED))
    return Limiter(
        kind=kind,
        unit=unit.name if unit else "",
        share=unit.share if unit else None,
        evidence=tuple(evidence),
        counted=True,
        kernel=k.profile.kernel.name.partition("<")[0],
        share_of_time=facts.share_of_longest if len(facts.kernels) > 1 else 1.0,
    )


@dataclass(frozen=True)
class _Level:
    """Compute or a memory level, with the unit or ceiling that has the largest share."""

    kind: Kind
    unit: Unit
    provenance: Provenance

    def evidence(self, threshold: float | None) -> Evidence:
        if self.provenance is Provenance.COUNTED:
            return at(self.unit.name, self.unit.share, threshold, self.provenance)
        text = f"{self.unit.name} at {percent(self.unit.share)} of the bandwidth measured on this"
        return Evidence(f"{text} device", self.unit.share, threshold, self.provenance)


def _levels(k: KernelFacts) -> list[_Level]:
    """Compute and the memory levels, the busiest first."""
    found: dict[Kind, _Level] = {}
    counted = [unit for name in ("compute", "L1", "L2", "DRAM") if (unit := k.busiest(name))]
    for unit in counted:
        shared = unit.level == "L1" and (k.shared_of_l1 or 0.0) > 0.5
        kind = Kind.SHARED if shared else Kind(unit.level)
        named = Unit("DRAM", "DRAM", unit.share) if unit.level == "DRAM" else unit
        found[kind] = _Level(kind, named, Provenance.COUNTED)
    for unit in k.of_ceilings:
        kind = Kind(unit.level)
        if kind not in found or unit.share > found[kind].unit.share:
            found[kind] = _Level(kind, unit, Provenance.CEILING)
    return sorted(found.values(), key=lambda level: -level.unit.share)


def _decide(k: KernelFacts) -> tuple[Kind, Unit | None, list[Evidence]]:
    """Apply the decision tree; return the kind, the unit, and the decisive statements."""
    levels = _levels(k)
    if not levels:
        return Kind.UNKNOWN, None, []
    top = levels[0]
    if top.unit.share < LEANING:
        return _below_all(k, top)
    statements = [top.evidence(BOUND if top.unit.share >= BOUND else LEANING)]
    if top.provenance is Provenance.CEILING and (unit := k.busiest(top.unit.level)):
        name = "DRAM" if top.kind is Kind.DRAM else unit.name
        statements.append(at(name, unit.share, None, _COUNTED))
    close = max(top.unit.share - BALANCED, LEANING)
    for place, level in enumerate(levels[1:]):
        e = level.evidence(None)
        if e.value > close:
            statements.append(
                Evidence(f"balanced with {e.statement}", e.value, close, e.provenance)
            )
        elif place == 0 and top.kind is not Kind.DRAM:
            statements.append(
                Evidence(f"the second is {e.statement}", e.value, close, e.provenance)
            )
    return top.kind, top.unit, statements


def _below_all(k: KernelFacts, top: _Level) -> tuple[Kind, Unit | None, list[Evidence]]:
    statement = f"no unit above {percent(LEANING)}; the busiest: {top.evidence(None).statement}"
    busiest = Evidence(statement, top.unit.share, LEANING, top.provenance)
    if k.profile.waves < 1:
        processors = k.profile.multiprocessors
        text = f"{k.blocks} block{'s' if k.blocks != 1 else ''} on {processors} multiprocessors"
        work = Evidence(
            f"{text}, {number(k.profile.waves)} waves", k.profile.waves, 1.0, Provenance.COMPILED
        )
        return Kind.PARALLELISM, None, [work, busiest]
    # The counters are averages over all multiprocessors and the entire kernel. At the start and the
    # end of a short kernel, multiprocessors are idle, which lowers the averages.
    active = k.get("sm_active")
    if active and top.unit.level in ("compute", "L1") and top.unit.share / active >= LEANING:
        share = top.unit.share / active
        text = f"{top.unit.name} at {percent(share)} of peak on active multiprocessors"
        text += f" (active for {percent(active)} of the time)"
        return top.kind, top.unit, [Evidence(text, share, LEANING, _COUNTED), busiest]
    return Kind.LATENCY, None, [busiest]


def _details(k: KernelFacts, kind: Kind) -> list[Evidence]:
    """Statements that explain the limiter, in order of importance."""
    found: list[Evidence] = []
    if kind in (Kind.L1, Kind.L2, Kind.LATENCY):
        for access in ("store", "load"):
            times = k.over_ideal(access)
            if k.excess(access) >= NOTABLE and times:
                text = (
                    f"{access}s transfer {k.times_ideal(access)} times the ideal number of sectors"
                )
                found.append(Evidence(text, times, 1.0, _COUNTED))
    conflicts = k.get("conflict_share")
    if kind in (Kind.L1, Kind.SHARED, Kind.LATENCY) and conflicts and conflicts >= NOTABLE:
        text = f"{percent(conflicts)} of the shared-memory wavefronts are bank conflicts"
        found.append(Evidence(text, conflicts, NOTABLE, _COUNTED))
    issue = k.get("issue_active")
    if kind in (Kind.LATENCY, Kind.PARALLELISM) and issue is not None:
        found.append(
            Evidence(
                f"schedulers issue in {percent(issue)} of the cycles", issue, LEANING, _COUNTED
            )
        )
    if kind is Kind.LATENCY or (issue is not None and issue < LEANING and kind is not Kind.DRAM):
        for name, share in k.stalls[:2]:
            text = f"stall {name.replace('_', ' ')}: {percent(share)} of the time of a warp"
            found.append(Evidence(text, share, STALL, _COUNTED))
    lanes = k.get("unpredicated_lanes")
    if kind in (Kind.COMPUTE, Kind.LATENCY) and lanes is not None and lanes < LANES:
        text = f"{number(lanes)} of 32 lanes are active per instruction"
        found.append(Evidence(text, lanes, LANES, _COUNTED))
    spilled = k.ratio("local_bytes", "l1_bytes")
    if spilled is not None and spilled >= NOTABLE:
        text = f"{percent(spilled)} of the bytes in L1 are local memory"
        found.append(Evidence(text, spilled, NOTABLE, _COUNTED))
    return found


_ONLY_COUNTED = (
    "latency, excess traffic, bank conflicts and pipe utilisation are known only with counters"
)
_NOT_COUNTED = "instruction mix, cache misses and stalls of CPU variants are not counted"


# --- without counters ----------------------------------------------------------------------------


def _rates(facts: Facts) -> list[tuple[Kind, str, float, Evidence]]:
    """Minimum shares of the ceilings, from the time and the counts that the variant declares."""
    found = []
    if facts.compulsory and not facts.fits_in_cache:
        share, name = facts.compulsory
        text = f"the compulsory bytes alone are {percent(share)} of the measured {name} bandwidth"
        found.append((Kind.DRAM, "DRAM", share, text))
    m, machine = facts.m, facts.machine
    peak = machine.peak(m.problem.precision) if machine else None
    if peak and m.executed_flops:
        share, precision = m.flops_per_second / peak, m.problem.precision or "floating-point"
        text = f"the executed FLOPs are {percent(share)} of the measured {precision} peak"
        if m.device != "cpu" and m.fma_share is not None:
            share /= (1 + m.fma_share) / 2
            text += f", {percent(share)} of the peak with {percent(m.fma_share)} FMAs"
        found.append((Kind.COMPUTE, f"{precision} arithmetic", share, text))
    # Requested bytes may hit in L1, so they are evidence only of the utilisation of L1.
    ceiling = ceiling_named(machine, "L1 read") if m.device != "cpu" else None
    if ceiling and m.requested_bytes:
        share = m.requested_bytes / m.seconds / ceiling
        text = f"the requested bytes are {percent(share)} of the measured L1 bandwidth"
        found.append((Kind.L1, Kind.L1, share, text))
    return [
        (kind, unit, share, Evidence(text, share, BOUND, Provenance.MODELLED))
        for kind, unit, share, text in found
    ]


def _from_rates(
    rates: list[tuple[Kind, str, float, Evidence]], others: list[Evidence], unknown: str
) -> Limiter:
    """The limiter with the largest share; unknown if the share is below the threshold."""
    rates = sorted((r for r in rates if r[2] <= NO_LIMIT), key=lambda rate: -rate[2])
    evidence = tuple([*(rate[3] for rate in rates), *others])
    if not rates or rates[0][2] < LEANING:
        return Limiter(kind=Kind.UNKNOWN, evidence=evidence, unknown=unknown)
    kind, unit, share, _ = rates[0]
    return Limiter(kind=kind, unit=unit, share=share, evidence=evidence, unknown=unknown)


def _without_counters(facts: Facts) -> Limiter:
    m, machine = facts.m, facts.machine
    rates = _rates(facts)
    processors = number_in((machine or m).context, "cuda", "multiprocessors")
    others = []
    if m.kernels:
        largest = max(m.kernels, key=lambda kernel: math.prod(kernel.grid))
        blocks = math.prod(largest.grid)
        if processors and blocks < processors:
            text = f"{blocks} block{'s' if blocks != 1 else ''} on {processors} multiprocessors"
            work = Evidence(text, blocks, processors, Provenance.COMPILED)
            if all(share < LEANING for _, _, share, _ in rates):
                evidence = (work, *(rate[3] for rate in rates))
                return Limiter(kind=Kind.PARALLELISM, evidence=evidence, unknown=_ONLY_COUNTED)
        occupancy = min(kernel.occupancy for kernel in m.kernels)
        text = f"theoretical occupancy is {percent(occupancy)}"
        others.append(Evidence(text, occupancy, BOUND, Provenance.COMPILED))
    return _from_rates(rates, others, _ONLY_COUNTED)


def _on_cpu(facts: Facts) -> Limiter:
    m, machine = facts.m, facts.machine
    rates = _rates(facts)
    if machine and facts.fits_in_cache and m.cache == "warm" and m.bytes:
        # The data are in one of the caches. The slowest cache with sufficient bandwidth is assumed.
        caches = [c for c in machine.of_kind("bandwidth") if c.level != "DRAM"]
        for c in sorted(caches, key=lambda c: c.measured):
            share = m.bytes_per_second / c.measured
            if share <= NO_LIMIT and c.level in Kind.__members__:
                text = f"the compulsory bytes are {percent(share)} of the measured {c.level} read"
                evidence = Evidence(text, share, BOUND, Provenance.MODELLED)
                rates.append((Kind(c.level), c.level, share, evidence))
                break
    elif machine and facts.fits_in_cache and m.bytes:
        written = max(bandwidth_of_dram(machine, w) or 0.0 for w in (0.0, 0.5, 1.0))
        if written:
            share = m.bytes_per_second / written
            text = f"the compulsory bytes are {percent(share)} of the measured DRAM bandwidth"
            evidence = Evidence(text, share, BOUND, Provenance.MODELLED)
            rates.append((Kind.DRAM, "DRAM", share, evidence))
    return _from_rates(rates, _scalar_or_not(facts), _NOT_COUNTED)


def _scalar_or_not(facts: Facts) -> list[Evidence]:
    """Evidence of vectorisation and multithreading in a CPU variant, from its FLOP rate."""
    m, machine = facts.m, facts.machine
    precision = m.problem.precision
    peak = machine.peak(precision) if machine and precision else None
    lanes = {"baseline": 2, "avx2": 4, "avx512": 8}.get(str(m.context.get("isa")))
    if not (machine and peak and lanes and m.executed_flops):
        return []
    lanes *= 2 if precision == "FP32" else 1
    threads = max(machine.threads, 1)
    scalar = peak / lanes
    one_thread = peak / threads
    rate = m.flops_per_second
    found = []
    if rate > scalar * NO_LIMIT:
        text = f"{number(rate / scalar)} times the peak of scalar code on {threads} threads"
        found.append(Evidence(f"vectorised: {text}", rate / scalar, 1.0, Provenance.MODELLED))
    elif rate < scalar / threads * NO_LIMIT:
        text = f"{percent(rate / scalar * threads)} of the peak of scalar code on one thread"
        found.append(Evidence(text, rate / scalar * threads, 1.0, Provenance.MODELLED))
    if threads > 1 and rate > one_thread * NO_LIMIT:
        text = f"several threads: {number(rate / one_thread)} times the peak of one thread"
        found.append(Evidence(text, rate / one_thread, 1.0, Provenance.MODELLED))
    return found
