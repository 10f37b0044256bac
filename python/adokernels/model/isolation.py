"""Own variants in sandboxes: ``isolated=True``. docs/grading.md describes the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from adokernels.model.cuda_variant import CudaVariant
from adokernels.model.isolated_call import Candidate, IsolatedCall
from adokernels.model.isolated_kernel import KernelCall
from adokernels.model.own_ladder import OwnLadder, extended
from adokernels.model.own_variant import OwnVariant

if TYPE_CHECKING:
    from typing_extensions import Self

    from adokernels.model.ladder import Ladder
    from adokernels.model.problem import Block, Problem
    from adokernels.model.source import Source

#: Seconds that a call may take, by default.
TIMEOUT = 60.0


class Isolation:
    """The sandboxes of the own variants of a comparison. It ends them when its context ends."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._opened: list[Candidate] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for candidate in self._opened:
            candidate.close()

    def ladder(self, ladder: Ladder) -> OwnLadder:
        """The ladder with its own variants in sandboxes."""
        found = extended(ladder, ())
        for variant in ladder:
            if isinstance(variant, OwnVariant) and not isinstance(variant, IsolatedVariant):
                found.replace(IsolatedVariant.of_variant(variant, self))
        return found

    def open(self, variant: OwnVariant) -> Candidate:
        """Start a sandbox for a variant."""
        self._opened.append(Candidate(variant, self.timeout))
        return self._opened[-1]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class IsolatedVariant(OwnVariant):
    """An own variant whose calls run in a sandbox."""

    original: OwnVariant
    isolation: Isolation
    opened: list[Candidate] = field(default_factory=list)

    @classmethod
    def of_variant(cls, original: OwnVariant, isolation: Isolation) -> Self:
        """The variant in a sandbox, which starts at the first call."""
        copied = {f.name: getattr(original, f.name) for f in fields(OwnVariant)}
        return cls(**copied, original=original, isolation=isolation)

    @property
    def candidate(self) -> Candidate:
        """Its sandbox."""
        if not self.opened:
            self.opened.append(self.isolation.open(self.original))
        return self.opened[0]

    def prepare(self, problem: Problem, block: Block | None = None) -> IsolatedCall:
        """Prepare a call in the sandbox."""
        if isinstance(self.original, CudaVariant):
            return KernelCall(self, self.candidate, problem, self.original.prepare(problem, block))
        if block is not None:
            raise ValueError(f"block must be None for the function {self.label}, got {block}")
        return IsolatedCall(self, self.candidate, problem)

    def why_unavailable_on(self, device: str) -> str:
        """Reason why it cannot run on a device; else empty."""
        return self.original.why_unavailable_on(device)

    @property
    def source(self) -> Source:
        """Its source code."""
        return self.original.source
