"""Own variants in sandboxes: ``isolated=True``. docs/grading.md describes the protocol."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from adokernels.model.cuda_variant import CudaVariant
from adokernels.model.isolated_call import IsolatedCall
from adokernels.model.isolated_kernel import KernelCall
from adokernels.model.isolated_process import Candidate
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
        self._twins: dict[str, Candidate] = {}  # by device

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
                own: dict[str, Any] = {f.name: getattr(variant, f.name) for f in fields(OwnVariant)}
                own |= {"original": variant, "isolation": self, "candidate": self.open(variant)}
                found.replace(IsolatedVariant(**own))
        return found

    def open(self, variant: OwnVariant | None) -> Candidate:
        """A sandbox for a variant, which starts with the first call."""
        self._opened.append(Candidate(variant, self.timeout))
        return self._opened[-1]

    def twin(self, device: str) -> Candidate:
        """A process like that of a candidate, but one that never loads a function."""
        if device not in self._twins:
            self._twins[device] = self.open(None)
        return self._twins[device]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class IsolatedVariant(OwnVariant):
    """An own variant whose calls run in a sandbox."""

    original: OwnVariant
    isolation: Isolation
    candidate: Candidate

    def prepare(self, problem: Problem, block: Block | None = None) -> IsolatedCall:
        """Prepare a call in the sandbox."""
        if isinstance(self.original, CudaVariant):
            plan = self.original.prepare(problem, block)
            return KernelCall(self, problem, self.candidate, plan)
        if block is not None:
            raise ValueError(f"block must be None for the function {self.label}, got {block}")
        twin = self.isolation.twin(problem.device)
        return IsolatedCall(self, problem, self.candidate, twin)

    def why_unavailable_on(self, device: str) -> str:
        """Reason why it cannot run on a device; else empty."""
        return self.original.why_unavailable_on(device)

    @property
    def source(self) -> Source:
        """Its source code."""
        return self.original.source
