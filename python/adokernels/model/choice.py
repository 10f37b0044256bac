"""The variant that a call runs, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from adokernels import _core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adokernels.model.task import Task


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


class Candidate(Protocol):
    """A variant, as far as the choice depends on it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def device(self) -> str:
        """Its device."""

    @property
    def why_unavailable(self) -> str:
        """Reason why it cannot run here; else empty."""

    def refusal(self, operands: Sequence[Any], options: Mapping[str, Any]) -> str:
        """Reason why it cannot solve a problem; empty if it can."""


class Candidates(Protocol):
    """A ladder, as far as the choice depends on it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def task(self) -> Task:
        """What it computes."""

    @property
    def variants(self) -> Sequence[Candidate]:
        """Its variants in order."""

    def __getitem__(self, name: str) -> Candidate:
        """The variant with this name."""


def choose(
    ladder: Candidates,
    args: Sequence[Any],
    options: Mapping[str, Any],
    device: str | None = None,
    out: Any = None,
    gpu: tuple[int, int, int] | None = None,
) -> Choice:
    """Choose the variant that a call runs, for this machine or for a given GPU.

    For a built-in ladder, also with own variants, it is a built-in variant, which the core chooses.
    For an own ladder, it is the last variant that can run here and can solve the problem.

    Parameters
    ----------
    ladder, args, options, out
        The call.
    device
        Where it runs; it must be given for an own ladder.
    gpu
        The number of multiprocessors, the L2 capacity in bytes and the maximum shared memory per
        block in bytes of a GPU. With it, no GPU is needed.

    Raises
    ------
    Unavailable
        If no variant can run and solve the problem; the message contains the reasons.
    """
    if core := ladder.task.core:
        name, later = core.choose(tuple(args), dict(options), device, out, gpu)
        return Choice(ladder.name, name, ladder[name].device, dict(later))
    kind = (device or "cpu").partition(":")[0]
    skipped: dict[str, str] = {}
    for variant in reversed([v for v in ladder.variants if v.device == kind]):
        reason = variant.why_unavailable or variant.refusal(args, options)
        if not reason:
            return Choice(ladder.name, variant.name, kind, skipped)
        skipped[variant.name] = reason
    listed = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
    raise _core.Unavailable(
        f"no variant can solve this problem on {kind} ({listed or 'no variants'})"
    )
