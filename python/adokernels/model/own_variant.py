"""What own variants, functions and kernels in CUDA source, have in common."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.model.ladder import Ladder, Variant
from adokernels.model.problem import Block, Call, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adokernels.records.kernels import Resources
    from adokernels.records.sass import Sass


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnVariant(Variant):
    """One own implementation of a computation.

    Attributes
    ----------
    name
        Unique within its ladder.
    device
        ``"cpu"`` or ``"cuda"``.
    changes
        The difference from the previous variant, in one sentence.
    owner
        The ladder that it belongs to; None if it belongs to no ladder.
    flops, bytes
        FLOPs that it executes and bytes that it requests, as numbers or functions of the operands.
        Default: the useful FLOPs and the compulsory bytes.
    refuses
        A function of the operands. It returns the reason why the variant cannot solve a problem, or
        None.
    """

    name: str
    device: str = "cpu"
    changes: str = ""
    owner: Ladder | None = None
    flops: float | Callable[..., float] | None = None
    bytes: float | Callable[..., float] | None = None
    refuses: Callable[..., str | None] | None = field(default=None, repr=False)

    precision = "as measured"
    ceiling = False
    stages: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Check the name and the device."""
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name must be a non-empty str, got {self.name!r}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"device must be 'cpu' or 'cuda', got {self.device!r}")

    @property
    def ladder(self) -> Ladder:
        """The ladder that it belongs to.

        Raises
        ------
        ValueError
            If it belongs to no ladder.
        """
        if self.owner is None:
            raise ValueError(
                f"variant {self.name} must belong to a ladder; add it to one with .add() or "
                ".with_variants()"
            )
        return self.owner

    @property
    def label(self) -> str:
        """For example ``"saxpy[coalesced]"``."""
        return super().label if self.owner else self.name

    @property
    def why_unavailable(self) -> str:
        """Reason why it cannot run here; else empty."""
        return _core.why_no_cuda() if self.device == "cuda" else ""

    def refusal(self, operands: Sequence[Any], options: Mapping[str, Any]) -> str:
        """Reason why it refuses operands; empty if it accepts them."""
        return (self.refuses(*operands, **options) if self.refuses else None) or ""

    def why_not(self, problem: Problem) -> str:
        """Reason why it cannot solve a problem; empty if it can."""
        if self.device == problem.device == "cuda":
            default = _core.resolve_device("cuda")
            if problem.device_id != default:
                return f"own variants run on {default}, but the problem is on {problem.device_id}"
        return self.refusal(problem.host_arguments, problem.options)

    def require_solvable(self, problem: Problem) -> None:
        """Raise the reason why it cannot run here or cannot solve a problem.

        Raises
        ------
        Unavailable
            If it cannot run here.
        ValueError
            If it cannot solve the problem.
        """
        if reason := self.why_unavailable:
            raise _core.Unavailable(f"{self.label}: {reason}")
        if reason := self.why_not(problem):
            raise ValueError(f"{self.label}: {reason}")

    def with_default(self, block: Block, parameters: Mapping[str, Any]) -> OwnVariant:
        """Return the variant with this block shape and these parameter values as defaults."""
        raise ValueError(f"{self.label} has no blocks and no parameters")

    def of(self, owner: Ladder) -> OwnVariant:
        """Return the same variant as a member of a ladder."""
        return dataclasses.replace(self, owner=owner)

    def resources(self, *args: Any, block: Block | None = None, **options: Any) -> Resources:
        """Resource usage of its kernels for these operands."""
        problem = self.ladder.problem(*args, variant=self.name, **options)
        return problem.prepare(self.name, block).resources()

    def sass(
        self, *args: Any, block: Block | None = None, arch: str | None = None, **options: Any
    ) -> Sass:
        """The machine code of a kernel in CUDA source; a function has none."""
        raise ValueError(f"{self.label} must be a kernel in CUDA C++ source, got a function")

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Compute the result with this variant."""
        return self.ladder.problem(*args, variant=self.name, **options).prepare(self.name).result()

    def __repr__(self) -> str:
        return super().__repr__() if self.owner else f"<variant {self.name!r} on {self.device}>"


class OwnCall(Call):
    """An own variant that is ready to run."""

    def __init__(self, variant: OwnVariant, problem: Problem) -> None:
        variant.require_solvable(problem)
        super().__init__(problem, variant.name)
        self._variant = variant

    @property
    def cost(self) -> _core.Cost:
        """FLOPs and bytes of the variant on this problem."""
        problem = self.problem
        flops, moved = problem.useful

        def value(given: float | Callable[..., float] | None, default: float) -> float:
            if given is None:
                return default
            arguments, options = problem.host_arguments, problem.options
            return float(given(*arguments, **options) if callable(given) else given)

        return _core.Cost(
            flops=flops,
            bytes=moved,
            executed_flops=value(self._variant.flops, flops),
            requested_bytes=value(self._variant.bytes, moved),
        )
