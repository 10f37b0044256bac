"""The next step for a variant: what its limiter and counters suggest, and what it can gain at most.

The order of the rules is that of NVIDIA's guides: first give all multiprocessors work, then correct
how memory is accessed, then reduce how much is accessed or computed, then hide latency.

A bound holds for the proposed step even if it is combined with others. It follows from the work
that no variant can avoid (compulsory bytes, useful FLOPs), at measured ceilings with a margin of
3 %, and from the units that the step leaves as busy as they are. A bound is 1 or more.
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
#: Instructions that may vanish with a load: the load, its address, its test, its conversion.
_PER_LOAD = 4
#: The other kernels of a variant matter from this share of the time.
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
        The largest possible ratio of times, before over after; None if nothing bounds it.
    basis
        What the bound follows from.
    provenance
        Where the numbers of the bound come from.
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
    """Propose the next step and alternatives, the best first; nothing if nothing supports one.

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
    """The stage of a pipeline, or the kernel, that takes the most time."""
    stages = facts.m.stages
    if facts.longest and len(stages) == len(facts.kernels):
        routine, variant = stages[facts.kernels.index(facts.longest)]
        return f"the stage {routine}[{variant}]"
    return found.kernel


def _proposals(facts: Facts, found: Limiter) -> Iterator[tuple[Step, str]]:
    """Steps with sentences, the best first; may repeat a step."""
    k = facts.longest
    if k is None:
        yield from _without_counters(facts, found)
        return
    working = facts.share_of_kernels
    if len(facts.kernels) > 1 and working is not None and working < BOUND:
        text = f"fuse or overlap the {len(facts.kernels)} kernels: they take {percent(working)} of"
        yield Step.FUSION, f"{text} the time, launches and gaps between them the rest"
    if (facts.useful_arithmetic or 0.0) >= REACHED:
        yield Step.DONE, "the useful FLOPs are computed at the measured peak"
    if found.kind is Kind.PARALLELISM:
        # LaunchConfiguration: more blocks gain (SM - blocks) / SM, nothing if each SM has a block.
        idle = k.blocks < k.profile.multiprocessors
        yield from () if idle else _latency(facts, k)
        yield (
            Step.PARALLELISM,
            f"split the work{{of}} over more blocks: {k.blocks} for"
            f" {k.profile.multiprocessors} multiprocessors",
        )
        yield from _latency(facts, k)
    elif found.kind is Kind.DRAM:
        yield from _dram(facts, k, found)
    elif found.kind in (Kind.L1, Kind.SHARED, Kind.L2):
        yield from _access(k, found.share or 0.0, l1_limits=found.kind is not Kind.L2)
        yield from _volume(k)
        yield from _latency(facts, k)
    elif found.kind is Kind.COMPUTE:
        yield from _compute(k, found)
    elif found.kind is Kind.LATENCY:
        yield from _latency(facts, k)


def _without_counters(facts: Facts, found: Limiter) -> Iterator[tuple[Step, str]]:
    if found.kind is Kind.PARALLELISM:
        yield Step.PARALLELISM, "split the work over more blocks than multiprocessors"
    elif found.kind is Kind.DRAM and (found.share or 0.0) >= REACHED:
        yield Step.DONE, "the compulsory bytes move at the measured bandwidth"
    elif found.kind is Kind.COMPUTE:
        yield Step.OPERATIONS, "precompute, pack or replace operations: arithmetic limits"


def _dram(facts: Facts, k: KernelFacts, found: Limiter) -> Iterator[tuple[Step, str]]:
    several, share = len(facts.kernels) > 1, found.share or 0.0
    if facts.traffic and facts.traffic >= EXCESS:
        times = number(facts.traffic)
        if several:
            text = f"fuse the {len(facts.kernels)} kernels: DRAM moves {times} times the compulsory"
            yield Step.FUSION, f"{text} bytes, because intermediate results pass through it"
        yield (
            Step.DRAM_REUSE,
            f"use data while they are in a cache: DRAM moves {times} times the compulsory bytes",
        )
    elif share >= REACHED and several and 1 - facts.share_of_longest >= _REST:
        rest = percent(1 - facts.share_of_longest)
        yield (
            Step.FUSION,
            f"overlap or fuse the other kernels, {rest} of the time: {found.kernel} streams at"
            " the measured bandwidth",
        )
    elif share >= REACHED:
        yield Step.DONE, "the data stream at the bandwidth that was measured on this device"
    elif share >= BOUND:
        # Enough bytes are in flight at this bandwidth; fewer, larger requests are what is left.
        yield from _narrow(k, WIDEST)
    yield from _latency(facts, k)


def _access(k: KernelFacts, share: float, *, l1_limits: bool) -> Iterator[tuple[Step, str]]:
    """Corrections of how memory is accessed, for a kernel whose memory unit is this busy."""
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
            "let neighbouring lanes store neighbouring elements{of}: stores move"
            f" {k.times_ideal('store')} times the sectors they need",
        )
    # Sectors that other loads use are hits in L1, and cost nothing unless L1 is the limiter.
    excess = k.excess("load") - (0.0 if l1_limits else k.get("l1_hit_rate") or 0.0)
    sectors, width = k.get("load_sectors_per_request") or 0.0, k.bytes_per_lane("load")
    if excess * share >= NOTABLE and sectors > _LINE * max((width or 0.0) / FULL_LINE, 1):
        yield (
            Step.COALESCING,
            f"let neighbouring lanes load neighbouring elements{{of}}: a load of a warp touches"
            f" {number(sectors)} sectors",
        )
    spilled = k.ratio("local_bytes", "l1_bytes")
    if spilled is not None and spilled >= NOTABLE:
        yield (
            Step.SPILLS,
            f"allow more registers per thread{{of}}: {percent(spilled)} of the bytes in L1 are"
            " local memory",
        )


def _volume(k: KernelFacts) -> Iterator[tuple[Step, str]]:
    """Reductions of how often memory is accessed."""
    if (k.loads_per_byte or 0.0) >= EXCESS:
        yield (
            Step.REUSE,
            f"keep data in registers or shared memory{{of}}: each byte from DRAM is loaded"
            f" {k.times_loaded}",
        )
    if (k.shared_of_l1 or 0.0) > 0.5:
        yield (
            Step.REUSE,
            f"keep values in registers{{of}}: {percent(k.shared_of_l1 or 0.0)} of the work of L1"
            " are accesses to shared memory",
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
            f"use vector accesses{{of}}: a {access} moves {number(width)} of {WIDEST:.0f} possible"
            " bytes per lane",
        )


def _compute(k: KernelFacts, found: Limiter) -> Iterator[tuple[Step, str]]:
    lanes = k.get("unpredicated_lanes")
    if lanes is not None and lanes < LANES:
        yield (
            Step.DIVERGENCE,
            f"let the lanes of a warp take the same branch{{of}}: {number(lanes)} of 32 are active",
        )
    loads, times = k.load_instructions or 0.0, max(k.loads_per_byte or 0.0, 1.0)
    general = not found.unit.startswith(("FP64", "tensor"))
    if general and times >= EXCESS and loads * _PER_LOAD * (1 - 1 / times) >= NOTABLE:
        yield (
            Step.REUSE,
            f"load less often{{of}}: each byte from DRAM is loaded {k.times_loaded}, and"
            f" {percent(loads)} of the instructions are loads",
        )
    fused = k.get("fma_share")
    if fused is not None and fused < NOTABLE and found.unit.startswith(("FP64", "FMA")):
        yield (
            Step.FMA,
            f"write products and sums so that they fuse{{of}}: {percent(fused)} of the"
            " floating-point instructions are FMAs",
        )
    share = percent(found.share or 0.0)
    yield (
        Step.OPERATIONS,
        f"precompute, pack or replace operations{{of}}: {found.unit} at {share}",
    )
    if general:
        yield from _narrow(k, NARROW)


def _latency(facts: Facts, k: KernelFacts) -> Iterator[tuple[Step, str]]:
    """Steps for warps that wait, by the dominant reason."""
    l1 = k.busiest("L1")
    yield from _access(k, l1.share if l1 else 0.0, l1_limits=False)
    # Each instruction that is left out is one that a warp need not wait for.
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
        # More warps help only schedulers that lack an eligible warp.
        if theoretical < BOUND and (eligible is None or eligible < 1):
            limit = k.profile.kernel.limiter
            yield (
                Step.OCCUPANCY,
                f"let more warps be resident{{of}}: {text}, and {limit} limit occupancy to"
                f" {percent(theoretical)}",
            )
        yield Step.IN_FLIGHT, f"give each thread several independent loads{{of}}: {text}"
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

#: Steps that leave the number of instructions as it is.
_SAME_INSTRUCTIONS = {Step.COALESCING, Step.BANK_CONFLICTS, Step.OCCUPANCY, Step.PARALLELISM}
#: Units of compute that execute instructions which do not access memory.
_PIPES = ("slots", "instructions", "ALU", "FMA", "FP64", "tensor", "XU", "uniform")


@dataclass(frozen=True)
class _Floor:
    """A share of the present time that remains after a step, and why."""

    share: float
    basis: str
    provenance: tuple[Provenance, ...]


def _bound(facts: Facts, step: Step) -> tuple[float | None, str, tuple[Provenance, ...]]:
    floors = [floor for floor in _floors(facts, step) if floor.share > 0]
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
    """What remains of the time of a single kernel, from its counters.

    A step may change several kernels at once, so variants of several kernels have no such bound.
    """
    counted = (Provenance.COUNTED,)
    pipes = [u for u in k.units if u.level == "compute" and any(p in u.name for p in _PIPES)]
    busy = k.get("sm_active") if step is Step.PARALLELISM else None
    if step is Step.PARALLELISM and busy:
        l1 = k.busiest("L1")
        for unit in (*pipes[:1], *([l1] if l1 else [])):
            text = f"{unit.name} at {percent(min(unit.share / busy, 1))} on each multiprocessor"
            yield _Floor(unit.share, f"{text} that has work, {percent(busy)} of all", counted)
    elif step in _SAME_INSTRUCTIONS and pipes:
        text = f"the instructions remain, and {pipes[0].name} take {percent(pipes[0].share)}"
        yield _Floor(pipes[0].share, f"{text} of the time", counted)
    if step is Step.OCCUPANCY:
        if k.units:
            text = f"{k.units[0].name} at {percent(k.units[0].share)} of peak already"
            yield _Floor(k.units[0].share, text, counted)
        occupancy = k.get("occupancy")
        if occupancy:
            text = f"{percent(occupancy)} of the possible warps are resident already"
            yield _Floor(occupancy, text, counted)
    if step is Step.BANK_CONFLICTS and (l1 := k.busiest("L1")):
        remaining = l1.share * (1 - min(k.get("conflict_share") or 0.0, 1.0))
        yield _Floor(remaining, "the other wavefronts of L1 remain", counted)
    if step is Step.DIVERGENCE and pipes and (lanes := k.get("unpredicated_lanes")):
        text = f"{number(lanes)} of 32 lanes are active already"
        yield _Floor(pipes[0].share * min(lanes / 32, 1.0), text, counted)
    if step is Step.FMA and pipes and (fused := k.get("fma_share")) is not None:
        text = "fusing halves the instructions that are not FMAs"
        yield _Floor(pipes[0].share * (1 - 0.5 * (1 - fused)), text, counted)
