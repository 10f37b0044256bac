"""Text: SI values with three significant digits and decimal prefixes, and printable characters.

Values are kept in SI units everywhere else; this is the only module that converts them.
"""

from __future__ import annotations

import enum
import html
import math
import re
from typing import Any

_PREFIXES = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
_TIMES = "\N{MULTIPLICATION SIGN}"
#: Significant digits of every printed number, unless a caller asks for more.
DIGITS = 3


def number(value: float, digits: int = DIGITS) -> str:
    """Write a number with `digits` significant digits and without an exponent: ``"0.0321"``."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(decimals, 0)}f}"


def prefix(value: float, unit: str) -> tuple[float, str]:
    """Find the decimal prefix for a value: its factor and the prefixed unit.

    Values are rounded first, so that 999.9 GB/s becomes 1.00 TB/s. Seconds get no prefix above 1.
    """
    if not math.isfinite(value) or value == 0:
        return 1.0, unit
    rounded = abs(float(f"{value:.{DIGITS - 1}e}"))
    largest = 0 if unit == "s" else max(_PREFIXES)
    power = 3 * math.floor(math.log10(rounded) / 3)
    power = min(max(power, min(_PREFIXES)), largest)
    return 10.0**power, _PREFIXES[power] + unit


def quantity(value: float, unit: str, digits: int = DIGITS) -> str:
    """Write a value with its unit: ``quantity(0.00321, "s")`` is ``"3.21 ms"``."""
    factor, name = prefix(value, unit)
    return f"{number(value / factor, digits)} {name}"


def binary_size(size: float) -> str:
    """Write a number of bytes with a binary prefix: ``"256 KiB"``."""
    units = ["TiB", "GiB", "MiB", "KiB", "B"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop()
    return f"{float(f'{size:.3g}'):g} {units[-1]}"


def share_of(text: object) -> float:
    """Convert a percentage: ``"5%"`` is 0.05. Without the sign, 0.05 could mean 0.05 % or 5 %."""
    found = re.fullmatch(r"\s*(\d+|\d*\.\d+)\s*%\s*", text) if isinstance(text, str) else None
    if not found:
        raise ValueError(f"must be a percentage such as 5%, got {text!r}")
    return float(found[1]) / 100


#: Counts below this value have all digits; larger counts have a decimal prefix.
_LARGEST_WHOLE = 100_000


def count(value: float) -> str:
    """Write a count: ``"31"``, ``"1.25"`` or ``"3.20 M"``."""
    if abs(value) >= _LARGEST_WHOLE:
        return quantity(value, "").strip()
    return f"{value:.0f}" if value == int(value) else number(value)


#: Above this share, a ceiling does not apply, because caches hold the data.
NO_LIMIT = 1.05


def share_of_limit(value: float) -> str:
    """Write a share of a ceiling, or "no limit" if the ceiling does not apply."""
    return percent(value) if value <= NO_LIMIT else "no limit"


def ratio(value: float) -> str:
    """Write a ratio of times with three digits after a multiplication sign."""
    return _TIMES + number(value)


def percent(value: float) -> str:
    """Write a fraction as a percentage: ``"49 %"``, and below one percent ``"0.08 %"``."""
    return f"{100 * value:.0f} %" if value == 0 or value >= 0.01 else f"{number(100 * value, 1)} %"


def magnitude(value: float) -> str:
    """Write an error with two digits, because only its order of magnitude matters."""
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def bounds(low: float, centre: float, high: float) -> str:
    """Format the bounds of an interval relative to its centre: ``"-0.8 +1.5 %"``."""
    below, above = (100 * abs(end / centre - 1) for end in (low, high))
    return f"-{_short(below)} +{_short(above)} %"


def _short(percentage: float) -> str:
    return f"{percentage:.{1 if percentage < 9.95 else 0}f}"


# Control characters, which terminals interpret and XML rejects; surrogates, which UTF-8 cannot
# encode; and characters that change the direction of the text after them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_SPACES = re.compile("[\t\n\v\f\r\u2028\u2029]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_ELLIPSIS = "..."
#: Maximum number of characters of a text in HTML.
_LONGEST_HTML = 10_000
#: Maximum number of characters of the description of an error.
_LONGEST_FAILURE = 10_000


def printable(text: str, most: int, *, lines: bool = False) -> str:
    """Replace characters that cannot be shown, and cut the middle out of long text.

    The result has at most `most` characters. Line breaks become spaces, unless `lines` is true.
    """
    if len(text) > most:
        half = (most - len(_ELLIPSIS)) // 2
        text = f"{text[: most - half - len(_ELLIPSIS)]}{_ELLIPSIS}{text[-half:]}"
    parts = text.split("\n") if lines else [text]
    return _UNPRINTABLE.sub(_REPLACEMENT, "\n".join(_SPACES.sub(" ", part) for part in parts))


def visible(text: str) -> str:
    """Replace the characters of a text that a terminal could interpret; keep its length."""
    return printable(text, len(text))


def require(kind: Any, words: str, /, **values: object) -> None:
    """Raise TypeError if arguments do not have a type: ``require(str, "a str", label=label)``."""
    for name, value in values.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be {words}, got {kind_of(value)}")


def kind_of(value: object) -> str:
    """The name of an argument's type in messages: ``"Variant"`` for every class of variants.

    Internal classes that can be called are named "function".
    """
    name = str(getattr(type(value), "_kind", type(value).__name__))
    return "function" if name.startswith("_") and callable(value) else name


def failure(error: BaseException) -> str:
    """Describe an error of the user's code: ``"it fails with TypeError: must be a str"``.

    The text is short enough for a record, and the error need not have a readable text.
    """
    try:
        text = str(error)
    except Exception as second:  # __str__ is the user's code, too
        text = f"(its text cannot be read: {type(second).__name__})"
    return printable(f"it fails with {type(error).__name__}: {text}", _LONGEST_FAILURE, lines=True)


def escaped(text: str) -> str:
    """Escape a text for HTML; the result is printable and has one line."""
    return html.escape(printable(text, _LONGEST_HTML))


class StrEnum(str, enum.Enum):
    """Like :class:`enum.StrEnum`, which needs Python 3.11: ``str(member)`` is its value."""

    __str__ = str.__str__
