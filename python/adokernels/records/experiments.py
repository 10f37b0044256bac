"""Records of experiments: a CPU variant timed under changed conditions, to find its limiter.

Each run changes one condition of the measurement; the ratio of the times shows how much the variant
depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from adokernels.records.forms import Amount, Count, Seconds
from adokernels.records.record import Fields

#: The size of a run with the operands of the measurement.
GIVEN = "given"
#: The size of a run whose operands have one element per long dimension.
SMALLEST = "smallest"

_CONDITIONS = ("size", "cache", "isa", "threads")


@dataclass(frozen=True, kw_only=True, eq=False)
class Run(Fields):
    """The times of a variant under stated conditions.

    The sizes ``"L1"``, ``"L2"`` and ``"L3"`` are operands and results that fit in this cache.
    """

    size: str = GIVEN
    cache: str  # "cold" or "warm", as for measurements
    isa: str = ""  # the instruction set of a variant; empty for functions
    threads: Count = 0  # the largest number that a variant may use; 0 if unknown
    seconds: Seconds  # per call, without the longest wait of a thread for a processor
    disturbed: Amount = 0.0  # the share of the samples in which a thread waited for a processor
    processors: Amount = 0.0  # the mean number that the process used; 0 if not measured
    flops: Amount  # that the variant executes, and bytes that it requests, from its own formulas
    bytes: Amount
    footprint: Amount  # bytes of operands and results

    @cached_property
    def time(self) -> float:
        """The median time of a call."""
        return float(np.median(self.seconds))

    @property
    def work(self) -> float:
        """The amount of work of a call: executed FLOPs, or requested bytes without FLOPs."""
        return self.flops or self.bytes

    @property
    def conditions(self) -> str:
        """The conditions in words, for example ``"L1, 1 thread, avx2"``."""
        threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}" if self.threads else ""
        parts = (self.size, self.cache, threads, self.isa)
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiments(Fields):
    """The runs of one variant, the first under the conditions of its measurement.

    Attributes
    ----------
    runs
        The runs, in order of priority. Runs that would have taken too long are missing.
    ceilings
        Measured ceilings of one thread, for example ``"L2 read"`` in bytes per second. Empty if
        they were not measured.
    cores
        Processors that the variant could have used.
    """

    runs: tuple[Run, ...]
    ceilings: Mapping[str, Amount] = field(default_factory=dict)
    cores: Count = 0

    @property
    def given(self) -> Run:
        """The run under the conditions of the measurement."""
        return self.runs[0]

    def _contradiction(self) -> str:
        return "" if self.runs else "runs must contain at least one run, got none"

    def find(self, like: Run, **changed: object) -> Run | None:
        """The run with the conditions of `like`, except for `changed`; None if there is none."""
        wanted = {name: getattr(like, name) for name in _CONDITIONS} | changed
        matches = (r for r in self.runs if all(getattr(r, n) == v for n, v in wanted.items()))
        return next(matches, None)
