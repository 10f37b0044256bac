"""The source files to which samples of a kernel can belong: shipped files, or a user's sources."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from adokernels.ladders.definitions import definitions_in
from adokernels.ladders.recorded_path import shipped_path
from adokernels.records.hotspots import Excerpt, LineSamples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adokernels.ladders.definitions import Definition

#: Number of lines that are shown above and below a line outside of any definition.
_CONTEXT = 3


@dataclass(frozen=True)
class Sources:
    """The texts of source files.

    Attributes
    ----------
    root
        The folder of the shipped sources; None if they are not used.
    texts
        The user's sources, by the names with which they were compiled.
    """

    root: Path | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def path_of(self, recorded: str) -> str:
        """The name of the source file with this recorded path.

        Parameters
        ----------
        recorded
            The path on the machine that compiled it. The compiler prefixes a relative name with its
            working directory.
        """
        recorded = os.path.normpath(recorded) if recorded else ""
        parts = Path(recorded).parts
        for name in self.texts:
            named = Path(os.path.normpath(name)).parts
            if named == parts[-len(named) :]:
                return name
        return shipped_path(recorded, self.root) if self.root else recorded

    def line_of(self, path: str, line: int) -> str:
        """The code of a line; empty if the file cannot be read or has fewer lines."""
        lines = (self._text_of(path) or "").splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def excerpts_of(self, entries: Iterable[LineSamples]) -> list[Excerpt]:
        """The definitions that contain sampled lines, or else the lines around them."""
        found: dict[Excerpt, None] = {}
        for entry in entries:
            if not self._is_shown(entry.path) or any(entry in e for e in found):
                continue
            text = self._text_of(entry.path) or ""
            if definition := _definition_at(text, entry):
                excerpt = Excerpt(path=entry.path, line=definition.line, text=definition.text)
            else:
                first = max(entry.line - _CONTEXT, 1)
                around = text.splitlines()[first - 1 : entry.line + _CONTEXT]
                excerpt = Excerpt(path=entry.path, line=first, text="\n".join(around))
            found[excerpt] = None
        return list(found)

    def _is_shown(self, path: str) -> bool:
        return path in self.texts or bool(self.root and path and not Path(path).is_absolute())

    def _text_of(self, path: str) -> str | None:
        if path in self.texts:
            return self.texts[path]
        try:
            return ((self.root or Path()) / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None


def _definition_at(text: str, entry: LineSamples) -> Definition | None:
    try:
        definitions = definitions_in(text, entry.path)
    except ValueError:  # the scanner does not support all C++ code
        return None
    return next((d for d in definitions if d.line <= entry.line <= d.last_line), None)
