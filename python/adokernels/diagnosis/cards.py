"""Quick-reference cards: a problem, the counters that indicate it, and possible remedies.

An indicator compares a counted value of the longest kernel with a threshold. A card applies to a
variant if all of its indicators hold. `cards.json` contains the seven cards of a GTC 2015 talk on
image filters, "CUDA Optimization with NVIDIA Nsight Eclipse Edition", checked on an H200, and three
cards of this package for compute-bound kernels, which the talk does not cover. The talk's
profiler reported transactions per request, execution dependencies and pipe-busy stalls. The
indicators are the counters that Nsight Compute reports for the same effects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from adokernels import _core
from adokernels.diagnosis import evidence
from adokernels.diagnosis.evidence import KernelFacts
from adokernels.records import definitions
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import BY_KEY
from adokernels.records.profile import KernelProfile
from adokernels.records.shown import ShownAsTables
from adokernels.records.statistics import Comparison
from adokernels.records.sweep import Sweep
from adokernels.text import StrEnum, number, percent, quantity


def _shared_headroom(k: KernelProfile) -> float | None:
    limits = k.kernel.limits
    resident, allowed = min(limits.values()), limits.get("shared memory")
    return allowed / resident if allowed is not None and resident else None


#: Pipes that compute. The others access memory or control the flow.
_ARITHMETIC = tuple(f"pipe_{name}" for name in ("alu", "fma", "fp64", "fp16", "tensor", "xu"))


def _largest(k: KernelProfile, *names: str) -> float | None:
    return max((share for share in map(k.get, names) if share is not None), default=None)


#: Quantities that no counter reports: of the launch and the compiled kernel, and a maximum.
RESOURCES: Mapping[str, Callable[[KernelProfile], float | None]] = {
    # Blocks of the grid, relative to the blocks that can be resident on the device.
    "waves": lambda k: k.waves if math.isfinite(k.waves) else None,
    # Registers per thread that could be used without reducing the number of resident warps.
    "free_registers": lambda k: k.kernel.registers_unused if k.kernel.resident_warps else None,
    # Blocks that fit according to shared memory alone, relative to the resident blocks.
    "shared_headroom": _shared_headroom,
    # The largest utilisation of the pipes that compute, in active cycles.
    "arithmetic_pipe": lambda k: _largest(k, *_ARITHMETIC),
    "issue_or_arithmetic": lambda k: _largest(k, "issue_active", *_ARITHMETIC),
    # The mean time of a load, from Little's law.
    "load_latency": lambda k: KernelFacts(k, None).load_latency,
}


class Validity(StrEnum):
    """Whether the advice of a card still helps on an H200."""

    HOLDS = "holds"
    OBSOLETE = "no longer helps"


@dataclass(frozen=True, kw_only=True)
class Indicator:
    """One condition: a value from counters, compared with a threshold.

    The value is the sum of `quantities`, divided by the sum of the quantities in `per`, if any.
    Both contain keys of ``adokernels.records.metrics.QUANTITIES`` or of `RESOURCES`.
    """

    title: str  # the compared quantity
    quantities: tuple[str, ...]
    per: tuple[str, ...] = ()
    unit: Literal["%", "s", ""] = ""  # "%" for a fraction that is shown as a percentage
    comparison: Literal[">=", "<"]
    threshold: float
    source: str  # the origin of the threshold

    def value(self, kernel: KernelProfile) -> float | None:
        """The value of one kernel, or None if a quantity was not collected."""
        total = _sum(kernel, self.quantities)
        divisor = _sum(kernel, self.per) if self.per else 1.0
        return None if total is None or not divisor else total / divisor

    def of(self, m: Measurement) -> float | None:
        """The value of the longest kernel, or None if a quantity was not collected."""
        return self.value(m.profile.longest) if m.profile else None

    def holds(self, m: Measurement) -> bool | None:
        """Whether the condition is met, or None if a quantity was not collected."""
        value = self.of(m)
        return None if value is None else (value >= self.threshold) == (self.comparison == ">=")

    def shown(self, value: float) -> str:
        """Format a value."""
        if self.unit == "%":
            return percent(value)
        if self.unit:
            return quantity(value, self.unit)
        return f"{value:.0f}" if value == int(value) else number(value)

    @property
    def condition(self) -> str:
        """The comparison as text: ``"< 60 %"``."""
        return f"{self.comparison} {self.shown(self.threshold)}"

    def __str__(self) -> str:
        return f"{self.title} {self.condition}"


def _sum(kernel: KernelProfile, keys: tuple[str, ...]) -> float | None:
    """The sum of quantities of a kernel, or None if one was not collected."""
    values = [RESOURCES[k](kernel) if k in RESOURCES else BY_KEY[k].of(kernel.values) for k in keys]
    known = [value for value in values if value is not None]
    return sum(known, start=0.0) if len(known) == len(values) else None


@dataclass(frozen=True, kw_only=True)
class Example:
    """A step of a ladder that follows the strategy of a card."""

    routine: str
    before: str  # the variants before and after the step
    after: str
    stored: str  # the stored ladder with counters of both (``notebooks/data`` of the repository)
    published: bool = False  # whether the talk makes this step

    def __str__(self) -> str:
        return f"{self.routine}: {self.before} to {self.after}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Card(ShownAsTables):
    """A quick-reference card.

    Attributes
    ----------
    key
        Its name in ``ado.cards``.
    title, category
        What it changes, and the limiter to which the talk assigns it.
    problem, goal
        The problem, and what the strategy should achieve.
    indicators
        The conditions under which it applies.
    strategy
        Possible changes.
    examples
        Steps of ladders that apply it. The step of the talk comes first.
    validity, why
        Whether the advice still helps on an H200, and the reason.
    item
        Its number in the list of the documents (``docs/documents.md``); empty for a card that is
        not from the talk.
    """

    key: str
    title: str
    category: str
    problem: str
    goal: str
    indicators: tuple[Indicator, ...]
    strategy: tuple[str, ...]
    examples: tuple[Example, ...]
    validity: Validity
    why: str
    item: str

    def holds(self, m: Measurement) -> bool | None:
        """Whether all indicators hold for the longest kernel of a measurement.

        Returns
        -------
        bool or None
            Whether all indicators hold, or None if this is unknown because a quantity was not
            collected.
        """
        found = [indicator.holds(m) for indicator in self.indicators]
        return False if False in found else None if None in found else True

    def evidence(
        self, sweep: Sweep, *, before: str | None = None, after: str | None = None
    ) -> CardEvidence:
        """Compare the indicators and the time of two variants.

        Parameters
        ----------
        sweep
            A ladder with hardware counters (``ado.sweep(..., counters=True)``, ``ado.load``).
        before, after
            Variants of the sweep; by default the first example that the sweep contains.

        Returns
        -------
        CardEvidence
            Displayed as a table in a terminal and in Jupyter.

        Raises
        ------
        ValueError
            If the sweep contains no example of the card, or lacks counters of a variant.
        KeyError
            If a named variant was not measured.
        """
        if (before is None) != (after is None):
            raise ValueError("before and after must be given together")
        if before is None or after is None:
            before, after = self._example_of(sweep)
        return CardEvidence(card=self, before=sweep[before], after=sweep[after])

    def _example_of(self, sweep: Sweep) -> tuple[str, str]:
        names = {m.variant for m in sweep}
        for example in self.examples:
            if example.routine == sweep.routine and {example.before, example.after} <= names:
                return example.before, example.after
        known = "; ".join(map(str, self.examples))
        raise ValueError(
            f"sweep must contain a step of the card ({known}), got {sweep.routine}: "
            f"{', '.join(sorted(names))}; pass before= and after= for other variants"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class CardEvidence(ShownAsTables):
    """The indicators of a card before and after a step, and the times."""

    card: Card
    before: Measurement
    after: Measurement

    def __post_init__(self) -> None:
        """Reject measurements without counters."""
        for m in (self.before, self.after):
            if not m.profile:
                raise ValueError(
                    f"sweep must have hardware counters (counters=True), got none of {m.variant!r}"
                )

    @property
    def values(self) -> list[tuple[Indicator, float | None, float | None]]:
        """Each indicator, and its value before and after."""
        return [(i, i.of(self.before), i.of(self.after)) for i in self.card.indicators]

    @property
    def applied(self) -> bool | None:
        """Whether all indicators hold before the step."""
        return self.card.holds(self.before)

    @property
    def comparison(self) -> Comparison:
        """The times: verdict, ratio before to after, and its 99.9 % interval."""
        return self.after.compare(self.before)


class Cards(ShownAsTables, dict[str, Card]):
    """All cards by key: ``ado.cards["occupancy"]``."""

    def __missing__(self, key: object) -> Card:
        raise KeyError(f"no card {key!r}{_core.suggest(str(key), list(self))}")

    def applying(self, m: Measurement) -> tuple[Card, ...]:
        """The cards whose indicators all hold for a measurement; empty without counters."""
        return tuple(card for card in self.values() if card.holds(m))


def _read() -> Cards:
    """Read the cards; a threshold is a number, or the name of a threshold of the limiter."""
    folder = resources.files("adokernels.diagnosis")
    document = json.loads(folder.joinpath("cards.json").read_text(encoding="utf-8"))
    indicators = {name: _indicator(**fields) for name, fields in document["indicators"].items()}
    found = Cards()
    for fields in document["cards"]:
        fields["indicators"] = tuple(indicators[name] for name in fields["indicators"])
        fields["strategy"] = tuple(fields["strategy"])
        fields["examples"] = tuple(Example(**example) for example in fields["examples"])
        found[fields["key"]] = Card(**fields | {"validity": Validity(fields["validity"])})
    return found


#: The thresholds of NVIDIA and of this package, by name.
_THRESHOLDS = vars(definitions) | vars(evidence)


def _indicator(*, threshold: str | float, **fields: Any) -> Indicator:
    value = _THRESHOLDS[threshold] if isinstance(threshold, str) else threshold
    sums = {name: tuple(fields.get(name, ())) for name in ("quantities", "per")}
    return Indicator(threshold=value, **fields | sums)


cards = _read()
