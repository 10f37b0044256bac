"""The base classes of ladders and variants, built-in and own."""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from adokernels import _core
from adokernels.kernels.captured import CapturedLaunch
from adokernels.model.libraries import is_on_device
from adokernels.model.problem import Block, Call, Choice, Problem, ResultType
from adokernels.model.source import Diff, Source, diff_of
from adokernels.model.task import Task
from adokernels.model.values import host_operands, in_host_order
from adokernels.records.kernels import Resources
from adokernels.records.sass import Sass
from adokernels.records.shown import ShownAsTables
from adokernels.text import require, visible

P = ParamSpec("P")
R = TypeVar("R")


class Variant(ABC):
    """One implementation on one device: a step of a ladder.

    Attributes
    ----------
    name : str
        Unique within the ladder.
    device : str
        ``"cpu"`` or ``"cuda"``.
    changes : str
        The difference from the previous variant, in one sentence.
    steps : tuple of str, or None
        The categories of this change, for example ``"coalesce accesses"``; None if not stated.
    precision : str
        ``"exact"``, or how the result is rounded.
    ceiling : bool
        Whether it moves the compulsory bytes without computing the result. It is timed, but never
        the default.
    blocks : tuple of tuple of int
        Supported block shapes, the default first; empty if it has no block shape.
    stages : tuple of (str, str)
        The stages of a pipeline, in order: routine and variant. Empty for a single kernel.
    """

    name: str
    device: str
    changes: str
    steps: tuple[str, ...] | None
    precision: str
    ceiling: bool
    blocks: tuple[Block, ...] = ()
    stages: tuple[tuple[str, str], ...]

    _kind = "Variant"

    @property
    @abstractmethod
    def ladder(self) -> Ladder:
        """The ladder that it belongs to."""

    @property
    @abstractmethod
    def why_unavailable(self) -> str:
        """Reason why it cannot run here: not built, no device, or device too old; else empty."""

    def why_unavailable_on(self, device: str) -> str:
        """Reason why it cannot run on a device; else empty."""
        return _core.why_no_emulator() if device == "emulator" else self.why_unavailable

    @abstractmethod
    def why_not(self, problem: Problem) -> str:
        """Reason why it cannot solve a problem; empty if it can."""

    def refusal(self, operands: Sequence[Any], options: Mapping[str, Any]) -> str:
        """Reason why an own variant refuses operands; empty if it accepts them."""
        return ""

    @abstractmethod
    def prepare(self, problem: Problem, block: Block | None = None) -> Call:
        """Prepare it to run on a problem; raises the errors of :meth:`Problem.prepare`."""

    def settings(self) -> list[tuple[dict[str, Any], Variant]]:
        """The combinations of parameter values, each with a variant that has only these values."""
        return [({}, self)]

    @abstractmethod
    def with_default(self, block: Block, parameters: Mapping[str, Any]) -> Variant:
        """Return the variant with this block shape and these parameter values as defaults."""

    @property
    @abstractmethod
    def source(self) -> Source:
        """Its source code."""

    @abstractmethod
    def resources(self, *args: Any, block: Block | None = None, **options: Any) -> Resources:
        """Resource usage of its compiled kernels: registers, shared memory, occupancy.

        Parameters
        ----------
        *args, **options
            Operands and options of a call. Their shapes and types determine which kernels are
            launched. For built-in variants, nothing is computed, and the default is the task's
            default problem.
        block : tuple of int, optional
            One of ``blocks``. Default: the first.
        out : array or tuple of arrays, optional
            The results of the call, for built-in variants that depend on the layout of the results.

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

    @abstractmethod
    def sass(
        self, *args: Any, block: Block | None = None, arch: str | None = None, **options: Any
    ) -> Sass:
        """The machine code (SASS) of the kernels that a call launches.

        Parameters
        ----------
        *args, block, out, **options
            As in :meth:`resources`.
        arch : str, optional
            An architecture of this build, for example ``"sm_90"``. Default: the architecture that
            the GPU runs, or else the first architecture of the build.
        kernels : iterable of Kernel, optional
            For built-in variants, the kernels that the call launches, for example from stored
            resources or counters. With them, no GPU is needed, and the call must have no other
            arguments.

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
            ``nvdisasm`` is missing.
        """

    def source_launch(
        self, args: Sequence[Any], options: Mapping[str, Any], block: Block | None
    ) -> CapturedLaunch | None:
        """The launch of a kernel in source, which another process can repeat.

        It is None for a built-in variant, which another process prepares by its name. ValueError is
        raised for a function.
        """
        return None

    @property
    def available(self) -> bool:
        """Whether it can run here; otherwise, ``why_unavailable`` contains the reason."""
        return not self.why_unavailable

    @property
    def label(self) -> str:
        """For example ``"transpose[tiled]"``."""
        return f"{self.ladder.name}[{self.name}]"

    def diff(self, other: Variant | str) -> Diff:
        """The change from this variant to another one, definition by definition.

        Parameters
        ----------
        other : variant or str
            A variant, or the name of a variant of the same ladder.

        Returns
        -------
        Diff
            Added lines are green and deleted lines red in a notebook and in a terminal. ``print``
            shows a unified diff. Kernels are compared with each other even if their names differ.

        Raises
        ------
        KeyError
            If the ladder has no variant with this name.
        """
        require((Variant, str), "a variant or its name", other=other)
        after = self.ladder[other] if isinstance(other, str) else other
        return diff_of(self.source, after.source)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Variant):
            return NotImplemented
        return (self.ladder, self.name) == (other.ladder, other.name)

    def __hash__(self) -> int:
        return hash((self.ladder.name, self.name))

    def __repr__(self) -> str:
        state = "" if self.available else f", unavailable: {self.why_unavailable}"
        return visible(f"<{self.ladder.name}[{self.name!r}] on {self.device}{state}>")


class Ladder(ShownAsTables, ABC):
    """A computation and its variants: a sequence of variants, indexed by name.

    Attributes
    ----------
    name : str
        Its name in tables and charts.
    summary : str
        What it computes, in one sentence.
    """

    name: str
    summary: str

    _kind = "Ladder"

    @property
    @abstractmethod
    def task(self) -> Task:
        """The reference result, the allowed error, and the problems to run."""

    @property
    @abstractmethod
    def variants(self) -> Sequence[Variant]:
        """The variants in ladder order."""

    @property
    def keywords(self) -> tuple[str, ...] | None:
        """Names of the operands, then of the options, or None if they are unknown."""
        if core := self.task.core:
            return tuple(p.name for p in core.parameters if p.role != "output")
        try:
            parameters = inspect.signature(self.task.expected).parameters.values()
        except (TypeError, ValueError):  # a built-in function without a signature
            return None
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
            return None
        return tuple(p.name for p in parameters)

    def problem(
        self, *args: Any, device: str | None = None, variant: str | None = None, **options: Any
    ) -> Problem:
        """Check operands and options once for several calls.

        Parameters
        ----------
        *args, **options
            Operands and options of a call.
        device : str, optional
            Where to compute: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"emulator"``. Default: the
            device of `variant`, else of the operands, else of the own variants if they agree, else
            the default device.
        variant : str, optional
            A variant whose device is used.

        Returns
        -------
        Problem
            Its methods prepare calls of any variant on that device (``prepare``), report why a
            variant cannot solve it (``why_not``), and name the variant that a call would choose
            (``best``). The variants work on copies of the operands.

        Raises
        ------
        ValueError
            If the devices of operands, variant and `device` disagree, or if a call with these
            operands would raise a ValueError.
        """
        require((str, type(None)), "a str", device=device)
        check_options(self, args, options, Ladder.problem)
        refuse_dask_arrays("problem", args, options)
        core, on_device = self.task.core, any(map(is_on_device, [*args, *options.values()]))
        if core is None:
            where = _core.resolve_device(self._device_of(device, variant, on_device))
            host = host_operands(args)
            self.task.lengths_of(host)  # checks the shapes
            return Problem(self, host, host, options, where)
        if not on_device:
            given = core.problem(tuple(map(in_host_order, args)), options, "cpu")
            where = _core.resolve_device(self._device_of(device, variant))
        else:
            self._device_of(device, variant, on_device)  # checks the names
            given = core.problem(args, options, device, variant)
            where = given.device_id
        arguments, options, host = given.arguments, given.options, given.host_arguments
        del given  # frees its copies of the operands
        results = core.problem(host, options, "cpu").results()
        types = [
            ResultType(r.shape, r.dtype, r.ctypes.data if where == "cpu" else 0)
            for r in (results if isinstance(results, tuple) else (results,))
        ]
        return Problem(self, arguments, host, options, where, types)

    def _device_of(self, device: str | None, variant: str | None, on_device: bool = False) -> str:
        if variant is not None:
            where = self[variant].device
            if device is not None and _core.device_kind(device) != where:
                is_function = where == "cpu" and not isinstance(self[variant], _core.Callable)
                hint = f"; if it launches kernels: ado.variant({variant}, device='cuda')"
                raise ValueError(
                    f"{self.name}: device must be {where!r} because {variant} runs on {where}, "
                    f"got {device!r}{hint if is_function else ''}"
                )
            return device or where
        if device is None and on_device:
            return "cuda"
        own = {v.device for v in self if not isinstance(v, _core.Callable)}
        return device or (own.pop() if len(own) == 1 else _core.device())

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
        check_options(self, args, options, Ladder.choose)
        refuse_dask_arrays("choose", args, options)
        if self.task.core is None:
            device = self._device_of(device, None, any(map(is_on_device, args)))
        return choose(self, args, options, device, out)

    def set_default(self, name: str, block: Block, parameters: Mapping[str, Any]) -> None:
        """Set the default block shape and parameter values of a variant for this session."""
        self[name].with_default(block, parameters)

    @abstractmethod
    def with_variants(self, *variants: Any) -> Ladder:
        """Return a ladder with these variants in addition; this ladder does not change.

        Parameters
        ----------
        *variants
            Variants made by :func:`adokernels.variant` or :func:`adokernels.cuda_variant`, or
            functions. A function receives the operands in order and the options as keywords.

        Raises
        ------
        ValueError
            If two variants have the same name.
        """

    def __getitem__(self, name: str) -> Variant:
        if not isinstance(name, str):
            raise TypeError(f"the name of a variant must be a str, got {type(name).__name__}")
        variants = self.variants
        for variant in variants:
            if variant.name == name:
                return variant
        names = [v.name for v in variants]
        raise KeyError(f"{self.name} has no variant {name!r}{_core.suggest(name, names)}")

    def __iter__(self) -> Iterator[Variant]:
        return iter(self.variants)

    def __len__(self) -> int:
        return len(self.variants)

    def __contains__(self, item: object) -> bool:
        return any(item in (v, v.name) for v in self.variants)

    def _ipython_key_completions_(self) -> list[str]:
        return [v.name for v in self.variants]


def check_options(
    ladder: Ladder,
    args: Sequence[Any],
    options: Mapping[str, Any],
    function: Callable[..., Any],
    name: str = "",
) -> None:
    """Reject keywords that the ladder and the called function do not accept.

    `args` are the positional operands of the call, and `options` the keywords that are not
    parameters of `function`. The TypeError contains the first unknown keyword, the nearest name,
    all valid names, and the call as ``"sweep(sobel)"`` or `name`.
    """
    known = ladder.keywords
    if known is None or options.keys() <= set(known):
        return
    unknown = next(option for option in options if option not in known)
    valid = [*known[len(args) :], *options_of(function)]  # omits the positional operands
    who = name or f"{function.__name__}({ladder.name})"
    raise TypeError(f"{who} has no option {unknown!r}{_core.suggest(unknown, valid)}")


def reject_unknown(who: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise TypeError, with the nearest name and all valid names, for the first unknown keyword."""
    for name in given:
        if name not in known:
            raise TypeError(f"{who} has no option {name!r}{_core.suggest(name, known)}")


def suggesting(function: Callable[P, R]) -> Callable[P, R]:
    """Make the TypeError for an unknown keyword name the nearest and all valid keywords."""
    known = list(inspect.signature(function).parameters)

    @wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> R:
        reject_unknown(function.__name__, given, known)
        return function(*args, **given)

    return call


def options_of(function: Callable[..., Any]) -> list[str]:
    """The names of the keyword-only parameters of a function."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]


def has_dask_array(*groups: Iterable[Any]) -> bool:
    """Whether a value is a Dask array. There is none unless Dask is loaded."""
    module = sys.modules.get("dask.array")
    if module is None:
        return False
    dask_array = getattr(module, "Array", ())  # missing while another thread imports the module
    return any(isinstance(value, dask_array) for group in groups for value in group)


def refuse_dask_arrays(function: str, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise TypeError if an operand is a Dask array, which NumPy would compute."""
    if has_dask_array(args, options.values()):
        raise TypeError(
            f"{function}: operands must not be Dask arrays; pass the NumPy array of one block"
        )


def choose(
    ladder: Ladder,
    args: Sequence[Any],
    options: Mapping[str, Any],
    device: str | None = None,
    out: Any = None,
    gpu: _core.Hardware | None = None,
) -> Choice:
    """Choose the variant that a call runs, for this machine or for a given GPU.

    For a built-in ladder, even with own variants, the core chooses a built-in variant. For an own
    ladder, which needs `device`, it is the last variant that can run here and solve the problem.
    With `gpu`, the choice is for that hardware, and no GPU is needed. Unavailable is raised if no
    variant is found; the message contains the reasons.
    """
    if core := ladder.task.core:
        name, later = core.choose(tuple(args), dict(options), device, out, gpu)
        return Choice(ladder.name, name, ladder[name].device, dict(later))
    kind = _core.device_kind(device or "cpu")
    skipped: dict[str, str] = {}
    for variant in reversed([v for v in ladder.variants if v.device == kind]):
        reason = variant.why_unavailable_on(device or kind) or variant.refusal(args, options)
        if not reason:
            return Choice(ladder.name, variant.name, kind, skipped)
        skipped[variant.name] = reason
    listed = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
    raise _core.Unavailable(
        f"no variant can solve this problem on {kind} ({listed or 'no variants'})"
    )
