"""Routines and variants as Python objects: what users call, index and look at."""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table
from rich.text import Text

from adokernels import _core, _tables
from adokernels._operands import empty_operands
from adokernels._records import Kernel, Resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Routine", "Variant", "all_routines"]


class Variant:
    """One implementation of a routine on one device: a row of its ladder.

    Attributes
    ----------
    name : str
        Unique within the routine.
    device : str
        ``"cpu"`` or ``"cuda"``.
    changes : str
        What differs from the rung below, in one sentence.
    precision : str
        ``"exact"``, or how the result is rounded.
    blocks : tuple of tuple of int
        Block shapes worth trying, the default first; empty on the CPU.
    stages : tuple of (str, str)
        Of a pipeline that runs other routines in turn: which, and by which of their variants.
    ceiling : bool
        Whether it moves the bytes without computing the answer: timed, never the default.
    """

    def __init__(self, routine: Routine, info: _core.VariantInfo) -> None:
        self.routine = routine
        self.name: str = info.name
        self.device: str = info.device
        self.changes: str = info.changes
        self.precision: str = info.precision
        self.ceiling: bool = info.ceiling
        self.blocks: tuple[tuple[int, ...], ...] = tuple(tuple(b) for b in info.blocks)
        self.stages: tuple[tuple[str, str], ...] = tuple(info.stages)

    @property
    def why_unavailable(self) -> str:
        """Why it cannot run here: not built, no device, or one too old; empty if it can."""
        return self.routine._core.why_unavailable(self.name)

    @property
    def available(self) -> bool:
        """Whether it can run here; if not, ``why_unavailable`` says why."""
        return not self.why_unavailable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The routine by this variant."""
        if "variant" in kwargs:
            raise TypeError(
                f"{self.routine.name}[{self.name!r}] is a variant: variant= is not taken"
            )
        return self.routine(*args, variant=self.name, **kwargs)

    def cost(self, *args: Any, **options: Any) -> _core.Cost:
        """FLOPs and bytes on these operands; needs no device.

        Returns
        -------
        Cost
            ``flops`` and ``bytes`` of the problem (useful, compulsory); ``executed_flops``, the
            ``executed_instructions`` that do them (0: not counted) and ``requested_bytes`` of this
            variant.
        """
        return self.routine._core.cost(self.name, args, options)

    def resources(
        self, *args: Any, block: tuple[int, ...] | None = None, **options: Any
    ) -> Resources:
        """What its compiled kernels take of a multiprocessor: registers, shared memory, occupancy.

        Parameters
        ----------
        *args, **options
            Operands and options of a call: their shapes and types decide which kernels are
            launched; nothing is computed. Default: a problem worth measuring.
        block : tuple of int, optional
            One of ``blocks``; default the first.

        Returns
        -------
        Resources
            One :class:`Kernel` for each launch; empty where there is none of the library's own.

        Raises
        ------
        ValueError
            On the CPU, or where the variant refuses the problem.
        Unavailable
            Without a GPU: the numbers are those of the code compiled for it.
        """
        if not args:
            args = empty_operands(self.routine)
        kernels = self.routine._core.kernels(self.name, args, options, block)
        return Resources(routine=self.routine.name, variant=self.name, kernels=kernels_of(kernels))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Variant):
            return NotImplemented
        return (self.routine.name, self.name) == (other.routine.name, other.name)

    def __hash__(self) -> int:
        return hash((self.routine.name, self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return _variant_named, (self.routine.name, self.name)

    def __repr__(self) -> str:
        state = "" if self.available else f", unavailable: {self.why_unavailable}"
        return f"<{self.routine.name}[{self.name!r}] on {self.device}{state}>"


def kernels_of(infos: Iterable[_core.KernelInfo]) -> tuple[Kernel, ...]:
    """The same as plain values that can be stored."""
    return tuple(
        Kernel(
            name=k.name,
            grid=tuple(k.grid),
            block=tuple(k.block),
            registers=k.registers,
            local_bytes=k.local_bytes,
            static_shared_bytes=k.static_shared_bytes,
            dynamic_shared_bytes=k.dynamic_shared_bytes,
            warps=k.warps,
            most_warps=k.most_warps,
            limits={
                "warps": k.blocks_by_warps,
                "registers": k.blocks_by_registers,
                "shared memory": k.blocks_by_shared,
                "blocks": k.blocks_by_slots,
            },
        )
        for k in infos
    )


class Routine:
    """What is computed, and the ladder of variants that compute it.

    Call it like a function; index it by a variant's name; iterate over its ladder.
    """

    def __init__(self, core: _core.Routine) -> None:
        self._core = core
        self.name: str = core.name

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The rungs in ladder order, CPU then CUDA."""
        return tuple(Variant(self, info) for info in self._core.variants)

    def __call__(
        self,
        *args: Any,
        variant: str | None = None,
        block: tuple[int, ...] | None = None,
        device: str | None = None,
        out: Any = None,
        **options: Any,
    ) -> Any:
        return self._core.call(args, options, variant, block, device, out)

    def __getitem__(self, name: str) -> Variant:
        variants = self.variants
        for variant in variants:
            if variant.name == name:
                return variant
        names = [v.name for v in variants]
        raise KeyError(f"{self.name} has no variant {name!r}{suggest(name, names)}")

    def __iter__(self) -> Iterator[Variant]:
        return iter(self.variants)

    def __len__(self) -> int:
        return len(self.variants)

    def __contains__(self, item: object) -> bool:
        return any(item in (v, v.name) for v in self.variants)

    def __reduce__(self) -> tuple[Any, ...]:
        return routine_named, (self.name,)

    def _ipython_key_completions_(self) -> list[str]:
        return [v.name for v in self.variants]

    def __rich__(self) -> Table:
        table = Table(title=Text(f"{self.name}: {self._core.summary}"))
        for heading in ("variant", "device", "what it changes", "available"):
            table.add_column(heading)
        for v in self.variants:
            name = f"{v.name} (ceiling)" if v.ceiling else v.name
            cells = (name, v.device, v.changes, v.why_unavailable or "yes")
            table.add_row(*map(Text, cells))
        return table

    def __repr__(self) -> str:
        return _tables.to_text(self.__rich__())

    def _repr_html_(self) -> str:
        return _tables.to_html(self.__rich__())


def routine_named(name: str) -> Routine:
    """The routine of that name: also what a pickled one becomes in another process."""
    return cast("Routine", getattr(importlib.import_module("adokernels"), name))


def _variant_named(routine: str, name: str) -> Variant:
    return routine_named(routine)[name]


def suggest(name: str, known: list[str]) -> str:
    """What there is instead of an unknown name, the nearest first."""
    close = difflib.get_close_matches(str(name), known, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"; there is {', '.join(known)}.{hint}"


def _option_type(option: _core.OptionType) -> str:
    """What NumPy-style documentation calls an option's type."""
    if option.choices:
        return "{" + ", ".join(map(repr, option.choices)) + "}"
    return f"tuple of {option.length} {option.name}" if option.length else option.name


def _docstring(core: _core.Routine) -> str:
    """A NumPy-style docstring from the routine's own visitor."""
    inputs = [p for p in core.parameters if p.role == "input"]
    options = [p for p in core.parameters if p.role == "option"]
    outputs = [p for p in core.parameters if p.role == "output"]

    def entry(p: _core.Parameter) -> list[str]:
        return [f"{p.name} : {p.shape} array, {p.elements}", f"    {p.doc}"]

    lines = [core.summary, "", "Parameters", "----------"]
    for p in inputs:
        lines += entry(p)
    for p in options:
        lines += [f"{p.name} : {_option_type(p.type)}, default {p.default!r}", f"    {p.doc}"]
    lines += [
        "variant : str, optional",
        "    A rung of the ladder. Default: the last one of the device that can do the problem.",
        "block : tuple of int, optional",
        "    Block shape of a CUDA variant, one of its ``blocks``.",
        'device : {"cpu", "cuda"}, optional',
        "    Default: where the operands are, else what ``ado.set_device`` said.",
        "out : array or tuple of arrays, optional",
        "    Where to put the result.",
        "",
        "Returns",
        "-------",
    ]
    for p in outputs:
        lines += entry(p)
    lines += [
        "    In host memory for operands in host memory, else a DeviceArray.",
        "",
        "Raises",
        "------",
        "ValueError",
        "    A shape, a block or an overlap breaks a rule, or the variant refuses the problem.",
        "TypeError",
        "    An operand has another element type; nothing is cast silently.",
        "KeyError",
        "    There is no variant of that name.",
        "Unavailable",
        "    The variant is not in this build, or the device is missing or too old.",
        "",
        "References",
        "----------",
        core.source,
    ]
    return "\n".join(lines)


def _signature(core: _core.Routine) -> inspect.Signature:
    """What IPython shows for ``ado.transpose?``."""
    kinds = inspect.Parameter
    parameters = [
        kinds(p.name, kinds.POSITIONAL_OR_KEYWORD) for p in core.parameters if p.role == "input"
    ]
    parameters += [
        kinds(p.name, kinds.KEYWORD_ONLY, default=p.default)
        for p in core.parameters
        if p.role == "option"
    ]
    parameters += [
        kinds(name, kinds.KEYWORD_ONLY, default=None)
        for name in ("variant", "block", "device", "out")
    ]
    return inspect.Signature(parameters)


def all_routines() -> dict[str, Routine]:
    """Every routine of the core, each of a class of its own so that ``help`` shows its text.

    A "routine" of nothing but ceilings is no computation: ``ado.machine`` uses those.
    """
    found: dict[str, Routine] = {}
    for core in _core.routines():
        if all(variant.ceiling for variant in core.variants):
            continue
        namespace = {"__doc__": _docstring(core), "__signature__": _signature(core)}
        kind = type(core.name.title().replace("_", ""), (Routine,), namespace)
        found[core.name] = cast("Routine", kind(core))
    return found
