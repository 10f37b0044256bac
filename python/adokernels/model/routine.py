"""Routines and variants as Python objects: what users call, index and inspect."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from adokernels import _core, later
from adokernels.machine_code import sass_of_module
from adokernels.model.labelled import call_with_labels
from adokernels.model.ladder import (
    Ladder,
    Variant,
    check_options,
    has_dask_array,
    refuse_dask_arrays,
)
from adokernels.model.own_ladder import OwnLadder, extended
from adokernels.model.problem import Block, Call, Problem, kernels_on
from adokernels.model.source import Source, shipped_path, source_of
from adokernels.model.task import Task
from adokernels.model.tasks import TASKS
from adokernels.records.kernels import Kernel, Resources
from adokernels.records.sass import Sass


class BuiltInVariant(Variant, _core.Callable):
    """One implementation of a routine on one device; see :class:`Variant`.

    Attributes
    ----------
    routine : Routine
        The routine that it implements.
    """

    def __init__(self, routine: Routine, info: _core.VariantInfo) -> None:
        self.routine = routine
        self.name, self.device, self.changes = info.name, info.device, info.changes
        self.steps = None if info.steps is None else tuple(info.steps)
        self.precision, self.ceiling, self.stages = info.precision, info.ceiling, tuple(info.stages)
        self.blocks = tuple(tuple(b) for b in info.blocks)
        self.models_flops = info.models_flops

    @property
    def ladder(self) -> Routine:
        """The routine that it implements."""
        return self.routine

    @property
    def why_unavailable(self) -> str:
        """Reason why it cannot run here: not built, no device, or device too old; else empty."""
        return self.routine._core.why_unavailable(self.name)

    def why_not(self, problem: Problem) -> str:
        """Reason why it cannot solve a problem; empty if it can."""
        return problem.core.why_not(self.name)

    def prepare(
        self,
        problem: Problem,
        block: Block | None = None,
        *,
        stream: int = 0,
        extra_shared_bytes: int = 0,
    ) -> BuiltInCall:
        """Prepare it to run on a problem, on a CUDA stream, with extra shared memory per block.

        By default, it runs on the legacy default stream, without extra shared memory.
        """
        return BuiltInCall(problem, self.name, block, stream, extra_shared_bytes)

    def with_default(self, block: Block, parameters: Mapping[str, Any]) -> BuiltInVariant:
        """Set its default block shape for this session."""
        if parameters:
            raise ValueError(f"{self.label} does not support parameters, got {dict(parameters)}")
        self.routine._core.set_default_block(self.name, block)
        self.routine.__dict__.pop("variants", None)  # cached with the previous block
        return self.routine[self.name]

    if TYPE_CHECKING:

        def __call__(
            self,
            *args: Any,
            block: tuple[int, ...] | None = None,
            device: str | None = None,
            out: Any = None,
            stream: Any = None,
            **options: Any,
        ) -> Any:
            """Compute the routine with this variant.

            If an operand is a Dask array, the result is a lazy Dask array.
            """

    # _core.Callable.__call__ calls this method if an argument is a Dask array, or may be labelled.
    def _lazy_call(self, *args: Any, **keywords: Any) -> Any:
        return self.routine(*args, variant=self.name, **keywords)

    def cost(self, *args: Any, **options: Any) -> _core.Cost:
        """FLOPs and bytes for these operands; needs no device.

        Returns
        -------
        Cost
            ``flops`` and ``bytes`` of the problem (useful, compulsory); ``executed_flops``, the
            ``executed_instructions`` that compute them (0: not counted) and ``requested_bytes`` of
            this variant.
        """
        check_options(self.routine, args, options, BuiltInVariant.cost)
        refuse_dask_arrays("cost", args, options)
        return self.routine._core.cost(self.name, args, options)

    def resources(
        self, *args: Any, block: tuple[int, ...] | None = None, out: Any = None, **options: Any
    ) -> Resources:
        """Resource usage of its compiled kernels; see :meth:`Variant.resources`."""
        check_options(self.routine, args, options, BuiltInVariant.resources)
        if not args:
            args = self.routine.task.empty_operands()
        try:
            infos = self.routine._core.kernels(self.name, args, options, block, out)
        except _core.Unavailable as error:  # the text names an option that only calls have
            text = str(error).replace('device="emulator"', 'ado.settings.device = "emulator"')
            raise _core.Unavailable(text) from None
        kernels = kernels_on("cuda", infos)
        return Resources(routine=self.routine.name, variant=self.name, kernels=kernels)

    def sass(
        self,
        *args: Any,
        block: tuple[int, ...] | None = None,
        out: Any = None,
        arch: str | None = None,
        kernels: Iterable[Kernel] | None = None,
        **options: Any,
    ) -> Sass:
        """The machine code of the kernels that a call launches; see :meth:`Variant.sass`."""
        if self.device != "cuda":
            raise ValueError(f"{self.label} must be a CUDA variant, got a variant without kernels")
        check_options(self.routine, args, options, BuiltInVariant.sass)
        if kernels is None:
            if reason := _core.why_no_cuda():
                raise _core.Unavailable(
                    f"the kernels that the call launches cannot be determined: {reason}; remedy: "
                    "pass kernels= from stored resources or counters"
                )
            kernels = self.resources(*args, block=block, out=out, **options)
        elif args or options or block is not None or out is not None:
            raise TypeError("arguments of a call must not be combined with kernels=")
        found, code = sass_of_module(
            Path(_core.__file__),
            kernels,
            arch=arch,
            source=self.routine.name,
            path_of=shipped_path,
        )
        return Sass(routine=self.routine.name, variant=self.name, arch=found, kernels=code)

    @property
    def source(self) -> Source:
        """Its source code: declaration, kernels, and the definitions in the folder that they use.

        Needs no device and no CUDA build. A notebook and a terminal show it highlighted; ``print``
        shows plain text.

        Returns
        -------
        Source
            ``text``, ``files``, and ``parts`` with file and line of each definition.
        """
        return source_of(self.label, *(f"{routine}[{name}]" for routine, name in self.stages))

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, (self.routine, self.name)


class BuiltInCall(Call):
    """A built-in variant that is ready to run."""

    built_in = True

    def __init__(self, problem: Problem, variant: str, *how: Any) -> None:
        super().__init__(problem, variant)
        self._how = (variant, *how)  # the arguments of prepare()
        self._prepared_for, self._prepared = problem.core, problem.core.prepare(*self._how)
        if self.device == "cuda":
            self.block, self.grid = tuple(self._prepared.block), tuple(self._prepared.grid)

    @property
    def timed(self) -> _core.Call:
        """The call of the core, which runs without a Python frame."""
        if self._prepared_for is not self.problem.core:  # it has copied its operands again
            self._prepared_for = self.problem.core
            self._prepared = self._prepared_for.prepare(*self._how)
        return self._prepared

    @property
    def cost(self) -> _core.Cost:
        """FLOPs and bytes of the variant on this problem."""
        return self._prepared.cost

    def run(self) -> None:
        """Run the variant once."""
        self.timed.run()
        if self.problem.device_id == "emulator":
            self.problem.core.results()  # copies them from the memory of the emulator

    def sample(self, cold: bool, repeats: int) -> tuple[float, float, bool, float]:
        """Take one sample; see :meth:`Call.sample`."""
        return _core.sample(self.timed, cold, repeats)

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels that it launches; none on the CPU."""
        return self.timed.kernels()


class Routine(Ladder, _core.Callable):
    """A computation, and the ladder of variants that implement it.

    Call it like a function, index it by a variant's name, or iterate over its variants. Results
    have the type of the operands: NumPy arrays, tensors of torch, labelled arrays of xarray, frames
    of pandas, device arrays. A call with Dask arrays, also in xarray, returns a lazy result.

    Attributes
    ----------
    name : str
        As in ``ado.<name>``.
    summary : str
        What it computes, in one sentence.
    source : str
        The origin of the computation.
    parameters : tuple of Parameter
        Its operands, results and options, with names, shapes, types and descriptions.
    dimensions : tuple of str
        The names of the lengths in the operands' shapes, in order of first appearance.
    batched : bool
        Whether operands may have leading batch dimensions.
    halo : int or None
        A result pixel depends on the pixels up to this distance along rows and columns. It is None
        if the routine is not an image filter.
    """

    _kind = "Routine"

    def __init__(self, core: _core.Routine) -> None:
        self._core = core
        self.name, self.summary, self.source = core.name, core.summary, core.source
        self.parameters: tuple[_core.Parameter, ...] = tuple(core.parameters)
        self.dimensions: tuple[str, ...] = tuple(core.dimensions)
        self.batched, self.halo = core.batched, core.halo
        self._task: Task
        self._shared: Task | None = None  # the original of _task

    @property
    def task(self) -> Task:
        """The reference result, the allowed error, and the problems to run."""
        shared = TASKS.get(self.name, _WITHOUT_REFERENCE)
        if self._shared is not shared:
            self._task, self._shared = dataclasses.replace(shared, core=self._core), shared
        return self._task

    @cached_property
    def variants(self) -> tuple[BuiltInVariant, ...]:
        """The variants in ladder order, CPU then CUDA."""
        return tuple(BuiltInVariant(self, info) for info in self._core.variants)

    if TYPE_CHECKING:

        def __getitem__(self, name: str) -> BuiltInVariant: ...

        def __iter__(self) -> Iterator[BuiltInVariant]: ...

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(p.name for p in self.parameters if p.role == "option")

    def with_variants(self, *variants: Any) -> OwnLadder:
        """Return the routine with variants of your own; see :meth:`Ladder.with_variants`."""
        return extended(self, variants)

    if TYPE_CHECKING:

        def __call__(self, *args: Any, variant: str | None = None, **options: Any) -> Any:
            """Compute the result; each routine documents its operands and options."""

    # _core.Callable.__call__ calls this method if an argument is a Dask array, or may be labelled.
    def _lazy_call(self, *args: Any, **keywords: Any) -> Any:
        if has_dask_array(args, keywords.values()):
            return later.lazy_call(self, *args, **keywords)
        return call_with_labels(self, args, keywords)

    def __reduce__(self) -> str:
        return self.name  # the global adokernels.<name>; see registry.routine_object


def batch_option(routine: Routine, operand: Any) -> dict[str, Any]:
    """The option ``batch=True`` if a filter of gray images needs it for a batch, or no options.

    Without this option, the filter rejects images with 3 or 4 columns, because a colour image has
    the same shape.
    """
    shape = np.shape(operand)
    narrow = len(shape) > 2 and shape[-1] in (3, 4)
    return {"batch": True} if narrow and "batch" in routine.options else {}


def has_channels(routine: Routine) -> bool:
    """Whether the last axis of the first operand contains the channels of colour images."""
    return routine.parameters[0].shape.endswith("3|4)")


def check_types(routine: Routine, operands: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise the error of a call with NumPy arrays of these shapes and types, if there is one.

    Costs depend on shapes and types only, and their calculation checks operands and options like a
    call. The arrays for it contain one element each. `options` can also have operands.
    """

    def one_element(value: Any) -> Any:
        if not (hasattr(value, "shape") and hasattr(value, "dtype")):
            return value
        return np.broadcast_to(np.zeros((), value.dtype), value.shape)

    names = [p.name for p in routine.parameters if p.role == "input"]
    given = {n: one_element(value) if n in names else value for n, value in options.items()}
    # The calculation allocates the results after all checks, without writing to them. A result
    # that is larger than the memory is not an error here.
    with contextlib.suppress(MemoryError):
        routine._core.cost(routine.variants[0].name, tuple(map(one_element, operands)), given)


def _without_reference(*_: Any, **__: Any) -> NoReturn:
    raise ValueError("this routine has no reference result")


_WITHOUT_REFERENCE = Task(_without_reference)
