"""The accuracy of the diagnoses of whole ladders, including the incorrect ones."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from adokernels.diagnosis.diagnosis import CONFIRMED, diagnose
from adokernels.diagnosis.score_tables import score_tables
from adokernels.diagnosis.steps import Step
from adokernels.records.forms import Amount, Positive, Words
from adokernels.records.record import Fields, StoredRecord
from adokernels.records.shown import ShownAsTables
from adokernels.tables.diagnoses import verdict_on
from adokernels.text import StrEnum, percent, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.table import Table
    from typing_extensions import Self

    from adokernels.records.sweep import Sweep


_STEPS = "|".join(map(re.escape, Step))
_Category = Annotated[str, Words("a category of steps", _STEPS)]
_Proposed = Annotated[str, Words("a category of steps, or empty", f"({_STEPS})?")]


class Reason(StrEnum):
    """Reason why a step was not named correctly."""

    NO_GAIN = "the step gained at most 5 % and was not proposed"
    TOO_EARLY = "proposed 'done', but the step gained"
    ALTERNATIVE = "proposed as an alternative only"
    LATER = "a later step of the ladder makes the proposed change"
    UNNAMED = "not proposed at all"


@dataclass(frozen=True, kw_only=True)
class Row(Fields):
    """One step of one ladder.

    Attributes
    ----------
    ladder
        Routine and problem.
    variant, next_variant
        The diagnosed variant, and the variant after it.
    limiter
        The limiter of `variant`.
    proposed
        The category of the proposed step; empty without a proposal.
    alternatives
        Further proposed categories.
    changes
        The categories of the changes of `next_variant`.
    bound
        The largest gain that the proposal allows; None if there is no bound.
    realised, low, high
        The ratio of the times, and its 99.9 % confidence interval.
    verdict
        ``"held"``, ``"violated"``, ``"not tested"``, or ``"exceeded by another change"``.
    metric, moved
        The target metric before and after, and whether it improved; empty and None if unknown.
    named
        Whether the proposal is among the changes, or is "done" and the gain is at most 5 %.
    """

    ladder: str
    variant: str
    next_variant: str
    limiter: str
    proposed: _Proposed
    alternatives: tuple[_Category, ...]
    changes: tuple[_Category, ...]
    bound: Amount | None
    realised: Positive
    low: Amount
    high: Amount
    verdict: str
    metric: str
    moved: bool | None
    named: bool

    @property
    def gained(self) -> bool:
        """Whether `next_variant` is faster by more than 5 %."""
        return self.realised > CONFIRMED


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Score(StoredRecord, ShownAsTables):
    """The score of the diagnoses of several ladders. Iteration yields the steps."""

    KIND = "score"

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def hit_rate(self) -> float:
        """Fraction of the steps that are named correctly."""
        return _share(self.rows, self.named)

    @property
    def named(self) -> tuple[Row, ...]:
        """Steps that are named correctly: the strict count."""
        return tuple(row for row in self.rows if row.named)

    @property
    def gained(self) -> tuple[Row, ...]:
        """Steps that gained more than 5 %."""
        return tuple(row for row in self.rows if row.gained)

    @property
    def abstained(self) -> tuple[Row, ...]:
        """Steps that gained at most 5 % and were correctly not proposed."""
        return tuple(row for row in self.rows if not row.gained and row.proposed not in row.changes)

    @property
    def agreed(self) -> tuple[Row, ...]:
        """Steps that gained and were named, or did not gain and were not proposed."""
        return (*(row for row in self.gained if row.named), *self.abstained)

    def reason(self, row: Row) -> Reason:
        """Classify a step that was not named correctly."""
        if not row.gained:
            return Reason.NO_GAIN
        if row.proposed == Step.DONE:
            return Reason.TOO_EARLY
        if set(row.alternatives) & set(row.changes):
            return Reason.ALTERNATIVE
        later = self.rows[self.rows.index(row) + 1 :]
        if any(row.proposed in r.changes for r in later if r.ladder == row.ladder):
            return Reason.LATER
        return Reason.UNNAMED

    @property
    def claims(self) -> tuple[Row, ...]:
        """Steps with a bounded proposal."""
        return tuple(row for row in self.rows if row.bound is not None)

    @property
    def tested(self) -> tuple[Row, ...]:
        """Steps whose bound the next variant tests: it makes the proposed change, or "done"."""
        return tuple(row for row in self.claims if row.verdict in ("held", "violated"))

    @property
    def violated(self) -> tuple[Row, ...]:
        """Steps with a tested bound that the gain exceeds by more than the noise."""
        return tuple(row for row in self.tested if row.verdict == "violated")

    @property
    def wrong(self) -> tuple[Row, ...]:
        """Steps that are not named correctly, or have a violated bound."""
        return tuple(row for row in self.rows if not row.named or row in self.violated)

    @property
    def looseness(self) -> float | None:
        """Median of the ratio of bound to realised gain (at least 1), for tested bounds."""
        return _median(self.tested)

    def summary(self) -> list[tuple[str, str]]:
        """The figures of the score, as text."""
        rows = self.rows
        idle = [row for row in rows if not row.gained]
        second = [row for row in rows if row.named or set(row.alternatives[:1]) & set(row.changes)]
        by_category = [row for row in rows if row.proposed in row.changes]
        exceeded = [row for row in self.claims if row.verdict.startswith("exceeded")]
        steps = [row for row in self.tested if row.proposed != Step.DONE]
        known = [row for row in self.tested if row.moved is not None]
        moved = [row for row in known if row.moved]
        return [
            ("steps", str(len(rows))),
            ("named correctly", _of(rows, self.named)),
            ("  by category alone, without confirmed 'done'", _of(rows, by_category)),
            ("  with the first alternative", _of(rows, second)),
            (
                "steps that gained more than 5 %, named",
                _of(self.gained, [row for row in self.gained if row.named]),
            ),
            ("steps without gain, change not proposed", _of(idle, self.abstained)),
            ("sum of both: agrees with the measured gain", _of(rows, self.agreed)),
            ("steps with a bound", str(len(self.claims))),
            ("  tested by the next variant", str(len(self.tested))),
            ("  violated", str(len(self.violated))),
            ("  not tested, exceeded by another change", str(len(exceeded))),
            ("median of bound / realised gain, tested bounds", _times(self.looseness)),
            ("  without 'done'", _times(_median(steps))),
            ("  all bounds", _times(_median(self.claims))),
            ("target metric improved, of tested bounds", _of(known, moved)),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The score as JSON types, with its summary."""
        return {"summary": dict(self.summary()), **super().to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; the summary is computed again."""
        return super().from_dict({k: v for k, v in record.items() if k != "summary"})

    def _tables(self) -> list[Table]:
        return score_tables(self)


def score(sweeps: Iterable[Sweep]) -> Score:
    """Compare the diagnoses of ladders with the changes and gains of the next variants.

    Parameters
    ----------
    sweeps
        Ladders with counters. A step counts if its first variant has counters and
        :data:`adokernels.diagnosis.steps.CHANGES` contains its second variant.
    """
    return Score(rows=tuple(row for sweep in sweeps for row in _rows(sweep)))


def _rows(sweep: Sweep) -> Iterator[Row]:
    ladder = ", ".join([sweep.routine, *dict.fromkeys(str(m.problem) for m in sweep)])
    for finding in diagnose(sweep):
        outcome, advice = finding.outcome, finding.advice
        if not finding.counted or outcome is None or outcome.changes is None:
            continue
        yield Row(
            ladder=ladder,
            variant=finding.variant,
            next_variant=outcome.variant,
            limiter=finding.limiter.name,
            proposed=str(advice.step) if advice else "",
            alternatives=tuple(str(a.step) for a in finding.advices[1:]),
            changes=tuple(sorted(map(str, outcome.changes))),
            bound=advice.bound if advice else None,
            realised=outcome.ratio,
            low=outcome.interval[0],
            high=outcome.interval[1],
            verdict=verdict_on(finding),
            metric=outcome.metric.text if outcome.metric else "",
            moved=outcome.metric.moved if outcome.metric else None,
            named=bool(finding.named),
        )


def _share(rows: Iterable[Row], some: Sequence[Row]) -> float:
    return len(some) / max(len(list(rows)), 1)


def _of(rows: Iterable[Row], some: Sequence[Row]) -> str:
    everything = list(rows)
    return f"{len(some)} of {len(everything)}, {percent(_share(everything, some))}"


def _median(rows: Iterable[Row]) -> float | None:
    quotients = [row.bound / max(row.realised, 1.0) for row in rows if row.bound is not None]
    return statistics.median(quotients) if quotients else None


def _times(value: float | None) -> str:
    return "" if value is None else ratio(value)
