"""Own ladders: a reference function or a built-in task, and variants that a user defines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from adokernels.model.cuda_variant import CudaVariant, cuda_variant
from adokernels.model.ladder import Ladder, Variant, suggesting
from adokernels.model.own_variant import OwnVariant, as_variant, first_sentence
from adokernels.model.own_variant import variant as function_variant
from adokernels.model.problem import Block
from adokernels.model.task import Number, Signature, Task
from adokernels.text import require


class OwnLadder(Ladder):
    """A ladder to which a user can add variants.

    :func:`adokernels.ladder` makes it for an own computation, and ``with_variants`` for the
    computation of another ladder. ``ado.sweep``, ``ado.measure``, ``ado.profile`` and ``ado.check``
    accept it and its variants like a built-in routine.
    """

    def __init__(
        self, name: str, task: Task, summary: str = "", variants: Iterable[Variant] = ()
    ) -> None:
        self.name, self.summary, self._task = name, summary, task
        self._variants = {v.name: v for v in variants}

    @property
    def task(self) -> Task:
        """The reference result, the allowed error, and the edge cases."""
        return self._task

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants in the order in which they were added, after the built-in ones."""
        return tuple(self._variants.values())

    def add(self, *variants: OwnVariant | Callable[..., Any]) -> None:
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
                raise ValueError(
                    f"{self.name} already has a variant {each.name!r}: use it as "
                    f"ladder[{each.name!r}], or pass another name="
                )
            self._variants[each.name] = each.of(self)

    def variant(self, function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
        """Append a function to the ladder; usable as a decorator.

        The parameters are the same as for :func:`adokernels.variant`. The decorated function is
        returned unchanged.
        """
        if function is None:
            return lambda decorated: self.variant(decorated, **settings)
        self.add(function_variant(function, **settings))
        return function

    def cuda_variant(self, name: str, **settings: Any) -> CudaVariant:
        """Append a kernel in CUDA C++ source to the ladder.

        The parameters are the same as for :func:`adokernels.cuda_variant`.
        """
        self.add(cuda_variant(name, **settings))
        added = self._variants[name]
        assert isinstance(added, CudaVariant)
        return added

    def with_variants(self, *variants: Any) -> OwnLadder:
        """Return the ladder with further variants; this ladder does not change."""
        return extended(self, variants)

    def replace(self, variant: OwnVariant) -> None:
        """Replace the variant of the same name."""
        self._variants[variant.name] = variant.of(self)

    def set_default(self, name: str, block: Block, parameters: Mapping[str, Any]) -> None:
        """Set the default block shape and parameter values of a variant."""
        self._variants[name] = self[name].with_default(block, parameters)

    def __call__(self, *args: Any, variant: str | None = None, **options: Any) -> Any:
        """Compute the result with `variant`; default: the variant that :meth:`choose` returns."""
        problem = self.problem(*args, variant=variant, **options)
        return problem.prepare(variant or problem.best()).result()


def extended(ladder: Ladder, variants: Iterable[Any]) -> OwnLadder:
    """A ladder with the task and the variants of another one, and own variants in addition."""
    other = OwnLadder(ladder.name, ladder.task, ladder.summary)
    for each in ladder:
        other._variants[each.name] = each.of(other) if isinstance(each, OwnVariant) else each
    other.add(*variants)
    return other


@suggesting
def ladder(
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
) -> OwnLadder:
    """Make an own ladder: a reference function, and variants that are checked and timed.

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
        The errors in ulp and relative are meaningful only with higher precision.
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
        lengths, with values drawn from the operands of the call.
    signature
        The shapes, as in NumPy's generalised ufuncs: ``"(m,k),(k,n)->(m,n)"``. Kernels receive one
        length per name. Default: the lengths of the first array.
    dtype
        Element type of the variants' result, if it differs from the type of the reference result.
    summary
        What it computes, in one sentence. Default: the first line of the reference's docstring.

    Returns
    -------
    OwnLadder
        A ladder without variants; add them with ``.variant`` and ``.cuda_variant``.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"name must be a non-empty str, got {name!r}")
    if not callable(reference):
        raise TypeError(f"reference must be a function, got {reference!r}")
    require((Callable, type(None)), "a function that returns operands", problems=problems)
    require((Real, type(None)), "a number", tolerance=tolerance)
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"tolerance must be a finite number of at least 0, got {tolerance!r}")
    try:
        result_dtype = None if dtype is None else np.dtype(dtype)
    except TypeError as error:
        raise TypeError(f"dtype must be a data type, got {dtype!r}") from error
    task = Task(
        reference,
        tolerance=tolerance,
        result_dtype=result_dtype,
        flops=flops,
        bytes=bytes,
        problems=problems,
        signature=Signature.parse(signature) if signature else None,
    )
    return OwnLadder(name, task, summary or first_sentence(reference))
