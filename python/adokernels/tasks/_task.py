"""The description of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from adokernels.tasks._comparison import difference, first_difference

Lengths = tuple[int, ...]
#: Small matrices and images: single elements, partial tiles, thin shapes.
SMALL_SHAPES = (
    *((1, 1), (31, 33), (64, 64), (65, 130)),
    *((129, 70), (72, 528), (1, 300), (300, 1)),
)


@dataclass(frozen=True)
class SanitizerCases:
    """Problems that compute-sanitizer and the contract tests run.

    ``benchmarks/sanitize.py`` runs all of them. ``tests/test_contract.py`` uses `shapes`, `dtypes`,
    `options` and `in_place`. List every accepted dtype and at least two values of every option that
    changes the result: other dtypes and values are not tested.

    Attributes
    ----------
    shapes
        Lengths of small problems, which every variant computes; CUDA variants with every block
        shape.
    large
        Lengths of a problem for which kernels may take another path; the default variant
        computes it, under compute-sanitizer only.
    dtypes
        All accepted element types; one per element size if only the size matters. None stands for
        the only type of a routine.
    options
        At least two values of each option, which select different paths through a kernel.
    in_place
        Lengths of problems whose result overwrites the operand.
    """

    shapes: Sequence[Lengths] = SMALL_SHAPES
    large: Lengths = (4096, 4112)
    dtypes: Sequence[str | None] = (None,)
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    in_place: Sequence[Lengths] = ()


@dataclass(frozen=True)
class Task:
    """The reference result of a routine, the allowed error and the problems to run.

    Attributes
    ----------
    expected
        Maps the routine's operands and options to its result or a tuple of results. It is written
        in NumPy from the formulas, independently of the C++ code.
    tolerance
        Largest allowed difference: absolute for integers, in the unit below for floating-point
        numbers. 0 requires the same bytes.
    error_unit
        Maps the arguments of `expected` to the unit of each element's error. Default: the largest
        magnitude in the expected result, for all elements.
    lengths
        Size of the default problem, which is large enough to measure: the lengths that the
        operands' shapes name, in the order in which users give them.
    dtype
        Element type of the default problem, for operands that accept several types; None for a
        routine whose types are fixed.
    operands
        Maps lengths in that order to operands. Default: random numbers.
    magnitude
        Largest magnitude of random floating-point operands.
    adjusted
        Maps random operands to operands with meaningful values, for example indices within range.
        Default: they remain as they are.
    sparsified
        If `expected` would take too long, maps its arguments to operands of the same shapes with
        mostly zero terms, else to None. Every variant does the same work on these operands.
    sanitizer
        The problems that compute-sanitizer and the contract tests run.
    benchmark_problems
        The problems whose measured ladders are stored, by name, as additional arguments of
        ``adokernels bench ROUTINE --device cuda``.
    """

    expected: Callable[..., Any]
    tolerance: float = 0.0
    error_unit: Callable[..., Any] | None = None
    lengths: Mapping[str, int] = field(default_factory=lambda: {"rows": 2160, "cols": 3840})
    dtype: str | None = None
    operands: Callable[[Sequence[int]], tuple[NDArray[Any], ...]] | None = None
    magnitude: float = 0.5
    adjusted: Callable[..., tuple[NDArray[Any], ...]] | None = None
    sparsified: Callable[..., tuple[NDArray[Any], ...] | None] | None = None
    sanitizer: SanitizerCases = field(default_factory=SanitizerCases)
    benchmark_problems: Mapping[str, str] = field(default_factory=dict)

    def check(self, result: Any, expected: Any, unit: Any = None) -> float:
        """Return the difference in `unit` if it is within the tolerance.

        Raises
        ------
        ValueError
            If it is not; the message locates the first wrong element.
        """
        error = difference(result, expected, unit)
        if error <= self.tolerance:
            return error
        raise ValueError(f"wrong result: {first_difference(result, expected)}")
