"""Records of experiments on the kernels of a variant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from adokernels.records.forms import Amount, Block, Context, Count
from adokernels.records.record import Entries, Fields, StoredRecord
from adokernels.records.shown import ShownAsTables

Verdict = Literal["sound", "weak", "refused"]


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
    """

    experiment: str
    meaning: str
    rewritten: Count
    accesses: Count
    count: str = ""
    before: Amount = 0.0
    after: Amount = 0.0
    place: str = ""
    reason: str = ""
    code: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Whether the proof holds on the emulator and in machine code."""
        return "refused" if self.reason else "weak" if self.code else "sound"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WhatIf(StoredRecord, ShownAsTables, Entries[Trial]):
    """Experiments on the kernels of a variant; a sequence of trials.

    Attributes
    ----------
    routine, variant, problem, block
        The call whose kernels were changed. For a function, the routine is empty, and the variant
        is its name.
    source
        The place where the kernels were executed: ``"emulator"``.
    kernels
        The names of the kernels.
    trials
        One entry per experiment.
    context
        Machine, software and settings.
    """

    KIND = "what_if"
    _ENTRIES = ("trials",)

    routine: str
    variant: str
    problem: str
    block: Block | None
    source: str
    kernels: tuple[str, ...]
    trials: tuple[Trial, ...]
    context: Context = field(default_factory=dict)

    def trial(self, experiment: str) -> Trial:
        """The trial of an experiment.

        Raises
        ------
        KeyError
            If there is no such experiment.
        """
        found = {trial.experiment: trial for trial in self.trials}
        if experiment not in found:
            raise KeyError(f"experiment must be one of {', '.join(found)}, got {experiment!r}")
        return found[experiment]
