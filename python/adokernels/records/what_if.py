"""Records of experiments on the kernels of a variant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Literal

from adokernels.records.forms import Amount, Block, Context, Count
from adokernels.records.record import Entries, Fields, StoredRecord
from adokernels.records.shown import ShownAsTables
from adokernels.records.sweep import Sweep

Verdict = Literal["sound", "weak", "refused"]
Clear = Literal["", "faster", "slower", "same", "unclear"]
#: Experiments that no correct kernel can realise: they show what memory costs.
_BOUNDS = ("loads hit L1", "no stores")
#: Experiments that launch the original kernels with fewer resources.
HALF_OCCUPANCY, HALF_GPU = "half the resident blocks", "half the multiprocessors"
#: A switch that changes the time by more than this share makes a trial weak.
MOST_INTRUSION = 0.2
#: The growth of the time up to which instructions can be added.
HEADROOM = 0.05


@dataclass(frozen=True, kw_only=True)
class Trial(Fields):
    """One experiment: what it changed, and the proof.

    Attributes
    ----------
    experiment, meaning
        The name of the experiment, and what its result shows and does not show.
    rewritten, accesses
        The number of accesses that it changed, and the number that it should change. Accesses are
        instructions of PTX that the call executes.
    count, before, after
        The name of the quantity that it changes, and its value with the switch off and on. If the
        experiment was refused, the name is empty and the values are 0.
    place
        The source line with most of the change; empty if it is unknown.
    reason
        Why it was refused; empty otherwise.
    code
        Differences in machine code other than the switch. With differences, the trial is weak.
    seconds, off_seconds
        On a GPU: the median time of the changed kernels, and of the same machine code with the
        switch off; otherwise 0.
    interval
        On a GPU: the confidence interval of the gain. All intervals of a table together are wrong
        in at most 0.1 % of the tables.
    clear
        On a GPU: whether the changed kernels are ``"faster"``, ``"slower"``, ``"same"``, or
        ``"unclear"``.
    dose
        The number of instructions that are added to each arithmetic instruction; 0 if none are.
        `count` is their kind. Added instructions cost time, so there is no gain.
    added
        The number of added instructions, relative to all executed instructions of PTX.
    intrusion
        On a GPU: the time with the switch off, divided by the time of the original kernels. If it
        differs from 1 by more than 20 %, the trial is weak.
    """

    experiment: str
    meaning: str
    rewritten: Count
    accesses: Count
    dose: Count = 0
    added: Amount = 0.0
    count: str = ""
    before: Amount = 0.0
    after: Amount = 0.0
    place: str = ""
    reason: str = ""
    code: tuple[str, ...] = ()
    seconds: Amount = 0.0
    off_seconds: Amount = 0.0
    interval: tuple[Amount, Amount] = (0.0, 0.0)
    clear: Clear = ""
    intrusion: Amount = 1.0

    @property
    def verdict(self) -> Verdict:
        """Whether the proof holds on the emulator and in machine code, and the switch is cheap."""
        if self.reason:
            return "refused"
        return "weak" if self.code or abs(self.intrusion - 1) > MOST_INTRUSION else "sound"

    @property
    def gain(self) -> float:
        """The time with the switch off, divided by the time with the switch on; 0 if unknown."""
        return self.off_seconds / self.seconds if self.seconds and not self.dose else 0.0

    def adds(self, kind: str) -> bool:
        """Whether it is sound, has times, and adds instructions of a kind."""
        added = self.dose and self.seconds and self.verdict == "sound"
        return bool(added) and self.count == f"{kind} instructions"

    @property
    def growth(self) -> float:
        """The relative increase in time caused by added instructions."""
        return self.seconds / self.off_seconds - 1 if self.seconds and self.dose else 0.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WhatIf(StoredRecord, ShownAsTables, Entries[Trial]):
    """Experiments on the kernels of a variant; a sequence of trials.

    Attributes
    ----------
    routine, variant, problem, block
        The call whose kernels were changed. For a function, the routine is empty, and the variant
        is its name.
    source
        The place where the kernels were executed: ``"emulator"``, or the name of the GPU.
    kernels
        The names of the kernels.
    trials
        One entry per experiment.
    lines
        With ``per_line=True``: the experiment with the largest gain on one source line at a time.
    cache, seconds
        On a GPU: the state of the caches, and the median time of the original kernels.
    context
        Machine, software and settings.
    """

    KIND = "what_if"
    _ENTRIES = ("trials",)
    _NAME = "experiment"

    routine: str
    variant: str
    problem: str
    block: Block | None
    source: str
    kernels: tuple[str, ...]
    trials: tuple[Trial, ...]
    lines: tuple[Trial, ...] = ()
    cache: Literal["", "cold", "warm"] = ""
    seconds: Amount = 0.0
    context: Context = field(default_factory=dict)

    @property
    def largest(self) -> Trial | None:
        """The sound trial with the largest gain that is clear; None if no gain is clear."""
        return largest(self.trials)

    @property
    def promise(self) -> Trial | None:
        """Like `largest`, without loads that hit L1 and without the omitted stores.

        A correct kernel cannot make these two changes, so they are no promises for a next step.
        """
        return largest(t for t in self.trials if t.experiment not in _BOUNDS)

    def headroom(self, kind: str) -> float | None:
        """The added instructions per instruction at which the time has grown by 5 %.

        Interpolated, per arithmetic instruction of the most important kind. The result is infinite
        if the time grows by less, and None if no sound trial adds such instructions.
        """
        points = [(t.dose, t.growth) for t in self.trials if t.adds(kind)]
        for (dose, growth), (more, then) in pairwise([(0, 0.0), *sorted(points)]):
            if then >= HEADROOM:
                return dose + (HEADROOM - growth) / (then - growth) * (more - dose)
        return inf if points else None

    def is_of(self, sweep: Sweep) -> bool:
        """Whether a sweep has the same variant, problem and state of the caches."""
        call = self.routine, self.variant, self.problem, self.cache
        return call in {(sweep.routine, m.variant, str(m.problem), m.cache) for m in sweep}

    def trial(self, experiment: str) -> Trial:
        """The trial of an experiment.

        Raises
        ------
        KeyError
            If there is no such experiment.
        """
        return self[experiment]

    def _why_not(self, which: str, names: list[str]) -> str:
        return f"experiment must be one of {', '.join(names)}, got {which!r}"


def largest(trials: Iterable[Trial]) -> Trial | None:
    """The sound trial with the largest gain that is clear; None if no gain is clear."""
    clear = [t for t in trials if t.verdict == "sound" and t.clear == "faster" and not t.dose]
    return max(clear, key=lambda t: t.gain, default=None)
