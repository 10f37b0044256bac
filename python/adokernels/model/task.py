"""What a ladder computes: the reference result, the allowed error, the problems to run."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from adokernels import _core
from adokernels.model.values import (
    Sample,
    as_tuple,
    difference,
    host_operands,
    is_array,
    random_array,
    scaled_problems,
    smaller_lengths,
    worst_elements,
)
from adokernels.text import kind_of

Lengths = tuple[int, ...]
#: Shape and type of an array.
ArrayType = tuple[tuple[int, ...], np.dtype[Any]]
Number = float | Callable[..., float]
#: Small matrices and images: single elements, partial tiles, thin shapes.
SMALL_SHAPES = (
    *((1, 1), (31, 33), (64, 64), (65, 130)),
    *((129, 70), (72, 528), (1, 300), (300, 1)),
)
_SHAPE = r"\(([\w\s,]*)\)"
_SIGNATURE = re.compile(rf"\s*{_SHAPE}(\s*,\s*{_SHAPE})*\s*->\s*{_SHAPE}(\s*,\s*{_SHAPE})*\s*")


def value_of(
    number: Number | None,
    operands: Sequence[Any],
    options: Mapping[str, Any],
    default: float = 0.0,
) -> float:
    """A number, which can be a function of operands and options, or the default if it is None."""
    if number is None:
        return default
    found = number(*operands, **options) if callable(number) else number
    try:
        return float(found)
    except TypeError as error:
        raise TypeError(f"flops= and bytes= must return numbers, got {kind_of(found)}") from error


@dataclass(frozen=True)
class SanitizerCases:
    """Problems that compute-sanitizer and the contract tests run.

    ``benchmarks/sanitize.py`` runs all of them. ``tests/test_contract.py`` uses `shapes`, `dtypes`,
    `options` and `in_place`. List every accepted dtype and at least two values of every option that
    changes the result: other dtypes and values are not tested.
    """

    #: Lengths of small problems, which every variant computes, with every block shape.
    shapes: Sequence[Lengths] = SMALL_SHAPES
    #: Lengths of a problem for which kernels may take another path. Only compute-sanitizer runs it,
    #: and only with the default variant.
    large: Lengths = (4096, 4112)
    #: All accepted element types; one per element size if only the size matters. None stands for
    #: the only type of a routine.
    dtypes: Sequence[str | None] = (None,)
    #: At least two values of each option, which select different paths through a kernel.
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    #: Lengths of problems whose result overwrites the operand.
    in_place: Sequence[Lengths] = ()


@dataclass(frozen=True)
class Signature:
    """The shapes of operands, as names of lengths: ``"(m,k),(k,n)->(m,n)"``."""

    text: str
    operands: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a signature in the notation of NumPy's generalised ufuncs, or raise ValueError."""
        if not _SIGNATURE.fullmatch(text):
            raise ValueError(f"signature must have the form '(m,k),(k,n)->(m,n)', got {text!r}")
        shapes = re.findall(_SHAPE, text.partition("->")[0])
        return cls(text, tuple(tuple(re.findall(r"\w+", shape)) for shape in shapes))

    def lengths(self, operands: Sequence[Any]) -> dict[str, int]:
        """The lengths by name, in order of first appearance; ValueError for other shapes."""
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


@dataclass(frozen=True)
class Reference:
    """The expected result, or a random part of it if the whole result takes too long.

    Each random part is new, so variants cannot know which part is checked.
    """

    #: The result in higher precision if the task supports it, and the unit of its errors.
    exact: Any
    unit: Any
    #: The elements of the result that `exact` contains. None: all.
    sample: Sample | None = None
    #: For a result that is a sum over all operands: operands of a second call. `exact` is then
    #: `factor` times the first result, plus the second result.
    counterpart: tuple[Any, ...] | None = None
    factor: float = 1.0


@dataclass(frozen=True)
class Task:
    """What a ladder computes, the allowed error, and the problems to run.

    A file in ``tasks/`` defines the task of a built-in ladder. :func:`adokernels.ladder` defines
    the task of an own ladder.
    """

    #: Maps operands and options to the expected result or a tuple of results. For a built-in
    #: ladder, it is written in NumPy from the formulas, independently of the C++ code.
    expected: Callable[..., Any]
    #: Largest allowed difference: absolute for integers, in the unit below for floating-point
    #: numbers. 0 requires the same bytes. None: 0 for integers, 64 machine epsilons for
    #: floating-point numbers (4 for float16).
    tolerance: float | None = 0.0
    #: Maps the arguments of `expected` to the unit of each element's error. Default: the largest
    #: magnitude in the expected result, for all elements.
    error_unit: Callable[..., Any] | None = None
    #: Size of the default problem, which is large enough to measure: the lengths that the operands'
    #: shapes name, in the order in which users give them.
    lengths: Mapping[str, int] = field(default_factory=lambda: {"rows": 2160, "cols": 3840})
    #: Element type of the default problem, for operands that accept several types, or None for a
    #: routine whose types are fixed.
    dtype: str | None = None
    #: Maps lengths in this order to operands. Default: random numbers.
    operands: Callable[[Sequence[int]], tuple[NDArray[Any], ...]] | None = None
    #: Maps random operands to operands with meaningful values, for example indices within range.
    #: Default: the operands do not change.
    adjusted: Callable[..., tuple[NDArray[Any], ...]] | None = None
    #: `expected` before it is rounded to the type of the result. Default: `expected` is exact.
    exact: Callable[..., Any] | None = None
    #: Maps the arguments of `expected` to a random check for problems on which `exact` takes too
    #: long, or to None if it is fast enough.
    spot_check: Callable[..., Reference | None] | None = None
    #: The problems that compute-sanitizer and the contract tests run.
    sanitizer: SanitizerCases = field(default_factory=SanitizerCases)
    #: The problems whose measured ladders are stored, by name, as additional arguments of
    #: ``adokernels bench ROUTINE --device cuda``.
    benchmark_problems: Mapping[str, str] = field(default_factory=dict)
    #: The routine of a built-in ladder. It declares names, shapes and types of the operands, and
    #: counts FLOPs and bytes. None for an own ladder, to which the following attributes apply.
    core: _core.Routine | None = None
    #: Element type of the results, if it differs from the type of the expected result.
    result_dtype: np.dtype[Any] | None = None
    #: Useful FLOPs and compulsory bytes, as numbers or functions of operands and options. `bytes`
    #: is by default the size of operands and results.
    flops: Number = 0.0
    bytes: Number | None = None
    #: Returns the operands of edge cases; it can have a parameter for a random generator. Default:
    #: problems of small and odd lengths.
    problems: Callable[..., Iterable[Sequence[Any]]] | None = None
    #: The shapes of the operands.
    signature: Signature | None = None

    # --- Results ----------------------------------------------------------------------------------

    def check(
        self, result: Any, expected: Any, unit: Any = None, sample: Sample | None = None
    ) -> float:
        """The difference in `unit`; if too large, ValueError describes the worst elements.

        `expected` and `unit` contain the elements of `sample`, by default all elements.
        """
        results, exact = as_tuple(result), as_tuple(expected)
        if len(results) != len(exact):
            raise ValueError(f"wrong result: {len(results)} arrays, expected {len(exact)}")
        units = unit if isinstance(unit, tuple) else (unit,) * len(exact)
        errors = []
        for got, want, one_unit in zip(results, exact, units, strict=True):
            dtype, shape = self.result_dtype or want.dtype, sample.shape if sample else want.shape
            if got.dtype != dtype or got.shape != shape:
                found = f"{got.dtype} {got.shape}, expected {dtype} {shape}"
                raise ValueError(f"wrong result: {found}")
            values = (sample.of(got) if sample else got).astype(want.dtype, copy=False)
            allowed = self.allowed(dtype)
            errors.append(difference(values, want, one_unit))
            if not errors[-1] <= allowed:
                worst = worst_elements(values, want, one_unit, allowed, sample)
                raise ValueError(f"wrong result: {worst}")
        return max(errors)

    def allowed(self, dtype: np.dtype[Any]) -> float:
        """The tolerance for results of this type."""
        if self.tolerance is not None:
            return self.tolerance
        if dtype.kind not in "fc":
            return 0.0
        return float((4 if dtype.itemsize == 2 else 64) * np.finfo(dtype).eps)

    # --- Operands ---------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[_core.Parameter]:
        """The declared operands of a built-in ladder."""
        return [p for p in self.core.parameters if p.role == "input"] if self.core else []

    def names(self, count: int) -> tuple[str, ...]:
        """The names of the operands; for an own ladder, the names of the reference's parameters."""
        if self.core:
            return tuple(p.name for p in self.inputs)
        try:
            parameters = list(inspect.signature(self.expected).parameters.values())
        except (TypeError, ValueError):  # built-in functions without a signature
            parameters = []
        positional = [
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        further = (f"operand {i + 1}" for i in range(len(positional), count))
        return (*positional[:count], *further)

    def lengths_of(self, operands: Sequence[Any]) -> Mapping[str, int]:
        """The lengths that kernels in CUDA source receive, by name."""
        if self.signature:
            return self.signature.lengths(operands)
        found: dict[str, int] = {}
        if self.core is None:
            shapes = (o.shape for o in operands if is_array(o))
            return {f"length {d}": n for d, n in enumerate(next(shapes, ()))}
        for parameter, operand in zip(self.inputs, operands, strict=True):
            words = re.findall(r"[\w|]+", parameter.shape)
            batch = np.shape(operand)[: np.ndim(operand) - len(words)]
            if batch:
                found.setdefault("batch", math.prod(batch))
            for word, length in zip(words, np.shape(operand)[len(batch) :], strict=True):
                if word in self.core.dimensions:
                    found.setdefault(word, length)
        return found

    def useful(
        self, operands: Sequence[Any], options: Mapping[str, Any], result_bytes: int
    ) -> tuple[float, float]:
        """The useful FLOPs and compulsory bytes of a problem, the same for every variant."""
        if self.core:
            cost = self.core.cost(self.core.variants[0].name, tuple(operands), dict(options))
            return cost.flops, cost.bytes
        moved = result_bytes + sum(o.nbytes for o in operands if is_array(o))

        given = operands, options
        return value_of(self.flops, *given), value_of(self.bytes, *given, default=float(moved))

    def edge_cases(
        self, operands: Sequence[Any], rng: np.random.Generator
    ) -> Iterator[tuple[Any, ...]]:
        """Operands of the sizes and values on which kernels often fail."""
        if self.core:
            dtype = operands[0].dtype if self.dtype else None
            shapes: list[Sequence[int]] = list(self.sanitizer.shapes)
            # Sizes that nobody can know in advance: two small ones, and one below the timed size.
            ranges = [*zip(*(s for s in shapes if len(s) == len(self.lengths)), strict=True)]
            shapes += [[int(rng.integers(min(n), max(n) + 1)) for n in ranges] for _ in range(2)]
            timed = self.lengths_of(operands)
            if timed.keys() >= self.lengths.keys():
                shapes.append(smaller_lengths(rng, [timed[name] for name in self.lengths]))
            yield from (self.random_operands(shape, dtype) for shape in shapes)
        elif self.problems is None:
            yield from scaled_problems(operands, rng)
        else:
            takes_generator = bool(inspect.signature(self.problems).parameters)
            given = self.problems(rng) if takes_generator else self.problems()
            count = 0
            for count, problem in enumerate(given, 1):
                if not isinstance(problem, tuple | list):
                    raise TypeError(
                        "problems= must return a tuple of operands per problem, for example "
                        f"[(x,)], got {kind_of(problem)} as problem {count}"
                    )
                yield host_operands(problem)
            if not count:
                raise ValueError("problems= must return at least one problem, got none")

    # --- Operands of a built-in ladder ------------------------------------------------------------

    def operand_types(
        self, lengths: Sequence[int] | None = None, dtype: DTypeLike | None = None
    ) -> list[ArrayType]:
        """Shape and type of each operand.

        `lengths` has one length per name in ``lengths``, in the same order, for example ``(rows,
        cols)``, after batch dimensions, if the routine is batched. `dtype` is the element type of
        operands that accept several types. The task has default lengths and types. ValueError is
        raised for a wrong number of lengths or a negative length, and TypeError if the routine does
        not accept that type.
        """
        assert self.core is not None
        routine, given = self.core, self._lengths_or_default(lengths)
        extra = len(given) - len(self.lengths)
        if extra < 0 or (extra > 0 and not routine.batched):
            batch = ", optionally after batch dimensions" if routine.batched else ""
            raise ValueError(
                f"lengths of {routine.name} must be {' x '.join(self.lengths)}{batch},"
                f" got {' x '.join(map(str, given))}"
            )
        named = list(zip(self.lengths, given[extra:], strict=True))
        element = self.dtype if dtype is None else dtype
        chosen = None if element is None else np.dtype(element).str
        types = routine.operand_types(named, given[:extra], chosen)
        return [(tuple(shape), np.dtype(kind)) for _, shape, kind in types]

    def random_operands(
        self, lengths: Sequence[int] | None = None, dtype: DTypeLike | None = None
    ) -> tuple[NDArray[Any], ...]:
        """Operands with random data; parameters and errors as for :meth:`operand_types`."""
        types = self.operand_types(lengths, dtype)
        if self.operands:
            return self.operands(self._lengths_or_default(lengths))
        operands = tuple(random_array(*each) for each in types)
        return self.adjusted(*operands) if self.adjusted else operands

    def empty_operands(self) -> tuple[NDArray[Any], ...]:
        """Uninitialised operands of the default problem; they occupy no physical memory."""
        return tuple(np.empty(*each) for each in self.operand_types())

    def _lengths_or_default(self, lengths: Sequence[int] | None) -> Lengths:
        return tuple(self.lengths.values() if lengths is None else lengths)
