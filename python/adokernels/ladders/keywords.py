"""Unknown keywords of calls and of functions that pass keywords on to a ladder."""

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
    """Refuse keywords that neither a ladder nor the function that was called has.

    Parameters
    ----------
    ladder
        The ladder to which the function passes `args` and `options`.
    args, options
        The operands of the call by position, and its keywords that the function does not have.
    function
        The function that was called. The error message also contains its keywords.
    name
        Its name in the message. Default: that of the function and of the ladder.

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
    valid = [*known[len(args) :], *own]  # without the operands that are given by position
    who = name or f"{function.__name__}({ladder.name})"
    raise TypeError(f"{who} has no option {unknown!r}{_core.suggest(unknown, valid)}")
