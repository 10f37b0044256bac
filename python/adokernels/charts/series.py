"""The sweeps of one chart: their colours, and the machines whose ceilings are drawn."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from adokernels.model.registry import routines
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.sweep import Sweep
from adokernels.text import require

#: Colours of Okabe & Ito, one per sweep.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A", "0.35")
#: Line styles, one per machine.
_LINES = {"solid": "-", "dashed": "--", "dotted": ":", "dash-dotted": "-."}
#: Parts of the names of processors that do not distinguish them.
_COMMON = re.compile(
    r"\b(NVIDIA|AMD|Intel|Processor|CPU|GPU|Graphics|\d+-Core)\b|\((R|TM)\)|@.*$|, .*$", re.I
)
#: Maximum number of variants that are all shown in colour.
_FEW = 3
#: Maximum number of operands that a title lists.
_MOST_OPERANDS = 3


@dataclass(frozen=True, eq=False)
class Host:
    """A machine whose ceilings are drawn: the highest ones if several sweeps measured them."""

    machine: Machine
    name: str = ""  # a short name for labels; empty if the chart has only this machine
    line: str = "-"  # the style of its lines, for matplotlib
    words: str = ""  # the style in words

    @property
    def alone(self) -> bool:
        """Whether the chart has only this machine."""
        return not self.name


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """A sweep, and the style of its points.

    A single sweep has no name, and its points have the colours of their memory levels.
    """

    sweep: Sweep
    highlight: frozenset[str]  # the variants in colour and with labels
    host: Host | None = None  # the machine, if its ceilings are known
    name: str = ""  # the routine, with the machine if there are several
    colour: str | None = None

    @property
    def everything(self) -> tuple[Measurement, ...]:
        """The measurements, then the peers."""
        return (*self.sweep.measurements, *self.sweep.peers)

    @property
    def summarised(self) -> list[Measurement]:
        """The variants in the title: the fastest; for a single sweep, also the first variant."""
        variants = self.sweep.variants
        fastest = [self.sweep.fastest] if variants else []
        return list(dict.fromkeys([*([] if self.name else variants[:1]), *fastest]))

    @property
    def subject(self) -> str:
        """Routine, problem, and cold or warm caches; empty for a machine alone."""
        parts = ((m.routine, problem_of(m), m.cache) for m in self.sweep)
        return ", ".join(dict.fromkeys(", ".join(filter(None, part)) for part in parts))

    @property
    def details(self) -> str:
        """The subject without the routine."""
        return self.subject.partition(", ")[2]


def problem_of(m: Measurement) -> str:
    """The operands and options for a title; many operands by the name or lengths of the problem.

    The benchmark problems of a task have names: ``"si214: 800x1385x11075x2"``.
    """
    operands = m.problem.operands
    if len(operands) <= _MOST_OPERANDS:
        return str(m.problem)
    lengths = {length for operand in operands for length in operand.shape}
    ladder = routines.get(m.routine)
    for name, options in ladder.task.benchmark_problems.items() if ladder else ():
        shape = options.removeprefix("--shape ").partition(" ")[0]
        if lengths == set(map(int, shape.split("x"))):
            return f"{name}: {shape}"
    return f"{operands[0]} and {len(operands) - 1} other operands"


def title_of(sweep: Sweep) -> str:
    """What was measured, as ``sweep.title``, with a short description of the problem."""
    title = sweep.title
    for m in sweep:
        title = title.replace(str(m.problem), problem_of(m))
    return title


def make_series(
    what: Sweep | Measurement | Machine | Sequence[Sweep | Measurement | Machine],
    machine: Machine | None,
    highlight: Iterable[str] | None,
) -> list[Series]:
    """Convert the records of a chart to series, ordered by machine; check the chart's arguments.

    Each sweep is a series. Measurements outside of sweeps form one series per routine, machine and
    state of the caches. `machine` replaces the ceilings of all of them.
    """
    sweeps = _as_sweeps(what, machine)
    hosts = _hosts([s.machine for s in sweeps if s.machine])
    if highlight is not None:
        highlight = frozenset([highlight] if isinstance(highlight, str) else highlight)
    found = []
    for i, (sweep, name) in enumerate(zip(sweeps, _names(sweeps, hosts), strict=True)):
        host = hosts[sweep.machine.title] if sweep.machine else None
        colour = _COLOURS[i % len(_COLOURS)] if name else None
        chosen = _highlighted(sweeps, sweep, highlight)
        found.append(Series(sweep=sweep, highlight=chosen, host=host, name=name, colour=colour))
    titles = list(hosts)
    return sorted(found, key=lambda s: titles.index(s.host.machine.title) if s.host else -1)


def hosts_of(series: Iterable[Series]) -> list[Host]:
    """The machines of a chart, each once."""
    return list({s.host.machine.title: s.host for s in series if s.host}.values())


def subject(series: Sequence[Series]) -> str:
    """Describe the measurements, and each machine with its line style, for the title."""
    measured = [s for s in series if len(s.sweep)]
    if len(measured) == 1:
        parts = [measured[0].subject]
    else:
        parts = [m.routine for s in measured for m in s.sweep]
        parts += [" and ".join(dict.fromkeys(m.cache for s in measured for m in s.sweep))]
    for host in hosts_of(series):
        parts.append(f"{host.machine.title} ({host.words})" if host.words else host.machine.title)
    measured_on = [(m.machine_title, s.host) for s in series for m in s.everything]
    parts += [
        f"measured on {title}"
        for title, h in measured_on
        if h and title not in ("", h.machine.title)
    ]
    return ", ".join(filter(None, dict.fromkeys(parts)))


def _as_sweeps(
    what: Sweep | Measurement | Machine | Sequence[Sweep | Measurement | Machine],
    machine: Machine | None,
) -> list[Sweep]:
    items = [what] if isinstance(what, (Sweep, Measurement, Machine)) else what
    require(Iterable, "sweeps, measurements or machines", what=items)
    found: list[Sweep] = []
    loose: dict[tuple[str, ...], list[Measurement]] = {}
    for item in items:
        if isinstance(item, Machine):
            found.append(Sweep(routine="", measurements=(), machine=item))
        elif isinstance(item, Sweep):
            if len(item):
                found.append(dataclasses.replace(item, machine=machine or item.machine))
        elif isinstance(item, Measurement):
            key = (item.routine, item.cache, item.machine_title)
            loose.setdefault(key, []).append(item)
        else:
            raise TypeError(
                "what must be a sweep, a measurement, a machine or a sequence of these, got "
                f"{type(item).__name__}"
            )
    for group in loose.values():
        own = machine or next((m.machine for m in group if m.machine), None)
        found.append(Sweep(routine=group[0].routine, measurements=tuple(group), machine=own))
    if not found:
        raise ValueError("what must contain at least one measurement, got none")
    return found


def _hosts(machines: Sequence[Machine]) -> dict[str, Host]:
    """Make one host per title of a machine, with the highest ceilings of its records."""
    by_title: dict[str, list[Machine]] = {}
    for machine in machines:
        by_title.setdefault(machine.title, []).append(machine)
    if len(by_title) > len(_LINES):
        raise ValueError(
            f"what must come from at most {len(_LINES)} machines, got {', '.join(by_title)}"
        )
    merged = {}
    for title, found in by_title.items():
        everything = (c for machine in found for c in machine.ceilings)
        highest = {c.name: c for c in sorted(everything, key=lambda c: c.measured)}
        ceilings = tuple(highest[c.name] for c in found[0].ceilings)
        same = ceilings == found[0].ceilings
        merged[title] = found[0] if same else dataclasses.replace(found[0], ceilings=ceilings)
    if len(merged) == 1:
        return {title: Host(machine) for title, machine in merged.items()}
    short = {title: " ".join(_COMMON.sub(" ", title).split()) for title in merged}
    if not all(short.values()) or len({*short.values()}) < len(short):
        short = {title: title for title in merged}
    return {
        title: Host(machine, short[title], line, words)
        for (title, machine), (words, line) in zip(merged.items(), _LINES.items(), strict=False)
    }


def _names(sweeps: Sequence[Sweep], hosts: Mapping[str, Host]) -> list[str]:
    """Distinct names of several sweeps: routine and machine, and the problem if necessary."""
    if sum(len(sweep) > 0 for sweep in sweeps) < 2:
        return [""] * len(sweeps)
    found = [""] * len(sweeps)
    known = [_details(sweep) for sweep in sweeps if len(sweep)]
    varying = [i for i, values in enumerate(zip(*known, strict=True)) if len({*values}) > 1]
    for count in range(len(varying) + 1):
        # Only ambiguous names get more details.
        ambiguous = [found.count(text) > 1 for text in found]
        for i, sweep in enumerate(sweeps):
            if len(sweep) and (ambiguous[i] or not count):
                host = hosts[sweep.machine.title].name if sweep.machine else ""
                own = [_details(sweep)[k] for k in varying[:count]]
                words = [sweep.routine or sweep.measurements[0].routine, *own]
                found[i] = " ".join([*words, *(["on", host] if host else [])])
    return [
        f"{text} ({found[: i + 1].count(text)})" if text and found.count(text) > 1 else text
        for i, text in enumerate(found)
    ]


def _details(sweep: Sweep) -> tuple[str, str, str]:
    """Properties that can distinguish sweeps of a routine: cache state, element type, lengths."""
    first = sweep.measurements[0]
    for operand in first.problem.operands[:1]:
        return first.cache, operand.dtype, " x ".join(map(str, operand.shape))
    return first.cache, "", ""


def _highlighted(
    sweeps: Sequence[Sweep], sweep: Sweep, asked: frozenset[str] | None
) -> frozenset[str]:
    """Select the variants of a sweep in colour; :func:`roofline` describes the default."""
    if asked is not None:
        known = dict.fromkeys(m.variant for s in sweeps for m in (*s.measurements, *s.peers))
        if unknown := asked - set(known):
            raise ValueError(
                f"highlight must name measured variants ({', '.join(known)}),"
                f" got {', '.join(sorted(unknown))}"
            )
        return asked
    variants = sweep.variants
    if variants and len(sweeps) > 1:
        return frozenset([sweep.fastest.variant])
    if len(variants) <= _FEW:
        return frozenset(m.variant for m in variants)
    gains = {m: m.speedup_over(before) for m, before in sweep.step_pairs().items()}
    largest = max(gains, key=lambda m: gains[m], default=variants[0])
    return frozenset({variants[0].variant, sweep.fastest.variant, largest.variant})
