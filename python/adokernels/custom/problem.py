"""Problems of custom ladders: guarded operands, the expected result, and checked calls."""

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
from adokernels.records.kernels import Kernel, Resources
from adokernels.tasks import as_tuple, same_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from adokernels.measuring.source_launch import SourceLaunch


@dataclass(frozen=True, kw_only=True)
class Task:
    """The computation of a custom ladder, and the comparison of results.

    Attributes
    ----------
    reference
        Maps operands and options to the expected result or a tuple of results.
    check
        Maps a result, the expected result and the operands to the error. Raises ValueError if the
        error exceeds the tolerance.
    cost
        Maps operands, options and the expected result to useful FLOPs and compulsory bytes.
    result_type
        Maps an expected result to the element type of the variants' result.
    names
        The names of the operands.
    lengths
        Maps the operands to the lengths that kernels receive, by name.
    """

    reference: Callable[..., Any]
    check: Callable[[Any, Any, Sequence[Any]], float]
    cost: Callable[[Sequence[Any], Mapping[str, Any], Any], tuple[float, float]]
    result_type: Callable[[NDArray[Any]], np.dtype[Any]]
    names: tuple[str, ...]
    lengths: Callable[[Sequence[Any]], Mapping[str, int]]


class CustomProblem:
    """Operands of a custom ladder, copied once, with the expected result.

    Variants work on guarded copies. They cannot change the caller's arrays.

    Attributes
    ----------
    device, device_id : str
        Both are ``"cpu"`` or both ``"cuda"``. Custom variants run on the default GPU.
    arguments : tuple
        The operands on the host.
    options : dict
        The options of the call.
    guarded_results : list of GuardedArray
        The arrays that variants with ``out`` and kernels write.
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
        self.device = self.device_id = device
        self.arguments, self.options = tuple(arguments), dict(options)
        self._task, self._variants = task, variants
        self._rng = np.random.default_rng()
        self._operands = [GuardedArray.like(a, device) if is_array(a) else a for a in arguments]
        self._values = self.arguments  # what the guarded arrays contain
        if expected is None:
            expected = task.reference(*self.arguments, **self.options)
        self.expected = expected
        results = as_tuple(self.expected)
        self.guarded_results = [GuardedArray(r.shape, task.result_type(r), device) for r in results]
        self.flops, self.bytes = task.cost(self.arguments, self.options, self.expected)

    @property
    def operands(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and dtype of each operand."""
        return described(self._task.names, self.arguments)

    def why_not(self, name: str) -> str:
        """Reason why a variant cannot solve this problem; empty if it can."""
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
            results=tuple(self.guarded_results),
            lengths=lengths,
            options=self.options,
        )
        return CustomCall(variant, self, variant.prepare(work, block))

    def best(self) -> str:
        """The last variant of the ladder that can run here and can solve the problem.

        Raises
        ------
        Unavailable
            If there is no such variant; the message contains the reasons.
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
            f"no variant can solve this problem on {self.device} ({listed or 'no variants'})"
        )

    def like(self, operands: Sequence[Any]) -> CustomProblem:
        """The problem of the same computation on other operands."""
        return CustomProblem(self._task, self._variants, operands, self.options, self.device)

    def refresh(self) -> None:
        """Rotate the values of the operands in place, and recompute the expected result."""
        self._use(rotated(a, self._rng) if is_array(a) else a for a in self._values)

    def alter(self) -> None:
        """Exchange two elements of each operand in place, and recompute the expected result."""
        self._use(exchanged(a, self._rng) if is_array(a) else a for a in self._values)

    def _use(self, values: Iterable[Any]) -> None:
        self._values = tuple(values)
        self._restore()
        self.expected = self._task.reference(*self._values, **self.options)

    def compare(self, returned: Any) -> float:
        """The error of a result, which can be an array of any library.

        Raises
        ------
        ValueError
            If the result is wrong or is not an array.
        """
        require_data(returned)
        return self._task.check(_on_host(returned), self.expected, self._values)

    def require_no_view(self, returned: Any) -> None:
        """Raise ValueError if a result shares memory with an operand, because a view is no work."""
        for array in returned if isinstance(returned, tuple) else (returned,):
            for operand in self._operands:
                if isinstance(operand, GuardedArray) and share_memory(array, operand.memory):
                    raise ValueError("wrong result: it returns a view of an operand, not data")

    def check(self, call: CustomCall, *, views: bool = True) -> float:
        """Fill the results with sentinel bytes, run a call, and compare its results.

        Parameters
        ----------
        call
            A call of this problem.
        views
            Whether a result may share memory with an operand, as in a transpose of one element.

        Returns
        -------
        float
            The error.

        Raises
        ------
        ValueError
            If the result is wrong or is not an array, if operands have changed, or if the call has
            written outside of an array.
        """
        try:
            self.poison()
            returned = call.run()
            error = self.compare(self.results() if returned is None else returned)
            if not views:
                self.require_no_view(returned)
            self._check_memory()
        finally:
            self._restore()
        return error

    def launch(self, call: CustomCall) -> list[Any]:
        """Run a call, and return its results unchecked."""
        returned = call.run()
        if returned is None:
            return [result.memory for result in self.guarded_results]
        return list(returned) if isinstance(returned, tuple) else [returned]

    def poison(self) -> None:
        """Fill the results with sentinel bytes."""
        for result in self.guarded_results:
            result.poison()

    def disturb(self) -> None:
        """Exchange elements of operands on the CPU, so that earlier results are wrong."""
        for guarded in self._operands:
            # Only the checks look at red zones: an error here would end the sampling.
            if isinstance(guarded, GuardedArray) and isinstance(guarded.memory, np.ndarray):
                exchange(guarded.memory, self._rng)

    def _restore(self) -> None:
        for guarded, values in zip(self._operands, self._values, strict=True):
            if isinstance(guarded, GuardedArray):
                guarded.write(values)

    def results(self) -> Any:
        """The results that the last call wrote to the guarded arrays, on the host."""
        results = tuple(result.read().copy() for result in self.guarded_results)
        return results if isinstance(self.expected, tuple) else results[0]

    def _check_memory(self) -> None:
        for result in self.guarded_results:
            result.read()
        for name, guarded, values in zip(
            self._task.names, self._operands, self._values, strict=True
        ):
            if isinstance(guarded, GuardedArray) and not same_bytes(guarded.read(), values):
                raise ValueError(f"wrong result: it changes the operand {name}")


class CustomCall:
    """A custom variant that is ready to run on one problem.

    Attributes
    ----------
    variant, device : str
        The name of the variant, and the device on which it runs.
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
        """Run the variant once; return the return value of a function."""
        return self._prepared.run()

    def disturb(self) -> None:
        """Exchange elements of operands on the CPU between two samples."""
        self.problem.disturb()

    def result(self) -> Any:
        """Run the variant once, and return its result on the host."""
        returned = self.run()
        return self.problem.results() if returned is None else _on_host(returned)

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels that it launches; empty if they are unknown before it runs."""
        return list(self._prepared.kernels())

    def source_launch(self) -> SourceLaunch | None:
        """The launch of a kernel in source; None for a function."""
        launch: SourceLaunch | None = self._prepared.source_launch()
        return launch

    def resources(self) -> Resources:
        """Resource usage of its kernels."""
        infos = self._prepared.kernels()
        if not infos and self.device == "cuda":
            infos = [kernel for kernel, _ in _core.count(self.run, [], False)]
        kernels = tuple(map(Kernel.from_core, infos))
        owner = self._variant.owner
        return Resources(routine=owner.name if owner else "", variant=self.variant, kernels=kernels)


def require_data(returned: Any) -> None:
    """Raise ValueError for a result without data, for example a future."""
    for array in returned if isinstance(returned, tuple) else (returned,):
        if library_of(array) is None and not np.isscalar(array):
            raise ValueError(f"wrong result: it returns a {type(array).__name__}, not an array")


def _on_host(returned: Any) -> Any:
    if isinstance(returned, tuple):
        return tuple(map(on_host, returned))
    return on_host(returned)
