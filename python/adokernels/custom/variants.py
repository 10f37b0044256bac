"""Variants that users define: what all have in common, and Python functions as variants."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from adokernels import _core
from adokernels.ladders.base import AnyLadder, AnyVariant, Block

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adokernels.custom.memory import GuardedArray
    from adokernels.ladders.resources import Resources


@dataclass(frozen=True)
class Work:
    """What a variant works on: guarded operands and results, scalars, and options.

    Attributes
    ----------
    names
        The names of the operands.
    operands
        Arrays with red zones, and scalars.
    results
        Arrays with red zones, one per result.
    lengths
        The lengths that kernels receive, by name.
    options
        Options of the call.
    """

    names: tuple[str, ...]
    operands: tuple[GuardedArray | Any, ...]
    results: tuple[GuardedArray, ...]
    lengths: Mapping[str, int]
    options: Mapping[str, Any]


class Prepared(Protocol):
    """A variant that is ready to run on one problem."""

    grid: Block | None
    block: Block | None

    def run(self) -> Any:
        """Run it; return its results, or None if they are in the guarded arrays."""

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels that it launches, as far as they are known without running it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomVariant(AnyVariant):
    """One implementation that a user defines.

    Attributes
    ----------
    name
        Unique within its ladder.
    device
        ``"cpu"`` or ``"cuda"``.
    changes
        The difference from the previous variant, in one sentence.
    owner
        The ladder that it belongs to; None if it is in none.
    flops, bytes
        FLOPs that it executes and bytes that it requests, as numbers or functions of the operands.
        Default: the useful FLOPs and the compulsory bytes.
    refuses
        A function of the operands that returns why the variant cannot solve a problem, or None.
    """

    name: str
    device: str = "cpu"
    changes: str = ""
    owner: AnyLadder[Any] | None = None
    flops: float | Callable[..., float] | None = None
    bytes: float | Callable[..., float] | None = None
    refuses: Callable[..., str | None] | None = field(default=None, repr=False)

    precision = "as measured"
    ceiling = False
    stages: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Check the name and the device."""
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name must be a str that is not empty, got {self.name!r}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"device must be 'cpu' or 'cuda', got {self.device!r}")

    @property
    def ladder(self) -> AnyLadder[Any]:
        """The ladder that it belongs to.

        Raises
        ------
        ValueError
            If it belongs to none.
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
    def blocks(self) -> tuple[Block, ...]:
        """The block shapes that it can run with, the default first; empty for a function."""
        return ()

    @property
    def why_unavailable(self) -> str:
        """Reason why it cannot run here; else empty."""
        return _core.why_no_cuda() if self.device == "cuda" else ""

    def why_not(self, operands: Sequence[Any], options: Mapping[str, Any]) -> str:
        """Why it cannot solve a problem; empty if it can."""
        return (self.refuses(*operands, **options) if self.refuses else None) or ""

    @abstractmethod
    def prepare(self, work: Work, block: Block | None) -> Prepared:
        """Make it ready to run on one problem."""

    def with_default(self, block: Block, parameters: Mapping[str, Any]) -> CustomVariant:
        """The variant with this block shape and these parameter values as its defaults."""
        raise ValueError(f"{self.label} has no blocks and no parameters")

    def of(self, owner: AnyLadder[Any]) -> CustomVariant:
        """The same variant in another ladder."""
        return dataclasses.replace(self, owner=owner)

    def resources(self, *args: Any, block: Block | None = None, **options: Any) -> Resources:
        """Resource usage of its kernels for these operands; see :meth:`Variant.resources`."""
        problem = self.ladder.problem(*args, variant=self.name, **options)
        used: Resources = problem.prepare(self.name, block).resources()
        return used

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Compute the result with this variant."""
        problem = self.ladder.problem(*args, variant=self.name, **options)
        return problem.prepare(self.name).result()

    def __repr__(self) -> str:
        return super().__repr__() if self.owner else f"<variant {self.name!r} on {self.device}>"
