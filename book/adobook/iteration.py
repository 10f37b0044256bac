"""One iteration of the loop: limiter and proposal, the change, and the factors of the gain."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from adobook.text import Text, say, table
from adokernels.diagnosis.diagnosis import diagnose
from adokernels.records.definitions import STALLS
from adokernels.records.measurement import Measurement
from adokernels.records.sweep import Sweep
from adokernels.text import number, percent, quantity, ratio

#: Schedulers of a multiprocessor.
_SCHEDULERS = 4
#: A factor counts as a change if it differs from 1 by more than this fraction.
_CHANGED = 0.01
#: A factor explains a gain if its logarithm is this share of the logarithm of the gain.
_EXPLAINS = (0.4, 2.5)
#: Maximum number of stall reasons in the table.
_STALLS = 3


class _Html(Protocol):
    def _repr_html_(self) -> str: ...


@dataclass(frozen=True)
class Folded:
    """A display that is folded in a notebook: its title is shown."""

    title: str
    content: _Html

    def _repr_html_(self) -> str:
        # The content is a display of the package, whose text is escaped.
        body = self.content._repr_html_()
        return f"<details><summary>{html.escape(self.title)}</summary>{body}</details>"

    def __repr__(self) -> str:
        return f"{self.title}\n{self.content!r}"


def folded(title: str, content: _Html) -> Folded:
    """Fold a display, for example a long diff, below a title."""
    return Folded(title, content)


def proposal(sweep: Sweep, name: str) -> Text:
    """What limits a variant, the step that the program proposes, and the bound of its gain.

    Whether the next variant of the sweep makes the proposed change, and what it gains, is not told:
    a reader predicts first.
    """
    finding = next(f for f in diagnose(sweep) if f.variant == name)
    limited = f"**What limits {name}.** {_capital(str(finding.limiter))}."
    if finding.advice is None:
        return Text(limited)
    others = ", ".join(str(advice.step) for advice in finding.advices[1:])
    proposed = f"**What the program proposes.** {_capital(str(finding.advice))}"
    return say(limited, proposed + (f" Alternatives: {others}." if others else ""))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Factors:
    """The factors of the time of a variant, summed over its kernels or of the longest kernel.

    A warp issues an instruction every `latency` cycles. `warps` warps per scheduler are active on
    average, on `multiprocessors` busy multiprocessors. So all schedulers together issue
    4 x multiprocessors x warps / latency instructions per cycle, and the time follows.
    """

    instructions: float
    latency: float
    warps: float
    multiprocessors: float
    clock: float

    @classmethod
    def of(cls, m: Measurement) -> Factors:
        """The factors of a measurement with counters."""
        if m.profile is None:
            raise ValueError(f"measurement must have counters, got none for {m.variant!r}")
        longest = m.profile.longest
        return cls(
            instructions=m.profile["instructions"],
            latency=longest["warp_latency"],
            warps=longest["active_warps"],
            multiprocessors=min(longest["sm_active"], 1) * m.context["cuda"]["multiprocessors"],
            clock=longest.values["sm__cycles_elapsed.avg.per_second"],
        )

    @property
    def seconds(self) -> float:
        """The time that the factors give."""
        per_cycle = _SCHEDULERS * self.multiprocessors * self.warps / self.latency
        return self.instructions / per_cycle / self.clock


def time_factors(after: Measurement, before: Measurement) -> Text:
    """Split the gain of a step into factors: fewer instructions, shorter waits, more warps.

    The time of a kernel is the number of executed instructions, times the cycles between two
    instructions of a warp, divided by the active warps of all schedulers. Each factor of the gain
    is above 1 if its change makes the variant faster. Their product is compared with the measured
    gain. The largest stall reasons of both variants follow.
    """
    first, second = Factors.of(before), Factors.of(after)
    factors = {
        "executed instructions": (first.instructions, second.instructions),
        "cycles between two instructions of a warp": (first.latency, second.latency),
        "active warps per scheduler": (first.warps, second.warps),
        "busy multiprocessors": (first.multiprocessors, second.multiprocessors),
        "clock rate [Hz] of the counted runs": (first.clock, second.clock),
    }
    costs = [*factors][:2]
    gains = {n: a / b if n in costs else b / a for n, (a, b) in factors.items()}
    rows: list[list[object]] = [
        [name, *(quantity(value, "").strip() for value in factors[name]), ratio(gain)]
        for name, gain in gains.items()
        if abs(gain - 1) > _CHANGED or name in costs
    ]
    rows.append(["product of the factors", None, None, ratio(math.prod(gains.values()))])
    rows.append(["measured gain", None, None, f"**{ratio(after.compare(before).ratio)}**"])
    header = ["factor", before.variant, after.variant, "gain"]
    stalls = _stalls(before), _stalls(after)
    leading = sorted(stalls[0], key=lambda k: -max(stalls[0][k], stalls[1].get(k, 0.0)))
    for name in leading[:_STALLS]:
        cells = [number(found.get(name, 0.0)) for found in stalls]
        rows.append([f"cycles in {name}", *cells, None])
    return say(table(header, rows), _told(gains, after, before))


def _stalls(m: Measurement) -> Mapping[str, float]:
    """Cycles per issued instruction, by stall reason."""
    assert m.profile is not None
    found = {n: m.profile.longest.get(f"stall_{n}") or 0.0 for n in STALLS if n != "selected"}
    return {name.replace("_", " "): cycles for name, cycles in found.items() if cycles}


def _told(gains: Mapping[str, float], after: Measurement, before: Measurement) -> str:
    """One sentence: the factor that explains the gain, or that changes, or two that oppose."""
    total = math.log(after.compare(before).ratio)
    logs = {name: math.log(gain) for name, gain in gains.items()}
    up, down = max(logs, key=lambda n: logs[n]), min(logs, key=lambda n: logs[n])
    largest = max(logs, key=lambda n: abs(logs[n]))
    if max(abs(total), abs(logs[largest])) < _CHANGED:
        return "No factor changes."
    main, verb = (up, "faster") if total > 0 else (down, "slower")
    share = logs[main] / total if total else math.inf
    if _EXPLAINS[0] <= share <= _EXPLAINS[1]:
        found = f"**{main}**, {ratio(gains[main])}"
        return f"The largest factor that makes {after.variant} {verb}: {found}."
    if min(abs(logs[up]), abs(logs[down])) < _CHANGED:
        words = f"no other factor opposes it by more than {percent(_CHANGED)}"
        return f"The largest factor is **{largest}**, {ratio(gains[largest])}; {words}."
    both = ", and ".join(f"**{name}**, {ratio(gains[name])}" for name in (up, down))
    return f"Two factors oppose each other: {both}."
