"""The inputs of a measured call, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adokernels.records.forms import Count
from adokernels.records.record import Fields
from adokernels.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

_PRECISIONS = {"FP64": ("float64", "complex128"), "FP32": ("float32", "complex64")}


class Operand(NamedTuple):
    """Name, shape and dtype of an operand; the name is empty if it is unknown."""

    name: str
    shape: tuple[Count, ...]
    dtype: str

    def __str__(self) -> str:
        kind = f"{self.shape} {self.dtype}" if self.shape else self.dtype
        return visible(f"{self.name}: {kind}" if self.name else kind)


@dataclass(frozen=True)
class Inputs(Fields):
    """Operands and options of a call.

    Attributes
    ----------
    operands
        Name, shape and dtype of each operand.
    options
        The options that were given, by name.
    """

    operands: tuple[Operand, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Convert options to plain Python values, which compare equal after a JSON round trip."""
        plain = {str(name): _plain(value) for name, value in self.options.items()}
        object.__setattr__(self, "options", plain)

    @classmethod
    def of(
        cls,
        operands: Iterable[tuple[str, Iterable[int], str]],
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make inputs from the name, shape and dtype of each operand."""
        described = tuple(Operand(name, tuple(shape), dtype) for name, shape, dtype in operands)
        return cls(described, options or {})

    @property
    def precision(self) -> str | None:
        """``"FP64"`` or ``"FP32"``, or None if the operands have both precisions or neither."""
        dtypes = {operand.dtype for operand in self.operands}
        found = [level for level, names in _PRECISIONS.items() if dtypes.intersection(names)]
        return found[0] if len(found) == 1 else None

    @property
    def may_be_fp64(self) -> bool:
        """Whether an operand has FP64 numbers, or the operands are unknown."""
        dtypes = {operand.dtype for operand in self.operands}
        return not dtypes or bool(dtypes.intersection(_PRECISIONS["FP64"]))

    def __str__(self) -> str:
        """For example ``"gray: (1600, 2560) uint8, border='replicate'"``."""
        options = (f"{name}={value!r}" for name, value in self.options.items())
        return visible(", ".join([*map(str, self.operands), *options]))

    def __hash__(self) -> int:
        return hash(self.operands)


def _plain(value: Any) -> Any:
    """Convert an option to a plain value, or to its repr if JSON cannot represent it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # one object, so that mappings with NaN compare equal
    return value if isinstance(value, str | int | float) or value is None else repr(value)
