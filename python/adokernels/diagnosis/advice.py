"""The next step for a variant, derived from its limiter and counters, and the bound of its gain.

The rules follow the order of NVIDIA's guides: first distribute the work over all multiprocessors,
then improve memory access patterns, then reduce memory accesses and computation, then hide latency.

A bound holds for the proposed step even if it is combined with others. It is computed from the work
that no variant can avoid (compulsory bytes, useful FLOPs), at measured ceilings with a margin of
3 %, and from the units whose utilisation the step does not reduce. A bound is at least 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adokernels.diagnosis.evidence import (
    BOUND,
    EXCESS,
    FULL_LINE,
    LANES,
    MARGIN,
    NARROW,
    NOTABLE,
    REACHED,
    STALL,
    WIDEST,
    Facts,
    KernelFacts,
    Provenance,
)
from adokernels.diagnosis.limiter import Kind, Limiter, limiter
from adokernels.diagnosis.steps import Step
from adokernels.tables.numbers import number, percent, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adokernels.measuring.records import Machine, Measurement

#: Sectors of a cache line.
_LINE = 4
#: Instructions that are removed with a load: load, address computation, bounds test, conversion.
_PER_LOAD = 4
#: Minimum share of the time from which the other kernels of a variant are considered.
_REST = 0.05


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One proposed step.

    Attributes
    ----------
    step
        Its category.
    sentence
        What to do and why.
    bound
        The largest possible ratio of the times before and after; None if there is no bound.
    basis
        Why the bound holds.
    provenance
        Sources of the numbers in the bound.
    """

    step: Step
    sentence: str
    bound: float | None
    basis: str
    provenance: tuple[Provenance, ...] = ()

    def __str__(self) -> str:
        gain = f" At most {ratio(self.bound)}: {self.basis}." if self.bound is not None else ""
        return f"{self.step}: {self.sentence}.{gain}"


def advise(m: Measurement, machine: Machine | None = None) -> tuple[Advice, ...]:
    """Propose the next step and alternatives, the best first; empty if no rule applies.

    Parameters
    ----------
    m
        A measurement, with counters if it was profiled.
    machine
        The ceilings of its device. Without them, bounds follow from counters only.
    """
    facts = Facts(m, machine)
    found = limiter(m, machine)
    where = f" of {_hottest(facts, found)}" if len(facts.kernels) > 1 else ""
    advices: dict[Step, Advice] = {}
    for step, sentence in _proposals(facts, found):
        if step not in advices:
            bound, basis, provenance = _bound(facts, step)
            advices[step] = Advice(
                step=step,
                sentence=sentence.replace("{of}", where),
                bound=bound,
                basis=basis,
                provenance=provenance,
            )
    return tuple(advices.values())


def _hottest(facts: Facts, found: Limiter) -> str:
    """The stage of a pipeline, or the kernel, with the longest time."""
    stages = facts.m.stages
    if facts.longest and len(stages) == len(facts.kernels):
        routine, variant = stages[facts.kernels.index(facts.longest)]
        return f"the stage {routine}[{variant}]"
    return found.kernel


def _proposals(facts: Facts, found: Limiter) -> Iterator[tuple[Step, str]]:
    """Yield steps with sentences, the best first; a step may occur several times."""
    k = facts.longest
    if k is None:
        yield from _without_counters(facts, found)
        return
    working = facts.share_of_kernels
    if len(facts.kernels) > 1 and working is not None and working < BOUND:
        text = f"fuse or overlap the {len(facts.kernels)} kernels: they take {percent(working)} of"
        yield Step.FUSION, f"{text} the time, and launches and gaps take the rest"
    if (facts.useful_arithmetic or 0.0) >= REACHED:
        yield Step.DONE, "the useful FLOPs reach the measured peak"
    if found.kind is Kind.PARALLELISM:
        # NVIDIA's rule LaunchConfiguration: more blocks gain at most (SMs - blocks) / SMs, and
        # nothing if each SM has a block.
        idle = k.blocks < k.profile.multiprocessors
        yield from () if idle else _latency(facts, k)
        yield (
            Step.PARALLELISM,
            f"divide the work{{of}} among more blocks: {k.blocks} for"
            f" {k.profile.multiprocessors} multiprocessors",
        )
        yield from _latency(facts, k)
    elif found.kind is Kind.DRAM:
        yield from _dram(facts, k, found)
    elif found.kind in (Kind.L1, Kind.SHARED, Kind.L2):
        # Coalescing does not change the number of wavefronts that access shared memory.
        changed = 1 - (k.shared_of_l1 or 0.0) if found.kind is Kind.SHARED else 1.0
        share = (found.share or 0.0) * changed
        yield from _access(k, share, l1_limits=found.kind is not Kind.L2)
        yield from _volume(k)
        yield from _latency(facts, k)
    elif found.kind is Kind.COMPUTE:
        yield from _compute(facts, k, found)
    elif found.kind is Kind.LATENCY:
        yield from _latency(facts, k)


def _without_counters(facts: Facts, found: Limiter) -> Iterator[tuple[Step, str]]:
    if found.kind is Kind.PARALLELISM:
        yield (
            Step.PARALLELISM,
            "divide the work among at least as many blocks as there are multiprocessors",
        )
    elif found.kind is Kind.DRAM and (found.share or 0.0) >= REACHED:
        yield Step.DONE, "the compulsory bytes are transferred at the measured bandwidth"
    elif found.kind is Kind.COMPUTE:
        yield (
            Step.OPERATIONS,
            "precompute, pack or replace operations: the variant is compute-bound",
        )


def _dram(facts: Facts, k: KernelFacts, found: Limiter) -> Iterator[tuple[Step, str]]:
    several, share = len(facts.kernels) > 1, found.share or 0.0
    if facts.traffic and facts.traffic >= EXCESS:
        times = number(facts.traffic)
        if several:
            text = f"fuse the {len(facts.kernels)} kernels: DRAM transfers are {times} times the"
            yield Step.FUSION, f"{text} compulsory bytes, because they include intermediate results"
        yield (
            Step.DRAM_REUSE,
            f"reuse data while they are in a cache: DRAM transfers are {times} times the compulsory"
            " bytes",
        )
    elif share >= REACHED and several and 1 - facts.share_of_longest >= _REST:
        rest = percent(1 - facts.share_of_longest)
        yield (
            Step.FUSION,
            f"overlap or fuse the other kernels, {rest} of the time: {found.kernel} reaches the"
            " measured bandwidth",
        )
    elif share >= REACHED:
        yield Step.DONE, "the kernel reaches the bandwidth measured on this device"
    elif share >= BOUND:
        # At this bandwidth enough bytes are in flight. Only fewer, wider requests can still help.
        yield from _narrow(k, WIDEST)
    yield from _latency(facts, k)


def _access(k: KernelFacts, share: float, *, l1_limits: bool) -> Iterator[tuple[Step, str]]:
    """Yield steps that improve access patterns; `share` is the utilisation of the memory unit."""
    conflicts = k.get("conflict_share") or 0.0
    l1 = k.busiest("L1")
    if conflicts >= NOTABLE and l1 and conflicts * l1.share >= NOTABLE:
        yield (
            Step.BANK_CONFLICTS,
            f"pad or permute shared memory{{of}}: {percent(conflicts)} of its wavefronts are"
            " bank conflicts",
        )
    if k.excess("store") * share >= NOTABLE:
        yield (
            Step.COALESCING,
            "coalesce stores{of}: they transfer"
            f" {k.times_ideal('store')} times the ideal number of sectors",
        )
    # Excess sectors that other loads use are L1 hits. They cost time only if L1 is the limiter.
    excess = k.excess("load") - (0.0 if l1_limits else k.get("l1_hit_rate") or 0.0)
    sectors, width = k.get("load_sectors_per_request") or 0.0, k.bytes_per_lane("load")
    if excess * share >= NOTABLE and sectors > _LINE * max((width or 0.0) / FULL_LINE, 1):
        yield (
            Step.COALESCING,
            f"coalesce loads{{of}}: a load request accesses {number(sectors)} sectors",
        )
    spilled = k.ratio("local_bytes", "l1_bytes")
    if spilled is not None and spilled >= NOTABLE:
        yield (
            Step.SPILLS,
            f"allow more registers per thread{{of}}: {percent(spilled)} of the bytes in L1 are"
            " local memory",
        )


def _volume(k: KernelFacts) -> Iterator[tuple[Step, str]]:
    """Yield steps that reduce the number of memory accesses."""
    if (k.loads_per_byte or 0.0) >= EXCESS:
        yield (
            Step.REUSE,
            f"keep data in registers or shared memory{{of}}: each byte from DRAM is loaded"
            f" {k.times_loaded}",
        )
    if (k.shared_of_l1 or 0.0) > 0.5:
        yield (
            Step.REUSE,
            f"keep values in registers{{of}}: {percent(k.shared_of_l1 or 0.0)} of the L1 wavefronts"
            " access shared memory",
        )
    yield from _narrow(k, NARROW)


def _narrow(k: KernelFacts, below: float) -> Iterator[tuple[Step, str]]:
    requests = {access: k.get(f"{access}_requests") or 0.0 for access in ("load", "store")}
    many = [access for access in requests if requests[access] >= NOTABLE * sum(requests.values())]
    widths = [(k.bytes_per_lane(access), access) for access in many]
    known = [(width, access) for width, access in widths if width]
    if known and min(known)[0] < below:
        width, access = min(known)
        yield (
            Step.WIDER,
            f"use vector accesses{{of}}: a {access} transfers {number(width)} of {WIDEST:.0f}"
            " possible bytes per lane",
        )


def _compute(facts: Facts, k: KernelFacts, found: Limiter) -> Iterator[tuple[Step, str]]:
    lanes = k.get("unpredicated_lanes")
    if lanes is not None and lanes < LANES:
        yield (
            Step.DIVERGENCE,
            f"reduce warp divergence{{of}}: {number(lanes)} of 32 lanes are active per instruction",
        )
    loads, times = k.load_instructions or 0.0, max(k.loads_per_byte or 0.0, 1.0)
    general = not found.unit.startswith(("FP64", "tensor"))
    if general and times >= EXCESS and loads * _PER_LOAD * (1 - 1 / times) >= NOTABLE:
        yield (
            Step.REUSE,
            f"reuse loaded data{{of}}: each byte from DRAM is loaded {k.times_loaded}, and"
            f" {percent(loads)} of the instructions are loads",
        )
    fused = k.get("fma_share")
    if fused is not None and fused < NOTABLE and found.unit.startswith(("FP64", "FMA")):
        yield (
            Step.FMA,
            f"combine products and sums into FMAs{{of}}: {percent(fused)} of the floating-point"
            " instructions are FMAs",
        )
    if not facts.m.flops and not facts.m.executed_flops:  # mostly memory accesses
        yield from _narrow(k, NARROW)
    share = percent(found.share or 0.0)
    yield (
        Step.OPERATIONS,
        f"precompute, pack or replace operations{{of}}: {found.unit} at {share}",
    )
    if general:
        yield from _narrow(k, NARROW)


def _latency(facts: Facts, k: KernelFacts) -> Iterator[tuple[Step, str]]:
    """Yield steps for a latency-bound kernel, ordered by stall reason."""
    l1 = k.busiest("L1")
    yield from _access(k, l1.share if l1 else 0.0, l1_limits=False)
    # Fewer instructions also mean fewer stalls.
    if facts.excess_arithmetic >= NOTABLE:
        yield (
            Step.OPERATIONS,
            "precompute or replace operations{of}: FLOPs beyond the useful ones would take"
            f" {percent(facts.excess_arithmetic)} of the time at the measured peak",
        )
    groups = {
        "memory": k.stall("long_scoreboard", "lg_throttle", "tex_throttle", "drain"),
        "synchronisation": k.stall("barrier", "membar"),
        "shared memory": k.stall("short_scoreboard", "mio_throttle"),
        "arithmetic": k.stall("math_pipe_throttle", "wait", "dispatch_stall"),
        "branches": k.stall("branch_resolving", "no_instruction"),
    }
    ordered = sorted(groups.items(), key=lambda item: -item[1])
    for name, share in ordered:
        if share < STALL and name != ordered[0][0]:
            break
        yield from _waiting(k, name, percent(share))


def _waiting(k: KernelFacts, reason: str, share: str) -> Iterator[tuple[Step, str]]:
    text = f"warps wait for {reason} in {share} of their time"
    if reason == "memory":
        if (k.loads_per_byte or 0.0) >= EXCESS:
            yield (
                Step.REUSE,
                f"keep data in registers or shared memory{{of}}: {text}, and each byte from DRAM"
                f" is loaded {k.times_loaded}",
            )
        yield from _narrow(k, NARROW)
        theoretical, eligible = k.profile.kernel.occupancy, k.get("eligible_warps")
        # More warps help only if a scheduler has no eligible warp in some cycles.
        if theoretical < BOUND and (eligible is None or eligible < 1):
            limit = k.profile.kernel.limiter
            yield (
                Step.OCCUPANCY,
                f"increase the number of resident warps{{of}}: {text}, and {limit} limit"
                f" occupancy to {percent(theoretical)}",
            )
        yield Step.IN_FLIGHT, f"issue several independent loads per thread{{of}}: {text}"
        yield from _narrow(k, WIDEST)
    elif reason == "synchronisation":
        yield Step.BARRIERS, f"use fewer barriers or smaller blocks{{of}}: {text}"
    elif reason == "shared memory":
        if (k.shared_of_l1 or 0.0) > NOTABLE:
            yield Step.REUSE, f"keep values in registers{{of}}: {text}"
        else:
            yield Step.OPERATIONS, f"use fewer special functions or conversions{{of}}: {text}"
    elif reason == "arithmetic":
        yield Step.OPERATIONS, f"precompute, pack or replace operations{{of}}: {text}"
    else:
        yield Step.DIVERGENCE, f"simplify the branches{{of}}: {text}"


# --- bounds --------------------------------------------------------------------------------------

#: Steps that do not change the number of instructions.
_SAME_INSTRUCTIONS = {Step.COALESCING, Step.BANK_CONFLICTS, Step.OCCUPANCY, Step.PARALLELISM}
#: Parts of the names of compute units that execute instructions without memory access.
_PIPES = ("slots", "instructions", "ALU", "FMA", "FP64", "tensor", "XU", "uniform")


@dataclass(frozen=True)
class _Floor:
    """Share of the current time that remains after a step, with the reason."""

    share: float
    basis: str
    provenance: tuple[Provenance, ...]


#: A smaller share of the time limits no gain, and its inverse may overflow.
_NEGLIGIBLE = 1e-9


def _bound(facts: Facts, step: Step) -> tuple[float | None, str, tuple[Provenance, ...]]:
    floors = [floor for floor in _floors(facts, step) if floor.share > _NEGLIGIBLE]
    if not floors:
        return None, "", ()
    highest = max(floors, key=lambda floor: floor.share)
    return max(1 / highest.share, 1.0), highest.basis, highest.provenance


def _floors(facts: Facts, step: Step) -> Iterator[_Floor]:
    ceiling = (Provenance.MODELLED, Provenance.CEILING)
    if facts.compulsory:
        share, name = facts.compulsory
        text = f"the compulsory bytes need {percent(share)} of the time at the measured {name}"
        yield _Floor(share / MARGIN, f"{text} bandwidth", ceiling)
    if facts.useful_arithmetic:
        text = f"the useful FLOPs need {percent(facts.useful_arithmetic)} of the time at the"
        yield _Floor(facts.useful_arithmetic / MARGIN, f"{text} measured peak", ceiling)
    if len(facts.kernels) == 1:
        yield from _floors_of_kernel(facts.kernels[0], step)


def _floors_of_kernel(k: KernelFacts, step: Step) -> Iterator[_Floor]:
    """Yield the shares of the time of a single kernel that remain, from its counters.

    A step may change several kernels at once. Variants of several kernels therefore have no such
    bound.
    """
    counted = (Provenance.COUNTED,)
    pipes = [u for u in k.units if u.level == "compute" and any(p in u.name for p in _PIPES)]
    busy = k.get("sm_active") if step is Step.PARALLELISM else None
    if step is Step.PARALLELISM and busy:
        l1 = k.busiest("L1")
        for unit in (*pipes[:1], *([l1] if l1 else [])):
            text = f"{unit.name} at {percent(min(unit.share / busy, 1))} on each multiprocessor"
            yield _Floor(unit.share, f"{text} with work, {percent(busy)} of all", counted)
    elif step in _SAME_INSTRUCTIONS and pipes:
        text = f"the number of instructions does not change: {pipes[0].name} at"
        yield _Floor(pipes[0].share, f"{text} {percent(pipes[0].share)} of peak", counted)
    if step is Step.OCCUPANCY:
        if k.units:
            text = f"{k.units[0].name} at {percent(k.units[0].share)} of peak"
            yield _Floor(k.units[0].share, text, counted)
        occupancy = k.get("occupancy")
        if occupancy:
            text = f"{percent(occupancy)} of the possible warps are already active"
            yield _Floor(occupancy, text, counted)
    if step is Step.BANK_CONFLICTS and (l1 := k.busiest("L1")):
        remaining = l1.share * (1 - min(k.get("conflict_share") or 0.0, 1.0))
        yield _Floor(remaining, "the L1 wavefronts without bank conflicts remain", counted)
    if step is Step.DIVERGENCE and pipes and (lanes := k.get("unpredicated_lanes")):
        text = f"{number(lanes)} of 32 lanes are already active"
        yield _Floor(pipes[0].share * min(lanes / 32, 1.0), text, counted)
    if step is Step.FMA and pipes and (fused := k.get("fma_share")) is not None:
        text = "FMAs halve the number of the other floating-point instructions"
        yield _Floor(pipes[0].share * (1 - 0.5 * (1 - fused)), text, counted)
