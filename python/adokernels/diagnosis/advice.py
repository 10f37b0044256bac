"""The next step for a variant, derived from its limiter and counters, and the bound of its gain.

The rules follow the order of NVIDIA's guides: first distribute the work over all multiprocessors,
then improve memory access patterns, then reduce memory accesses and computation, then hide latency.

A bound holds for the proposed step even if it is combined with others. It is computed from the work
that no variant can avoid (compulsory bytes, useful FLOPs), at measured ceilings with a margin of
3 %, and from the units whose utilisation the step does not reduce. A bound is at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from adokernels.diagnosis.cpu_rules import proposals
from adokernels.diagnosis.evidence import (
    EXCESS,
    FULL_LINE,
    LINE,
    MARGIN,
    NARROW,
    REACHED,
    WIDEST,
    Facts,
    KernelFacts,
)
from adokernels.diagnosis.limiter import limiter
from adokernels.records.definitions import BALANCED, BOUND, LANES, LIMITING, NOTABLE, STALL
from adokernels.records.limiter import Kind, Limiter, Provenance, Step
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import (
    EMULATED,
    EMULATED_BULK,
    EMULATED_INSTRUCTIONS,
    SECTOR,
    WARP,
)
from adokernels.text import number, percent, quantity, ratio

#: Instructions that are removed with a load: load, address computation, bounds test, conversion.
_PER_LOAD = 4
#: Ideal numbers of sectors of loads, stores and bulk copies in global memory.
_IDEAL_SECTORS = (
    "ideal_load_sectors",
    "ideal_store_sectors",
    *(EMULATED_BULK.format("ideal", op) for op in ("ld", "st")),
)
#: The group of stall reasons for global and local memory.
_MEMORY = "accesses through L1"
#: Atomic operations are contended from this mean number of lanes that update one address or bank.
CONTENDED = 4.0
#: The emulator counts different addresses of atomic operations up to this number.
FEW_ADDRESSES = 1024
#: FP64 instructions are notable from this share: their rate is up to 64 times lower.
UNINTENDED = 0.01
#: More blocks are advised from `WORTH_A_BLOCK` compulsory bytes per multiprocessor. If there is a
#: single block, they are also advised from `DIVISIBLE` bytes per thread, but not below `SEVERAL`
#: times `WORTH_A_BLOCK`. Smaller problems do not fill any device.
DIVISIBLE, WORTH_A_BLOCK, SEVERAL = 64, 4096, 8
#: The other kernels of a variant are considered from this share of the time.
_REST = 0.05


@dataclass(frozen=True)
class Advice:
    """One proposed step.

    Attributes
    ----------
    step
        Its category.
    sentence
        What to do and why.
    bound
        The largest possible ratio of the times before and after, or None if there is no bound.
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

    Without the ceilings of the machine, bounds are derived from counters only.
    """
    facts, tried = Facts(m, machine), (Provenance.EXPERIMENT,)
    if not facts.longest and (steps := [Advice(*p, tried) for p in proposals(m, machine)]):
        return tuple(steps)
    found = limiter(m, machine)
    where = f" of {_hottest(facts, found)}" if len(facts.kernels) > 1 else ""
    sentences: dict[Step, str] = {}
    for step, sentence in _proposals(facts, found):
        sentences.setdefault(step, sentence.replace("{of}", where))
    return tuple(Advice(step, text, *bound_of(facts, step)) for step, text in sentences.items())


def advise_from_counts(k: KernelFacts, useful_bytes: float) -> tuple[Advice, ...]:
    """Propose steps that follow from counts alone, without times.

    `useful_bytes` are the compulsory bytes of the problem, or 0 if they are unknown.
    The division of a single block is first, then faults that affect at least half of a quantity,
    then the other steps. In each group, the largest excess is first.
    """
    found = sorted(_from_counts(k, useful_bytes), key=lambda item: -item[0])
    found += [(0.0, *each, "") for each in _narrow(k, NARROW)]
    sentences: dict[tuple[Step, str], str] = {}
    for _, step, text, kind in found:
        place = f" ({place})" if (place := k.profile.places.get(kind)) else ""
        of = "" if kind in ("load", "store") else kind  # propose only one of the two
        sentences.setdefault((step, of), text.replace("{of}", "") + place)
    return tuple(Advice(step, text, None, "") for (step, _), text in sentences.items())


def _from_counts(k: KernelFacts, useful_bytes: float) -> Iterator[tuple[float, Step, str, str]]:
    """Yield rank, step, sentence and kind of excess. The rank is above 1 if half is excess."""

    def fault(share: float) -> float:
        return share + (share >= 0.5)

    threads, processors = math.prod(k.profile.kernel.block), k.profile.multiprocessors
    one = k.blocks == 1
    alone = max(DIVISIBLE * threads, SEVERAL * WORTH_A_BLOCK) if one else math.inf
    least = min(WORTH_A_BLOCK * processors, alone)
    requested = SECTOR * sum(k.get(ideal) or 0 for ideal in _IDEAL_SECTORS)
    if k.blocks < processors and (useful_bytes or requested) >= least:
        text = f"divide the work among more blocks: {k.blocks} for {processors} multiprocessors"
        yield 3.0 if one else fault(1 - k.blocks / processors), Step.PARALLELISM, text, ""
    for access in ("load", "store"):
        if (excess := k.excess(access)) >= NOTABLE:
            text = f"coalesce {access}s: they transfer {k.times_ideal(access)} times the ideal"
            yield fault(excess), Step.COALESCING, f"{text} number of sectors", access
    if (conflicts := k.get("conflict_share") or 0.0) >= NOTABLE:
        text = f"pad or permute shared memory: {percent(conflicts)} of its wavefronts"
        yield fault(conflicts), Step.BANK_CONFLICTS, f"{text} are bank conflicts", "conflicts"
    lanes, instructions = k.get("lanes"), k.get(EMULATED_INSTRUCTIONS) or 1.0
    if lanes is not None and lanes < LANES:
        text = f"reduce warp divergence: {number(lanes)} of 32 lanes are active per instruction"
        yield fault(1 - lanes / WARP), Step.DIVERGENCE, text, ""
    for share, step, text, kind in _repeated(k, instructions):
        yield fault(share), step, text, kind
    local = (k.get("local_bytes") or 0.0) / SECTOR
    sectors = local + sum(k.get(f"{each}_sectors") or 0.0 for each in ("load", "store"))
    if local and local >= NOTABLE * sectors:
        text = "keep arrays in registers: index them with constants, for example in unrolled loops:"
        text += f" {percent(local / sectors)} of the sectors are local memory"
        yield fault(local / sectors), Step.SPILLS, text, "local"
    fp64 = (k.get(EMULATED.format("unneeded_fp64")) or 0.0) / (instructions * (lanes or WARP))
    if fp64 >= UNINTENDED:
        yield fault(fp64), Step.OPERATIONS, _single(f"{percent(fp64)} of the instructions"), "fp64"
    if useful_bytes and requested / useful_bytes >= EXCESS:
        text = "keep data in registers or shared memory: the kernel requests"
        text += f" {number(requested / useful_bytes)} times the compulsory bytes"
        yield 1 - useful_bytes / requested, Step.REUSE, text, ""


def _repeated(k: KernelFacts, instructions: float) -> Iterator[tuple[float, Step, str, str]]:
    """Yield the steps for accesses that the hardware serves one after another."""
    text = "add up in registers or shared memory before atomic operations: "
    loads, stores = (k.get(f"{each}_requests") or 0.0 for each in ("load", "store"))
    names = ("ideal_sectors", "updates", "addresses")
    ideal, updates, addresses = (k.get(EMULATED.format(f"atomic_{n}")) or 0.0 for n in names)
    sectors, accesses = k.get("atomic_sectors") or 0.0, NOTABLE * (loads + stores)
    if sectors >= CONTENDED * ideal > 0 and sectors - ideal >= NOTABLE * instructions:
        text += f"{number(sectors / ideal)} lanes of a warp update the same address"
        yield 1 - ideal / sectors, Step.REUSE, text, "atomic"
    # `updates` are lanes. A few atomic operations at the end of each block do not matter.
    elif 0 < addresses < FEW_ADDRESSES and updates >= WARP * max(addresses, accesses):
        text += f"threads update each of {addresses:.0f} addresses"
        text += f" {number(updates / addresses)} times"
        yield 1 - addresses / updates, Step.REUSE, text, "atomic"
    wavefronts = k.get("shared_atomic_wavefronts") or 0.0
    repeats = k.get("shared_atomic_conflicts") or 0.0
    if wavefronts >= CONTENDED * (wavefronts - repeats) and repeats >= NOTABLE * instructions:
        text = "spread atomic operations in shared memory over more addresses, for example one copy"
        text += f" per warp or lane: {percent(repeats / wavefronts)} of their wavefronts repeat"
        yield repeats / wavefronts, Step.REUSE, f"{text} an address or a bank", "shared_atomic"
    both = ("constant_requests", "constant_passes")
    requests, passes = (k.get(EMULATED.format(name)) or 0.0 for name in both)
    if passes - requests >= NOTABLE * instructions:
        text = "read tables with an index per lane from shared or global memory: a constant load"
        text += f" reads {number(passes / requests)} addresses, one after another"
        yield 1 - requests / passes, Step.COALESCING, text, "constant"


def _single(share: str) -> str:
    text = f"use constants and functions of float, such as 0.5f and sqrtf: {share}"
    return f"{text} are FP64, but no array is"


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
    useful, unit = facts.useful_arithmetic or 0.0, k.profile.busiest("compute")
    double, single = (k.get(f"flops_{each}") or 0.0 for each in ("fp64", "fp32"))
    in_pipe = found.kind is Kind.COMPUTE and found.unit.startswith("FP64")
    unneeded = double >= UNINTENDED * single and double and not facts.m.problem.may_be_fp64
    cheaper = Step.OPERATIONS, _single(f"{percent(double / (double + single or 1))} of the FLOPs")
    if unneeded and in_pipe:
        yield cheaper
    if useful >= REACHED:
        yield Step.DONE, "the useful FLOPs reach the measured peak"
    elif unit and unit.share >= BOUND and useful >= REACHED * unit.share:
        text = f"{unit.name} at {percent(unit.share)} of peak, and the useful FLOPs alone need"
        yield Step.DONE, f"{text} {percent(useful)} of the time at the measured peak"
    if found.kind is Kind.PARALLELISM:
        # NVIDIA's rule LaunchConfiguration: more blocks gain at most (SMs - blocks) / SMs, and
        # nothing if each SM has a block.
        processors = k.profile.multiprocessors
        yield from () if k.blocks < processors else _latency(facts, k)
        text = f"divide the work{{of}} among more blocks: {k.blocks} for {processors}"
        yield Step.PARALLELISM, f"{text} multiprocessors"
        yield from _latency(facts, k)
    elif found.kind is Kind.DRAM or k.reaches_dram or k.dram_first:
        yield from _dram(facts, k, found)
    elif found.kind in (Kind.L1, Kind.SHARED, Kind.L2, Kind.MEMORY):
        # Coalescing does not change the number of wavefronts that access shared memory.
        changed = 1 - (k.shared_of_l1 or 0.0) if found.kind is Kind.SHARED else 1.0
        yield from _level(facts, k, (found.share or 0.0) * changed, found.kind is not Kind.L2)
    elif found.kind is Kind.COMPUTE:
        yield from _compute(facts, k, found.unit, found.share or 0.0)
    elif found.kind is Kind.LATENCY and k.busy_while_active:
        # The kernel is short. Steps for the unit shorten the time in which it is busy.
        busy, share = k.busy_while_active
        in_l1 = busy.level == "L1"
        yield from _level(facts, k, share, True) if in_l1 else _compute(facts, k, busy.name, share)
    elif found.kind is Kind.LATENCY:
        yield from _latency(facts, k)
    if unneeded:
        yield cheaper


def _level(
    facts: Facts, k: KernelFacts, share: float, l1_limits: bool
) -> Iterator[tuple[Step, str]]:
    """Yield steps for a kernel that is limited by L1, shared memory or L2."""
    yield from _access(facts, k, share, l1_limits=l1_limits)
    # Shared memory already holds the data. Fewer terms also read fewer words from it.
    if facts.excess_arithmetic >= NOTABLE and (k.shared_of_l1 or 0.0) > 0.5:
        yield _fewer_operations(facts, k)
    yield from _volume(k)
    yield from _latency(facts, k)


def _without_counters(facts: Facts, found: Limiter) -> Iterator[tuple[Step, str]]:
    if found.kind is Kind.PARALLELISM:
        text = "divide the work among at least one block per multiprocessor"
        yield Step.PARALLELISM, text
    elif found.kind is Kind.DRAM and (found.share or 0.0) >= REACHED:
        yield Step.DONE, "the compulsory bytes are transferred at the measured bandwidth"
    elif found.kind is Kind.COMPUTE:
        text = "precompute, pack or replace operations: the variant is compute-bound"
        yield Step.OPERATIONS, text


def _dram(facts: Facts, k: KernelFacts, found: Limiter) -> Iterator[tuple[Step, str]]:
    several = len(facts.kernels) > 1
    share = k.of_dram if k.of_dram is not None else found.share or 0.0
    if facts.traffic and facts.traffic >= EXCESS:
        times = number(facts.traffic)
        if several:
            text = f"fuse the {len(facts.kernels)} kernels: DRAM transfers are {times} times the"
            yield Step.FUSION, f"{text} compulsory bytes, because they include intermediate results"
        if facts.unneeded_operands:
            yield from _layout(facts, k, share)
            yield from _latency(facts, k)
            return
        excess = f"DRAM transfers are {times} times the compulsory bytes"
        if facts.requests_once and k.excess("load") + k.excess("store") >= NOTABLE:
            text = "access neighbouring elements in the same warp, by another order of the accesses"
            text += f" or another data layout: {excess}"
            yield Step.COALESCING, f"{text}, because sectors are partly used{_partly_used(k)}"
        yield Step.DRAM_REUSE, f"reuse data while they are in a cache: {excess}"
    elif k.reaches_dram and several and 1 - facts.share_of_longest >= _REST:
        text = f"overlap or fuse the other kernels, {percent(1 - facts.share_of_longest)} of the"
        yield Step.FUSION, f"{text} time: {found.kernel} reaches the measured bandwidth"
    elif k.reaches_dram:
        yield Step.DONE, "the kernel reaches the bandwidth measured on this device"
    elif share >= BOUND:
        # At this bandwidth enough bytes are in flight. Only fewer, wider requests can still help.
        yield from _narrow(k, WIDEST)
    for step, sentence in _latency(facts, k):
        more = f"; {_unsaturated(k, share)}" if step is Step.IN_FLIGHT else ""
        yield step, sentence + more


def _layout(facts: Facts, k: KernelFacts, share: float) -> Iterator[tuple[Step, str]]:
    """Yield steps for a kernel that reads unneeded parts of its operands, each about once."""
    # The kernel can change the loads in flight; the layout may be given.
    if share < REACHED and k.load_latency and not k.queued and k.memory_stalls >= STALL:
        yield (
            Step.IN_FLIGHT,
            f"issue several independent loads per thread: {_unsaturated(k, share)}",
        )
    limit = ""
    if kept := facts.dram_with_layout:
        limit = f"; with this layout, other steps gain at most {ratio(max(MARGIN / kept, 1.0))}"
    text = "change the data layout so that needed bytes are contiguous, for example to a structure"
    text += f" of arrays: DRAM transfers are {number(facts.traffic or 1.0)} times the compulsory"
    text += " bytes, because sectors and DRAM accesses also contain bytes that are not needed"
    yield Step.COALESCING, f"{text}{_partly_used(k)}, and each is read about once{limit}"


def _partly_used(k: KernelFacts) -> str:
    """Format the sectors of a load request and the ideal number; empty without excess."""
    sectors = k.get("load_sectors_per_request")
    ideal = k.ratio("ideal_load_sectors", "load_requests")
    if sectors is None or ideal is None or k.excess("load") < NOTABLE:
        return ""
    return f" (a load request accesses {number(sectors)} sectors, ideally {number(ideal)})"


def _unsaturated(k: KernelFacts, share: float) -> str:
    """Why further loads in flight help a kernel whose busiest unit is DRAM."""
    text = f"DRAM transfers {percent(share)} of the measured bandwidth"
    if k.load_latency:
        text += f", and a load takes only {quantity(k.load_latency, 's')}"
    return f"{text}, so few loads are in flight"


def _access(
    facts: Facts, k: KernelFacts, share: float, *, l1_limits: bool
) -> Iterator[tuple[Step, str]]:
    """Yield steps that improve access patterns; `share` is the utilisation of the memory unit."""
    if k.stored_bytes >= EXCESS * facts.m.bytes > 0:
        times = f"{number(k.stored_bytes / facts.m.bytes)} times the compulsory bytes"
        yield Step.REUSE, f"keep intermediate results in shared memory{{of}}: threads store {times}"
    issue = k.get("issue_active") or 0.0
    if k.atomics_of_l2 >= 0.5 and issue < NOTABLE:  # atomic operations on few addresses
        text = f"they account for {percent(k.atomics_of_l2)} of the sectors that L2 accesses"
        yield _add_up(text, issue)
    conflicts = k.get("conflict_share") or 0.0
    l1 = k.profile.busiest("L1")
    waits = k.stall("short_scoreboard", "mio_throttle") >= NOTABLE
    if conflicts >= NOTABLE and l1 and conflicts * l1.share >= NOTABLE and (l1_limits or waits):
        text = f"pad or permute shared memory{{of}}: {percent(conflicts)} of its wavefronts"
        yield Step.BANK_CONFLICTS, f"{text} are bank conflicts"
    if k.excess("store") * share >= NOTABLE:
        text = f"they transfer {k.times_ideal('store')} times the ideal number of sectors"
        yield Step.COALESCING, f"coalesce stores{{of}}: {text}"
    # Excess sectors that other loads use are L1 hits. They cost time only if L1 is the limiter.
    excess = k.excess("load") - (0.0 if l1_limits else k.get("l1_hit_rate") or 0.0)
    sectors, width = k.get("load_sectors_per_request") or 0.0, k.bytes_per_lane("load")
    if excess * share >= NOTABLE and sectors > LINE * max((width or 0.0) / FULL_LINE, 1):
        text = f"coalesce loads{{of}}: a load request accesses {number(sectors)} sectors"
        yield Step.COALESCING, text
    busy, saved = k.lines
    # Overlapping windows are not aligned. Reuse removes more of their requests than alignment.
    aligned = saved >= 0.5 or (k.loads_per_byte or 0.0) < EXCESS
    if not l1_limits and busy * saved >= NOTABLE and aligned and k.stall("membar") < NOTABLE:
        text = f"coalesce and align accesses{{of}} to whole cache lines: {percent(busy * saved)}"
        yield Step.COALESCING, f"{text} of L2's peak are requests for parts of lines"
    spilled = k.ratio("local_bytes", "l1_bytes")
    if spilled is not None and spilled >= NOTABLE:
        text = f"{percent(spilled)} of the bytes in L1 are local memory"
        yield Step.SPILLS, f"allow more registers per thread{{of}}: {text}"


def _volume(k: KernelFacts) -> Iterator[tuple[Step, str]]:
    """Yield steps that reduce the number of memory accesses."""
    if (k.loads_per_byte or 0.0) >= EXCESS:
        text = "keep data in registers or shared memory{of}: each byte from DRAM is loaded"
        yield Step.REUSE, f"{text} {k.times_loaded}"
    if (shared := k.shared_of_l1 or 0.0) > 0.5:
        text = f"{percent(shared)} of the L1 wavefronts access shared memory"
        yield Step.REUSE, f"keep values in registers{{of}}: {text}"
    yield from _narrow(k, NARROW)


def _narrow(k: KernelFacts, below: float) -> Iterator[tuple[Step, str]]:
    requests = {access: k.get(f"{access}_requests") or 0.0 for access in ("load", "store")}
    many = [access for access in requests if requests[access] >= NOTABLE * sum(requests.values())]
    known = [(width, access) for access in many if (width := k.bytes_per_lane(access))]
    if known and min(known)[0] < below:
        width, access = min(known)
        text = f"use vector accesses{{of}}: a {access} transfers {number(width)} of {WIDEST:.0f}"
        yield Step.WIDER, f"{text} possible bytes per lane"


def _compute(facts: Facts, k: KernelFacts, unit: str, share: float) -> Iterator[tuple[Step, str]]:
    yield from _divergence(k, "unpredicated_lanes")
    # Stalls matter only if schedulers often find no eligible warp.
    eligible = k.get("eligible_warps")
    if share < BOUND and k.waits_for_memory and eligible is not None and eligible < 1:
        yield from _waiting(k, _MEMORY, percent(k.memory_stalls))
    if any(u.name == "LSU pipe" and u.share >= share - BALANCED for u in k.profile.units):
        yield from _volume(k)  # memory instructions also limit the kernel
    loads = k.ratio("load_requests", "instructions") or 0.0
    times = max(k.loads_per_byte or 0.0, 1.0)
    general = not unit.startswith(("FP64", "tensor"))
    if general and times >= EXCESS and loads * _PER_LOAD * (1 - 1 / times) >= NOTABLE:
        text = f"reuse loaded data{{of}}: each byte from DRAM is loaded {k.times_loaded}, and"
        yield Step.REUSE, f"{text} {percent(loads)} of the instructions are loads"
    fused = k.get("fma_share")
    if fused is not None and fused < NOTABLE and unit.startswith(("FP64", "FMA")):
        text = f"{percent(fused)} of the floating-point instructions are FMAs"
        yield Step.FMA, f"combine products and sums into FMAs{{of}}: {text}"
    if not facts.m.flops and not facts.m.executed_flops:  # mostly memory accesses
        yield from _narrow(k, NARROW)
    text = f"{unit} at {percent(share)}"
    yield Step.OPERATIONS, f"precompute, pack or replace operations{{of}}: {text}"
    if general:
        yield from _narrow(k, NARROW)


def _divergence(k: KernelFacts, counted: str) -> Iterator[tuple[Step, str]]:
    lanes = k.get(counted)
    if lanes is not None and lanes < LANES:
        text = f"{number(lanes)} of 32 lanes are active per instruction"
        yield Step.DIVERGENCE, f"reduce warp divergence{{of}}: {text}"


def _latency(facts: Facts, k: KernelFacts) -> Iterator[tuple[Step, str]]:
    """Yield steps for a latency-bound kernel, ordered by stall reason."""
    l1 = k.profile.busiest("L1")
    yield from _access(facts, k, l1.share if l1 else 0.0, l1_limits=False)
    # Lanes that predicates switch off count as active: they do not lengthen the waits of a warp.
    yield from _divergence(k, "lanes")
    # Fewer instructions also mean fewer stalls, but not fewer waits for memory.
    if facts.excess_arithmetic >= NOTABLE and not k.waits_for_memory:
        yield _fewer_operations(facts, k)
    groups = {
        _MEMORY: k.memory_stalls,
        "synchronisation": k.stall("barrier", "membar"),
        # Accesses to shared memory, special functions and registers, and dynamic branches.
        "MIO instructions": k.stall("short_scoreboard", "mio_throttle"),
        "arithmetic": k.stall("math_pipe_throttle", "wait", "dispatch_stall"),
        "branches": k.stall("branch_resolving", "no_instruction"),
    }
    # Without collected stalls, no wait is known.
    ordered = sorted(filter(groups.get, groups), key=lambda name: -groups[name])
    for name in ordered:
        if groups[name] >= STALL or name == ordered[0]:
            yield from _waiting(k, name, percent(groups[name]))
    if facts.excess_arithmetic >= NOTABLE:
        yield _fewer_operations(facts, k)


def _fewer_operations(facts: Facts, k: KernelFacts) -> tuple[Step, str]:
    text = "precompute or replace operations{of}: FLOPs beyond the useful ones would take"
    text += f" {percent(facts.excess_arithmetic)} of the time at the measured peak"
    if k.memory_stalls >= STALL:
        text += f"; warps also wait for {_MEMORY} in {percent(k.memory_stalls)} of their time"
    return Step.OPERATIONS, text


def _waiting(k: KernelFacts, reason: str, share: str) -> Iterator[tuple[Step, str]]:
    text = f"warps wait for {reason} in {share} of their time"
    if reason == _MEMORY:
        if k.dram_first:  # caches serve repeated loads
            yield from _narrow(k, 2 * FULL_LINE)
        elif (k.loads_per_byte or 0.0) >= EXCESS:
            loaded = f"each byte from DRAM is loaded {k.times_loaded}"
            yield Step.REUSE, f"keep data in registers or shared memory{{of}}: {text}, and {loaded}"
        yield from _narrow(k, NARROW)
        theoretical, eligible = k.profile.kernel.occupancy, k.get("eligible_warps")
        # More warps help only if a scheduler has no eligible warp in some cycles.
        if theoretical < BOUND and (eligible is None or eligible < 1):
            limit = f"{k.profile.kernel.limiter} limit occupancy to {percent(theoretical)}"
            yield (
                Step.OCCUPANCY,
                f"increase the number of resident warps{{of}}: {text}, and {limit}",
            )
        if not k.queued:
            yield Step.IN_FLIGHT, f"issue several independent loads per thread{{of}}: {text}"
        yield from _narrow(k, WIDEST)
    elif reason == "synchronisation":
        yield from _fences(k)
        yield Step.BARRIERS, f"use fewer barriers or smaller blocks{{of}}: {text}"
    elif reason == "MIO instructions":
        if (k.shared_of_l1 or 0.0) > NOTABLE:
            yield Step.REUSE, f"keep values in registers{{of}}: {text}"
        else:
            yield Step.OPERATIONS, f"use fewer special functions or conversions{{of}}: {text}"
    elif reason == "arithmetic":
        yield from _parallel_instructions(k)
        yield Step.OPERATIONS, f"precompute, pack or replace operations{{of}}: {text}"
    else:
        yield Step.DIVERGENCE, f"simplify the branches{{of}}: {text}"


def _fences(k: KernelFacts) -> Iterator[tuple[Step, str]]:
    """Yield steps if warps wait at memory fences: for their atomic operations and stores.

    If schedulers issue hardly anything, the accesses themselves take the time, for example atomic
    operations on few addresses. Otherwise, it is the number of blocks that end with a fence.
    """
    fences, issue = k.stall("membar"), k.get("issue_active") or 0.0
    if fences < max(k.stall("barrier") - BALANCED, NOTABLE):
        return
    text = f"warps wait for memory fences in {percent(fences)} of their time"
    if issue < NOTABLE:
        yield _add_up(text, issue)
    more = "process more elements per thread and block, so that fewer blocks end with a fence"
    yield Step.OPERATIONS, f"{more}{{of}}: {text}"


def _add_up(why: str, issue: float) -> tuple[Step, str]:
    text = f"add up in registers or shared memory before atomic operations{{of}}: {why}"
    return Step.REUSE, f"{text}, and schedulers issue in {percent(issue)} of the cycles"


def _parallel_instructions(k: KernelFacts) -> Iterator[tuple[Step, str]]:
    """Yield a step if arithmetic latency is not hidden, because the device is not full.

    A warp that waits for the fixed latency of its last instruction leaves the pipes idle. Other
    instructions can use them: of the same thread, if independent, or of further warps. If a
    scheduler has an eligible warp in most cycles, or the pipe itself is busy, only fewer
    instructions help.
    """
    issue, eligible = k.get("issue_active"), k.get("eligible_warps")
    fixed, busy = k.stall("wait"), k.stall("math_pipe_throttle", "dispatch_stall")
    idle = issue is not None and issue < LIMITING and (eligible is None or eligible < 1)
    if k.profile.waves < 1 and idle and fixed >= STALL and fixed > busy:
        text = "compute several independent results per thread, or launch more warps per"
        text += f" multiprocessor{{of}}: warps wait in {percent(fixed)} of their time for the fixed"
        text += f" latency of arithmetic, and schedulers issue in {percent(issue or 0.0)}"
        yield Step.PARALLELISM, f"{text} of the cycles"


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
        # L2 of a GPU reads and writes at the same time.
        rate = "twice the measured L2 read" if facts.m.device != "cpu" and name == "L2" else ""
        text = f"the compulsory bytes need {percent(share)} of the time at"
        yield share / MARGIN, f"{text} {rate or f'the measured {name}'} bandwidth", ceiling
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
    pipes = [
        u for u in k.profile.units if u.level == "compute" and any(p in u.name for p in _PIPES)
    ]
    busy = k.get("sm_active") if step is Step.PARALLELISM else None
    if step is Step.PARALLELISM and busy:
        l1 = k.profile.busiest("L1")
        # The same step may coalesce accesses, which removes the wavefronts of excess sectors.
        needed = max(1 - k.excess("load") - k.excess("store"), 0.0)
        for unit, kept in [(u, 1.0) for u in pipes[:1]] + ([(l1, needed)] if l1 else []):
            text = f"{unit.name} at {percent(min(unit.share * kept / busy, 1))} on each"
            yield unit.share * kept, f"{text} multiprocessor with work, {percent(busy)} of all"
    elif step in _SAME_INSTRUCTIONS and pipes:
        text = f"the number of instructions does not change: {pipes[0].name} at"
        yield pipes[0].share, f"{text} {percent(pipes[0].share)} of peak"
    if step is Step.OCCUPANCY:
        for unit in k.profile.units[:1]:
            yield unit.share, f"{unit.name} at {percent(unit.share)} of peak"
        if occupancy := k.get("occupancy"):
            yield occupancy, f"{percent(occupancy)} of the possible warps are already active"
    if step is Step.BANK_CONFLICTS and (l1 := k.profile.busiest("L1")):
        remaining = l1.share * (1 - min(k.get("conflict_share") or 0.0, 1.0))
        yield remaining, "the L1 wavefronts without bank conflicts remain"
    if step is Step.DIVERGENCE and pipes and (lanes := k.get("unpredicated_lanes")):
        text = f"{number(lanes)} of 32 lanes are already active"
        yield pipes[0].share * min(lanes / 32, 1.0), text
    if step is Step.FMA and pipes and (fused := k.get("fma_share")) is not None:
        text = "FMAs halve the number of the other floating-point instructions"
        yield pipes[0].share * (1 - 0.5 * (1 - fused)), text
