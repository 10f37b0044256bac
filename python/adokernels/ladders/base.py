"""Base classes of all ladders and variants, built-in and custom."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rich.table import Table
from rich.text import Text

from adokernels import _core
from adokernels.ladders.source import Source
from adokernels.ladders.source_diff import Diff, diff_of
from adokernels.records.shown import ShownAsTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Block = tuple[int, ...]


class AnyVariant(ABC):
    """One implementation on one device: a step of a ladder.

    Attributes
    ----------
    name
        Unique within the ladder.
    device
        ``"cpu"`` or ``"cuda"``.
    changes
        The difference from the previous variant, in one sentence.
    precision
        How the result is rounded.
    ceiling
        Whether it moves the compulsory bytes without computing the result.
    stages
        The stages of a pipeline in order: routine and variant. Empty for a single kernel.
    """

    name: str
    device: str
    changes: str
    precision: str
    ceiling: bool
    stages: tuple[tuple[str, str], ...]

    @property
    @abstractmethod
    def ladder(self) -> AnyLadder[Any]:
        """The ladder that it belongs to."""

    @property
    @abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """Supported block shapes, the default first; empty if it has no block shape."""

    @property
    @abstractmethod
    def why_unavailable(self) -> str:
        """Reason why it cannot run here; else empty."""

    def settings(self) -> list[tuple[dict[str, Any], AnyVariant]]:
        """The combinations of parameter values, each with a variant that has only these values."""
        return [({}, self)]

    @property
    @abstractmethod
    def source(self) -> Source:
        """Its source code."""

    @property
    def available(self) -> bool:
        """Whether it can run here; otherwise, ``why_unavailable`` contains the reason."""
        return not self.why_unavailable

    @property
    def label(self) -> str:
        """For example ``"transpose[tiled]"``."""
        return f"{self.ladder.name}[{self.name}]"

    def diff(self, other: AnyVariant | str) -> Diff:
        """The change from this variant to another one, definition by definition.

        Parameters
        ----------
        other : variant or str
            A variant, or the name of a variant of the same ladder.

        Returns
        -------
        Diff
            Added lines are green and deleted lines red in a notebook and in a terminal. ``print``
            shows a unified diff. Kernels are compared with each other even if their names differ.

        Raises
        ------
        KeyError
            If the ladder has no variant with this name.
        """
        after = self.ladder[other] if isinstance(other, str) else other
        return diff_of(self.source, after.source)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AnyVariant):
            return NotImplemented
        return (self.ladder, self.name) == (other.ladder, other.name)

    def __hash__(self) -> int:
        return hash((self.ladder.name, self.name))

    def __repr__(self) -> str:
        state = "" if self.available else f", unavailable: {self.why_unavailable}"
        return f"<{self.ladder.name}[{self.name!r}] on {self.device}{state}>"


class AnyCall(Protocol):
    """A variant that is ready to run on one problem, built-in or custom."""

    @property
    def variant(self) -> str:
        """The name of the variant."""

    @property
    def device(self) -> str:
        """The device on which it runs."""

    @property
    def block(self) -> Sequence[int] | None:
        """The block shape of a kernel."""

    @property
    def grid(self) -> Sequence[int] | None:
        """The grid of a kernel."""

    @property
    def cost(self) -> _core.Cost:
        """FLOPs and bytes of the variant on this problem."""

    def run(self) -> Any:
        """Run the variant once."""

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels that it launches; empty if they are unknown before it runs."""


class AnyChecker(Protocol):
    """Compares the results of one problem with the reference result."""

    def before(self, call: Any) -> float | None:
        """Check a variant before timing; return its error, or None for a ceiling.

        Raises
        ------
        ValueError
            If the result is wrong.
        """

    def after(self, call: Any) -> float | None:
        """Check a variant again after timing."""

    def peer(self, returned: Any) -> float | None:
        """Return the error of a result that a peer returned; None if it cannot be checked."""


V = TypeVar("V", bound=AnyVariant)


class AnyLadder(ShownAsTables, ABC, Generic[V]):
    """A computation and its variants: a sequence of variants, indexed by name.

    Attributes
    ----------
    name
        Its name in tables and charts.
    summary
        What it computes, in one sentence.
    """

    name: str
    summary: str

    @property
    @abstractmethod
    def variants(self) -> tuple[V, ...]:
        """The variants in ladder order."""

    @property
    def keywords(self) -> tuple[str, ...] | None:
        """Names of the operands, then of the options; None if they are unknown."""
        return None

    @abstractmethod
    def problem(
        self, *args: Any, device: str | None = None, variant: str | None = None, **options: Any
    ) -> Any:
        """Check operands and options, and copy them to the device, once for several calls."""

    @abstractmethod
    def useful(self, problem: Any) -> tuple[float, float]:
        """The useful FLOPs and compulsory bytes of a problem, the same for every variant."""

    @abstractmethod
    def set_default(self, name: str, block: Block, parameters: Mapping[str, Any]) -> None:
        """Set the default block shape and parameter values of a variant for this session."""

    @abstractmethod
    def checker(self, problem: Any) -> AnyChecker:
        """The checker for the variants' results on a problem."""

    @abstractmethod
    def with_variants(self, *variants: Any) -> AnyLadder[Any]:
        """Return the ladder with further variants; this ladder does not change."""

    def __getitem__(self, name: str) -> V:
        if not isinstance(name, str):
            raise TypeError(f"the name of a variant must be a str, got {type(name).__name__}")
        variants = self.variants
        for variant in variants:
            if variant.name == name:
                return variant
        names = [v.name for v in variants]
        raise KeyError(f"{self.name} has no variant {name!r}{_core.suggest(name, names)}")

    def __iter__(self) -> Iterator[V]:
        return iter(self.variants)

    def __len__(self) -> int:
        return len(self.variants)

    def __contains__(self, item: object) -> bool:
        return any(item in (v, v.name) for v in self.variants)

    def _ipython_key_completions_(self) -> list[str]:
        return [v.name for v in self.variants]

    def _tables(self) -> Sequence[Table]:
        table = Table(title=Text(f"{self.name}: {self.summary}" if self.summary else self.name))
        for heading in ("variant", "device", "what it changes", "available"):
            table.add_column(heading)
        for v in self.variants:
            name = f"{v.name} (ceiling)" if v.ceiling else v.name
            cells = (name, v.device, v.changes, v.why_unavailable or "yes")
            table.add_row(*map(Text, cells))
        return [table]
