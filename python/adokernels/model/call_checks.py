"""Checks of a call before it reaches a ladder: unknown keywords, and Dask arrays."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Protocol

from adokernels import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Accepts(Protocol):
    """A ladder, as far as these checks use it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def keywords(self) -> tuple[str, ...] | None:
        """Names of the operands, then of the options; None if they are unknown."""


def check_options(
    ladder: Accepts,
    args: Sequence[Any],
    options: Mapping[str, Any],
    function: Callable[..., Any],
    name: str = "",
) -> None:
    """Reject keywords that neither the ladder nor the called function accepts.

    `args` are the positional operands of the call, and `options` the keywords that are not
    parameters of `function`. The TypeError contains the first unknown keyword, the nearest name,
    all valid names, and the call as ``"sweep(sobel)"`` or `name`.
    """
    known = ladder.keywords
    if known is None or options.keys() <= set(known):
        return
    parameters = inspect.signature(function).parameters.values()
    own = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    unknown = next(option for option in options if option not in known)
    valid = [*known[len(args) :], *own]  # without the positional operands
    who = name or f"{function.__name__}({ladder.name})"
    raise TypeError(f"{who} has no option {unknown!r}{_core.suggest(unknown, valid)}")


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
