"""Shapes of operands, in the notation of NumPy's generalised ufuncs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Self

_SHAPE = r"\(([\w\s,]*)\)"
_SIGNATURE = re.compile(rf"\s*{_SHAPE}(\s*,\s*{_SHAPE})*\s*->\s*{_SHAPE}(\s*,\s*{_SHAPE})*\s*")


@dataclass(frozen=True)
class Signature:
    """The shapes of operands, as names of lengths: ``"(m,k),(k,n)->(m,n)"``."""

    text: str
    operands: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a signature.

        Raises
        ------
        ValueError
            If the text is not a signature.
        """
        if not _SIGNATURE.fullmatch(text):
            raise ValueError(f"signature must have the form '(m,k),(k,n)->(m,n)', got {text!r}")
        shapes = re.findall(_SHAPE, text.partition("->")[0])
        return cls(text, tuple(tuple(re.findall(r"\w+", shape)) for shape in shapes))

    def lengths(self, operands: Sequence[Any]) -> dict[str, int]:
        """The lengths by name, in order of first appearance.

        Raises
        ------
        ValueError
            If the operands do not have these shapes.
        """
        if len(operands) != len(self.operands):
            raise ValueError(
                f"{self.text} must have {len(self.operands)} operands, got {len(operands)}"
            )
        found: dict[str, int] = {}
        for i, (names, operand) in enumerate(zip(self.operands, operands, strict=True)):
            shape = np.shape(operand)
            matches = len(shape) == len(names) and all(
                n == (int(name) if name.isdigit() else found.setdefault(name, n))
                for name, n in zip(names, shape, strict=True)
            )
            if not matches:
                raise ValueError(f"operand {i + 1} must match {self.text}, got shape {shape}")
        return found
