"""One object per routine of the core, under its name; `registry.pyi` declares their types."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import cast

from adokernels import _core
from adokernels.model.routine import Routine
from adokernels.model.tasks import TASKS
from adokernels.records.shown import ShownAsTables

_DOCSTRING = """\
{summary}

Parameters
----------
{inputs}{options}variant : str, optional
    Default: the last variant of the device that does not refuse the problem.
block : tuple of int, optional
    Block shape of a CUDA variant, one of its ``blocks``.
device : str, optional
    ``"cpu"``, ``"cuda"``, or a GPU such as ``"cuda:1"``. Default: the device of the operands,
    else the device set by ``ado.settings.device``.
out : array or tuple of arrays, optional
    Array for the result, or one array per result. Arrays of any library are accepted, as
    for operands. Required while a CUDA graph captures the stream.
stream : int or object, optional
    The CUDA stream of a call on a GPU: a handle, or a stream object of torch, CuPy,
    Numba or cuda.core. Default: the current stream of the operands' library.

Returns
-------
{outputs}    A NumPy array for operands in host memory, else a DeviceArray on the same stream.

Raises
------
ValueError
    A shape, block or memory overlap is not allowed, the variant refuses the problem,
    the arrays are on different devices, or ``out`` is read-only.
TypeError
    An operand has another element type; operands are never cast implicitly.
KeyError
    The ladder has no variant with this name.
Unavailable
    The variant is not in this build, or the device is missing or too old.

References
----------
{source}"""


def docstring_of(routine: _core.Routine) -> str:
    """A NumPy-style docstring."""

    def entries(role: str) -> str:
        found = ""
        for p in (p for p in routine.parameters if p.role == role):
            option = f"{_type_name(p.type)}, default {p.default!r}"
            kind = option if role == "option" else f"{p.shape} array, {p.elements}"
            found += f"{p.name} : {kind}\n    {p.doc}\n"
        return found

    parts = {f"{role}s": entries(role) for role in ("input", "option", "output")}
    return _DOCSTRING.format(summary=routine.summary, source=routine.source, **parts)


def signature_of(routine: _core.Routine) -> inspect.Signature:
    """The signature that IPython shows for ``ado.transpose?``."""
    kinds = inspect.Parameter
    operands = [p.name for p in routine.parameters if p.role == "input"]
    keywords = {p.name: p.default for p in routine.parameters if p.role == "option"}
    keywords |= dict.fromkeys(("variant", "block", "device", "out", "stream"))
    parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in operands]
    parameters += [kinds(n, kinds.KEYWORD_ONLY, default=value) for n, value in keywords.items()]
    return inspect.Signature(parameters)


def _type_name(option: _core.OptionType | None) -> str:
    """Name of an option's type in NumPy-style documentation."""
    if option is None:
        return "object"
    if option.choices:
        return "{" + ", ".join(map(repr, option.choices)) + "}"
    return f"tuple of {option.length} {option.name}" if option.length else option.name


def routine_object(core: _core.Routine) -> Routine:
    """Make a routine with its own class, so that ``help`` shows its documentation."""
    namespace = {
        "__doc__": docstring_of(core),
        "__signature__": signature_of(core),
        "__module__": "adokernels",  # the module in which pickle looks up the object
    }
    kind = type(core.name.title().replace("_", ""), (Routine,), namespace)
    return cast("Routine", kind(core))


class Routines(ShownAsTables, dict[str, Routine]):
    """All routines by name, shown as a table with one line per routine."""

    def __missing__(self, name: object) -> Routine:
        raise KeyError(f"no routine {name!r}{_core.suggest(str(name), list(self))}")


_all: Mapping[str, Routine] = {core.name: routine_object(core) for core in _core.routines()}
routines = Routines({name: _all[name] for name in TASKS})
#: Its variants are the kernels that measure a machine's ceilings; it is not a computation.
ceilings = _all["ceilings"]
#: The sums of ``gpp`` per tile of rows, for :mod:`adokernels.distributed`.
gpp_tiles = _all["gpp_tiles"]
globals().update(routines)
__all__ = [*routines, "routines"]  # noqa: PLE0604
