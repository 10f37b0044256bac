"""Predicted and realised gains of stored steps: the fit of the prediction, and its test.

``python -m adobook.gains`` prints the fitted constants of ``adokernels.diagnosis.prediction`` and
two scores: with these constants, and with constants that were fitted to the other routines.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

import adokernels as ado
from adobook.text import table
from adokernels.diagnosis import prediction
from adokernels.diagnosis.advice import bound_of
from adokernels.diagnosis.diagnosis import CONFIRMED
from adokernels.diagnosis.evidence import Facts
from adokernels.diagnosis.prediction import Prediction
from adokernels.text import percent, ratio

#: The quantiles of the interval.
_QUANTILES = (0.1, 0.9)


@dataclass(frozen=True)
class Gain:
    """One step of a ladder: the logarithms of the largest and of the realised ratio of times."""

    routine: str
    variant: str
    next_variant: str
    largest: float
    bound: float
    realised: float


#: The quantiles of the deviations, which make the interval.
_Deviations = tuple[float, float]


def gains(sweeps: Iterable[ado.records.Sweep]) -> Iterator[Gain]:
    """The steps of ladders with counters whose variants state their changes."""
    for sweep in sweeps:
        for finding in ado.diagnose(sweep):
            outcome, m = finding.outcome, sweep[finding.variant]
            if not finding.counted or outcome is None or not outcome.changes or outcome.reason:
                continue
            facts = Facts(m, sweep.machine)
            bounds = (bound_of(facts, step)[0] for step in outcome.changes)
            bound = min((b for b in bounds if b is not None), default=math.inf)
            removed = max(prediction.removable(facts, step) for step in outcome.changes)
            yield Gain(
                sweep.routine,
                finding.variant,
                outcome.variant,
                prediction.headroom(removed, bound),
                bound,
                math.log(outcome.ratio),
            )


def fit(steps: Iterable[Gain]) -> _Deviations:
    """Fit the interval to steps: the quantiles of the deviations from the prediction.

    Each routine has the same weight, because predictions are for steps of unknown routines.
    """
    known = list(steps)
    number = Counter(g.routine for g in known)
    deviations = [
        (g.realised - prediction.REALISED * g.largest) / (prediction.FLOOR + g.largest)
        for g in known
    ]
    weights = [1 / number[g.routine] for g in known]
    low, high = np.quantile(deviations, _QUANTILES, weights=weights, method="inverted_cdf")
    return float(low), float(high)


@dataclass(frozen=True, repr=False)
class GainScore:
    """Predictions beside realised gains."""

    pairs: tuple[tuple[Gain, Prediction], ...]

    @property
    def errors(self) -> list[float]:
        """The factor between the predicted and the realised ratio of each step, at least 1."""
        return [math.exp(abs(math.log(p.gain) - g.realised)) for g, p in self.pairs]

    @property
    def inside(self) -> int:
        """Steps whose realised gain is inside the interval."""
        return sum(math.exp(g.realised) in p for g, p in self.pairs)

    def summary(self) -> list[tuple[str, str]]:
        """The figures of the score, as text."""
        none = [math.exp(abs(g.realised)) for g, _ in self.pairs]
        gained = [i for i, (g, _) in enumerate(self.pairs) if math.exp(g.realised) > CONFIRMED]
        widths = [p.high / p.low for _, p in self.pairs]
        share = percent(self.inside / max(len(self.pairs), 1))
        return [
            ("steps", str(len(self.pairs))),
            ("median error, as a factor", _median(self.errors)),
            ("  of steps that gained more than 5 %", _median(self.errors[i] for i in gained)),
            ("  if no gain were predicted", _median(none)),
            ("  and of steps that gained more than 5 %", _median(none[i] for i in gained)),
            ("inside the interval", f"{self.inside} of {len(self.pairs)}, {share}"),
            ("median width of the interval, as a factor", _median(widths)),
        ]

    def __repr__(self) -> str:
        return str(table(("quantity", "value"), self.summary()))


def _median(values: Iterable[float]) -> str:
    known = list(values)
    return ratio(statistics.median(known)) if known else ""


def scored(steps: Iterable[Gain], deviations: _Deviations = prediction.DEVIATIONS) -> GainScore:
    """Score the predictions for steps."""
    expected = prediction.expected
    return GainScore(tuple((g, expected(g.largest, g.bound, deviations)) for g in steps))


def leave_one_out(steps: Iterable[Gain], everything: Iterable[Gain]) -> GainScore:
    """Score each step with an interval that was fitted to the steps of all other routines."""
    known, others = list(steps), list(everything)
    pairs: list[tuple[Gain, Prediction]] = []
    for routine in dict.fromkeys(g.routine for g in known):
        deviations = fit(g for g in others if g.routine != routine)
        pairs += scored((g for g in known if g.routine == routine), deviations).pairs
    return GainScore(tuple(pairs))


def fitted() -> list[Gain]:
    """The steps to which the constants are fitted: of the stored ladders and of sets in `TUNED`."""
    from adobook.pages.stored import TUNED, sweeps, unseen

    return list(gains([*sweeps().values(), *(s for n in TUNED for s in unseen()[n].values())]))


def main() -> None:
    """Print the constants and both scores."""
    known = fitted()
    print(fit(known), scored(known), leave_one_out(known, known), sep="\n\n")


if __name__ == "__main__":
    main()
