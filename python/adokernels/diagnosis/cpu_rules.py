"""The limiter of a CPU variant from experiments, and the next step.

If other work disturbed more than a quarter of the samples, the limiter is unknown. Each rule
compares times of the same variant, or a rate with a ceiling that one thread reaches:

1. If a call with little work takes at least half as long, the limiter is the call itself.
2. The time per unit of work of one thread rises from the nearest cache to the memory that holds the
   operands. The last level at which it rises by a quarter is the limiter: its bandwidth, or its
   latency if it delivers less than a quarter of its bandwidth.
3. If the time hardly rises, the limiter is in the core: L1 or vector instructions, whichever is
   nearer to its ceiling and at least half of it; vector instructions if the variant is slower with
   the baseline instruction set; scalar code if the rate is at least half of its peak of additions,
   and does not exceed it; otherwise dependent operations.
4. If several threads gain little, the limiter is the memory level whose bandwidth they share, or
   else too little or unbalanced work. If one thread reaches its limit on a machine with more
   processors, the limiter is the number of threads.

If the rate and the instruction sets contradict each other, if the time per unit of work is lower in
the memory that holds the operands than in every smaller memory, or if a rule lacks a time, the
limiter is unknown. A variant for which there was no time to run it with one thread is treated as
serial, unless it is faster than one thread can be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

from adokernels.diagnosis.evidence import REACHED, ceiling_named, highest_of_dram
from adokernels.records.contention import TimedSeries
from adokernels.records.experiments import GIVEN, SMALLEST, Run
from adokernels.records.limiter import Evidence, Kind, Limiter, Provenance, Step
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.text import NO_LIMIT, number, percent, quantity

#: A changed condition matters if it changes the time by this factor.
_MATTERS = 1.25
#: From this share of its ceiling, a unit or a level is busy. A call takes this share of the time if
#: it is the limiter, and it has little work if it has at most half of that.
_BUSY = 0.5
#: A memory level that delivers less than this share of its bandwidth makes the code wait.
_WAITING = 0.25
#: Vector code exceeds the peak of scalar additions by this factor: an FMA is two operations.
#: It exceeds it by twice this factor if the ceiling of vectors can be half of the ceiling of scalar
#: code (AVX-512), or if the operations are integers, for which a core has more units.
_VECTOR = 2.4
#: If other work disturbed more than this share of the samples, the limiter is unknown.
_DISTURBED = 0.25
#: A call has hardly any work if it has at most this part of the work of another call. Its time is
#: then subtracted from the time of the other call, but at least _LEAST_LEFT of it remains. If
#: less would remain, the run shows the call, not the memory level.
_NO_WORK, _LEAST_LEFT = 0.1, 0.2
#: A run that moves at most this multiple of the compulsory bytes moves each byte once.
_ONCE = 1.1
#: Bytes of a vector register.
_REGISTER = {"baseline": 16, "avx2": 32, "avx512": 64}
#: The memory levels, the farthest last.
_LEVELS = ("L1", "L2", "L3", "DRAM")

#: Units of limiters.
CALL, ONE_THREAD, BALANCE = "call overhead", "one thread", "threads"
VECTOR, SCALAR, CHAIN = "vector instructions", "scalar code", "dependent operations"

#: A proposed step, the sentence, the bound of its gain or None, and the basis of the bound.
Proposal = tuple[Step, str, float | None, str]
_Found = tuple[Kind, str, float | None, tuple[Evidence, ...]]


def by_experiment(m: Measurement, machine: Machine | None) -> Limiter | None:
    """The limiter of a CPU variant that has experiments; None if they do not suffice."""
    found = _Tried(m, machine).found if m.experiments and m.device == "cpu" else None
    if found is None:
        return None
    kind, unit, share, evidence = found
    return Limiter(kind=kind, unit=unit, share=share, evidence=evidence)


def _say(text: str, value: float = 0.0, threshold: float | None = None) -> Evidence:
    return Evidence(text, value, threshold, Provenance.EXPERIMENT)


class _Tried:
    """The runs of one variant, quantities that follow from their times, and the rules."""

    def __init__(self, m: Measurement, machine: Machine | None) -> None:
        assert m.experiments is not None
        self.m, self.x, self.given, self.machine = m, m.experiments, m.experiments.given, machine
        #: The run with one thread, or the measured call if there is none.
        self.single = self.x.find(self.given, threads=1) or self.given
        #: The runs with operands in a cache and the instruction set of the measurement, by cache.
        #: Runs with the same operands count once, for the nearest cache.
        self.inside: dict[str, Run] = {}
        for run in sorted(self.x.runs, key=lambda r: r.size):
            other = run.size in (GIVEN, SMALLEST) or run.isa != self.given.isa
            same = any(run.footprint == r.footprint for r in self.inside.values())
            if not (other or same or run.time - self._call(run) < _LEAST_LEFT * run.time):
                self.inside[run.size] = run

    # --- quantities ------------------------------------------------------------------------------

    def per_work(self, run: Run) -> float:
        """The time per unit of work, without the time of a call with hardly any work."""
        seconds = max(run.time - self._call(run), _LEAST_LEFT * run.time)
        return seconds / run.work if run.work else math.inf

    def _call(self, run: Run) -> float:
        """The time of a call with hardly any work, as cold or warm as `run`; 0 if unknown."""
        calls = (r for r in self.x.runs if r.size == SMALLEST and r.cache == run.cache)
        return next((r.time for r in calls if r.work <= _NO_WORK * run.work), 0.0)

    def of_one(self, level: str) -> float:
        """The bandwidth of one thread to a level, or to the next farther level with a ceiling."""
        names = (f"{name} read" for name in _LEVELS[_LEVELS.index(level) :])
        return next(filter(None, map(self.x.ceilings.get, names)), 0.0)

    def of_all(self, level: str) -> float:
        """The share of the bandwidth of all threads that the variant uses; 0 if it is unknown."""
        if level == "DRAM":
            ceiling, moved = highest_of_dram(self.machine), self._from_dram
        else:
            ceiling = ceiling_named(self.machine, f"{level} read") or 0.0
            moved = self.given.bytes
        return min(moved / self.given.time / ceiling, 1.0) if ceiling else 0.0

    @property
    def _from_dram(self) -> float:
        """Bytes that the measured call loads from DRAM: once, if a cache holds the operands."""
        run = self.given
        held = run.footprint <= self._capacity("L3")
        return min(run.bytes, run.footprint) if held else run.bytes

    @property
    def most(self) -> float:
        """Upper bound of the gain: DRAM moves only the compulsory bytes, at its bandwidth.

        Infinite if the bandwidth is unknown or the operands are not in DRAM.
        """
        ceiling = highest_of_dram(self.machine) if self.home == "DRAM" else None
        if not (ceiling and self.m.bytes):
            return math.inf
        return max(self.given.time * ceiling / self.m.bytes, 1.0)

    @property
    def _is_too_fast_for_one_thread(self) -> bool:
        """Whether the measured call is faster than one thread with operands in a cache or DRAM."""
        nearest = self.per_work(self.core) if self.inside else 0.0
        inside = _MATTERS * self.per_work(self.given) < nearest
        return inside or self._from_dram / self.given.time > _MATTERS * self.of_one("DRAM") > 0

    def _capacity(self, level: str) -> float:
        sizes = self.m.context.get("cache_bytes")
        return float(sizes.get(level, 0.0)) if isinstance(sizes, Mapping) else 0.0

    @property
    def disturbed(self) -> float:
        """The share of the samples that other work disturbed, in the timing or the experiments."""
        tried = [r.disturbed * len(r.seconds) for r in self.x.runs[1:]]
        taken = sum(len(r.seconds) for r in self.x.runs[1:])
        return max(TimedSeries(self.m.samples, self.m.waits).waited, sum(tried) / max(taken, 1))

    @cached_property
    def home(self) -> str:
        """The memory that holds the operands of the measurement."""
        fits = (level for level in _LEVELS[:-1] if self.given.footprint <= self._capacity(level))
        return next(fits, "DRAM") if self.given.cache == "warm" else "DRAM"

    @cached_property
    def core(self) -> Run:
        """The run in a cache with the shortest time per work: call overhead slows small runs."""
        return min(self.inside.values(), key=self.per_work, default=self.single)

    @property
    def rise(self) -> float:
        """The time per work of one thread, relative to operands in the nearest cache."""
        return self.per_work(self.single) / self.per_work(self.core)

    @property
    def lanes(self) -> int:
        """Elements of a vector register of the instruction set of the measurement."""
        size = 4 if self.m.problem.precision == "FP32" else 8
        return _REGISTER.get(str(self.m.context.get("isa")), 16) // size

    @property
    def serial(self) -> bool:
        """Whether the variant uses one thread, as far as the times show."""
        if self.single is not self.given:
            return self.single.time < _MATTERS * self.given.time
        used = max((r.processors for r in self.x.runs if r.size == GIVEN), default=0.0)
        return used <= _MATTERS

    # --- rules -----------------------------------------------------------------------------------

    @cached_property
    def found(self) -> _Found | None:
        """The limiter: kind, unit, share and evidence; None if the runs do not suffice."""
        given = self.given
        if self.disturbed > _DISTURBED:
            text = f"{percent(self.disturbed)} of the samples waited for a processor"
            said = _say(f"other work disturbed the experiments: {text}", self.disturbed, _DISTURBED)
            return Kind.UNKNOWN, "", None, (said,)
        tiny = self.x.find(given, size=SMALLEST)
        if tiny and tiny.work <= _BUSY / 2 * given.work and tiny.time >= _BUSY * given.time:
            part = min(tiny.time / given.time, 1.0)
            text = f"a call with {percent(tiny.work / given.work)} of the work takes"
            said = _say(f"{text} {percent(part)} of the time", part, _BUSY)
            return Kind.PARALLELISM, CALL, part, (said,)
        if not self.inside and self.home != "L1":
            return None
        # Without a run of one thread, for which there was no time, one thread is assumed.
        unknown = self.single is given and given.threads > 1
        if unknown and self._is_too_fast_for_one_thread:
            return self._shared()
        base, runs = self.per_work(self.core), {**self.inside, self.home: self.single}
        rises = (f"{number(self.per_work(r) / base)} in {level}" for level, r in runs.items())
        said = _say(f"time per work of one thread: {', '.join(rises)}", self.rise, _MATTERS)
        smaller = [self.per_work(r) for level, r in self.inside.items() if level != self.home]
        if smaller and _MATTERS * self.per_work(self.single) < min(smaller):
            text = f"the time per work is lower in {self.home} than in every smaller memory"
            return Kind.UNKNOWN, "", None, (_say(text), said)
        in_memory = self.rise >= _MATTERS
        kind, unit, share, evidence = self._memory() if in_memory else self._in_core()
        if len(runs) > 1:
            evidence = (*evidence, said)
        if not self.serial:
            return self._of_threads(kind, unit, share, evidence, in_memory=in_memory)
        uses_its_thread = unit == VECTOR or (kind in _LEVELS and (share or 0.0) >= _BUSY)
        if self.x.cores > 1 and uses_its_thread and self.of_all(self.home) < _BUSY:
            text = f"one of {self.x.cores} processors is used, and its limit is {unit}"
            return Kind.PARALLELISM, ONE_THREAD, 1 / self.x.cores, (_say(text), *evidence)
        return kind, unit, share, evidence

    def _of_threads(
        self,
        kind: Kind,
        unit: str,
        share: float | None,
        evidence: tuple[Evidence, ...],
        *,
        in_memory: bool,
    ) -> _Found:
        """The limiter of several threads, from the limiter of one of them."""
        threads = self.given.threads or self.x.cores
        speedup = self.single.time / self.given.time if self.single is not self.given else threads
        text = f"{threads} threads are {number(speedup)} times as fast as one"
        evidence = (*evidence, _say(text, speedup, float(threads)))
        if shared := self._shared():
            if in_memory or threads >= _MATTERS * speedup:
                return *shared[:3], (*shared[3], *evidence)
        elif not in_memory and threads >= 2 * _MATTERS * speedup:
            return Kind.PARALLELISM, BALANCE, speedup / threads, evidence[::-1]
        elif unit == self.home and (of_all := self.of_all(self.home)):
            text = f"all threads receive {percent(of_all)} of the measured {unit} bandwidth"
            return kind, unit, of_all, (_say(text, of_all, _BUSY), *evidence)
        return kind, unit, share, evidence

    def _shared(self) -> _Found | None:
        """The memory level of the operands, if all threads use at least half of its bandwidth."""
        share = self.of_all(self.home)
        if share < _BUSY:
            return None
        text = f"all threads receive {percent(share)} of the measured {self.home} bandwidth"
        return Kind(self.home), self.home, share, (_say(text, share, _BUSY),)

    def _memory(self) -> _Found:
        """The last level at which the time per work of one thread rises: bandwidth or latency."""
        (_, first), *farther = {**self.inside, self.home: self.single}.items()
        level, run, fastest, highest = self.home, self.single, self.per_work(first), _MATTERS
        for name, each in farther:
            rise = self.per_work(each) / fastest
            if rise >= highest:
                level, run, highest = name, each, _MATTERS * rise
            fastest = min(fastest, self.per_work(each))
        # A cache that is hardly faster than the memory behind it cannot be told from it.
        if self.of_one(level) < _MATTERS * self.of_one(self.home):
            level, run = self.home, self.single
        ceiling = self.of_one(level)
        share = min(run.bytes / run.time / ceiling, 1.0) if ceiling else 0.0
        if not share:
            return Kind(level), level, None, ()
        text = f"one thread receives {percent(share)} of its measured {level} bandwidth"
        said = (_say(text, share, _WAITING),)
        if share < _WAITING:
            return Kind.LATENCY, f"accesses to {level}", share, said
        return Kind(level), level, share, said

    def _in_core(self) -> _Found:
        """The limiter of code whose operands are in the nearest cache."""
        core, precision = self.core, self.m.problem.precision or "FP64"
        rate, l1 = core.flops / core.time, self.of_one("L1")
        fma = self.x.ceilings.get(f"{precision} fma", 0.0)
        add = self.x.ceilings.get(f"{precision} add", fma / 2)
        of_l1 = min(core.bytes / core.time / l1, 1.0) if l1 else 0.0
        of_fma = rate / fma if fma else 0.0
        of_add = rate / add if add else 0.0
        of_scalar = max(of_add, of_l1 if not core.flops else 0.0) * self.lanes
        said = []
        lowest = next(
            (r for r in self.x.runs if r.isa == "baseline" and r.size in self.inside), None
        )
        gain = None
        if lowest and lowest.isa != core.isa:
            gain = self.per_work(lowest) / self.per_work(self.inside[lowest.size])
        if gain is not None:
            text = f"{number(gain)} times as fast as with the baseline instruction set"
            said.append(_say(text, gain, _MATTERS))
        if of_fma:
            text = f"{percent(of_fma)} of the FMA peak of one thread"
            said.append(_say(text, of_fma, _BUSY))
        if of_l1:
            said.append(_say(f"requests {percent(of_l1)} of the L1 bandwidth", of_l1, _BUSY))
        arithmetic = min(max(of_fma, of_add / 2), 1.0)  # an FMA contains an addition
        if of_l1 >= _BUSY and of_l1 >= arithmetic:
            return Kind.L1, "L1", of_l1, tuple(said)
        twice = self.m.context.get("isa") == "avx512" or not self.m.problem.precision
        wide = arithmetic >= _BUSY or of_scalar >= _VECTOR * (2 if twice else 1)
        if gain is not None and gain < _MATTERS and wide:
            said.insert(0, _say("the rate is a rate of vector code, but the baseline is as fast"))
            return Kind.UNKNOWN, "", None, tuple(said)
        if wide or (gain is not None and gain >= _MATTERS):
            return Kind.COMPUTE, VECTOR, arithmetic or None, tuple(said)
        if gain is None and core.isa not in ("", "baseline"):
            said.append(_say("the time with the baseline instruction set is unknown"))
            return Kind.UNKNOWN, "", None, tuple(said)
        if not (core.flops or gain is not None) or not of_scalar:
            said.append(_say("no operations are declared, or no ceilings were measured"))
            return Kind.UNKNOWN, "", None, tuple(said)
        text = f"{percent(of_scalar)} of the operations that scalar code can execute"
        said.insert(0, _say(text, of_scalar, _BUSY))
        if of_scalar > NO_LIMIT:
            said.insert(1, _say("scalar FMAs or vector instructions exceed this rate"))
            return Kind.UNKNOWN, "", None, tuple(said)
        if of_scalar >= _BUSY:
            return Kind.COMPUTE, SCALAR, min(of_scalar, 1.0), tuple(said)
        return Kind.LATENCY, CHAIN, None, tuple(said)


def proposals(m: Measurement, machine: Machine | None) -> Iterator[Proposal]:
    """Propose the next steps of a CPU variant that has experiments, the best first."""
    limiter = by_experiment(m, machine)
    if limiter is None:
        return
    tried = _Tried(m, machine)
    cores, kind, unit, share = tried.x.cores, limiter.kind, limiter.unit, limiter.share
    roof = (tried.most, "the compulsory bytes at the measured DRAM bandwidth")
    threads = f"distribute the work over the {cores} processors"
    more = (Step.PARALLELISM, threads, *min((float(cores), "one thread per processor"), roof))
    inside = f"operands in {tried.core.size if tried.inside else 'L1'}"
    bound: tuple[float | None, str] = min((tried.rise, inside), roof)
    if kind in _LEVELS and tried.rise < _MATTERS:  # one thread alone does not wait for this level
        bound = (1 / share if share else None, f"the measured {kind} bandwidth")
    if unit == CALL:
        text = "give each call more work, for example a batch: the call takes most of the time"
        yield Step.PARALLELISM, text, None, ""
    elif unit == ONE_THREAD:
        yield more
    elif unit == BALANCE:
        text = "give each thread the same amount of work, and each call more work"
        gain = 1 / share if share else None
        yield Step.PARALLELISM, text, gain, "a speed-up equal to the number of threads"
    elif unit == SCALAR:
        text = "compute with vector registers: the code is not vectorised, or it divides"
        yield Step.WIDER, text, float(tried.lanes * 2), "all lanes busy, with two units"
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
        text = f"access memory sequentially, unless the code already does: {unit} take"
        text += f" {number(tried.rise)} times"
        yield Step.COALESCING, f"{text} the time of {inside}", *bound
        yield Step.IN_FLIGHT, "prefetch, or issue several independent loads", *bound
    elif kind is Kind.DRAM and (share or 0.0) >= REACHED:
        if tried.serial and cores > 1 and tried.most * REACHED > 1:
            yield more
        else:
            text = "the bytes are transferred at the measured bandwidth"
            yield Step.DONE, text, 1.0, "the ceiling"
    elif kind in (Kind.DRAM, Kind.L3, Kind.L2):
        nearer = {Kind.DRAM: "a cache", Kind.L3: "L2", Kind.L2: "L1"}[kind]
        rate = quantity(tried.given.bytes / tried.given.time, "B/s")
        text = f"process blocks that stay in {nearer}: {kind} delivers {rate}"
        once = 0 < tried.given.bytes <= _ONCE * m.bytes
        if not (once and kind is Kind.DRAM):
            yield (Step.DRAM_REUSE if kind is Kind.DRAM else Step.REUSE), text, *bound
        if tried.serial and share:
            one = 1 / share, f"the {kind} bandwidth of one thread"
            bound = min(bound, one, key=lambda each: each[0] or math.inf)
        yield Step.IN_FLIGHT, "prefetch, so that more bytes are in flight", *bound
        if tried.serial and cores > 1:
            yield more
