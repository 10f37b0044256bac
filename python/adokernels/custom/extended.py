"""Built-in routines with custom variants, which are checked like those of a custom ladder."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.arrays.operands import random_operands
from adokernels.custom.checking import CustomChecker
from adokernels.custom.functions import as_variant
from adokernels.custom.ladder import device_of
from adokernels.custom.problem import CustomCall, CustomProblem, Task
from adokernels.custom.values import host_operands
from adokernels.custom.variants import CustomVariant
from adokernels.ladders.base import AnyLadder, AnyVariant, Block
from adokernels.ladders.routine import Routine
from adokernels.measuring.correctness import ResultChecker
from adokernels.tasks import TASKS


class ExtendedRoutine(AnyLadder[AnyVariant]):
    """A built-in routine with custom variants, made by ``ado.ROUTINE.with_variants``.

    Attributes
    ----------
    routine : Routine
        The built-in routine.
    name, summary : str
        Those of the routine.
    """

    def __init__(
        self, routine: Routine, variants: Sequence[CustomVariant | Callable[..., Any]]
    ) -> None:
        self.routine = routine
        self.name, self.summary = routine.name, routine.summary
        self._custom: dict[str, CustomVariant] = {}
        for each in map(as_variant, variants):
            if each.name in routine or each.name in self._custom:
                raise ValueError(f"{self.name} already has a variant {each.name!r}")
            self._custom[each.name] = each.of(self)

    def with_variants(self, *variants: CustomVariant | Callable[..., Any]) -> ExtendedRoutine:
        """Return the routine with further variants; this object does not change."""
        return ExtendedRoutine(self.routine, [*self._custom.values(), *map(as_variant, variants)])

    @property
    def variants(self) -> tuple[AnyVariant, ...]:
        """The built-in variants, then the custom ones."""
        return (*self.routine.variants, *self._custom.values())

    @property
    def keywords(self) -> tuple[str, ...] | None:
        """Names of the routine's operands, then of its options."""
        return self.routine.keywords

    def set_default(self, name: str, block: Block, parameters: Mapping[str, Any]) -> None:
        """Make a block shape and parameter values the default of a variant."""
        if name not in self._custom:
            self.routine.set_default(name, block, parameters)
        else:
            self._custom[name] = self._custom[name].with_default(block, parameters)

    def problem(
        self, *args: Any, device: str | None = None, variant: str | None = None, **options: Any
    ) -> ExtendedProblem:
        """Check operands and options, and copy them to the device, once for several calls.

        Parameters are those of :meth:`Routine.problem`. The default device is that of the operands,
        or that of the custom variants if all have the same device.
        """
        if variant in self._custom:
            where = self._custom[variant].device
            if device not in (None, where):
                raise ValueError(
                    f"device must be {where!r} for {self.name}[{variant}], got {device!r}"
                )
            device, variant = where, None
        if device is None and variant is None:
            device = device_of(args, self._custom.values())
        built_in = self.routine.problem(*args, device=device, variant=variant, **options)
        return ExtendedProblem(self.routine, built_in, self._custom)

    def useful(self, problem: ExtendedProblem) -> tuple[float, float]:
        """The useful FLOPs and compulsory bytes of a problem, the same for every variant."""
        return self.routine.useful(problem.built_in)

    def checker(self, problem: ExtendedProblem) -> ExtendedChecker:
        """The checker for the results of all variants."""
        return ExtendedChecker(problem)


class ExtendedProblem:
    """Operands and options, once for the built-in variants and once for the custom ones.

    Attributes
    ----------
    built_in : Problem
        The problem of the built-in variants.
    device, arguments, options, operands
        Those of the built-in problem.
    """

    def __init__(
        self, routine: Routine, built_in: _core.Problem, custom: Mapping[str, CustomVariant]
    ) -> None:
        self.routine, self.built_in = routine, built_in
        self.device, self.device_id = built_in.device, built_in.device_id
        self.arguments = built_in.arguments
        self.options, self.operands = built_in.options, built_in.operands
        self._custom = custom

    @functools.cached_property
    def sparsified(self) -> CustomProblem | None:
        """The problem on which results are checked, if the reference is too slow for this one."""
        sparsify = TASKS[self.routine.name].sparsified
        host = host_operands(self.arguments)
        sparse = sparsify(*host, **self.options) if sparsify else None
        return self._of(sparse) if sparse else None

    @functools.cached_property
    def custom(self) -> CustomProblem:
        """The problem of the custom variants."""
        expected = self.sparsified.expected if self.sparsified else None
        return self._of(host_operands(self.arguments), expected)

    def _of(self, operands: Sequence[Any], expected: Any = None) -> CustomProblem:
        task = _task_of(self.routine, len(operands))
        return CustomProblem(task, self._custom, operands, self.options, self.device, expected)

    def why_not(self, name: str) -> str:
        """Reason why a variant cannot solve this problem; empty if it can."""
        if name in self._custom:
            return self.custom.why_not(name)
        return self.built_in.why_not(name)

    def prepare(self, name: str, block: tuple[int, ...] | None = None) -> _core.Call | CustomCall:
        """Prepare a call of a variant."""
        if name in self._custom:
            return self.custom.prepare(name, block)
        return self.built_in.prepare(name, block)

    def best(self) -> str:
        """The built-in variant that a call would run."""
        return self.built_in.best()

    def results(self) -> Any:
        """The results of the last call of a built-in variant."""
        return self.built_in.results()


class ExtendedChecker:
    """Checks the variants of an extended routine; see :class:`CustomChecker`."""

    def __init__(self, problem: ExtendedProblem) -> None:
        self._built_in = ResultChecker(problem.routine, problem.built_in)
        self._custom = CustomChecker(
            problem.sparsified or problem.custom,
            lambda: _hostile(problem),
            rotate=problem.sparsified is None,
        )

    def before(self, call: _core.Call | CustomCall) -> float | None:
        """Check the results of a variant; return its error on the timed problem."""
        if isinstance(call, CustomCall):
            return self._custom.before(call)
        return self._built_in.before(call)

    def after(self, call: _core.Call | CustomCall) -> float | None:
        """Check them again after timing."""
        if isinstance(call, CustomCall):
            return self._custom.after(call)
        return self._built_in.after(call)

    def peer(self, returned: Any) -> float | None:
        """The error of a result that another function returned; None if it cannot be checked."""
        return self._built_in.peer(returned)


def _hostile(problem: ExtendedProblem) -> Iterator[tuple[Any, ...]]:
    """Operands of the sizes on which the built-in variants are tested."""
    routine = problem.routine
    task = TASKS[routine.name]
    dtype = problem.operands[0][2] if task.dtype else None
    for lengths in task.sanitizer.shapes:
        yield random_operands(routine, lengths, dtype)


def _task_of(routine: Routine, count: int) -> Task:
    task = TASKS[routine.name]

    def check(result: Any, expected: Any, operands: Sequence[Any]) -> float:
        unit = task.error_unit
        return task.check(result, expected, unit(*operands) if unit else None)

    def cost(
        operands: Sequence[Any], options: Mapping[str, Any], expected: Any
    ) -> tuple[float, float]:
        useful = routine.variants[0].cost(*operands, **options)
        return useful.flops, useful.bytes

    inputs = [p for p in routine.parameters if p.role == "input"][:count]

    def lengths(operands: Sequence[Any]) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for parameter, operand in zip(inputs, operands, strict=True):
            words = re.findall(r"[\w|]+", parameter.shape)
            batch = np.shape(operand)[: np.ndim(operand) - len(words)]
            if batch:
                found.setdefault("batch", math.prod(batch))
            for word, length in zip(words, np.shape(operand)[len(batch) :], strict=True):
                if word in routine.dimensions:
                    found.setdefault(word, length)
        return found

    return Task(
        reference=task.expected,
        check=check,
        cost=cost,
        result_type=lambda expected: expected.dtype,
        names=tuple(p.name for p in inputs),
        lengths=lengths,
    )
