"""Base class of custom variants, and the data with which they are prepared."""

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
    from adokernels.measuring.source_launch import SourceLaunch
    from adokernels.records.kernels import Resources
    from adokernels.records.sass import Sass


@dataclass(frozen=True)
class Work:
    """The data of one problem: guarded operands and results, scalars, and options.

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
        The options of the call.
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
        """Run it. Return its results, or None if it wrote them to the guarded arrays."""

    def source_launch(self) -> SourceLaunch | None:
        """The launch of a kernel in source; None for a function."""

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels that it launches; empty if they are unknown before it runs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomVariant(AnyVariant):
    """One custom implementation of a computation.

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
            raise TypeError(f"name must be a non-empty str, got {self.name!r}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"device must be 'cpu' or 'cuda', got {self.device!r}")

    @property
    def ladder(self) -> AnyLadder[Any]:
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
    def blocks(self) -> tuple[Block, ...]:
        """Supported block shapes, the default first; empty for a function."""
        return ()

    @property
    def why_unavailable(self) -> str:
        """Reason why it cannot run here; else empty."""
        return _core.why_no_cuda() if self.device == "cuda" else ""

    def why_not(self, operands: Sequence[Any], options: Mapping[str, Any]) -> str:
        """Reason why it cannot solve a problem; empty if it can."""
        return (self.refuses(*operands, **options) if self.refuses else None) or ""

    @abstractmethod
    def prepare(self, work: Work, block: Block | None) -> Prepared:
        """Prepare it to run on one problem."""

    def with_default(self, block: Block, parameters: Mapping[str, Any]) -> CustomVariant:
        """Return the variant with this block shape and these parameter values as defaults."""
        raise ValueError(f"{self.label} has no blocks and no parameters")

    def of(self, owner: AnyLadder[Any]) -> CustomVariant:
        """Return the same variant as a member of a ladder."""
        return dataclasses.replace(self, owner=owner)

    def resources(self, *args: Any, block: Block | None = None, **options: Any) -> Resources:
        """Resource usage of its kernels for these operands; see :meth:`Variant.resources`."""
        problem = self.ladder.problem(*args, variant=self.name, **options)
        used: Resources = problem.prepare(self.name, block).resources()
        return used

    def sass(
        self, *args: Any, block: Block | None = None, arch: str | None = None, **options: Any
    ) -> Sass:
        """The machine code of its kernel for these operands; see :meth:`Variant.sass`."""
        raise ValueError(f"{self.label} must be a kernel in CUDA C++ source, got a function")

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Compute the result with this variant."""
        problem = self.ladder.problem(*args, variant=self.name, **options)
        return problem.prepare(self.name).result()

    def __repr__(self) -> str:
        return super().__repr__() if self.owner else f"<variant {self.name!r} on {self.device}>"
