"""A problem: operands of a ladder on one device, in guarded memory, and calls that solve it."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.model.guarded import GuardedArray, require_host_memory
from adokernels.model.libraries import (
    is_on_device,
    memory_of,
    on_host,
    require_no_view,
    result_on_host,
)
from adokernels.model.task import Reference, Task
from adokernels.model.values import (
    SAME_VALUES,
    Errors,
    as_tuple,
    is_array,
    largest_errors,
    narrowed,
    refuse_objects,
    same_bytes,
)
from adokernels.records.inputs import Inputs
from adokernels.records.kernels import Kernel, Resources
from adokernels.text import visible

Arrays = tuple[NDArray[Any], ...]

Block = tuple[int, ...]


class Broken(ValueError):
    """The code of a variant in another process has failed: an error, no answer, or a crash."""


class ResultType(NamedTuple):
    """Shape and type of a result, and an address with the same alignment."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    address: int = 0


class Values:
    """Values of the operands on the host, and the expected result, computed at its first use.

    If the task's reference is too slow for the whole result, only a random part is computed.
    """

    def __init__(self, task: Task, operands: Sequence[Any], options: Mapping[str, Any]) -> None:
        self.operands, self._task, self._options = tuple(operands), task, options

    @cached_property
    def _reference(self) -> Reference:
        task = self._task
        if task.spot_check and (found := task.spot_check(*self.operands, **self._options)):
            return found
        exact = (task.exact or task.expected)(*self.operands, **self._options)
        unit = task.error_unit(*self.operands, **self._options) if task.error_unit else None
        return Reference(exact, unit)

    @cached_property
    def expected(self) -> Any:
        """The expected result or a tuple of results."""
        exact = self._reference.exact
        if exact is None:
            raise TypeError("the reference must return its result, got None")
        for array in as_tuple(exact):
            refuse_objects("the result of the reference", array.dtype)
        if self._task.exact is None:
            return exact
        found = tuple(map(narrowed, as_tuple(exact)))
        return found if isinstance(exact, tuple) else found[0]

    @cached_property
    def runs(self) -> tuple[Values, ...]:
        """The values of each run that a check needs."""
        if self._task.spot_check is None or self._reference.counterpart is None:
            return (self,)
        return self, Values(self._task, self._reference.counterpart, self._options)

    def check(self, *results: Any) -> Errors:
        """The errors of the result of each run; ValueError if they are wrong."""
        spot, result = self._reference, results[0]
        if spot.counterpart is None:
            error = self._task.check(result, self.expected, spot.unit, spot.sample)
            parts = as_tuple(result)
            if spot.sample:
                parts = tuple(map(spot.sample.of, parts))
            return self._errors(error, parts, as_tuple(spot.exact))
        first, second = map(as_tuple, results)
        found, for_others = ([(r.dtype, r.shape) for r in arrays] for arrays in (first, second))
        if found != for_others:
            raise ValueError(f"wrong result: {found}, with other values {for_others}")
        sums = tuple(spot.factor * a + b for a, b in zip(first, second, strict=True))
        error = self._task.check(sums, self.expected, spot.unit)
        # The sum contains two independent errors.
        weight = math.hypot(spot.factor, 1)
        exact = tuple(each / weight for each in as_tuple(spot.exact))
        return self._errors(error, tuple(each / weight for each in sums), exact, first)

    def _errors(self, in_unit: float, results: Arrays, exact: Arrays, at: Arrays = ()) -> Errors:
        """All errors; ulp and relative errors are None for results that must be exact."""
        errors = Errors(in_unit)
        for got, right, here in itertools.zip_longest(results, exact, at):
            if self._task.allowed(got.dtype) > SAME_VALUES and got.dtype.kind in "iufc":
                errors = errors.combined(Errors(in_unit, *largest_errors(got, right, here)))
        return errors


@dataclass(frozen=True)
class Choice:
    """The variant that a call runs, and why later variants of the ladder do not run.

    Attributes
    ----------
    routine, variant : str
        Their names.
    device : str
        ``"cpu"`` or ``"cuda"``.
    skipped : dict of str to str
        Later variants of the ladder, starting with the last, and why each is skipped: it cannot
        run here, it cannot solve the problem, or another variant is faster for the problem.
    """

    routine: str
    variant: str
    device: str
    skipped: dict[str, str]

    @property
    def reason(self) -> str:
        """Why this variant runs, in one sentence."""
        if not self.skipped:
            return f"It is the last variant of the ladder on {self.device}."
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.skipped.items())
        return f"It is the last variant of the ladder that is not skipped ({reasons})."

    def __repr__(self) -> str:
        return visible(f"{self.routine} runs {self.variant!r} on {self.device}. {self.reason}")


class Problem:
    """Operands and options of a ladder on one device, checked once for several calls.

    Variants work on copies of the operands in memory with red zones. The copies have the strides
    and, modulo 256 bytes, the addresses of the caller's arrays, so that a call is measured with the
    caller's layout. Arrays on the host are packed if they are copied to a GPU. The memory is
    allocated at its first use.

    `arguments` are the operands in order, and `host_arguments` the same on the host, as NumPy
    arrays and scalars. `options` are the options that were given. `device` is ``"cpu"`` or
    ``"cuda"``, and `device_id` is ``"cpu"``, a GPU such as ``"cuda:0"``, or ``"emulator"``. For the
    emulator, which checks all accesses, the memory is on the host, and the core copies it.
    """

    def __init__(
        self,
        ladder: Any,  # a Ladder, whose module imports this one
        arguments: Sequence[Any],
        host_arguments: Sequence[Any],
        options: Mapping[str, Any],
        device: str,
        results: Sequence[ResultType] | None = None,
    ) -> None:
        self.ladder = ladder
        self.task: Task = ladder.task
        self.device_id, self.device = device, _core.device_kind(device)
        self._memory_device = "cpu" if device == "emulator" else device
        self.arguments, self.host_arguments = tuple(arguments), tuple(host_arguments)
        self.options = dict(options)
        self.names = self.task.names(len(self.host_arguments))
        self.values = Values(self.task, self.host_arguments, self.options)
        self._result_types = results
        self._packed: dict[int, GuardedArray] = {}
        self._loaded: Values | None = None

    @property
    def operands(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and dtype of each operand; for a scalar, its type."""
        return [
            (name, tuple(o.shape), str(o.dtype)) if is_array(o) else (name, (), type(o).__name__)
            for name, o in zip(self.names, self.host_arguments, strict=True)
        ]

    @property
    def inputs(self) -> Inputs:
        """The operands and options, as a record."""
        return Inputs.of(self.operands, self.options)

    def __str__(self) -> str:
        """For example ``"gray: (1600, 2560) uint8, border='replicate'"``."""
        return str(self.inputs)

    def __repr__(self) -> str:
        return f"<{self.ladder.name} of {self} on {self.device_id}>"

    # --- Calls ------------------------------------------------------------------------------------

    def why_not(self, variant: str) -> str:
        """Reason why a variant cannot solve this problem; empty if it can."""
        return str(self.ladder[variant].why_not(self))

    def prepare(self, variant: str, block: Block | None = None) -> Call:
        """Prepare a call of a variant.

        Raises
        ------
        Unavailable
            If the variant cannot run here.
        ValueError
            If it cannot solve the problem, or its source does not compile.
        """
        call: Call = self.ladder[variant].prepare(self, block)
        return call

    def best(self) -> str:
        """The variant that a call would run.

        Raises
        ------
        Unavailable
            If no variant can solve the problem here; the message contains the reasons.
        """
        how = {"device": self.device_id, **self.options}
        return str(self.ladder.choose(*self.arguments, **how).variant)

    @cached_property
    def useful(self) -> tuple[float, float]:
        """The useful FLOPs and compulsory bytes, the same for every variant."""
        sizes = (math.prod(r.shape) * r.dtype.itemsize for r in self.result_types)
        return self.task.useful(self.arguments, self.options, sum(sizes))

    # --- Memory -----------------------------------------------------------------------------------

    @cached_property
    def result_types(self) -> Sequence[ResultType]:
        """Shape and type of each result."""
        if self._result_types is not None:
            return self._result_types
        found = as_tuple(self.values.expected)
        return [ResultType(r.shape, self.task.result_dtype or r.dtype) for r in found]

    @cached_property
    def guarded_operands(self) -> list[Any]:
        """The operands in memory with red zones; scalars are passed by value."""
        arrays = [a for a in self.host_arguments if is_array(a)]
        if self._memory_device == "cpu":
            sizes = (math.prod(r.shape) * r.dtype.itemsize for r in self.result_types)
            needed = sum(a.nbytes for a in arrays if 0 not in a.strides) + sum(sizes)
            require_host_memory(needed, f"copies of the operands and results of {self.ladder.name}")
        pairs = zip(self.arguments, self.host_arguments, strict=True)
        return [self._guarded(*pair) if is_array(pair[1]) else pair[1] for pair in pairs]

    @cached_property
    def guarded_results(self) -> list[GuardedArray]:
        """The memory of the results, with red zones."""
        return [
            GuardedArray(r.shape, r.dtype, self._memory_device, address=r.address)
            for r in self.result_types
        ]

    def _guarded(self, given: Any, host: Any) -> GuardedArray:
        """Memory with the layout of an operand."""
        strides, address = None, 0
        if self._memory_device == "cpu":
            strides, address = host.strides, host.ctypes.data
        elif not is_on_device(given):
            strides = host.strides if host.flags.f_contiguous else None
        elif facts := memory_of(given):
            strides, address = facts.get("strides"), facts["data"][0]
        return GuardedArray(host.shape, host.dtype, self._memory_device, strides, address)

    def packed_operands(self) -> list[Any]:
        """The operands in memory with red zones, packed and row-major."""
        for i, guarded in enumerate(self.guarded_operands):
            strided = isinstance(guarded, GuardedArray) and not guarded.is_packed
            if strided and i not in self._packed:
                self._packed[i] = GuardedArray(guarded.shape, guarded.dtype, self._memory_device)
                self.forget()
        self.load(self.values)
        return [self._packed.get(i, guarded) for i, guarded in enumerate(self.guarded_operands)]

    @cached_property
    def core(self) -> _core.Problem:
        """The problem of the built-in variants, in the guarded memory."""
        assert self.task.core is not None
        if self._loaded is None:
            self.load(self.values)
        operands = tuple(g.memory for g in self.guarded_operands)
        results = tuple(r.memory for r in self.guarded_results)
        out = results if len(results) > 1 else results[0]
        return self.task.core.problem(operands, self.options, self.device_id, out=out)

    def load(self, values: Values) -> None:
        """Write values to the operands, unless they are in place."""
        if self._loaded is values:
            return
        if self._loaded is None:
            for result in self.guarded_results:
                result.poison()
        for i, guarded in enumerate(self.guarded_operands):
            if isinstance(guarded, GuardedArray):
                guarded.write(values.operands[i])
                if i in self._packed:
                    self._packed[i].write(values.operands[i])
                # The core may have copied an array that kernels cannot read in place.
                if self.device == "cuda" and (
                    not guarded.is_packed or self._memory_device == "cpu"
                ):
                    self.__dict__.pop("core", None)
        self._loaded = values

    def forget(self) -> None:
        """Note that the memory may have changed; the next `load` restores it."""
        self._loaded = None

    def poison(self) -> None:
        """Fill the results with sentinel bytes."""
        on_gpu = self.task.core is not None and self.device == "cuda"
        if on_gpu:  # avoids a copy to the GPU
            self.core.fill_results(self.guarded_results[0].poison_byte)
        if not on_gpu or self._memory_device == "cpu":
            for result in self.guarded_results:
                result.poison()

    def change_sentinels(self) -> None:
        """Replace the sentinel bytes of the results with others, or restore them."""
        for result in self.guarded_results:
            result.change_sentinel()
        self.forget()

    def results(self) -> Any:
        """The results of the last call, on the host; ValueError if one of its red zones changed."""
        results = tuple(result.read().copy() for result in self.guarded_results)
        several = len(results) > 1 or (
            not self.task.core and isinstance(self.values.expected, tuple)
        )
        return results if several else results[0]

    def require_intact(self, values: Values, *, results: bool = True) -> None:
        """Raise ValueError if a red zone has changed, or an operand does not have these values.

        `results` states whether to check the red zones of the results, as :meth:`results` does.
        """
        if results:
            for result in self.guarded_results:
                result.read()
        arrays = zip(self.names, self.guarded_operands, values.operands, strict=True)
        for i, (name, guarded, expected) in enumerate(arrays):
            for array in (guarded, self._packed.get(i)):
                if isinstance(array, GuardedArray) and not same_bytes(array.read(), expected):
                    raise ValueError(f"wrong result: it changes the operand {name}")


def changed_values(problem: Problem, change: Callable[[Any], Any]) -> Values:
    """A changed copy of the values of a problem, whose elements are shared as in its operands."""
    operands = []
    for array, guarded in zip(problem.host_arguments, problem.guarded_operands, strict=True):
        is_guarded = isinstance(guarded, GuardedArray)
        operands.append(guarded.with_layout(change(array)) if is_guarded else array)
    return Values(problem.task, operands, problem.options)


def kernels_on(device: str, infos: Sequence[_core.KernelInfo]) -> tuple[Kernel, ...]:
    """Copy the values of kernels that the core reports for a device."""
    count = int(_core.cuda_properties(device)["multiprocessors"]) if infos else 0
    return tuple(Kernel.from_core(info, count) for info in infos)


class Call(ABC):
    """A variant that is ready to run on one problem."""

    #: Whether it belongs to the package, so that the contract tests check it at other sizes.
    built_in = False
    #: Whether it selects the stream of its work itself.
    selects_stream = False
    #: A function that is called before each sample, outside of the timed interval.
    between_samples: Callable[[], None] | None = None
    #: The launch configuration of a kernel.
    block: Block | None = None
    grid: Block | None = None

    def __init__(self, problem: Problem, variant: str) -> None:
        self.problem, self.variant, self.device = problem, variant, problem.device
        #: The problem whose guarded memory the parent reads.
        self.memory = problem

    @property
    def label(self) -> str:
        """For example ``"transpose[tiled]"``."""
        return f"{self.problem.ladder.name}[{self.variant}]"

    @property
    @abstractmethod
    def cost(self) -> _core.Cost:
        """FLOPs and bytes of the variant on this problem."""

    @abstractmethod
    def run(self) -> Any:
        """Run the variant once; return the results, or None if they are in the guarded memory."""

    def computed(self, values: Values, *, views: bool = False) -> Any:
        """Run the variant once for these values; return a copy of its result, None for a ceiling.

        ValueError is raised if it changes other memory. `views` states whether a result may share
        memory with an operand.
        """
        problem, ceiling = self.problem, self.problem.ladder[self.variant].ceiling
        problem.load(values)
        try:
            problem.poison()
            returned, result = self.run(), None
            if not ceiling:
                result = problem.results() if returned is None else result_on_host(returned)
            if returned is not None and not views:
                arrays = (g.memory for g in problem.guarded_operands if isinstance(g, GuardedArray))
                require_no_view(returned, list(arrays))
            problem.require_intact(values, results=ceiling or returned is not None)
        except BaseException:
            problem.forget()
            raise
        return result

    @property
    def timed(self) -> Any:
        """The object that the core samples and counts: a function without arguments, or a call."""
        return self.run

    def sample(self, cold: bool, repeats: int) -> tuple[float, float, bool, float]:
        """Take one sample: see :data:`adokernels.measuring.sampling.Sample`."""
        return _core.sample(self.timed, self.problem.device_id, cold, repeats, 0)

    def conclude(self) -> None:  # noqa: B027  # most calls have nothing to conclude
        """Raise ValueError if the samples cannot be believed."""

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels that it launches; empty if they are unknown before it runs."""
        return ()

    def result(self) -> Any:
        """Run the variant once, and return its result on the host."""
        returned = self.run()
        if returned is None:
            return self.problem.results()
        return tuple(map(on_host, returned)) if isinstance(returned, tuple) else on_host(returned)

    def resources(self) -> Resources:
        """Resource usage of its kernels."""
        infos = self.kernels()
        if not infos and self.device == "cuda":
            infos = [kernel for kernel, _ in _core.count(self.timed, [], False)]
        kernels = kernels_on(self.problem.device_id, infos)
        return Resources(routine=self.problem.ladder.name, variant=self.variant, kernels=kernels)
