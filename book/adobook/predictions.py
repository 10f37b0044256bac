"""Predict, then look: a guess beside a measured value or the value of a model."""

from __future__ import annotations

from typing import Literal

from adobook.published import written
from adobook.text import Text

#: Largest factor between the measured value and a guess that is reported as close.
_CLOSE = 1.25

#: Where a value comes from, and the words for it: alone, and after the guess.
_SOURCES = {"measured": ("The measured value", "Measured"), "model": ("The model's value", "Model")}


def predicted(
    guess: float | None,
    value: float,
    unit: str = "",
    *,
    source: Literal["measured", "model"] = "measured",
) -> Text:
    """Compare a reader's guess with a value, which is hidden while the guess is None.

    Both are in `unit`, which is not converted: for example ``"ms"``, ``"times"`` or ``"%"``. The
    source of the value is a measurement or a model, for example `adokernels.sectors`.

    Raises
    ------
    ValueError
        If the source is unknown.
    """
    if source not in _SOURCES:
        raise ValueError(f"source must be 'measured' or 'model', got {source!r}")
    heading, origin = _SOURCES[source]
    answer = _with_unit(value, unit)
    if guess is None:
        return Text(
            "Replace `None` by your guess, then run this cell.\n\n"
            f"<details><summary>{heading}</summary>{answer}</details>"
        )
    text = f"Your guess: {_with_unit(guess, unit)}. {origin}: **{answer}**. "
    if guess <= 0 or value <= 0:
        return Text(text + ("Exact." if guess == value else "They differ."))
    ratio = guess / value
    if ratio == 1:
        return Text(text + "Exact.")
    factor = max(ratio, 1 / ratio)
    size = "large" if ratio > 1 else "small"
    close = "Close: " if factor <= _CLOSE else ""
    words = f"{close}your guess is {factor:.3g} times too {size}."
    return Text(text + words[0].upper() + words[1:])


def _with_unit(value: float, unit: str) -> str:
    return f"{written(value, '')} {unit}".rstrip()
