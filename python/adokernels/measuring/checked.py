"""The record of a check: right or wrong, and how fast."""

from __future__ import annotations

from dataclasses import dataclass

from adokernels.measuring.records import Sweep
from adokernels.measuring.statistics import Comparison
from adokernels.storage import StoredRecord
from adokernels.tables.numbers import percent, quantity


@dataclass(frozen=True, repr=False)
class Checked(StoredRecord):
    """The result of :func:`adokernels.check`; true if the variant is correct.

    Attributes
    ----------
    routine, variant
        The names of the ladder and of the variant.
    correct
        Whether all of its results are correct.
    reason
        The first wrong result or failure, with its problem; empty if all are correct.
    sweep
        The measurements with those of the ladder; None if it was not timed.
    """

    KIND = "check"

    routine: str
    variant: str
    correct: bool
    reason: str = ""
    sweep: Sweep | None = None

    @property
    def comparisons(self) -> dict[str, Comparison]:
        """Its speed against the measured variants of the ladder, by name."""
        if self.sweep is None:
            return {}
        mine = self.sweep[self.variant]
        others = [m for m in self.sweep if m is not mine]
        return {m.variant: mine.compare(m) for m in others}

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        label = f"{self.routine}[{self.variant}]"
        if not self.correct:
            return f"{label} is wrong: {self.reason.removeprefix('wrong result: ')}"
        lines = [f"{label} is correct."]
        if self.sweep:
            m = self.sweep[self.variant]
            share = self.sweep.share_of_roof(m)
            roof = f", {percent(share)} of the roof" if share else ""
            lines.append(f"It takes {quantity(m.seconds, 's')}{roof}.")
        return "\n".join([*lines, *map(repr, self.comparisons.values())])
