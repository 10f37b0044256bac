"""The source code of variants, as shipped in the package.

``source_index.json`` has the lines of the definitions in the shipped files, and the definitions
that each variant shows: its entry in the list of its ladder, the kernels that it launches, and what
these use of the routine's folder. ``.ci/source_index.py`` writes it.
"""

from __future__ import annotations

import functools
import hashlib
import html
import json
import os
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from adokernels.code_text import PRE, ShownAsCode, html_lines, text_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = Path(__file__).parents[1]
_FADED = "opacity:0.65"


@functools.cache
def sources_folder() -> Path:
    """The folder that contains ``cuda/`` and ``src/``: in the package, or the repository.

    Raises
    ------
    FileNotFoundError
        If the package was installed without sources.
    """
    for folder in (_PACKAGE / "source", _PACKAGE.parents[1]):
        if (folder / "cuda" / "common").is_dir() and (folder / "src" / "core").is_dir():
            return folder
    raise FileNotFoundError(
        f"{_PACKAGE / 'source'} does not exist: the package was installed without its C++ and CUDA "
        "sources. Reinstall adokernels"
    )


@functools.cache
def _index() -> dict[str, Any]:
    text = Path(__file__).with_name("source_index.json").read_text(encoding="utf-8")
    index: dict[str, Any] = json.loads(text)
    return index


def shipped_path(recorded: str) -> str:
    """The shipped file with this path on the machine that compiled it; `recorded` if none has it.

    The compiler can record ``"/home/me/adokernels/cuda/transpose/../image/view.cuh"``.
    """
    path = os.path.normpath(recorded) if recorded else ""
    return next((p for p in _index()["files"] if f"/{path}".endswith(f"/{p}")), recorded)


def definitions_of(path: str, variant: str = "") -> list[SourcePart]:
    """The definitions in a shipped file, as parts of the source of `variant`.

    Raises
    ------
    RuntimeError
        If the file is not the one that was indexed.
    """
    file = sources_folder() / path
    code = file.read_bytes() if file.is_file() else b""
    indexed, definitions = _index()["files"][path]
    if hashlib.sha256(code).hexdigest()[:16] != indexed:
        raise RuntimeError(
            f"{path} has changed since its definitions were indexed: run `make generate`, and "
            "start Python again"
        )
    lines = code.decode("utf-8").split("\n")
    return [
        SourcePart(
            kind=kind,
            name=name,
            path=path,
            line=first,
            text=textwrap.dedent("\n".join(lines[first - 1 : last])),
            variant=variant,
        )
        for first, last, kind, name in definitions
    ]


@dataclass(frozen=True, kw_only=True)
class SourcePart:
    """One definition of a source.

    Attributes
    ----------
    kind
        ``"variant"`` (the entry in the list of variants), ``"kernel"``, ``"device"`` (a device
        function), ``"function"``, ``"type"``, ``"alias"`` or ``"constant"``.
    name
        What it defines.
    path
        The file, relative to the repository.
    line
        The first line of `text` in the file; the first line of a file is 1.
    text
        The code, with the comment above it.
    variant
        The variant that it is part of, as ``"transpose[tiled]"``.
    """

    kind: str
    name: str
    path: str
    line: int
    text: str
    variant: str

    @property
    def last_line(self) -> int:
        """The last line of `text` in the file."""
        return self.line + self.text.count("\n")


@dataclass(frozen=True, repr=False)
class Source(ShownAsCode):
    """The source of a variant: ``print`` shows it as plain text.

    Attributes
    ----------
    parts : tuple of SourcePart
        The entry of the variant, the kernels, and what they use. General helpers, which several
        routines use, are not included. A pipeline has the parts of its stages, too.
    """

    parts: tuple[SourcePart, ...]

    @property
    def text(self) -> str:
        """All parts as plain text; the file and first line are above each part."""
        return "\n\n".join(f"// {part.path}:{part.line}\n{part.text}" for part in self.parts)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the parts, relative to the repository, in order of first appearance."""
        return tuple(dict.fromkeys(part.path for part in self.parts))

    @property
    def kernels(self) -> tuple[SourcePart, ...]:
        """The parts that are CUDA kernels."""
        return tuple(part for part in self.parts if part.kind == "kernel")

    def _lines(self) -> Iterator[Text]:
        for i, part in enumerate(self.parts):
            if i:
                yield Text()
            yield Text(f"// {part.path}:{part.line}", style="bold")
            for number, line in enumerate(text_lines(part.text), part.line):
                yield Text.assemble((f"{number:4} ", "dim"), line)

    def _repr_html_(self) -> str:
        blocks = []
        for part in self.parts:
            lines = "\n".join(
                f'<span style="{_FADED};user-select:none">{number:4} </span>{line}'
                for number, line in enumerate(html_lines(part.text), part.line)
            )
            title = f"<strong>{html.escape(part.path)}:{part.line}</strong>"
            blocks.append(f'<div>{title}<pre style="{PRE}">{lines}</pre></div>')
        body = "<br>\n".join(blocks)
        return f'<div class="adokernels" style="overflow-x:auto">\n{body}\n</div>'


def source_of(*variants: str) -> Source:
    """The source of a variant, and of its stages if it is a pipeline: ``"transpose[tiled]"``."""
    parts: dict[tuple[str, int], SourcePart] = {}
    for label in variants:
        for path, numbers in _index()["variants"][label]:
            definitions = definitions_of(path, label)
            for part in (definitions[i] for i in numbers):
                parts.setdefault((part.path, part.line), part)
    return Source(tuple(parts.values()))
