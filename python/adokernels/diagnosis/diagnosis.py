"""The diagnosis of a ladder: limiter and next step of each variant, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adokernels.diagnosis.advice import Advice, advise
from adokernels.diagnosis.limiter import Limiter, limiter
from adokernels.diagnosis.steps import Step, changed_by
from adokernels.diagnosis.tables import diagnosis_tables
from adokernels.diagnosis.targets import Change, change
from adokernels.tables.rendering import ShownAsTables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from adokernels.measuring.records import Measurement, Sweep

#: "Done" is confirmed if the next variant gains no more than this.
CONFIRMED = 1.05


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the next variant of the ladder did.

    Attributes
    ----------
    variant
        The next variant.
    changes
        The categories of what it changes; None if they are not recorded.
    ratio, interval
        Time before over time after, and its 99.9 % confidence interval.
    metric
        The metric that the advice targets, before and after; None without counters.
    """

    variant: str
    changes: frozenset[Step] | None
    ratio: float
    interval: tuple[float, float]
    metric: Change | None


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
        What limits it.
    advices
        Proposed steps, the best first; empty if nothing supports one.
    outcome
        What the next variant did; None for the last one.
    """

    variant: str
    counted: bool
    limiter: Limiter
    advices: tuple[Advice, ...]
    outcome: Outcome | None

    @property
    def advice(self) -> Advice | None:
        """The first proposed step."""
        return self.advices[0] if self.advices else None

    @property
    def named(self) -> bool | None:
        """Whether the advice names what the next variant changes; None if that is unknown.

        "Done" is right if the next variant gains no more than 5 %, whatever it changes.
        """
        if self.outcome is None or self.outcome.changes is None:
            return None
        if self.advice is None:
            return False if self.counted else None
        if self.advice.step is Step.DONE:
            return self.outcome.ratio <= CONFIRMED
        return self.advice.step in self.outcome.changes

    @property
    def tested(self) -> bool:
        """Whether the next variant tests the bound: it takes the proposed step, or none is left."""
        if self.outcome is None or self.advice is None or self.advice.bound is None:
            return False
        step = self.advice.step
        return step is Step.DONE or step in (self.outcome.changes or ())

    @property
    def exceeded(self) -> bool:
        """Whether the next variant, whatever it changes, gained more than the bound."""
        if self.outcome is None or self.advice is None or self.advice.bound is None:
            return False
        return self.outcome.interval[0] > self.advice.bound

    @property
    def held(self) -> bool | None:
        """Whether the bound held; None if it was not tested."""
        return not self.exceeded if self.tested else None


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosis(ShownAsTables):
    """The findings of a sweep, in ladder order, without the ceilings."""

    routine: str
    title: str
    findings: tuple[Finding, ...]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, variant: str) -> Finding:
        """The finding of a variant.

        Raises
        ------
        KeyError
            If the sweep did not measure it.
        """
        for finding in self.findings:
            if finding.variant == variant:
                return finding
        raise KeyError(f"{variant!r} was not measured, got {[f.variant for f in self.findings]}")

    def _tables(self) -> list[Table]:
        return diagnosis_tables(self)


def diagnose(sweep: Sweep) -> Diagnosis:
    """Find the limiter and the next step of each variant, and compare with the variant after it.

    Parameters
    ----------
    sweep
        A ladder, best measured with ``counters=True``: without counters few limits can be proved.

    Returns
    -------
    Diagnosis
        A table in a terminal and in Jupyter.
    """
    after = {before: m for m, before in sweep.steps().items()}
    machine = sweep.machine
    findings = tuple(
        Finding(
            variant=m.variant,
            counted=m.profile is not None,
            limiter=limiter(m, machine),
            advices=(advices := advise(m, machine)),
            outcome=_outcome(m, after[m], advices) if m in after else None,
        )
        for m in sweep.variants
    )
    return Diagnosis(routine=sweep.routine, title=sweep.title, findings=findings)


def _outcome(m: Measurement, after: Measurement, advices: tuple[Advice, ...]) -> Outcome:
    _, ratio, interval = after.compare(m)
    changes = changed_by(after.routine, after.variant)
    return Outcome(
        variant=after.variant,
        changes=None if changes is None else frozenset(changes),
        ratio=ratio,
        interval=interval,
        metric=change(advices[0].step, m.profile, after.profile) if advices else None,
    )
