"""One problem of a custom ladder: guarded operands, the expected result, and checked calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.arrays.libraries import library_of, on_host, share_memory
from adokernels.custom.memory import GuardedArray
from adokernels.custom.values import described, exchange, exchanged, is_array, rotated
from adokernels.custom.variants import CustomVariant, Work
from adokernels.ladders.base import Block
from adokernels.ladders.resources import Kernel, Resources
from adokernels.tasks import as_tuple, same_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Task:
    """What the variants of a custom ladder compute, and how results are compared.

    Attributes
    ----------
    reference
        Maps operands and options to the expected result or a tuple of results.
    check
        Maps a result, the expected result and the operands to the error; raises ValueError if the
        error exceeds the tolerance.
    cost
        Maps operands, options and the expected result to useful FLOPs and compulsory bytes.
    names
        The names of the operands.
    lengths
        Maps the operands to the lengths that kernels receive, by name.
    """

    reference: Callable[..., Any]
    check: Callable[[Any, Any, Sequence[Any]], float]
    cost: Callable[[Sequence[Any], Mapping[str, Any], Any], tuple[float, float]]
    names: tuple[str, ...]
    lengths: Callable[[Sequence[Any]], Mapping[str, int]]


class CustomProblem:
    """Operands of a custom ladder, copied once, with the expected result.

    Variants work on guarded copies: what they do to them does not reach the caller's arrays.

    Attributes
    ----------
    device : str
        ``"cpu"`` or ``"cuda"``.
    arguments : tuple
        The operands on the host.
    options : dict
        The options that were given.
    """

    def __init__(
        self,
        task: Task,
        variants: Mapping[str, CustomVariant],
        arguments: Sequence[Any],
        options: Mapping[str, Any],
        device: str,
        expected: Any = None,
    ) -> None:
        self.device = device
        self.arguments, self.options = tuple(arguments), dict(options)
        self._task, self._variants = task, variants
        self._rng = np.random.default_rng()
        self._operands = [GuardedArray.like(a, device) if is_array(a) else a for a in arguments]
        self._values = self.arguments  # what the guarded arrays contain
        if expected is None:
            expected = task.reference(*self.arguments, **self.options)
        self.expected = expected
        results = as_tuple(self.expected)
        self._results = [GuardedArray(r.shape, r.dtype, device) for r in results]
        self.flops, self.bytes = task.cost(self.arguments, self.options, self.expected)

    @property
    def operands(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and dtype of each operand."""
        return described(self._task.names, self.arguments)

    def why_not(self, name: str) -> str:
        """Why a variant cannot solve this problem; empty if it can."""
        return self._variants[name].why_not(self.arguments, self.options)

    def prepare(self, name: str, block: Block | None = None) -> CustomCall:
        """Prepare a call of a variant.

        Raises
        ------
        Unavailable
            If the variant cannot run here.
        ValueError
            If it cannot solve the problem, or its source does not compile.
        """
        variant = self._variants[name]
        if reason := variant.why_unavailable:
            raise _core.Unavailable(f"{variant.label}: {reason}")
        if reason := self.why_not(name):
            raise ValueError(f"{variant.label}: {reason}")
        lengths = self._task.lengths(self.arguments)
        work = Work(
            names=self._task.names,
            operands=tuple(self._operands),
            results=tuple(self._results),
            lengths=lengths,
            options=self.options,
        )
        return CustomCall(variant, self, variant.prepare(work, block))

    def best(self) -> str:
        """The last variant of the ladder that can run here and solve the problem.

        Raises
        ------
        Unavailable
            If there is none; the message contains the reasons.
        """
        reasons = {}
        for name, variant in reversed([*self._variants.items()]):
            if variant.device == self.device:
                reason = variant.why_unavailable or self.why_not(name)
                if not reason:
                    return name
                reasons[name] = reason
        listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise _core.Unavailable(
            f"no variant can compute this on {self.device} ({listed or 'there is none'})"
        )

    def like(self, operands: Sequence[Any]) -> CustomProblem:
        """The same computation on other operands."""
        return CustomProblem(self._task, self._variants, operands, self.options, self.device)

    def refresh(self) -> None:
        """Replace the values of the operands, in the same memory, and the expected result."""
        self._use(rotated(a, self._rng) if is_array(a) else a for a in self._values)

    def alter(self) -> None:
        """Exchange two elements of each operand, and replace the expected result."""
        self._use(exchanged(a, self._rng) if is_array(a) else a for a in self._values)

    def _use(self, values: Iterable[Any]) -> None:
        self._values = tuple(values)
        self._restore()
        self.expected = self._task.reference(*self._values, **self.options)

    def compare(self, returned: Any) -> float:
        """The error of a result of any library.

        Raises
        ------
        ValueError
            If it is wrong or is no array.
        """
        require_data(returned)
        return self._task.check(_on_host(returned), self.expected, self._values)

    def require_no_view(self, returned: Any) -> None:
        """Raise ValueError if a result is memory of an operand: a view computes nothing."""
        for array in returned if isinstance(returned, tuple) else (returned,):
            for operand in self._operands:
                if isinstance(operand, GuardedArray) and share_memory(array, operand.memory):
                    raise ValueError("wrong result: it returns a view of an operand, not data")

    def check(self, call: CustomCall, *, views: bool = True) -> float:
        """Run a call on poisoned results, and compare its results with the expected ones.

        Parameters
        ----------
        call
            A call of this problem.
        views
            Whether a result may be memory of an operand, as that of a transpose of one element.

        Returns
        -------
        float
            The error.

        Raises
        ------
        ValueError
            If the result is wrong or is no array, if operands have changed, or if memory outside of
            the arrays has been written.
        """
        for result in self._results:
            result.poison()
        try:
            returned = call.run()
            error = self.compare(self.results() if returned is None else returned)
            if not views:
                self.require_no_view(returned)
            self._check_memory()
        finally:
            self._restore()
        return error

    def launch(self, call: CustomCall) -> list[Any]:
        """Run a call on poisoned results, and return the arrays that it writes, unread."""
        for result in self._results:
            result.poison()
        returned = call.run()
        if returned is None:
            return [result.memory for result in self._results]
        return list(returned) if isinstance(returned, tuple) else [returned]

    def disturb(self) -> None:
        """Exchange elements of the operands on the CPU: a repeated result is then wrong."""
        if self.device == "cpu":
            for guarded in self._operands:
                if isinstance(guarded, GuardedArray):
                    exchange(guarded.read(), self._rng)

    def _restore(self) -> None:
        for guarded, values in zip(self._operands, self._values, strict=True):
            if isinstance(guarded, GuardedArray):
                guarded.write(values)

    def results(self) -> Any:
        """The results that the last call wrote to the guarded arrays, on the host."""
        results = tuple(result.read().copy() for result in self._results)
        return results if isinstance(self.expected, tuple) else results[0]

    def _check_memory(self) -> None:
        for result in self._results:
            result.read()
        for name, guarded, values in zip(
            self._task.names, self._operands, self._values, strict=True
        ):
            if isinstance(guarded, GuardedArray) and not _same(guarded.read(), values):
                raise ValueError(f"wrong result: it changes the operand {name}")


class CustomCall:
    """A custom variant that is ready to run on one problem.

    Attributes
    ----------
    variant, device : str
        The name of the variant, and where it runs.
    block, grid : tuple of int or None
        The launch configuration of a kernel.
    cost : Cost
        FLOPs and bytes.
    """

    def __init__(self, variant: CustomVariant, problem: CustomProblem, prepared: Any) -> None:
        self.variant, self.device = variant.name, variant.device
        self.block, self.grid = prepared.block, prepared.grid
        self.problem, self._variant, self._prepared = problem, variant, prepared

    @property
    def cost(self) -> _core.Cost:
        """FLOPs and bytes of this variant on this problem."""
        problem, variant = self.problem, self._variant

        def value(given: Any, default: float) -> float:
            if given is None:
                return default
            return float(given(*problem.arguments, **problem.options) if callable(given) else given)

        return _core.Cost(
            flops=problem.flops,
            bytes=problem.bytes,
            executed_flops=value(variant.flops, problem.flops),
            requested_bytes=value(variant.bytes, problem.bytes),
        )

    def run(self) -> Any:
        """Run the variant once; return what a function returns."""
        return self._prepared.run()

    def disturb(self) -> None:
        """Exchange elements of the operands on the CPU between two samples."""
        self.problem.disturb()

    def result(self) -> Any:
        """Run the variant once, and return its result on the host."""
        returned = self.run()
        return self.problem.results() if returned is None else _on_host(returned)

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels that it launches, as far as they are known without running it."""
        return list(self._prepared.kernels())

    def resources(self) -> Resources:
        """Resource usage of its kernels."""
        infos = self._prepared.kernels()
        if not infos and self.device == "cuda":
            infos = [kernel for kernel, _ in _core.count(self.run, [], False)]
        kernels = tuple(map(Kernel.from_core, infos))
        owner = self._variant.owner
        return Resources(routine=owner.name if owner else "", variant=self.variant, kernels=kernels)


def require_data(returned: Any) -> None:
    """Raise ValueError for a result without data, such as a promise to compute it later."""
    for array in returned if isinstance(returned, tuple) else (returned,):
        if library_of(array) is None and not np.isscalar(array):
            raise ValueError(
                f"wrong result: it returns a {type(array).__name__}, not an array with data"
            )


def _on_host(returned: Any) -> Any:
    if isinstance(returned, tuple):
        return tuple(map(on_host, returned))
    return on_host(returned)


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return same_bytes(a, np.ascontiguousarray(b))
