"""The record of a check: the correctness and the speed of a variant."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from adokernels.records.forms import Positive
from adokernels.records.record import StoredRecord
from adokernels.records.statistics import Comparison
from adokernels.records.sweep import Sweep
from adokernels.text import percent, printable, quantity

_LONGEST_NAME, _LONGEST_REASON = 200, 10_000  # characters


@dataclass(frozen=True, repr=False, eq=False)
class CheckResult(StoredRecord):
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
        The measurements of the variant and of the ladder, or None if it was not timed.
    seconds
        Its median time per call, or None if it was not timed.
    ratio, verdict
        The result of the last comparison, with the fastest variant of the ladder by default: how
        many times faster it is, and ``"faster"``, ``"slower"``, ``"same"`` or ``"unclear"``.
    isolated
        Whether it ran in a process of its own.
    refused
        The sizes and values on which it was not checked, because it or the reference refuses them,
        with the reasons.
    """

    KIND = "check"

    routine: str
    variant: str
    correct: bool
    reason: str = ""
    sweep: Sweep | None = None
    seconds: Positive | None = None
    ratio: Positive | None = None
    verdict: str = ""
    isolated: bool = False
    refused: tuple[str, ...] = ()

    @classmethod
    def of_sweep(cls, sweep: Sweep, variant: str, **facts: Any) -> CheckResult:
        """The result for a variant that is correct and was timed."""
        found = cls(sweep.routine, variant, True, sweep=sweep, **facts)
        last = next(reversed(found.comparisons.values()), None)
        ratio, verdict = (last.ratio, str(last.verdict)) if last else (None, "")
        seconds = sweep[variant].seconds
        return dataclasses.replace(found, seconds=seconds, ratio=ratio, verdict=verdict)

    @property
    def comparisons(self) -> dict[str, Comparison]:
        """The comparisons with the measured variants of the ladder, by name."""
        if self.sweep is None:
            return {}
        mine = self.sweep[self.variant]
        comparable = (m for m in self.sweep if m.is_like(mine))
        return {m.variant: mine.compare(m) for m in comparable if m is not mine}

    def _contradiction(self) -> str:
        names = [m.variant for m in self.sweep] if self.sweep is not None else [self.variant]
        return "" if self.variant in names else "variant must be in the sweep"

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        label = printable(f"{self.routine}[{self.variant}]", _LONGEST_NAME)
        if not self.correct:
            reason = self.reason.removeprefix("wrong result: ")
            return f"{label} is wrong: {printable(reason, _LONGEST_REASON, lines=True)}"
        lines = [f"{label} is correct."]
        if self.refused:
            lines.append(f"It was not checked on {len(self.refused)} problems, which are refused:")
            lines += [f"  {printable(each, _LONGEST_NAME)}" for each in self.refused]
        if self.sweep:
            m = self.sweep[self.variant]
            nearest = self.sweep.nearest_limit(m)
            limit = f", {percent(nearest.share)} of the {nearest.name}" if nearest else ""
            if nearest and not nearest.applies:
                limit += f": {self.sweep.why_above(nearest.name)}"
            problem = printable(str(m.problem), _LONGEST_NAME)
            lines.append(f"It takes {quantity(m.seconds, 's')} with {problem}{limit}.")
            if nearest and self.sweep.machine and self.sweep.machine.remark:
                lines.append(f"Note: {self.sweep.machine.remark}.")
            if m.shown_error:
                lines.append(f"Its largest error is {m.shown_error}.")
        return "\n".join([*lines, *map(repr, self.comparisons.values())])
