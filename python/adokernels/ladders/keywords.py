"""Checks for unknown keywords, in functions that pass keywords on to a ladder."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from adokernels import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adokernels.ladders.base import AnyLadder


def check_options(
    ladder: AnyLadder[Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    function: Callable[..., Any],
    name: str = "",
) -> None:
    """Reject keywords that neither the ladder nor the called function accepts.

    Parameters
    ----------
    ladder
        The ladder to which the function passes `args` and `options`.
    args, options
        The positional operands of the call, and the keywords that are not parameters of
        `function`.
    function
        The function that was called. The error message also contains its keywords.
    name
        The name in the message. Default: the function and the ladder, ``"sweep(sobel)"``.

    Raises
    ------
    TypeError
        For the first unknown keyword. The message contains the nearest name and all valid names.
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
