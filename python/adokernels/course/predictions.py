"""Predict, then measure: a guess beside the measured value."""

from __future__ import annotations

from adokernels.course.published.figure import written
from adokernels.course.text import Text

#: Largest factor between the measured value and a guess that is reported as close.
_CLOSE = 1.25


def predicted(guess: float | None, measured: float, unit: str = "") -> Text:
    """Compare a guess with the measured value; without a guess, collapse the value.

    Parameters
    ----------
    guess
        The reader's guess, in `unit`; None if there is none yet.
    measured
        The measured value, in `unit`.
    unit
        The unit of both, which is not converted: for example ``"ms"``, ``"times"`` or ``"%"``.
    """
    answer = _with_unit(measured, unit)
    if guess is None:
        return Text(
            "Replace `None` by your guess, then run this cell.\n\n<details><summary>The measured "
            f"value</summary>{answer}</details>"
        )
    text = f"Your guess: {_with_unit(guess, unit)}. Measured: **{answer}**. "
    if guess <= 0 or measured <= 0:
        return Text(text + ("Exact." if guess == measured else "They differ."))
    ratio = guess / measured
    if ratio == 1:
        return Text(text + "Exact.")
    factor = max(ratio, 1 / ratio)
    size = "large" if ratio > 1 else "small"
    close = "Close: " if factor <= _CLOSE else ""
    words = f"{close}your guess is {factor:.3g} times too {size}."
    return Text(text + words[0].upper() + words[1:])


def _with_unit(value: float, unit: str) -> str:
    return f"{written(value, '')} {unit}".rstrip()
