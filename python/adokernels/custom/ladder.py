"""Custom ladders: a reference function and variants that a user defines."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.arrays.libraries import is_on_device
from adokernels.custom.checking import CustomChecker
from adokernels.custom.cuda_source import CudaVariant, cuda_variant
from adokernels.custom.functions import as_variant, first_sentence
from adokernels.custom.functions import variant as function_variant
from adokernels.custom.problem import CustomProblem, Task
from adokernels.custom.signature import Signature
from adokernels.custom.values import host_operands, is_array, scaled_problems
from adokernels.custom.variants import CustomVariant
from adokernels.ladders.base import AnyLadder, Block
from adokernels.tasks import as_tuple, difference, first_difference

Number = float | Callable[..., float]


class Ladder(AnyLadder[CustomVariant]):
    """A custom computation, and the variants that implement it.

    :func:`adokernels.ladder` makes it. ``ado.sweep``, ``ado.measure``, ``ado.profile`` and
    ``ado.check`` accept it and its variants like a built-in routine.

    Attributes
    ----------
    name : str
        Its name in tables and charts.
    summary : str
        What it computes, in one sentence.
    """

    def __init__(
        self,
        name: str,
        *,
        reference: Callable[..., Any],
        flops: Number = 0.0,
        bytes: Number | None = None,
        tolerance: float | None = None,
        problems: Callable[..., Iterable[Sequence[Any]]] | None = None,
        signature: str | None = None,
        dtype: Any = None,
        summary: str = "",
    ) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"name must be a non-empty str, got {name!r}")
        if not callable(reference):
            raise TypeError(f"reference must be a function, got {reference!r}")
        if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
            raise ValueError(f"tolerance must be a finite number of at least 0, got {tolerance!r}")
        self.name = name
        self.summary = summary or first_sentence(reference)
        self._reference, self._flops, self._bytes = reference, flops, bytes
        self._tolerance, self._problems = tolerance, problems
        self._dtype = None if dtype is None else np.dtype(dtype)
        self._signature = Signature.parse(signature) if signature else None
        self._variants: dict[str, CustomVariant] = {}

    # --- Variants ---------------------------------------------------------------------------------

    def add(self, *variants: CustomVariant | Callable[..., Any]) -> None:
        """Append variants to the ladder.

        Parameters
        ----------
        *variants
            Variants made by :func:`adokernels.variant` or :func:`adokernels.cuda_variant`, or
            functions.

        Raises
        ------
        ValueError
            If the ladder already has a variant with this name.
        """
        for each in map(as_variant, variants):
            if each.name in self._variants:
                raise ValueError(f"{self.name} already has a variant {each.name!r}")
            self._variants[each.name] = each.of(self)

    def variant(self, function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
        """Append a function to the ladder; usable as a decorator.

        The parameters are those of :func:`adokernels.variant`. The decorated function is returned
        unchanged.
        """
        if function is None:
            return lambda decorated: self.variant(decorated, **settings)
        self.add(function_variant(function, **settings))
        return function

    def cuda(self, name: str, **settings: Any) -> CudaVariant:
        """Append a kernel in CUDA C++ source to the ladder.

        The parameters are those of :func:`adokernels.cuda_variant`.
        """
        self.add(cuda_variant(name, **settings))
        added = self._variants[name]
        assert isinstance(added, CudaVariant)
        return added

    @property
    def variants(self) -> tuple[CustomVariant, ...]:
        """The variants in the order in which they were added."""
        return tuple(self._variants.values())

    def with_variants(self, *variants: CustomVariant | Callable[..., Any]) -> Ladder:
        """Return the ladder with further variants; this ladder does not change."""
        other = copy.copy(self)
        other._variants = {}
        other.add(*self.variants, *variants)
        return other

    def set_default(self, name: str, block: Block, parameters: Mapping[str, Any]) -> None:
        """Set the default block shape and parameter values of a variant."""
        self._variants[name] = self._variants[name].with_default(block, parameters)

    # --- Problems ---------------------------------------------------------------------------------

    def problem(
        self, *args: Any, device: str | None = None, variant: str | None = None, **options: Any
    ) -> CustomProblem:
        """Copy the operands and compute the expected result once, for several calls.

        Parameters
        ----------
        *args, **options
            Operands and options of a call.
        device : {"cpu", "cuda"}, optional
            The device of the computation. Default: the device of `variant`, else the GPU if an
            operand is on it, else the device of the variants if all have the same one, else the
            default device.
        variant : str, optional
            The variant whose device is used.

        Raises
        ------
        ValueError
            If the devices of `variant` and `device` differ, or the operands do not match the
            ladder's signature.
        """
        where = device
        if variant is not None:
            where = self[variant].device
            if device not in (None, where):
                raise ValueError(
                    f"device must be {where!r} for {self.name}[{variant}], got {device!r}"
                )
        elif where is None:
            where = device_of(args, self.variants)
        operands = host_operands(args)
        if self._signature:
            self._signature.lengths(operands)  # checks the shapes
        return CustomProblem(self._task(len(operands)), self._variants, operands, options, where)

    def useful(self, problem: CustomProblem) -> tuple[float, float]:
        """The useful FLOPs and compulsory bytes of a problem, the same for every variant."""
        return problem.flops, problem.bytes

    def checker(self, problem: CustomProblem) -> CustomChecker:
        """The checker for the variants' results, on this problem and on edge-case sizes."""
        rng = np.random.default_rng()

        def others() -> Iterator[tuple[Any, ...]]:
            if self._problems is None:
                yield from scaled_problems(problem.arguments, rng)
                return
            takes_generator = bool(inspect.signature(self._problems).parameters)
            given = self._problems(rng) if takes_generator else self._problems()
            yield from map(host_operands, given)

        return CustomChecker(problem, others)

    def __call__(self, *args: Any, variant: str | None = None, **options: Any) -> Any:
        """Compute the result with `variant`.

        The default is the last variant that can run on this machine and problem.
        """
        name = self.problem(*args, **options).best() if variant is None else variant
        return self[name](*args, **options)

    def _task(self, count: int) -> Task:
        return Task(
            reference=self._reference,
            check=self._check,
            cost=self._cost,
            result_type=lambda expected: self._dtype or expected.dtype,
            names=_names(self._reference, count),
            lengths=self._lengths,
        )

    def _lengths(self, operands: Sequence[Any]) -> Mapping[str, int]:
        if self._signature:
            return self._signature.lengths(operands)
        first = next((o for o in operands if is_array(o)), None)
        return {f"length {d}": n for d, n in enumerate(first.shape)} if first is not None else {}

    def _check(self, result: Any, expected: Any, operands: Sequence[Any]) -> float:
        wanted = [self._rounded(e) for e in as_tuple(expected)]
        results = as_tuple(result)
        if len(results) != len(wanted):
            raise ValueError(f"wrong result: {len(results)} arrays, expected {len(wanted)}")
        errors = []
        for got, rounded, exact in zip(results, wanted, as_tuple(expected), strict=True):
            if got.dtype != rounded.dtype or got.shape != rounded.shape:
                raise ValueError(f"wrong result: {first_difference(got, rounded)}")
            error = difference(got.astype(exact.dtype), exact)
            if not error <= self._allowed(rounded.dtype):
                raise ValueError(f"wrong result: {first_difference(got, rounded)}")
            errors.append(error)
        return max(errors)

    def _rounded(self, expected: Any) -> Any:
        return expected if self._dtype is None else expected.astype(self._dtype)

    def _allowed(self, dtype: np.dtype[Any]) -> float:
        if self._tolerance is not None:
            return self._tolerance
        if dtype.kind not in "fc":
            return 0.0
        return float((4 if dtype.itemsize == 2 else 64) * np.finfo(dtype).eps)

    def _cost(
        self, operands: Sequence[Any], options: Mapping[str, Any], expected: Any
    ) -> tuple[float, float]:
        def value(given: Number) -> float:
            return float(given(*operands, **options) if callable(given) else given)

        moved = sum(o.nbytes for o in operands if is_array(o))
        moved += sum(self._rounded(r).nbytes for r in as_tuple(expected))
        return value(self._flops), float(moved) if self._bytes is None else value(self._bytes)


def device_of(operands: Iterable[Any], variants: Iterable[CustomVariant]) -> str:
    """The default device of a computation: "cpu" or "cuda", which is the default GPU."""
    if any(map(is_on_device, operands)):
        return "cuda"
    devices = {v.device for v in variants}
    return devices.pop() if len(devices) == 1 else _core.device().partition(":")[0]


def _names(reference: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The names of the operands: those of the parameters of the reference."""
    try:
        parameters = list(inspect.signature(reference).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return tuple(positional[i] if i < len(positional) else f"operand {i + 1}" for i in range(count))


def ladder(name: str, **settings: Any) -> Ladder:
    """Make a custom ladder: a reference function, and variants that are checked and timed.

    >>> import numpy as np
    >>> import adokernels as ado
    >>> saxpy = ado.ladder(
    ...     "saxpy", reference=lambda a, x, y: a * x + y, flops=lambda a, x, y: 2 * x.size
    ... )
    >>> @saxpy.variant(changes="One vector operation per array.")
    ... def vectorised(a, x, y):
    ...     return a * x + y
    >>> saxpy(2.0, np.ones(3), np.ones(3))
    array([3., 3., 3.])

    Parameters
    ----------
    name
        Its name in tables and charts.
    reference
        A function of the operands and options that returns the expected result or a tuple of
        results. It can compute in higher precision than the variants; `dtype` must then be given.
    flops
        Useful FLOPs of a problem, as a number or a function of the operands. Default: 0.
    bytes
        Compulsory bytes, as a number or a function of the operands. Default: the bytes of the
        operands and results.
    tolerance
        Largest allowed difference: absolute for integers, relative to the largest magnitude in the
        result for floating-point numbers. Default: 0 for integers, 64 machine epsilons for
        floating-point numbers (4 for float16). Long sums need a larger tolerance.
    problems
        A function that returns the operands of further problems, on which each variant is checked.
        It can have one parameter, a ``numpy.random.Generator``. Default: problems of small and odd
        lengths, with values drawn from those of the operands of the call.
    signature
        The shapes, as in NumPy's generalised ufuncs: ``"(m,k),(k,n)->(m,n)"``. Kernels receive one
        length per name. Default: the lengths of the first array.
    dtype
        Element type of the variants' result, if it is not that of the reference result.
    summary
        What it computes, in one sentence. Default: the first line of the reference's docstring.

    Returns
    -------
    Ladder
        A ladder without variants; add them with ``.variant`` and ``.cuda``.
    """
    return Ladder(name, **settings)
