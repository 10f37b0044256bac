"""The limiter that experiments show, its certainty, and the next step.

The rules of :mod:`adokernels.diagnosis.cpu_rules` and :mod:`adokernels.diagnosis.gpu_rules` are
applied to the median times, and to resampled times with random systematic errors. The certainty is
the fraction of the resampled sets that lead to the same limiter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from adokernels.diagnosis import cpu_rules, gpu_rules
from adokernels.diagnosis.times import Found, Proposal, Times, resampled, say
from adokernels.records.experiments import Experiments
from adokernels.records.limiter import Kind, Limiter
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.text import percent

#: Resampled sets of times.
_RESAMPLED = 100
#: A limiter is named if at least this fraction of the resampled sets leads to it.
_CERTAIN = 0.6


def by_experiment(m: Measurement, machine: Machine | None) -> Limiter | None:
    """The limiter of a variant that has experiments; None if they do not suffice."""
    if m.experiments is None:
        return None
    found, certainty = _decided(m.experiments, _Key(m, machine))
    if found is None:
        return None
    if certainty < _CERTAIN:
        text = f"the times lead to {found.kind} in only {percent(certainty)} of the resampled sets"
        found = dataclasses.replace(
            found, kind=Kind.UNKNOWN, unit="", share=None, evidence=(*found.evidence, say(text))
        )
    return Limiter(
        kind=found.kind,
        unit=found.unit,
        share=found.share,
        evidence=found.evidence,
        certainty=certainty,
    )


class _Key:
    """The arguments of :func:`_decided` that its cache does not compare."""

    def __init__(self, m: Measurement, machine: Machine | None) -> None:
        self.m, self.machine = m, machine

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.machine is other.machine

    def __hash__(self) -> int:
        return id(self.machine)


@lru_cache(maxsize=512)
def _decided(_: Experiments, key: _Key) -> tuple[Found | None, float]:
    """The limiter, and the fraction of resampled sets of times that lead to it."""
    decide = (cpu_rules if key.m.device == "cpu" else gpu_rules).decide
    found = decide(Times(key.m, key.machine))
    if found is None:
        return None, 0.0
    rng = np.random.default_rng(0)
    others = [decide(t) for t in resampled(key.m, key.machine, rng, _RESAMPLED)]
    return found, sum(o is not None and o.name == found.name for o in others) / _RESAMPLED


def proposals(m: Measurement, machine: Machine | None) -> Iterator[Proposal]:
    """Propose the next steps of a variant that has experiments, the best first."""
    found = by_experiment(m, machine)
    if found is not None and m.experiments is not None:
        rules = cpu_rules if m.device == "cpu" else gpu_rules
        yield from rules.proposals(Times(m, machine), found)
