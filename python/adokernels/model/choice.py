"""The variant that a call runs, and why."""

from __future__ import annotations

from dataclasses import dataclass


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
