"""The diagnosis of a ladder: limiter, next step and outcome for each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from adokernels.diagnosis.advice import Advice, advise, advise_from_counts
from adokernels.diagnosis.cards import cards
from adokernels.diagnosis.evidence import KernelFacts
from adokernels.diagnosis.limiter import limiter
from adokernels.diagnosis.targets import MetricChange, change
from adokernels.model.registry import routines
from adokernels.records.counted import CountedSweep, CountedVariant
from adokernels.records.limiter import Kind, Limiter, Step
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import EMULATED_BULK
from adokernels.records.record import Entries, plain_json
from adokernels.records.shown import ShownAsTables
from adokernels.records.sweep import Sweep
from adokernels.storage import replace_file
from adokernels.text import kind_of

#: A proposal "done" is confirmed if the gain of the next variant is at most this value.
CONFIRMED = 1.05
#: Sectors of loads, stores, atomics and bulk copies in global memory.
_SECTORS = (
    "atomic_sectors",
    "load_sectors",
    "store_sectors",
    *(EMULATED_BULK.format("sectors", op) for op in ("ld", "st")),
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The effect of the next variant of the ladder.

    Attributes
    ----------
    variant
        The next variant.
    changes
        The categories of its changes, or None if it does not state them.
    ratio, interval
        Ratio of the times before and after, and its 99.9 % confidence interval.
    metric
        The metric that the advice should change, before and after, or None without counters.
    reason
        Why the verdict on the two times is withheld; the outcome then tests nothing. Empty if the
        verdict is not withheld.
    """

    variant: str
    changes: frozenset[Step] | None
    ratio: float
    interval: tuple[float, float]
    metric: MetricChange | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The diagnosis of one variant.

    Attributes
    ----------
    variant
        Its name.
    counted
        Whether it has hardware counters.
    limiter
        The limiter.
    advices
        Proposed steps, the best first; empty if no rule applies.
    cards
        Keys of the quick-reference cards (``adokernels.cards``) whose indicators hold; empty
        without counters, and if the advice is "done".
    outcome
        The effect of the next variant; None for the last variant.
    """

    variant: str
    counted: bool
    limiter: Limiter
    advices: tuple[Advice, ...]
    cards: tuple[str, ...]
    outcome: Outcome | None

    @property
    def advice(self) -> Advice | None:
        """The first proposed step."""
        return self.advices[0] if self.advices else None

    @property
    def named(self) -> bool | None:
        """Whether the advice names a change of the next variant, or None if they are unknown.

        The advice "done" is correct if the gain of the next variant is at most 5 %, and None if
        the verdict on this gain is withheld.
        """
        if self.outcome is None or self.outcome.changes is None:
            return None
        if self.advice is None:
            return False if self.counted else None
        if self.advice.step is Step.DONE:
            return None if self.outcome.reason else self.outcome.ratio <= CONFIRMED
        return self.advice.step in self.outcome.changes

    @property
    def tested(self) -> bool:
        """Whether the next variant tests the bound: proposed change made, or "done"."""
        if self._test is None:
            return False
        outcome, step, _ = self._test
        return step in (Step.DONE, *(outcome.changes or ()))

    @property
    def exceeded(self) -> bool:
        """Whether the gain of the next variant exceeds the bound, regardless of its changes."""
        if self._test is None:
            return False
        outcome, _, bound = self._test
        return outcome.interval[0] > bound

    @property
    def _test(self) -> tuple[Outcome, Step, float] | None:
        """The outcome, the proposed step and its bound; None if one is unknown or withheld."""
        outcome, advice = self.outcome, self.advice
        if outcome is None or outcome.reason or advice is None or advice.bound is None:
            return None
        return outcome, advice.step, advice.bound

    @property
    def held(self) -> bool | None:
        """Whether the bound was not exceeded, or None if it was not tested."""
        return not self.exceeded if self.tested else None


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosis(ShownAsTables, Entries[Finding]):
    """The findings of a sweep in ladder order, without the ceiling kernels."""

    _ENTRIES = ("findings",)

    routine: str
    title: str
    findings: tuple[Finding, ...]

    def to_json(self) -> str:
        """The findings as a JSON document, for other programs."""
        return plain_json("diagnosis", self)

    def save(self, path: str | Path) -> None:
        """Write the findings to a JSON file, for other programs.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file is unchanged.
        """
        replace_file(path, self.to_json().encode())


def diagnose(sweep: Sweep | CountedSweep) -> Diagnosis:
    """Find the limiter and the next step of each variant, and compare them with the next variant.

    Parameters
    ----------
    sweep
        A ladder, preferably measured with ``counters=True``: most limiters need counters. From a
        sweep on the emulator, steps are proposed that follow from counts, but no limiter.

    Returns
    -------
    Diagnosis
        The findings; displayed as tables in a terminal and in Jupyter.

    Raises
    ------
    TypeError
        If `sweep` is not a sweep.
    """
    if isinstance(sweep, CountedSweep):
        findings = tuple(_from_counts(v) for v in sweep if not v.ceiling)
        return Diagnosis(routine=sweep.routine, title=sweep.title, findings=findings)
    if not isinstance(sweep, Sweep):
        raise TypeError(
            f"sweep must be a Sweep, got {kind_of(sweep)}: measure one with ado.sweep, or read one "
            "with ado.load"
        )
    after = {before: m for m, before in sweep.step_pairs().items()}
    machine = sweep.machine
    findings = tuple(
        Finding(
            variant=m.variant,
            counted=m.profile is not None,
            limiter=limiter(m, machine),
            advices=(advices := advise(m, machine)),
            cards=()
            if advices and advices[0].step is Step.DONE
            else tuple(card.key for card in cards.applying(m)),
            outcome=_outcome(m, after[m], advices) if m in after else None,
        )
        for m in sweep.variants
    )
    return Diagnosis(routine=sweep.routine, title=sweep.title, findings=findings)


def _from_counts(v: CountedVariant) -> Finding:
    kernels = [KernelFacts(k, None) for k in v.profile]
    busiest = max(kernels, key=lambda k: sum(map(float, (k.get(s) or 0 for s in _SECTORS))))
    unknown = "the emulator measures no time, so the limiter, latency and stalls are unknown"
    return Finding(
        variant=v.variant,
        counted=True,
        limiter=Limiter(kind=Kind.UNKNOWN, counted=True, unknown=unknown),
        advices=advise_from_counts(busiest, v.bytes),
        cards=(),
        outcome=None,
    )


def _outcome(m: Measurement, after: Measurement, advices: tuple[Advice, ...]) -> Outcome:
    found = after.compare(m)
    steps = _stated_steps(after)
    changes = None if steps is None else frozenset(map(Step, steps))
    return Outcome(
        variant=after.variant,
        changes=changes,
        ratio=found.ratio,
        interval=found.interval,
        metric=change(advices[0].step, m.profile, after.profile) if advices else None,
        reason=found.reason,
    )


def _stated_steps(m: Measurement) -> tuple[str, ...] | None:
    """The categories of its changes; records of earlier versions do not have them."""
    ladder = routines.get(m.routine)
    if m.steps is not None or ladder is None:
        return m.steps
    return next((v.steps for v in ladder if v.name == m.variant), None)
