"""The experiments: what each one changes, which statements it can change, and what it refuses."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from adokernels import _core
from adokernels.records.what_if import HALF_GPU, HALF_OCCUPANCY
from adokernels.whatif import rewriting
from adokernels.whatif.flow import LOADED, VARIABLE, Slot
from adokernels.whatif.rewriting import KINDS, Code, Dose, Site, Writer, line_of

Shape: TypeAlias = tuple[int, int, int]
#: Counts of a kernel by source line, kind and field; line 0 has the counts of the whole kernel.
Counts: TypeAlias = Counter[tuple[int, str, str]]
#: The number of executed instructions. Every experiment changes it.
TOTAL = 0, "instructions", ""
#: Arrays by address or by name; None for unknown ones.
Arrays: TypeAlias = set[int | str | None]


@dataclass(frozen=True)
class Experiment:
    """One change of all accesses of some kinds.

    `kinds` are the counts of the changed accesses, none for barriers, and `counted` is the count
    that must change. With `excessive`, only accesses that transfer more than needed are changed.
    """

    name: str
    meaning: str
    kinds: tuple[str, ...]
    counted: str
    change: Callable[[Writer, Site], list[str]]
    excessive: bool = False
    #: Whether it changes addresses in arrays, so that their limits must be known.
    moves: bool = False
    #: The instructions that it adds. Results and accesses do not change.
    dose: Dose | None = None

    @property
    def unit(self) -> str:
        """The words for the count."""
        return _UNITS.get(self.counted) or f"{self.counted} instructions"

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the count: atomics have sectors in global, wavefronts in shared memory."""
        return ("sectors", "wavefronts") if self.counted == "transfers" else (self.counted,)

    @property
    def nothing(self) -> str:
        """The reason if a call has nothing to change."""
        what = " or ".join(kind.replace("_", " ") for kind in self.kinds) or "barriers"
        return f"no {what} transfer more than needed" if self.excessive else f"no {what}"


#: An access or a barrier in a function, which precedes the kernel.
_IN_FUNCTION = re.compile(r"[;{}\s](?:ld|st|atom|red|cp|bar|barrier)\.(?!param)")
_UNITS = {
    "sectors": "sectors per request",
    "wavefronts": "wavefronts per request",
    "transfers": "transfers per request",
    "requests": "requests",
    "barriers": "barriers",
    "bytes": "bytes in reach",
}
_NEAR = "Warps share lines, so fewer bytes move: an upper bound of the gain."
_STREAM = "The same bytes move, but nothing stays in a cache for a second access."
_STORES, _LOADS = ("global_stores",), ("global_loads",)
EXPERIMENTS = (
    Experiment(
        "stores coalesced (stream)", f"Each warp stores to adjacent addresses. {_STREAM}",
        _STORES, "sectors", rewriting.stream, excessive=True, moves=True,
    ),
    Experiment(
        "stores coalesced (near)", f"Each warp stores to the line of its first lane. {_NEAR}",
        _STORES, "sectors", rewriting.near, excessive=True, moves=True,
    ),
    Experiment(
        "loads coalesced (stream)", f"Each warp loads from adjacent addresses. {_STREAM}",
        _LOADS, "sectors", rewriting.stream, excessive=True, moves=True,
    ),
    Experiment(
        "loads coalesced (near)", f"Each warp loads the line of its first lane. {_NEAR}",
        _LOADS, "sectors", rewriting.near, excessive=True, moves=True,
    ),
    Experiment(
        "no bank conflicts",
        "Each lane uses a bank of its own. It does not include the cost of padding.",
        ("shared_loads", "shared_stores"), "wavefronts", rewriting.own_bank, excessive=True,
    ),
    Experiment(
        "no stores",
        "The results are computed and not stored. It shows the cost of the stores, not how to "
        "reduce it.",
        _STORES, "requests", rewriting.not_stored,
    ),
    Experiment(
        "no barriers",
        "Warps of a block do not wait for each other. The result is wrong, and no kernel needs "
        "fewer barriers than its algorithm.",
        (), "barriers", rewriting.no_barrier,
    ),
    Experiment(
        "loads hit L1",
        "All loads stay within 16 KiB per array. It shows the cost of L2 and DRAM, and not of the "
        "requests.",
        _LOADS, "bytes", rewriting.in_l1, moves=True,
    ),
    Experiment(
        "atomics spread",
        "Each thread updates an address of its own. It does not include the sum of the parts.",
        ("global_atomics", "shared_atomics"), "transfers", rewriting.spread, excessive=True,
    ),
)  # fmt: skip


#: The minimum share of floating-point instructions in the arithmetic; else integers get the dose.
_LEAST_SHARE = 0.2
_DOSE_MEANING = (
    "Independent instructions are added to each {} instruction. The growth of the time shows what "
    "they cost, and not what fewer instructions gain."
)


def doses(subjects: Iterable[Subject]) -> list[Experiment]:
    """The experiments that add instructions of the most important kind, or integer ones."""
    counts = sum((subject.counts for subject in subjects), Counter[tuple[int, str, str]]())
    executed = {kind: counts[0, "arithmetic", kind] for kind in KINDS}
    place = "FP64" if 2 * executed["FP64"] >= executed["FP32"] else "FP32"
    if executed[place] < max(1, _LEAST_SHARE * sum(executed.values())):
        place = "integer"
    found = [Dose(place, place, 1), Dose(place, place, 2), Dose("integer", place, 2)]
    return [
        Experiment(
            f"{'twice' if dose.number == 1 else 'three times'} the {place} instructions"
            if dose.kind == place
            else f"two integer instructions per {place}",
            _DOSE_MEANING.format(place), ("arithmetic",), dose.kind, rewriting.dosed, dose=dose,
        )
        for dose in dict.fromkeys(found)
    ]  # fmt: skip


#: What the experiments with fewer resources show.
MEANINGS = {
    HALF_OCCUPANCY: "Blocks have additional shared memory, so that half of them are resident. A "
    "kernel that then takes longer needs its warps to hide latency.",
    HALF_GPU: "The kernels run on half of the multiprocessors. A kernel that then takes twice as "
    "long is limited by the multiprocessors, one that takes as long by memory or by its size.",
}


@dataclass(frozen=True)
class Launch:
    """A launch that was observed."""

    kernel: int  # its handle
    symbol: str  # its mangled name
    grid: Shape
    block: Shape
    shared_bytes: int  # dynamic
    #: First address and bytes of the memory to which a pointer points, by its offset in the
    #: parameters.
    memory: Mapping[int, tuple[int, int]]

    @classmethod
    def observed(cls, *launch: Any) -> Launch:
        """The launch that an observer of ``_core.Substitution`` receives."""
        kernel, symbol, grid, block, shared_bytes, parameters = launch
        values = enumerate(memoryview(parameters[: len(parameters) // 8 * 8]).cast("Q"))
        memory = {8 * i: _core.memory_at(value) for i, value in values}
        found = {offset: place for offset, place in memory.items() if place[1]}
        return cls(kernel, symbol, grid, block, shared_bytes, found)

    @property
    def warps(self) -> int:
        """The number of warps."""
        return math.prod(self.grid) * math.ceil(math.prod(self.block) / 32)


@dataclass
class Subject:
    """A kernel under test: its code, its launches, and the counts of its sites."""

    code: Code
    launches: Sequence[Launch]
    counts: Counts
    number: int  # in the order of the first launches of the kernels

    def memory(self, slot: Slot, launch: Launch) -> tuple[int, int]:
        """First address and bytes of the array to which a slot points; (0, 0) without an array."""
        parameter = self.code.kernel.parameters.get(slot.parameter)
        return launch.memory.get(parameter.offset + slot.offset, (0, 0)) if parameter else (0, 0)

    def pointers(self, site: Site, launch: Launch) -> dict[int | str, Slot]:
        """The slots from which an address can come, by the array: an address or a variable."""
        found: dict[int | str, Slot] = {}
        for slot in sorted(site.origins):
            if slot.offset == VARIABLE:
                found[slot.parameter] = slot
            elif (memory := self.memory(slot, launch))[1]:
                found.setdefault(memory[0], slot)
        return found

    def arrays(self, indices: Iterable[int]) -> Arrays:
        """The arrays of some accesses in all launches; None for unknown ones."""
        found: Arrays = set()
        for site in (self.code.sites[i] for i in indices):
            for launch in self.launches:
                found |= self.pointers(site, launch).keys() or {None}
        return found

    @cached_property
    def decided_by(self) -> Arrays:
        """The arrays with values that decide control flow or addresses."""
        body = self.code.kernel.body
        return self.arrays(i for i in self.code.deciding if body[i].space in ("global", ""))

    def written(self, *, computed: bool) -> Arrays:
        """The arrays to which it writes; if `computed`, only values that depend on loaded ones."""
        flow = self.code.flow
        found = self.arrays(
            index
            for index, site in self.code.sites.items()
            if site.statement.base in ("st", "atom", "red")
            and site.statement.space in ("global", "")
            and (not computed or flow.sources(flow.stored(site.statement)))
        )
        bulk = self.code.uses("cp.async.bulk", "cp.reduce", "st.async", "red.async")
        return found | ({None} if bulk else set())

    def sums(self, index: int, kinds: Iterable[str], counts: Counts) -> Counter[str]:
        """The counts of an access, by field."""
        fields = ("requests", "sectors", "wavefronts", "ideal")
        line = line_of(index)
        return Counter({f: sum(counts[line, kind, f] for kind in kinds) for f in fields})


def overlap(some: Arrays, others: Arrays) -> bool:
    """Whether an array can be in both sets; an unknown array can be any array."""
    return bool(some & others or (None in some and others) or (None in others and some))


class Refused(Exception):
    """An experiment is not possible, or its proof failed: the reason."""


@dataclass
class Plan:
    """The changes of an experiment in one kernel."""

    experiment: Experiment
    subject: Subject
    slots: dict[int, Slot]  # of the changed accesses; LOADED for an access without an array
    weights: Counter[int]  # of all accesses that should be changed
    why_not: Counter[str]  # weights of the accesses that cannot be changed, by reason

    @cached_property
    def writer(self) -> Writer:
        """The writer of the changed module."""
        change = self.experiment.change
        return Writer(
            self.subject.code,
            dict.fromkeys(self.slots, change),
            {i: s for i, s in self.slots.items() if s != LOADED},
            streams=change is rewriting.stream,
            spreads=change is rewriting.spread,
            dose=self.experiment.dose,
        )

    def constants(self, launch: Launch, on: bool) -> bytes:
        """The constants of a launch, with the switch off or on."""
        memory = partial(self.subject.memory, launch=launch)
        return rewriting.limits(self.writer, memory, launch.warps, on, launch.shared_bytes)

    @property
    def added(self) -> Counter[str]:
        """The machine instructions of a dose: the added ones, and the stores of the sums."""
        dose, body = self.experiment.dose, self.subject.code.kernel.body
        if not dose:
            return Counter()
        name = {"FP32": "FFMA", "FP64": "DFMA"}.get(dose.kind, "integer")
        stores = sum(statement.ends for statement in body)
        return Counter({"STG": stores, name: dose.number * len(self.slots)})


def plan_of(experiment: Experiment, subject: Subject, deciding: Arrays) -> Plan:
    """Choose the accesses of a kernel that an experiment changes.

    `deciding` are the arrays with values that decide control flow or addresses of all kernels.
    """
    plan = Plan(experiment, subject, {}, Counter(), Counter())
    if dose := experiment.dose:
        places = [i for i, kind in subject.code.arithmetic.items() if kind == dose.place]
        return replace(plan, slots=dict.fromkeys(places, LOADED), weights=Counter(places))
    for index, site in subject.code.sites.items():
        counts = subject.sums(index, experiment.kinds, subject.counts)
        weight = counts["requests"]
        if experiment.excessive:
            weight = max(0, max(counts["sectors"], counts["wavefronts"]) - counts["ideal"])
        elif not experiment.kinds:
            weight = int(not site.kind and site.statement.base in ("bar", "barrier"))
        if not weight:
            continue
        plan.weights[index] = weight
        reason, slot = _why_not(experiment, subject, site, deciding)
        if reason:
            plan.why_not[reason] += weight
        else:
            plan.slots[index] = slot
    return plan


def _why_not(
    experiment: Experiment, subject: Subject, site: Site, deciding: Arrays
) -> tuple[str, Slot]:
    """Why an experiment cannot change an access; otherwise the slot of its array."""
    statement = site.statement
    if not experiment.kinds:
        named = statement.operands[1:] or statement.operands[0] != "0"
        return "barriers of some warps" if named else "", LOADED
    if site.kind not in experiment.kinds:
        return "generic addresses and matrix loads", LOADED
    if rewriting.ORDERED & {*statement.words} and statement.base in ("ld", "st"):
        return "accesses that communicate with other threads", LOADED
    if site.index in subject.code.deciding:
        return "loaded values that decide control flow or addresses", LOADED
    if (
        statement.base == "atom"
        and experiment.change is rewriting.spread
        and _is_read(subject, statement.results)
    ):
        return "atomics whose results are used", LOADED
    found = [subject.pointers(site, launch) for launch in subject.launches]
    if site.kind in ("global_stores", "global_atomics") and overlap(
        subject.arrays([site.index]), deciding
    ):
        return "stores to arrays that decide control flow", LOADED
    if site.kind.startswith("shared"):
        array = subject.code.shared_array(site)
        size = array[1] if array else subject.code.kernel.shared_bytes
        dynamic = min(launch.shared_bytes for launch in subject.launches)
        if (size or dynamic) < rewriting.LINE:
            return f"arrays of less than {rewriting.LINE} bytes", LOADED
    if not experiment.moves:
        return "", LOADED
    slots = {slot for pointers in found for slot in pointers.values()}
    if len(slots) != 1 or not all(found) or min(slots).offset == VARIABLE:
        return "addresses that do not come from one pointer among the parameters", LOADED
    (slot,) = slots
    least = (rewriting.LINES + 2) * rewriting.LINE
    if experiment.change is not rewriting.in_l1:
        least = 32 * statement.bytes + rewriting.LINE
    if min(subject.memory(slot, launch)[1] for launch in subject.launches) < least:
        return f"arrays of less than {least} bytes", LOADED
    return "", slot


def _is_read(subject: Subject, registers: str) -> bool:
    kernel = subject.code.kernel
    written = set(kernel.registers(registers))
    return any(written & {*kernel.registers(s.inputs), s.guard} for s in kernel.body)


def hazard(experiment: Experiment, plans: Sequence[Plan]) -> str:
    """Why wrong values would change control flow or addresses; empty if they would not."""
    deciding = Arrays().union(*(plan.subject.decided_by for plan in plans))
    # Without barriers, a thread can also read a value before it is written.
    computed = (plan.subject.written(computed=bool(experiment.kinds)) for plan in plans)
    if overlap(deciding, Arrays().union(*computed)):
        return "a value that the kernels write decides control flow or an address"
    for plan in plans:
        code, flow = plan.subject.code, plan.subject.code.flow
        if _IN_FUNCTION.search(code.kernel.header):
            return "it calls functions that access memory or synchronise, which are not analysed"
        changed = [code.sites[i].statement for i in plan.slots]
        changed = [s for s in changed if s.space == "shared" or not experiment.kinds]
        if not changed:
            continue
        decisive = [
            s for s in map(code.kernel.body.__getitem__, code.deciding) if s.space != "global"
        ]
        places = set[str]().union(*(flow.places(s, s.address) for s in decisive))
        if places and not experiment.kinds:
            return "a value in shared memory decides control flow or an address"
        if any(places & flow.places(s, s.address) for s in changed):
            return "a value in the same array of shared memory decides control flow or an address"
        if code.uses("mbarrier", "cp.async.bulk"):
            return "the kernel synchronises through shared memory"
        if not experiment.kinds and code.uses("bar.arrive", "barrier.arrive", "barrier.cluster"):
            return "the kernel has barriers of some warps or of clusters"
    return ""


def _added(dose: Dose, before: Counts) -> Counts:
    """The counts of the instructions that a dose adds."""
    found: Counts = Counter()
    for each in ("arithmetic", "lanes"):
        found[0, each, dose.kind] = dose.number * before[0, each, dose.place]
    if dose.kind != "integer":
        lanes, bits = found[0, "lanes", dose.kind], dose.kind.removeprefix("FP")
        found[0, "operations", f"flop{bits}"] = 2 * lanes
        found[0, "operations", f"fused{bits}"] = lanes
        found[0, "operations", "instruction64"] = lanes * (bits == "64")
    return found


def changed(before: Counts, after: Counts) -> dict[tuple[int, str, str], tuple[int, int]]:
    """The counts that differ, except the number of instructions."""
    keys = (before | after).keys() - {TOTAL}
    return {key: (before[key], after[key]) for key in keys if before[key] != after[key]}


def changed_counts(
    experiment: Experiment, plan: Plan, before: Counts, after: Counts
) -> Mapping[tuple[int, str, str], tuple[int, int]]:
    """The counts that the switch changed, except those that the experiment may change."""
    if experiment.dose:
        return changed(before + _added(experiment.dose, before), after)
    lines = {line_of(i) for i in plan.slots}
    free = {"sectors", "wavefronts", "unique", "ideal"}
    if experiment.counted == "requests":
        free |= {"requests", "lanes", "bytes"}
    kinds = {plan.subject.code.sites[i].kind for i in plan.slots}
    found = changed(before, after)
    for key in [*found]:
        line, kind, field = key
        allowed = field in free and (line in lines or not line) and kind in kinds
        allowed |= not line and kind == "barriers" and not experiment.kinds
        allowed |= not line and kind == "atomic_addresses" and "global_atomics" in kinds
        if allowed:
            del found[key]
    return found
