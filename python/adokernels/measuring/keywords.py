"""The check of the keywords that an entry point passes on to a routine."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.ladders.routine import Routine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def check_keywords(function: Callable[..., Any], ladder: Any, given: Iterable[str]) -> None:
    """Reject keywords that are neither parameters of `function` nor of the ladder's routine.

    The functions of a custom ladder may accept any options; Python checks these.

    Raises
    ------
    TypeError
        If a keyword is unknown; the message contains the known ones.
    """
    routine = getattr(ladder, "routine", ladder)  # of a routine with custom variants
    if not isinstance(routine, Routine):
        return
    operands = [p.name for p in routine.parameters if p.role == "input"]
    parameters = inspect.signature(function).parameters.values()
    own = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    known = [*own, *routine.options, *operands]
    for name in given:
        if name not in known:
            hint = _core.suggest(name, known)
            raise TypeError(f"{function.__name__}() got an unknown keyword {name!r}{hint}")
