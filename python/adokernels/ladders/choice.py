"""The variant that a call runs, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adokernels.ladders.routine import Routine


@dataclass(frozen=True)
class Choice:
    """The variant that a call runs, and why later variants of the ladder do not run.

    Attributes
    ----------
    routine, variant : str
        Their names.
    device : str
        ``"cpu"`` or ``"cuda"``.
    skipped : dict of str to str
        Later variants of the ladder, starting with the last, and why each is skipped: it cannot
        run here, it cannot solve the problem, or another variant is faster for the problem.
    """

    routine: str
    variant: str
    device: str
    skipped: dict[str, str]

    @property
    def reason(self) -> str:
        """Why this variant runs, in one sentence."""
        if not self.skipped:
            return f"It is the last variant of the ladder on {self.device}."
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.skipped.items())
        return f"It is the last variant of the ladder that is not skipped ({reasons})."

    def __repr__(self) -> str:
        return f"{self.routine} runs {self.variant!r} on {self.device}. {self.reason}"


def choose(
    routine: Routine,
    args: Sequence[Any],
    options: Mapping[str, Any],
    device: str | None = None,
    out: Any = None,
    gpu: tuple[int, int, int] | None = None,
) -> Choice:
    """Return the choice of :meth:`Routine.choose`, for this machine or for a given GPU.

    `gpu` is the number of multiprocessors, the L2 capacity in bytes and the maximum shared memory
    per block in bytes; with it, no GPU is needed.
    """
    variant, skipped = routine._core.choose(tuple(args), dict(options), device, out, gpu)
    return Choice(routine.name, variant, routine[variant].device, dict(skipped))
