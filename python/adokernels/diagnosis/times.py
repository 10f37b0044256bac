"""The times of experiments as input of the rules for limiters, and the results of the rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from adokernels.diagnosis.evidence import ceiling_named, highest_of_dram
from adokernels.records.experiments import SMALLEST, Run
from adokernels.records.limiter import Evidence, Kind, Provenance, Step
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement

#: Standard deviations of systematic errors, relative: of the time of a run, and of a ceiling.
_ERROR_OF_RUN, _ERROR_OF_CEILING = 0.05, 0.1
#: A call has hardly any work if its work is at most this fraction of another call's work. Its time
#: is then subtracted from the other call's time. At least the second fraction of that time remains.
_NO_WORK, _LEAST_LEFT = 0.1, 0.2
#: The memory levels, the farthest last.
_LEVELS = ("L1", "L2", "L3", "DRAM")

#: A proposed step, the sentence, the bound of its gain or None, and the basis of the bound.
Proposal = tuple[Step, str, float | None, str]


@dataclass(frozen=True)
class Found:
    """The result of the rules for one set of times."""

    kind: Kind
    unit: str = ""
    share: float | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def name(self) -> tuple[Kind, str]:
        """The fields by which results for resampled times are compared."""
        return self.kind, self.unit


class Times:
    """The runs of one variant with one set of times, and quantities that follow from them.

    `times` has one time per run; by default, the medians. `errors` are factors of the ceilings
    of the experiments and of the machine.
    """

    def __init__(
        self,
        m: Measurement,
        machine: Machine | None,
        times: Sequence[float] | None = None,
        errors: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        assert m.experiments is not None
        self.m, self.x, self.machine = m, m.experiments, machine
        chosen = [run.time for run in self.x.runs] if times is None else times
        self._times = {id(run): time for run, time in zip(self.x.runs, chosen, strict=True)}
        self._one, self._all = errors

    def of(self, run: Run) -> float:
        """The time of a call."""
        return self._times[id(run)]

    def per_work(self, run: Run) -> float:
        """The time per unit of work, without the time of a call with hardly any work."""
        return self._working(run) / run.work if run.work else math.inf

    def _working(self, run: Run) -> float:
        call = next((r for r in self.x.runs if (r.size, r.cache) == (SMALLEST, "warm")), None)
        if call is None or run.cache == "cold" or call.work > _NO_WORK * run.work:
            return self.of(run)
        return max(self.of(run) - self.of(call), _LEAST_LEFT * self.of(run))

    def ratio(self, run: Run | None, base: Run | None) -> float | None:
        """The time of a call relative to another run, or None if a run is missing."""
        return self.of(run) / self.of(base) if run and base else None

    def one(self, name: str) -> float | None:
        """A ceiling of the experiments: of the threads of the runs in caches, or of a GPU."""
        found = self.x.ceilings.get(name)
        return found * self._one if found else None

    def read(self, level: str) -> float | None:
        """The bandwidth of a level, or of the next farther level if its ceiling was refused."""
        farther = _LEVELS[_LEVELS.index(level) :]
        return next(filter(None, (self.one(f"{name} read") for name in farther)), None)

    def everything(self, level: str) -> float | None:
        """The bandwidth that all threads reach."""
        found = ceiling_named(self.machine, f"{level} read")
        if level == "DRAM":
            found = highest_of_dram(self.machine) or None
        return found * self._all if found else None


def resampled(
    m: Measurement, machine: Machine | None, rng: np.random.Generator, count: int
) -> Iterator[Times]:
    """Draw sets of times from the samples, with random systematic errors."""
    assert m.experiments is not None
    medians = [
        np.median(rng.choice(run.seconds, (count, len(run.seconds))), axis=1)
        for run in m.experiments.runs
    ]
    drawn = np.array(medians) * np.exp(rng.normal(0, _ERROR_OF_RUN, (len(medians), count)))
    errors = np.exp(rng.normal(0, _ERROR_OF_CEILING, (count, 2)))
    for times, (one, everything) in zip(drawn.T.tolist(), errors.tolist(), strict=True):
        yield Times(m, machine, times, (one, everything))


def say(text: str, value: float = 0.0, threshold: float | None = None) -> Evidence:
    """Make evidence from experiments."""
    return Evidence(text, value, threshold, Provenance.EXPERIMENT)
