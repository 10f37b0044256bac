"""Text of any origin as text that can be shown: in tables, charts, HTML and terminals."""

from __future__ import annotations

import html
import re

# Control characters, which terminals execute and XML rejects; halves of surrogate pairs, which
# UTF-8 cannot encode; and characters that reverse the direction of the text after them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_SPACES = re.compile("[\t\n\v\f\r\u2028\u2029]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_ELLIPSIS = "..."
#: Maximum number of characters of a text in HTML.
_LONGEST_HTML = 10_000


def printable(text: str, most: int, *, lines: bool = False) -> str:
    """Replace characters that cannot be shown, and shorten long text in the middle.

    Parameters
    ----------
    text
        Any text, for example the name of a function.
    most
        Maximum number of characters.
    lines
        Whether to keep line breaks; otherwise they become spaces.
    """
    if len(text) > most:
        half = (most - len(_ELLIPSIS)) // 2
        text = f"{text[: most - half - len(_ELLIPSIS)]}{_ELLIPSIS}{text[-half:]}"
    parts = text.split("\n") if lines else [text]
    return _UNPRINTABLE.sub(_REPLACEMENT, "\n".join(_SPACES.sub(" ", part) for part in parts))


def escaped(text: str) -> str:
    """Return a printable text for HTML, in one line."""
    return html.escape(printable(text, _LONGEST_HTML))
