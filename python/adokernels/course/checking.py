"""Check a variant that a reader of the course has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.course.exercises import Exercise
from adokernels.course.text import Text
from adokernels.measuring.checking import check
from adokernels.measuring.statistics import Verdict
from adokernels.model.compiler import CompilationError

if TYPE_CHECKING:
    from adokernels.model.ladder import Ladder


def check_exercise(
    variant: Any, of: Exercise | Ladder, *args: Any, faster_than: str = "", **options: Any
) -> Text:
    """Compare a variant with the oracle, time it, and report the result in one line.

    It raises no exceptions. If the variant is wrong or cannot run on this machine, the report gives
    the reason.

    Parameters
    ----------
    variant
        A variant made by :func:`adokernels.cuda_variant`, or a function.
    of
        The exercise, or the routine or ladder whose result it must compute.
    *args, **options
        Operands and options, as for :func:`adokernels.check`. Default: those of the exercise.
    faster_than
        A variant of the ladder that it must be faster than. Default: that of the exercise; without
        an exercise, only the result matters.
    """
    ladder = of.ladder if isinstance(of, Exercise) else of
    name = getattr(variant, "name", getattr(variant, "__name__", "variant"))
    head = f"**{ladder.name}[{name}]**"
    try:
        if why := ladder.with_variants(variant).variants[-1].why_unavailable:
            return Text(f"{head} was not checked. It needs a GPU: {why}.")
        if isinstance(of, Exercise):
            args, faster_than = args or of.operands(), faster_than or of.faster_than
        against = [faster_than] if faster_than else None
        found = check(variant, ladder, *args, against=against, progress=False, **options)
    except _core.Unavailable as error:
        return Text(f"{head} was not checked. It needs a GPU: {_one_line(error)}.")
    except CompilationError as error:
        return Text(f"{head} does not compile: {_one_line(error)}")
    except Exception as error:  # the reader's code may fail in any way
        return Text(f"{head} failed with {type(error).__name__}: {_one_line(error)}")
    if not found.correct:
        return Text(f"{head} is not correct: {_one_line(found.reason)}")
    compared = " ".join(map(repr, found.comparisons.values()))
    goal = found.comparisons.get(faster_than)
    if goal and goal.verdict is not Verdict.FASTER:
        return Text(f"{head} is correct, but not faster than {faster_than}. {compared}")
    return Text(f"{head} is **correct**. {compared}".rstrip())


def _one_line(message: object) -> str:
    return " ".join(str(message).split())
