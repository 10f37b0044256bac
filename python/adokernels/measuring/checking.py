"""Checks of a user's variant of a routine: right or wrong, and its speed against the ladder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.arrays.operands import random_operands
from adokernels.ladders.base import AnyLadder
from adokernels.ladders.routine import Routine
from adokernels.measuring.protocol import sweep
from adokernels.measuring.statistics import Comparison
from adokernels.storage import write
from adokernels.tables.numbers import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from adokernels.measuring.records import Sweep


@dataclass(frozen=True)
class Checked:
    """The result of :func:`adokernels.check`.

    Attributes
    ----------
    routine, variant
        The names of the ladder and of the variant.
    correct
        Whether all of its results are correct.
    reason
        The first wrong result or failure, with its problem; empty if all are correct.
    comparisons
        Its speed against variants of the ladder, by name.
    sweep
        The measurements; None if it was not timed.
    """

    routine: str
    variant: str
    correct: bool
    reason: str = ""
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    sweep: Sweep | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        label = f"{self.routine}[{self.variant}]"
        if not self.correct:
            return f"{label} is wrong: {self.reason}"
        lines = [f"{label} is correct."]
        if self.sweep:
            m = self.sweep[self.variant]
            share = self.sweep.share_of_roof(m)
            roof = f", {share:.0%} of the roof" if share else ""
            lines.append(f"It takes {quantity(m.seconds, 's')}{roof}.")
        return "\n".join([*lines, *map(repr, self.comparisons.values())])

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON types."""
        return {
            "routine": self.routine,
            "variant": self.variant,
            "correct": self.correct,
            "reason": self.reason,
            "comparisons": {
                name: {"verdict": str(c.verdict), "ratio": c.ratio, "interval": list(c.interval)}
                for name, c in self.comparisons.items()
            },
            "sweep": self.sweep.to_dict() if self.sweep else None,
        }

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file."""
        write(path, "check", self.to_dict())


def check(
    variant: Any,
    ladder: AnyLadder[Any],
    *args: Any,
    against: Iterable[str] | None = None,
    timed: bool = True,
    seconds: float = 1.0,
    progress: bool = True,
    **options: Any,
) -> Checked:
    """Check a variant of your own against a ladder: right or wrong, then how fast.

    Its results are compared with the reference on poisoned memory, on small and odd sizes, on the
    operands, and again after timing with fresh values.

    Parameters
    ----------
    variant
        A function, or a variant made by :func:`adokernels.variant` or
        :func:`adokernels.cuda_variant`.
    ladder
        The routine that it computes, or a ladder of your own.
    *args, **options
        Operands and options. Default: random operands of the routine's default problem.
    against
        The variants to compare its speed with. Default: the first variant on the same device, and
        the one that a call runs.
    timed
        Whether to time it.
    seconds
        Upper limit of the sampling time per variant.
    progress
        Show a progress bar on a terminal or in Jupyter.

    Returns
    -------
    Checked
        True if it is correct; with the first failing problem, and the comparisons.

    Raises
    ------
    Unavailable
        If it cannot run here.
    CompilationError
        If its source does not compile.
    """
    if not isinstance(ladder, AnyLadder):
        raise TypeError(f"ladder must be a routine or a ladder, got {type(ladder).__name__}")
    extended = ladder.with_variants(variant)
    ours = extended.variants[-1]
    if reason := ours.why_unavailable:
        raise _core.Unavailable(f"{ours.label}: {reason}")
    if not args and isinstance(ladder, Routine):
        args = random_operands(ladder)
    problem = extended.problem(*args, variant=ours.name, **options)
    call = problem.prepare(ours.name)
    if not timed:
        checker = extended.checker(problem)
        try:
            checker.before(call)
            checker.after(call)
        except ValueError as error:
            return Checked(ladder.name, ours.name, False, str(error))
        return Checked(ladder.name, ours.name, True)
    if against is None:
        others = [
            v.name for v in ladder if v.device == ours.device and v.available and not v.ceiling
        ]
        others = [n for n in others if not problem.why_not(n)]
        best = ladder.problem(*args, device=ours.device, **options).best() if others else None
        against = dict.fromkeys([*others[:1], *([best] if best else [])])
    names = [*against, ours.name]
    timings = sweep(
        extended, *args, device=ours.device, variants=names, seconds=seconds, progress=progress,
        **options,
    )  # fmt: skip
    if ours.name in timings.skipped:
        return Checked(ladder.name, ours.name, False, timings.skipped[ours.name])
    mine = timings[ours.name]
    comparisons = {m.variant: mine.compare(m) for m in timings if m.variant != ours.name}
    return Checked(ladder.name, ours.name, True, "", comparisons, timings)
