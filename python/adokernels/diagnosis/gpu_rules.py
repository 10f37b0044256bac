"""The limiter of a CUDA variant from experiments, and the next step.

The rules imitate the decision tree that is used with counters. The experiments distinguish limiters
that the rates from the variant's formulas cannot distinguish:

1. Fewer than 0.9 waves of blocks, and no rate near a ceiling: too little work, as with counters.
2. The compulsory bytes use most of the measured DRAM bandwidth: DRAM. Operands can contain unneeded
   bytes that share cache lines with needed bytes.
3. Half of the multiprocessors. If the time doubles, the limiter is within the multiprocessors. If
   it hardly changes, the limiter is shared by them: DRAM, if operands in L2 take less time per unit
   of work, else L2.
4. Half of the occupancy. If the time rises, too few warps hide the latency. If it does not, a unit
   of the multiprocessors is busy: the one whose rate is the nearest to its ceiling, or else the
   issue of instructions. Without this time, only a rate can distinguish latency from a
   busy unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from adokernels.diagnosis.evidence import REACHED, operand_bytes
from adokernels.diagnosis.times import Found, Proposal, Times, say
from adokernels.records.definitions import FULL
from adokernels.records.experiments import GIVEN, HALF, Run
from adokernels.records.forms import number_in
from adokernels.records.limiter import Evidence, Kind, Limiter, Step
from adokernels.records.metrics import mix_limit
from adokernels.text import NO_LIMIT, number, percent

#: Share of a measured ceiling from which a unit is the limiter. With counters, it is 60 % of the
#: theoretical maximum, about two thirds of a measured ceiling. Rates from formulas are lower,
#: because they exclude other instructions and transfers. Tuned on the variants of docs/limiters.md.
_NEAR_CEILING = 0.55
#: Factors of the time with half of the multiprocessors: from the first factor on, the limiter is
#: within them; below the second factor, they share it.
_WITHIN, _SHARED = 1.6, 1.35
#: Factor of the time with half of the occupancy from which the latency is the limiter. Kernels of
#: gaussian_blur on an H100 had 1.41 with busy schedulers (74 %) and 1.49 without (56 %).
_LATENCY = 1.45
#: Factor of the time per unit of work from L2 to the given operands from which DRAM matters. Cold
#: operands take somewhat longer even if L2 is the limiter.
_BEYOND_L2 = 1.5
#: A problem of half the size takes at least this fraction of the time if there is too little work.
_CONSTANT = 0.85
#: A rate counts as the busiest of the multiprocessors' units from this share.
_BUSY = 0.35
#: A kernel cannot hide latency below this occupancy; a lower one often cannot be tried.
_LOW_OCCUPANCY = 0.2


def decide(t: Times) -> Found | None:
    """Apply the rules to one set of times; None if the runs do not suffice."""
    rates = _rates(t)
    said = [say(f"{text}: {percent(share)}", share, _NEAR_CEILING) for _, share, text in rates]
    best = rates[0] if rates else (Kind.UNKNOWN, 0.0, "")
    waves = _waves(t)
    halved = t.ratio(t.x.find(t.x.given, size=HALF), t.x.given)
    if best[1] < _NEAR_CEILING and waves is not None and waves < FULL:
        text = f"{number(waves)} waves of blocks"
        return Found(Kind.PARALLELISM, "", None, (say(text, waves, FULL), *said))
    if best[1] < _NEAR_CEILING and halved is not None and halved >= _CONSTANT:
        text = f"half of the operands take {percent(halved)} of the time"
        return Found(Kind.PARALLELISM, "", None, (say(text, halved, _CONSTANT), *said))
    if best[1] >= _NEAR_CEILING:
        return Found(best[0], "", best[1], tuple(said))
    processors, occupancy = _processors(t), _occupancy(t)
    beyond = _beyond_l2(t)
    said += _evidence(processors, occupancy, beyond)
    if processors is None and occupancy is None:
        return None
    waiting = occupancy is not None and occupancy >= _LATENCY
    if occupancy is None and t.x.given.occupancy <= _LOW_OCCUPANCY:
        waiting = True
    if processors is not None and processors < _SHARED:
        in_dram = (
            best[0] is Kind.DRAM and best[1] >= _BUSY if beyond is None else beyond >= _BEYOND_L2
        )
        return Found(Kind.DRAM if in_dram else Kind.L2, "", None, tuple(said))
    if waiting:
        return Found(Kind.LATENCY, "", None, tuple(said))
    if processors is not None and processors < _WITHIN and (beyond or 1.0) >= _BEYOND_L2:
        return Found(Kind.DRAM, "", None, tuple(said))
    if processors is None and (beyond or 1.0) >= _BEYOND_L2:
        return Found(Kind.DRAM, "", None, tuple(said))
    inside = [rate for rate in rates if rate[0] is not Kind.DRAM and rate[1] >= _BUSY]
    if inside:
        return Found(inside[0][0], "", None, tuple(said))
    if occupancy is None:
        text = "the occupancy could not be lowered to distinguish latency from a busy unit"
        return Found(Kind.UNKNOWN, "", None, (*said, say(text)))
    return Found(Kind.COMPUTE, "instructions", None, tuple(said))


def _rates(t: Times) -> list[tuple[Kind, float, str]]:
    """Shares of ceilings that follow from formulas, the largest first."""
    m, run = t.m, t.x.given
    found = []
    dram = max(filter(None, (t.one(f"DRAM {way}") for way in ("copy", "read", "write"))), default=0)
    if dram and m.bytes:
        share, text = m.bytes / t.of(run) / dram, "compulsory bytes"
        if share < (whole := operand_bytes(m.problem) / t.of(run) / dram) <= NO_LIMIT:
            share, text = whole, "bytes of the operands"
        found.append((Kind.DRAM, share, f"{text}, of DRAM"))
    peak = t.one(f"{m.problem.precision} fma") if m.problem.precision else None
    if peak and run.flops:
        share = run.flops / t.of(run) / peak
        share /= mix_limit(m.fma_share) if m.fma_share is not None else 1.0
        found.append((Kind.COMPUTE, share, f"executed FLOPs, of {m.problem.precision}"))
    l1 = t.one("L1 read")
    if l1 and run.bytes:
        shared = any(k.static_shared_bytes + k.dynamic_shared_bytes for k in m.kernels)
        kind = Kind.SHARED if shared else Kind.L1
        found.append((kind, run.bytes / t.of(run) / l1, "requested bytes, of L1"))
    return sorted(found, key=lambda rate: -rate[1])


def _waves(t: Times) -> float | None:
    """Waves of blocks of the largest kernel, or None if its resources are unknown."""
    processors = number_in(t.m.context, "cuda", "multiprocessors")
    kernels = [k for k in t.m.kernels if k.resident_warps and processors]
    if not kernels or not processors:
        return None
    k = max(kernels, key=lambda k: math.prod(k.grid) * math.prod(k.block))
    resident = k.resident_warps // max(math.ceil(math.prod(k.block) / 32), 1)
    return math.prod(k.grid) / max(resident * processors, 1)


def _processors(t: Times) -> float | None:
    """The factor of the time with half of the multiprocessors."""
    given = t.x.given
    for run in t.x.others(given, "multiprocessors"):
        ratio, fewer = t.ratio(run, given), given.multiprocessors / max(run.multiprocessors, 1)
        if ratio and fewer > 1.5:
            return float(ratio ** (math.log(2) / math.log(fewer)))
    return None


def _occupancy(t: Times) -> float | None:
    """The factor of the time with half of the occupancy, interpolated.

    It is relative to the time at full occupancy with an equally small L1, if this was measured.
    """
    given = t.x.given
    like = ("size", "cache", "multiprocessors", "block")
    crowded = [
        run
        for run in t.x.runs
        if run.extra_shared_bytes and all(getattr(run, n) == getattr(given, n) for n in like)
    ]
    lower = [r for r in crowded if 0 < r.occupancy < given.occupancy]
    nearest = min(lower, key=lambda r: abs(r.occupancy - given.occupancy / 2), default=None)
    full = next((r for r in crowded if r.occupancy == given.occupancy), given)
    ratio = t.ratio(nearest, full)
    if nearest is None or ratio is None:
        return None
    less = given.occupancy / nearest.occupancy
    return float(ratio ** (math.log(2) / math.log(less)))


def _beyond_l2(t: Times) -> float | None:
    """The time per unit of work, relative to operands in L2."""
    inside: Run | None = next((r for r in t.x.runs if r.size == "L2"), None)
    return t.per_work(t.x.given) / t.per_work(inside) if inside and inside.work else None


def _evidence(
    processors: float | None, occupancy: float | None, beyond: float | None
) -> list[Evidence]:
    found = []
    if processors is not None:
        text = f"{number(processors)} times the time with half of the multiprocessors"
        found.append(say(text, processors, _WITHIN))
    if occupancy is not None:
        text = f"{number(occupancy)} times the time with half of the occupancy"
        found.append(say(text, occupancy, _LATENCY))
    if beyond is not None:
        text = f"{number(beyond)} times the time per work of operands in L2"
        found.append(say(text, beyond, _BEYOND_L2))
    return found


def proposals(t: Times, found: Limiter) -> Iterator[Proposal]:
    """Propose the next steps for a limiter, the best first."""
    blocks = [
        (ratio, run)
        for run in t.x.runs
        if run.size == GIVEN and run.block != t.x.given.block
        if (ratio := t.ratio(run, t.x.given))
    ]
    if blocks and min(blocks, key=lambda pair: pair[0])[0] < 0.9:
        ratio, run = min(blocks, key=lambda pair: pair[0])
        shape = "x".join(map(str, run.block))
        text = f"use blocks of {shape} threads: they were tried"
        yield Step.PARALLELISM, text, 1 / ratio, "the time with this block shape"
    beyond, needed = _beyond_l2(t), operand_bytes(t.m.problem) <= t.m.bytes
    if found.kind is Kind.PARALLELISM:
        text = "divide the work among more blocks: there are too few for all multiprocessors"
        yield Step.PARALLELISM, text, None, ""
    elif found.kind is Kind.DRAM and needed and (found.share or 0.0) >= REACHED:
        yield Step.DONE, "the compulsory bytes are transferred at the measured bandwidth", 1.0, ""
    elif found.kind is Kind.DRAM:
        text = "transfer fewer bytes: coalesce accesses, or reuse data while they are in a cache"
        yield Step.DRAM_REUSE, text, beyond if (beyond or 0) > 1 else None, "operands in L2"
        yield Step.COALESCING, "access neighbouring elements in the same warp", None, ""
    elif found.kind is Kind.LATENCY:
        text = "issue several independent loads per thread: the time depends on the occupancy"
        yield Step.IN_FLIGHT, text, None, ""
        yield Step.OCCUPANCY, "allow more resident warps", None, ""
    elif found.kind in (Kind.L1, Kind.SHARED, Kind.L2):
        yield Step.REUSE, f"keep values in registers: {found.kind} limits the variant", None, ""
        yield Step.COALESCING, "coalesce accesses, which need fewer sectors", None, ""
    elif found.kind is Kind.COMPUTE:
        text = "precompute, pack or replace operations: a unit of the multiprocessors is busy"
        yield Step.OPERATIONS, text, None, ""
        yield Step.WIDER, "use vector accesses, which need fewer instructions", None, ""
