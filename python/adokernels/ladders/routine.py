"""Routines and variants as Python objects: what users call, index and inspect."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.arrays.operands import empty_operands
from adokernels.ladders.base import AnyChecker, AnyLadder, AnyVariant, Block
from adokernels.ladders.checks import refuse_dask_arrays
from adokernels.ladders.choice import Choice, choose
from adokernels.ladders.keywords import check_options
from adokernels.ladders.recorded_path import shipped_path
from adokernels.ladders.resources import Kernel, Resources, launched_kernels
from adokernels.ladders.source import Source, source_of, sources_folder
from adokernels.machine_code.disassembly import sass_of_module
from adokernels.machine_code.records import Sass
from adokernels.names import find

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import DTypeLike


class Variant(AnyVariant, _core.Callable):
    """One implementation of a routine on one device: a step of its ladder.

    Attributes
    ----------
    routine : Routine
        The routine that it implements.
    name : str
        Unique within the routine.
    device : str
        ``"cpu"`` or ``"cuda"``.
    changes : str
        The difference from the previous variant, in one sentence.
    precision : str
        ``"exact"``, or how the result is rounded.
    stages : tuple of (str, str)
        The stages of a pipeline, in order: routine and variant. Empty for a single kernel.
    ceiling : bool
        Whether it moves the bytes without computing the result. It is timed, but never the default.
    """

    def __init__(self, routine: Routine, info: _core.VariantInfo) -> None:
        self.routine = routine
        self.name: str = info.name
        self.device: str = info.device
        self.changes: str = info.changes
        self.precision: str = info.precision
        self.ceiling: bool = info.ceiling
        self.stages: tuple[tuple[str, str], ...] = tuple(info.stages)
        self._blocks = tuple(tuple(b) for b in info.blocks)

    @property
    def ladder(self) -> Routine:
        """The routine that it implements."""
        return self.routine

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Supported block shapes, the default first; empty on the CPU."""
        return self._blocks

    @property
    def why_unavailable(self) -> str:
        """Reason why it cannot run here: not built, no device, or device too old; else empty."""
        return self.routine._core.why_unavailable(self.name)

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

    # _core.Callable.__call__ calls this method if an argument is a Dask array.
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
        check_options(self.routine, args, options, Variant.cost)
        refuse_dask_arrays("cost", args, options)
        return self.routine._core.cost(self.name, args, options)

    def resources(
        self, *args: Any, block: tuple[int, ...] | None = None, out: Any = None, **options: Any
    ) -> Resources:
        """Resource usage of its compiled kernels: registers, shared memory, occupancy.

        Parameters
        ----------
        *args, **options
            Operands and options of a call. Their shapes and types determine which kernels are
            launched; nothing is computed. Default: the task's default problem.
        block : tuple of int, optional
            One of ``blocks``; default the first.
        out : array or tuple of arrays, optional
            The results of the call, for variants that depend on where results are.

        Returns
        -------
        Resources
            One :class:`Kernel` per launch; empty if the variant launches no kernel of this library.

        Raises
        ------
        ValueError
            For a CPU variant, or if the variant cannot solve the problem.
        Unavailable
            If there is no GPU: the values depend on the code that is compiled for it.
        """
        check_options(self.routine, args, options, Variant.resources)
        if not args:
            args = empty_operands(self.routine)
        infos = self.routine._core.kernels(self.name, args, options, block, out)
        kernels = tuple(map(Kernel.from_core, infos))
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
        """The machine code (SASS) of the kernels that a call launches.

        Parameters
        ----------
        *args, block, out, **options
            As in :meth:`resources`.
        arch : str, optional
            An architecture of this build, for example ``"sm_90"``. Default: the one that the GPU
            runs, or else the first one of the build.
        kernels : iterable of Kernel, optional
            The kernels that the call launches, for example those of stored resources or counters.
            With them, no GPU is needed, and the call must have no other arguments.

        Returns
        -------
        Sass
            Per kernel: instructions, loads and stores by width, registers and loops.

        Raises
        ------
        ValueError
            For a CPU variant, if the variant cannot solve the problem, if the build has no code for
            `arch`, or if it does not contain a kernel.
        Unavailable
            If the CUDA kernels are not built, if there is no GPU to determine the kernels, or if
            ``cuobjdump`` or ``nvdisasm`` is missing.
        """
        if self.device != "cuda":
            raise ValueError(f"{self.label} must be a CUDA variant, got a variant without kernels")
        check_options(self.routine, args, options, Variant.sass)
        if kernels is None:
            if reason := _core.why_no_cuda():
                raise _core.Unavailable(
                    f"the kernels that the call launches cannot be determined: {reason}; remedy: "
                    "pass kernels= from stored resources or counters"
                )
            kernels = self.resources(*args, block=block, out=out, **options)
        elif args or options or block is not None or out is not None:
            raise TypeError("kernels= determines the kernels: omit the arguments of a call")
        root = sources_folder()
        found, code = sass_of_module(
            Path(_core.__file__),
            launched_kernels(kernels),
            arch=arch,
            source=self.routine.name,
            path_of=lambda recorded: shipped_path(recorded, root),
        )
        return Sass(routine=self.routine.name, variant=self.name, arch=found, kernels=code)

    @property
    def source(self) -> Source:
        """Its source code: declaration, kernels, and what these use of the routine's folder.

        Needs no device and no CUDA build. A notebook and a terminal show it highlighted; ``print``
        shows plain text.

        Returns
        -------
        Source
            ``text``, ``files``, and ``parts`` with file and line of each definition.
        """
        return source_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, (self.routine, self.name)


class Routine(AnyLadder[Variant], _core.Callable):
    """A computation, and the ladder of variants that implement it.

    Call it like a function, index it by a variant's name, or iterate over its variants. A call with
    Dask arrays returns a lazy Dask array.

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
        A result pixel depends on the pixels up to this distance along rows and columns. None if the
        routine is not an image filter.
    """

    def __init__(self, core: _core.Routine) -> None:
        self._core = core
        self.name: str = core.name
        self.summary: str = core.summary
        self.source: str = core.source
        self.parameters: tuple[_core.Parameter, ...] = tuple(core.parameters)
        self.dimensions: tuple[str, ...] = tuple(core.dimensions)
        self.batched: bool = core.batched
        self.halo: int | None = core.halo

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants in ladder order, CPU then CUDA."""
        return tuple(Variant(self, info) for info in self._core.variants)

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(p.name for p in self.parameters if p.role == "option")

    @property
    def keywords(self) -> tuple[str, ...]:
        """Names of the operands, then of the options."""
        return tuple(p.name for p in self.parameters if p.role != "output")

    def problem(
        self, *args: Any, device: str | None = None, variant: str | None = None, **options: Any
    ) -> _core.Problem:
        """Check operands and options, and copy them to the device, once for several calls.

        Parameters
        ----------
        *args, **options
            Operands and options of a call.
        device : str, optional
            Where to compute: ``"cpu"``, ``"cuda"``, or ``"cuda:1"``. Default: the device of the
            operands, else the device of `variant`, else the default device.
        variant : str, optional
            A variant whose device is used.

        Returns
        -------
        Problem
            Its methods prepare calls of any variant on that device (``prepare``), report why a
            variant cannot solve it (``why_not``), and name the variant that a call would choose
            (``best``).

        Raises
        ------
        ValueError
            If the devices of operands, variant and `device` disagree, or if a call with these
            operands would raise a ValueError.
        """
        check_options(self, args, options, Routine.problem)
        refuse_dask_arrays("problem", args, options)
        return self._core.problem(args, options, device, variant)

    def useful(self, problem: _core.Problem) -> tuple[float, float]:
        """The useful FLOPs and compulsory bytes of a problem, the same for every variant."""
        cost = self.variants[0].cost(*problem.arguments, **problem.options)
        return cost.flops, cost.bytes

    def set_default(self, name: str, block: Block, parameters: Mapping[str, Any]) -> None:
        """Set the default block shape of a variant for this session."""
        if parameters:
            raise ValueError(f"{self.name}[{name}] has no parameters, got {dict(parameters)}")
        self._core.set_default_block(name, block)

    def checker(self, problem: _core.Problem) -> AnyChecker:
        """The checker for the variants' results on a problem."""
        checker: AnyChecker = find("ResultChecker")(self, problem)
        return checker

    def with_variants(self, *variants: Any) -> Any:
        """Return the routine with variants of your own, for ``ado.sweep`` and ``ado.check``.

        Parameters
        ----------
        *variants
            Variants made by :func:`adokernels.variant` or :func:`adokernels.cuda_variant`, or
            functions. A function receives the operands in order and the options as keywords.

        Returns
        -------
        ExtendedRoutine
            A ladder of the built-in variants, then these. The routine does not change.

        Raises
        ------
        ValueError
            If two variants have the same name.
        """
        return find("ExtendedRoutine")(self, variants)

    def choose(
        self, *args: Any, device: str | None = None, out: Any = None, **options: Any
    ) -> Choice:
        """Find the variant that a call with these operands runs, without running it.

        By default, a call runs the last variant of the ladder that can solve the problem, except
        for variants that are known to be slower than another one. The choice depends on shapes,
        alignment, types and properties of the device. Its limits are measured crossover points.

        Parameters
        ----------
        *args, out, **options
            Operands, results and options of a call.
        device : str, optional
            As in a call.

        Returns
        -------
        Choice
            ``variant``, ``reason``, and ``skipped``: why each later variant is skipped.

        Raises
        ------
        ValueError, TypeError
            If a call with these operands would raise it.
        Unavailable
            If no variant can run on that device.
        """
        check_options(self, args, options, Routine.choose)
        refuse_dask_arrays("choose", args, options)
        return choose(self, args, options, device, out)

    def operand_types(
        self,
        lengths: Mapping[str, int],
        batch: Sequence[int] = (),
        dtype: DTypeLike | None = None,
    ) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and dtype of each operand.

        Parameters
        ----------
        lengths
            The value of each of ``dimensions``.
        batch
            Batch dimensions, if the routine is batched.
        dtype
            Element type of operands that accept several types.

        Raises
        ------
        ValueError
            If lengths are missing, unknown or negative.
        TypeError
            If the routine does not accept that type.
        """
        element = None if dtype is None else np.dtype(dtype).str
        return self._core.operand_types(list(lengths.items()), tuple(batch), element)

    if TYPE_CHECKING:

        def __call__(
            self,
            *args: Any,
            variant: str | None = None,
            block: tuple[int, ...] | None = None,
            device: str | None = None,
            out: Any = None,
            stream: Any = None,
            **options: Any,
        ) -> Any:
            """Compute the result; each routine documents its operands and options.

            If an operand is a Dask array, the result is a lazy Dask array, and `variant`, `block`,
            `device` and `options` apply to the call of each block.
            """

    # _core.Callable.__call__ calls this method if an argument is a Dask array.
    def _lazy_call(
        self,
        *args: Any,
        variant: str | None = None,
        block: tuple[int, ...] | None = None,
        device: str | None = None,
        out: Any = None,
        stream: Any = None,
        **options: Any,
    ) -> Any:
        return find("lazy_call")(
            self,
            args,
            options,
            variant=variant,
            block=block,
            device=device,
            out=out,
            stream=stream,
        )

    def __reduce__(self) -> str:
        return self.name  # the global adokernels.<name>; see registry.routine_object
