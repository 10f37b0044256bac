"""The source files to which samples of a kernel can belong: shipped files, or a user's sources."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from adokernels.model.source import definitions_of, shipped_path
from adokernels.records.hotspots import Excerpt, LineSamples

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
        return shipped_path(recorded) if self.root else recorded

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
            lines = (self._text_of(entry.path) or "").splitlines()
            if entry.path in self.texts:
                blocks = [_block_at(lines, entry.line)]
            else:
                blocks = [(d.line, d.last_line) for d in definitions_of(entry.path)]
            around = (max(entry.line - _CONTEXT, 1), entry.line + _CONTEXT)
            first, last = next((b for b in blocks if b[0] <= entry.line <= b[1]), around)
            text = "\n".join(lines[first - 1 : last])
            found[Excerpt(path=entry.path, line=first, text=text)] = None
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


def _block_at(lines: Sequence[str], line: int) -> tuple[int, int]:
    """The first and last line of the definition around a line, by its layout; (0, 0) if unknown.

    A definition starts below an empty line and ends with a brace, both without indentation.
    """
    code = ["", *textwrap.dedent("\n".join(lines)).split("\n")]
    starts = [i for i, text in enumerate(code) if text and text[0] not in " #}" and not code[i - 1]]
    ends = [i for i, text in enumerate(code) if text.startswith("}")]
    first = max((i for i in starts if i <= line), default=0)
    last = min((i for i in ends if i >= line), default=0)
    other = any(first < i < line for i in ends) or any(line < i <= last for i in starts)
    return (0, 0) if other or not first else (first, last)
