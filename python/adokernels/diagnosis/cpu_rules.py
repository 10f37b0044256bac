"""The limiter of a CPU variant from experiments, and the next step.

The rules compare the times of one call, or the times per unit of work of problems of other sizes:

1. If a call with little work takes at least half as long, the limiter is the call itself.
2. The time per unit of work of one thread rises from the nearest cache to the memory that holds the
   operands. The last level at which it rises by a quarter is the limiter. If the level delivers
   little of its bandwidth, the limiter is its latency.
3. If the time hardly rises, the limiter is in the core: L1 or arithmetic, if they are near their
   ceilings; else vector instructions, if wider registers help or the rate exceeds the peak of
   scalar code; else scalar code, or dependent operations if the rate is too low for scalar code.
   An own function has one instruction set, so only its declared operations distinguish these three.
4. If several threads gain little and share a level, the limiter is this level. If they gain little
   and share no level, the limiter is too little or unbalanced work.
5. If one thread reaches its limit on a machine with more processors, the limiter is the number of
   threads.

If there was no time for a run with one thread, the rules assume that the variant uses one thread.
If it is too fast for one thread, they only compare it with the bandwidth of all threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from adokernels.diagnosis.evidence import REACHED
from adokernels.diagnosis.times import Found, Proposal, Times, say
from adokernels.records.experiments import GIVEN, SMALLEST, Experiments, Run
from adokernels.records.limiter import Evidence, Kind, Limiter, Step
from adokernels.records.measurement import Measurement
from adokernels.text import number, percent, quantity

#: A condition that changes the time by this factor matters.
_MATTERS = 1.25
#: The call itself is the limiter if a call with little work takes this share of the time; and the
#: fraction of the work that is little work.
_CALL, _LITTLE_WORK = 0.5, 0.25
#: Shares of a ceiling: above the first, the unit is busy; below the second, its latency limits.
_BUSY, _IDLE = 0.5, 0.25
#: A function or variant with at most this mean number of processors uses one thread.
_ONE = 1.3
#: The ceilings of vector code, in operations per second and element of a register, can be half of
#: the ceilings of scalar code: wide vectors lower the clock, and a core can have fewer units for
#: them.
_NARROWER = 2
#: Scalar code reaches at least these parts of the additions and of the loads that one thread can
#: execute. Slower code waits for the results of earlier operations: with two adders, a chain of
#: additions that take two cycles reaches a quarter, and a chain of one operation per cycle a half.
#: If a measured ceiling is half of the core's ceiling, scalar code reaches twice these parts.
_SCALAR_ADDS, _SCALAR_LOADS = 0.6, 1.5
#: Vector code gains this factor from the lowest instruction set to the highest.
_OVER_LOWEST = 1.5
#: The rate of vector code exceeds the peak of scalar code by this factor. An FMA is two operations.
_ABOVE_SCALAR = 1.2
_VECTOR_BYTES = {"baseline": 16, "avx2": 32, "avx512": 64}

#: Units of limiters.
CALL, ONE_THREAD, BALANCE = "call overhead", "one thread", "threads"
VECTOR, SCALAR, CHAIN = "vector instructions", "scalar code", "dependent operations"


def _register_bytes(t: Times) -> int:
    """Bytes of a vector register of the instruction set of the measurement."""
    return _VECTOR_BYTES.get(str(t.m.context.get("isa")), 16)


def _lanes(t: Times) -> int:
    """Elements of a vector register of the instruction set of the measurement."""
    return _register_bytes(t) // _element_bytes(t.m)


def _element_bytes(m: Measurement) -> int:
    """Size of the elements of the first array; 8 if it is unknown."""
    for operand in m.problem.operands:
        if operand.shape:
            try:
                kind = np.dtype(operand.dtype)
            except TypeError:
                return 8
            return min(max(kind.itemsize // (2 if kind.kind == "c" else 1), 1), 8)
    return 8


# --- The rules -----------------------------------------------------------------------------------


def decide(t: Times) -> Found | None:
    """Apply the rules to one set of times; None if the runs do not suffice."""
    x, given = t.x, t.x.given
    if overhead := _call_overhead(t):
        return overhead
    single, core = x.find(given, threads=1), _fastest_inside(t)
    unknown = single is None and given.threads > 1  # there was no time for a run of one thread
    if unknown and _faster_than_one_thread(t, core):
        return _shared_by_all(t)
    single = single or given
    if core is None:
        if given.footprint > _capacity(t, "L1", 1):
            return None
        core = single
    chain = _chain(t, single)
    levels = _evidence_of_levels(t, chain)
    serial, of_threads = _threads(t, single)
    serial = serial or unknown
    rise = t.per_work(single) / t.per_work(core)
    found = None
    if rise >= _MATTERS:
        found = _memory(t, *_last_rise(t, chain), shared=not serial)
    elif not serial and (shared := _shared(t, single)):
        found = shared
    found = found or _core(t, core)
    evidence = (*found.evidence, *levels, *_evidence_of_pages(t), *of_threads)
    if serial and x.cores > 1 and _uses_its_thread(t, found):
        text = f"{found.name[0]} of its thread at {percent(found.share or 0.0)} of the ceiling"
        evidence = (*of_threads, say(text), *found.evidence, *levels)
        found = Found(Kind.PARALLELISM, ONE_THREAD, 1 / x.cores)
    return dataclasses.replace(found, evidence=evidence)


def _call_overhead(t: Times) -> Found | None:
    given = t.x.given
    tiny = t.x.find(given, size=SMALLEST)
    share = t.ratio(tiny, given)
    if tiny is None or share is None or tiny.work > _LITTLE_WORK * given.work or share < _CALL:
        return None
    share = min(share, 1.0)
    text = f"a call with {percent(tiny.work / given.work)} of the work takes {percent(share)} of"
    return Found(Kind.PARALLELISM, CALL, share, (say(f"{text} the time", share, _CALL),))


def _inside(x: Experiments) -> list[Run]:
    """The runs with operands in a cache, the nearest first."""
    return sorted((r for r in x.runs if r.size not in (GIVEN, SMALLEST)), key=lambda r: r.size)


def _fastest_inside(t: Times) -> Run | None:
    """The run in a cache with the shortest time per work: small ones also contain the call."""
    runs = [r for r in _inside(t.x) if r.isa == t.x.given.isa]
    return min(runs, key=t.per_work, default=None)


def _capacity(t: Times, level: str, threads: int) -> float:
    sizes = t.m.context.get("cache_bytes")
    size = sizes.get(level, 0.0) if isinstance(sizes, Mapping) else 0.0
    return float(size) * (1 if level == "L3" else threads)


def _home(t: Times, run: Run) -> str:
    """The memory that holds the operands of a run."""
    if run.size not in (GIVEN, SMALLEST):
        return run.size
    threads = max(run.threads, 1)
    fits = (n for n in ("L1", "L2", "L3") if run.footprint <= _capacity(t, n, threads))
    return next(fits, "DRAM") if run.cache == "warm" else "DRAM"


def _chain(t: Times, single: Run) -> list[tuple[str, Run]]:
    """The levels with the runs of one thread whose operands they hold, the nearest first."""
    inside = [(r.size, r) for r in _inside(t.x) if r.isa == t.x.given.isa]
    home = _home(t, single)
    return [*((level, r) for level, r in inside if level < home or home == "DRAM"), (home, single)]


def _last_rise(t: Times, chain: list[tuple[str, Run]]) -> tuple[str, Run]:
    """The last level at which the time per work rises, or the level with the largest rise.

    A cache that is hardly faster than the memory that holds the operands cannot be distinguished
    from it.
    """
    rises = [
        (t.per_work(run) / min(t.per_work(nearer) for _, nearer in chain[:place]), level, run)
        for place, (level, run) in enumerate(chain)
        if place
    ]
    steps = [
        (rise / max([1.0, *(r for r, _, _ in rises[:place])]), level, run)
        for place, (rise, level, run) in enumerate(rises)
    ]
    last = [(level, run) for step, level, run in steps if step >= _MATTERS]
    home, single = chain[-1]
    if not steps:  # problems of other sizes were not measured
        return home, single
    level, run = last[-1] if last else max(steps, key=lambda step: step[0])[1:]
    bandwidth, of_home = t.read(level), t.read(home)
    if bandwidth and of_home and bandwidth < _MATTERS * of_home:
        return home, single
    return level, run


def _memory(t: Times, level: str, run: Run, *, shared: bool) -> Found:
    """The bandwidth of a memory level, or its latency if it delivers little of its bandwidth.

    If several threads share the level, the share counts the bytes of all threads.
    """
    given = t.x.given
    share = highest = _of_ceiling(t, run, t.read(level), run.bytes)
    if shared and run.size == GIVEN and run is not given and t.everything(level):
        share = _of_ceiling(t, given, t.everything(level), given.bytes)
        highest = max(highest, share)
    text = f"{level} delivers {percent(share)} of its measured bandwidth"
    said = (say(text, share, _IDLE),)
    if 0 < highest < _IDLE:
        return Found(Kind.LATENCY, f"accesses to {level}", share, said)
    return Found(Kind(level), level, share or None, said if share else ())


def _of_ceiling(t: Times, run: Run, ceiling: float | None, moved: float) -> float:
    """The rate of `moved` bytes relative to a bandwidth, at most 1; 0 if it is unknown."""
    return min(moved / t.of(run) / ceiling, 1.0) if ceiling else 0.0


def _threads(t: Times, single: Run) -> tuple[bool, tuple[Evidence, ...]]:
    """Whether the variant uses one thread, and the evidence."""
    x, given = t.x, t.x.given
    warm = next((r for r in x.runs if r.size == GIVEN and r.processors), None)
    speedup = t.ratio(single, given) if single is not given else None
    serial = warm.processors <= _ONE if warm else speedup is not None and speedup < 1.1
    found = []
    if warm and x.cores > 1:
        text = f"uses {number(warm.processors)} of {x.cores} processors"
        found.append(say(text, warm.processors, _ONE))
    if speedup is not None and not serial:
        text = f"{number(speedup)} times as fast as one thread, with {given.threads} threads"
        found.append(say(text, speedup, float(given.threads)))
    return serial, tuple(found)


def _shared(t: Times, single: Run) -> Found | None:
    """The limiter of threads that gain little although the memory does not slow one of them."""
    given = t.x.given
    speedup = t.ratio(single, given)
    if speedup is None or single is given:
        return None
    lost = given.threads / speedup
    if lost < _MATTERS:
        return None
    if found := _shared_by_all(t):
        return found
    if lost < 2 * _MATTERS:
        return None
    text = f"{given.threads} threads are only {number(speedup)} times as fast as one"
    return Found(Kind.PARALLELISM, BALANCE, 1 / lost, (say(text, speedup, given.threads),))


def _faster_than_one_thread(t: Times, core: Run | None) -> bool:
    """Whether the rate is too high for one thread, whose operands are in the nearest cache."""
    given = t.x.given
    nearest = core is not None and _MATTERS * t.per_work(given) < t.per_work(core)
    memory = t.one("DRAM copy") or t.read("DRAM")
    return nearest or bool(memory and _memory_bytes(t) / t.of(given) > _MATTERS * memory)


def _memory_bytes(t: Times) -> float:
    """Bytes that the given run loads from DRAM: once, if the caches can hold the operands."""
    given = t.x.given
    held = given.footprint <= _capacity(t, "L3", 1)
    return min(given.bytes, given.footprint) if held else given.bytes


def _shared_by_all(t: Times) -> Found | None:
    """A memory level, if all threads together use at least _BUSY of its bandwidth; else None."""
    given, level = t.x.given, _home(t, t.x.given)
    moved = _memory_bytes(t) if level == "DRAM" else given.bytes
    share = _of_ceiling(t, given, t.everything(level), moved)
    if share < _BUSY:
        return None
    text = f"all threads together receive {percent(share)} of the measured {level} bandwidth"
    return Found(Kind(level), level, share, (say(text, share, _BUSY),))


def _core(t: Times, core: Run) -> Found:
    """The limiter of code whose operands are in the nearest cache."""
    rates = _rates(t, core)
    l1, adds, fmas = rates["L1"], rates["adds"], rates["fmas"]
    gain = _gain_of_width(t, core)
    wide = _gain_of_width(t, core, lowest=True)
    vector = (gain or 0.0) >= _MATTERS or (wide or 0.0) >= _OVER_LOWEST
    # Integers are compared with the ceilings of FP64.
    scalar_adds = adds * (_lanes(t) if t.m.problem.precision else _register_bytes(t) // 8)
    vector = vector or scalar_adds >= _ABOVE_SCALAR * 2 * _NARROWER
    said = []
    if gain is not None:
        text = f"{number(gain)} times as fast as with half the register width"
        said.append(say(text, gain, _MATTERS))
    if core.flops:
        text = f"{percent(fmas)} of the FMA peak of its threads"
        said.append(say(text, fmas, _BUSY))
    if core.bytes and l1:
        text = f"requests {percent(l1)} of the bytes that L1 can deliver"
        said.append(say(text, l1, _BUSY))
    if l1 >= _BUSY and l1 >= max(fmas, adds):
        return Found(Kind.L1, "L1", l1, tuple(said))
    if vector or max(fmas, adds) >= _BUSY:
        return Found(Kind.COMPUTE, VECTOR, max(fmas, min(adds, 1.0)) or None, tuple(said))
    if not core.flops and gain is None:
        said.append(say("no operations are declared, and no other instruction set was tried"))
        return Found(Kind.UNKNOWN, evidence=tuple(said))
    if not (core.flops or core.bytes) or not t.x.ceilings:
        return Found(Kind.UNKNOWN, evidence=tuple(said))
    scalar = scalar_adds, l1 * _lanes(t)
    if scalar[0] >= _SCALAR_ADDS or scalar[1] >= _SCALAR_LOADS:
        return Found(Kind.COMPUTE, SCALAR, min(scalar[0], 1.0) or None, tuple(said))
    text = f"{percent(scalar[0])} of the additions and {percent(scalar[1])} of the loads that"
    said.insert(0, say(f"{text} scalar code can execute", scalar[0], _SCALAR_ADDS))
    return Found(Kind.LATENCY, CHAIN, None, tuple(said))


def _rates(t: Times, core: Run) -> dict[str, float]:
    """Shares of the ceilings of the run's threads; 0 if they are unknown."""
    precision = t.m.problem.precision or "FP64"
    rate = core.flops / t.of(core)
    l1 = t.read("L1")
    adds, fmas = t.one(f"{precision} add"), t.one(f"{precision} fma")
    adds = adds or (fmas and fmas / 2)  # no ceiling: an FMA includes an addition
    return {
        "L1": min(core.bytes / t.of(core) / l1, 1.0) if l1 else 0.0,
        "adds": rate / adds if adds else 0.0,
        "fmas": rate / fmas if fmas else 0.0,
    }


def _gain_of_width(t: Times, core: Run, *, lowest: bool = False) -> float | None:
    """How much faster the instruction set is than the next lower one, or than the lowest one.

    It is None if none was tried.
    """
    base = next((r for r in _inside(t.x) if r.isa == core.isa), core)
    others = [r for r in t.x.others(base, "isa") if _VECTOR_BYTES.get(r.isa)]
    choose = min if lowest else max
    below = choose(others, key=lambda r: _VECTOR_BYTES[r.isa], default=None)
    return t.per_work(below) / t.per_work(base) if below else None


def _uses_its_thread(t: Times, found: Found) -> bool:
    """Return whether one thread reaches its limit, so that only more threads help."""
    if found.kind is Kind.COMPUTE:
        return found.unit == VECTOR
    if found.kind not in (Kind.L1, Kind.L2, Kind.L3, Kind.DRAM) or (found.share or 0.0) < _BUSY:
        return False
    # Further threads help only if the memory has bandwidth left.
    rate = t.x.given.bytes / t.of(t.x.given)
    ceiling = t.everything(found.kind)
    return ceiling is None or rate * 2 * _BUSY * _MATTERS < ceiling


def _evidence_of_levels(t: Times, chain: list[tuple[str, Run]]) -> tuple[Evidence, ...]:
    if len(chain) < 2:
        return ()
    base = t.per_work(chain[0][1])
    rises = [(level, t.per_work(run) / base) for level, run in chain]
    text = ", ".join(f"{number(rise)} in {level}" for level, rise in rises)
    return (say(f"time per work of one thread: {text}", rises[-1][1], _MATTERS),)


def _evidence_of_pages(t: Times) -> tuple[Evidence, ...]:
    found = []
    for run in t.x.others(t.x.given, "pages"):
        ratio = t.ratio(run, t.x.given) or 1.0
        text = f"{number(ratio)} times the time with {run.pages} pages"
        found.append(say(text, ratio, _MATTERS))
    return tuple(found)


# --- The next step -------------------------------------------------------------------------------


def proposals(t: Times, found: Limiter) -> Iterator[Proposal]:
    """Propose the next steps for a limiter, the best first."""
    x, given = t.x, t.x.given
    huge = t.ratio(x.find(given, pages="huge"), given)
    if huge is not None and huge * _MATTERS <= 1:
        text = "allocate the operands in huge pages: the translation of addresses takes time"
        yield Step.COALESCING, text, 1 / huge, "the time with huge pages"
    kind, unit = found.kind, found.unit
    core = _fastest_inside(t)
    single = x.find(given, threads=1) or given
    rise = t.per_work(single) / t.per_work(core) if core else 1.0
    if unit == CALL:
        text = "give each call more work, for example a batch: the call takes most of the time"
        yield Step.PARALLELISM, text, None, ""
    elif unit == ONE_THREAD:
        text = f"distribute the work over the {x.cores} processors"
        yield Step.PARALLELISM, text, float(x.cores), "one thread per processor"
    elif unit == BALANCE:
        text = "give each thread the same amount of work, and each call more work"
        gain = 1 / found.share if found.share else None
        yield Step.PARALLELISM, text, gain, "a speed-up equal to the number of threads"
    elif unit == SCALAR:
        text = "compute with vector registers: the code is not vectorised"
        if not t.x.others(core or given, "isa"):
            text += ", or it divides or takes roots"
        yield Step.WIDER, text, float(_lanes(t) * 2), "all lanes busy, with two units"
        yield Step.OPERATIONS, "precompute or replace operations", None, ""
    elif unit == CHAIN:
        text = "compute several independent results at a time: operations wait for earlier ones"
        yield Step.PARALLELISM, text, None, ""
        yield Step.WIDER, "compute independent elements in vector registers", None, ""
    elif unit == VECTOR:
        yield Step.OPERATIONS, "precompute, pack or replace operations", None, ""
    elif kind is Kind.L1:
        text = "keep values in registers: L1 delivers most of the bytes that it can"
        yield Step.REUSE, text, None, ""
    elif kind is Kind.LATENCY:
        text = f"access neighbouring elements in order: {unit} take {number(rise)} times"
        bound = (rise, "operands in L1")
        yield Step.COALESCING, f"{text} the time of operands in L1", *bound
        yield Step.IN_FLIGHT, "prefetch, or issue several independent loads", *bound
    elif kind is Kind.DRAM and (found.share or 0.0) >= REACHED:
        yield Step.DONE, "the bytes are transferred at the measured bandwidth", 1.0, "the ceiling"
    elif kind in (Kind.DRAM, Kind.L3, Kind.L2):
        bound = (rise, "operands in L1")
        nearer = {Kind.DRAM: "a cache", Kind.L3: "L2", Kind.L2: "L1"}[kind]
        rate = quantity(given.bytes / t.of(given), "B/s")
        text = f"process blocks that stay in {nearer}: {kind} delivers {rate}"
        yield (Step.DRAM_REUSE if kind is Kind.DRAM else Step.REUSE), text, *bound
        yield Step.IN_FLIGHT, "prefetch, so that more bytes are in flight", *bound
        if _threads(t, single)[0] and x.cores > 1:
            text = f"distribute the work over the {x.cores} processors"
            yield Step.PARALLELISM, text, float(x.cores), "one thread per processor"
