"""The accuracy of the diagnoses of whole ladders, including the incorrect ones.

``python -m adobook.score FOLDER...`` scores the stored sweeps of folders: which steps the diagnosis
names, and whether their bounds hold.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path

import adokernels as ado
from adokernels.diagnosis.diagnosis import CONFIRMED
from adokernels.records.limiter import Step
from adokernels.records.sweep import Sweep
from adokernels.tables.diagnoses import verdict_on
from adokernels.text import StrEnum, percent, ratio


class Reason(StrEnum):
    """Reason why a step was not named correctly."""

    NO_GAIN = "the step gained at most 5 % and was not proposed"
    TOO_EARLY = "proposed 'done', but the step gained"
    ALTERNATIVE = "proposed as an alternative only"
    LATER = "a later step of the ladder makes the proposed change"
    UNNAMED = "not proposed at all"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One step of one ladder."""

    ladder: str  # routine and problem
    variant: str  # the diagnosed variant
    next_variant: str
    proposed: str  # the category of the proposed step; empty without a proposal
    alternatives: tuple[str, ...]  # further proposed categories
    changes: tuple[str, ...]  # the categories of the changes of `next_variant`
    bound: float | None  # the largest gain that the proposal allows
    realised: float  # the ratio of the times
    verdict: str  # "held", "violated", "not tested", or "exceeded by another change"
    named: bool  # the proposal is among the changes, or is "done" and the gain is at most 5 %

    @property
    def gained(self) -> bool:
        """Whether `next_variant` is faster by more than 5 %."""
        return self.realised > CONFIRMED


@dataclass(frozen=True)
class Score:
    """The score of the diagnoses of several ladders. Iteration yields the steps."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def named(self) -> list[Row]:
        """Steps that are named correctly: the strict count."""
        return [row for row in self if row.named]

    @property
    def gained(self) -> list[Row]:
        """Steps that gained more than 5 %."""
        return [row for row in self if row.gained]

    @property
    def abstained(self) -> list[Row]:
        """Steps that gained at most 5 % and were correctly not proposed."""
        return [row for row in self if not row.gained and row.proposed not in row.changes]

    @property
    def agreed(self) -> list[Row]:
        """Steps that gained and were named, or did not gain and were not proposed."""
        return [*(row for row in self.gained if row.named), *self.abstained]

    @property
    def tested(self) -> list[Row]:
        """Steps with a tested bound: the next variant makes the change, or "done" is proposed."""
        return [row for row in self if row.verdict in ("held", "violated")]

    @property
    def violated(self) -> list[Row]:
        """Steps with a tested bound that the gain exceeds by more than the noise."""
        return [row for row in self if row.verdict == "violated"]

    @property
    def wrong(self) -> list[Row]:
        """Steps that are not named correctly, or have a violated bound."""
        return [row for row in self if not row.named or row in self.violated]

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

    def summary(self) -> list[tuple[str, str]]:
        """The figures of the score, as text."""
        rows, tested = self.rows, self.tested
        claims = [row for row in rows if row.bound is not None]
        exceeded = [row for row in claims if row.verdict.startswith("exceeded")]
        gained_and_named = [row for row in self.gained if row.named]
        idle = len(rows) - len(self.gained)
        return [
            ("steps", str(len(rows))),
            ("named correctly", _of(self.named, len(rows))),
            ("steps that gained more than 5 %, named", _of(gained_and_named, len(self.gained))),
            ("steps without gain, change not proposed", _of(self.abstained, idle)),
            ("sum of both: agrees with the measured gain", _of(self.agreed, len(rows))),
            ("steps with a bound", str(len(claims))),
            ("  tested by the next variant", str(len(tested))),
            ("  violated", str(len(self.violated))),
            ("  not tested, exceeded by another change", str(len(exceeded))),
            ("median of bound / realised gain, tested bounds", _looseness(tested)),
        ]


def score(sweeps: Iterable[Sweep]) -> Score:
    """Compare the diagnoses of ladders with the changes and gains of the next variants.

    Parameters
    ----------
    sweeps
        Ladders with counters. A step counts if its first variant has counters, its second variant
        states its categories, and the verdict on the two is not withheld.
    """
    return Score(rows=tuple(row for sweep in sweeps for row in _rows(sweep)))


def _rows(sweep: Sweep) -> Iterator[Row]:
    ladder = ", ".join([sweep.routine, *dict.fromkeys(str(m.problem) for m in sweep)])
    for finding in ado.diagnose(sweep):
        outcome, advice = finding.outcome, finding.advice
        if not finding.counted or outcome is None or outcome.changes is None or outcome.reason:
            continue
        yield Row(
            ladder=ladder,
            variant=finding.variant,
            next_variant=outcome.variant,
            proposed=str(advice.step) if advice else "",
            alternatives=tuple(str(a.step) for a in finding.advices[1:]),
            changes=tuple(sorted(map(str, outcome.changes))),
            bound=advice.bound if advice else None,
            realised=outcome.ratio,
            verdict=verdict_on(finding),
            named=bool(finding.named),
        )


def _of(some: Sized, everything: int) -> str:
    return f"{len(some)} of {everything}, {percent(len(some) / max(everything, 1))}"


def _looseness(rows: Iterable[Row]) -> str:
    """The median ratio of bound to realised gain. Gains below 1 count as 1."""
    quotients = [row.bound / max(row.realised, 1.0) for row in rows if row.bound is not None]
    return ratio(statistics.median(quotients)) if quotients else ""


def main() -> None:
    """Print the scores of the records in folders."""
    paths = [path for folder in sys.argv[1:] for path in sorted(Path(folder).glob("*.json*"))]
    records = [ado.load(path) for path in paths]
    found = score(record for record in records if isinstance(record, Sweep))
    print(*(f"{name}: {value}" for name, value in found.summary()), sep="\n")


if __name__ == "__main__":
    main()
