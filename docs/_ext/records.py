"""The API reference of records: fields with short types instead of a long constructor."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from sphinx.application import Sphinx

_ENTRY = re.compile(r"^(:\w+:)? *\* \*\*[^*]+\*\* \(\*.*?\*\)")
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])")


def _without_constructor(
    app: Sphinx, kind: str, name: str, found: object, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Omit the signature: records are created by functions of the package, not by users."""
    return ("", "") if kind == "class" and dataclasses.is_dataclass(found) else None


def _with_short_types(
    app: Sphinx, kind: str, name: str, found: object, options: Any, lines: list[str]
) -> None:
    """Omit the modules in the types that napoleon inserts, such as ``Mapping``."""
    for place, line in enumerate(lines):
        if match := _ENTRY.match(line):
            lines[place] = _MODULE.sub("", match[0]) + line[match.end() :]


def setup(app: Sphinx) -> dict[str, Any]:
    """Change signatures, and docstrings after napoleon has parsed them."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-signature", _without_constructor)
    app.connect("autodoc-process-docstring", _with_short_types, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
