"""The source code of variants, as shipped in the package, and the differences between them.

``source_index.json`` has the lines of the definitions in the shipped files, and the definitions
that each variant shows: its entry in the list of its ladder, the kernels that it launches, and the
definitions in the routine's folder that these use. ``.ci/source_index.py`` writes it.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import html
import json
import os
import re
import textwrap
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adokernels.code_text import PRE, ShownAsCode, html_lines, text_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.text import Text

_PACKAGE = Path(__file__).parents[1]
_FADED = "opacity:0.65"
_ADDED, _DELETED = "rgba(46,160,67,0.22)", "rgba(248,81,73,0.22)"  # on light and dark pages
_CONTEXT = 3
#: Functions, types and constants are compared if at least this share of their lines is equal.
_SIMILAR = 0.5


@functools.cache
def sources_folder() -> Path:
    """The folder that contains ``cuda/`` and ``src/``: in the package, or the repository."""
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
    """The shipped file with this path on the machine that compiled it; else `recorded`.

    The compiler can record ``"/home/me/adokernels/cuda/transpose/../image/view.cuh"``.
    """
    path = os.path.normpath(recorded) if recorded else ""
    return next((p for p in _index()["files"] if f"/{path}".endswith(f"/{p}")), recorded)


def definitions_of(path: str, variant: str = "") -> list[SourcePart]:
    """The definitions in a shipped file, which must be indexed, as parts of `variant`."""
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

    `kind` is ``"variant"`` (the entry in the list of variants), ``"kernel"``, ``"device"`` (a
    device function), ``"function"``, ``"type"``, ``"alias"`` or ``"constant"``, and `name` is the
    defined name. `text` is the code, with the comment above it. It begins in line `line`, from 1,
    of the file `path`, relative to the repository. `variant` is the variant that uses it, as
    ``"transpose[tiled]"``.
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
        from rich.text import Text

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


class DiffLine(NamedTuple):
    """A line of a difference: ``mark`` is ``" "``, ``"+"``, ``"-"``, or ``"@"`` for a heading."""

    mark: str
    text: str


@dataclass(frozen=True, repr=False)
class Diff(ShownAsCode):
    """The change from one variant to another: ``print`` shows it as plain text.

    Definitions are compared with their counterparts. A line that differs only in the name of a
    renamed definition counts as equal.

    Attributes
    ----------
    before, after : str
        The variants, as ``"transpose[tiled]"``.
    lines : tuple of DiffLine
        The lines of the difference; empty if the variants have equal sources.
    """

    before: str
    after: str
    lines: tuple[DiffLine, ...]

    @property
    def text(self) -> str:
        """The difference as plain text."""
        return "\n".join(self._plain())

    @property
    def added(self) -> tuple[str, ...]:
        """The added lines."""
        return tuple(line.text for line in self.lines if line.mark == "+")

    @property
    def deleted(self) -> tuple[str, ...]:
        """The deleted lines."""
        return tuple(line.text for line in self.lines if line.mark == "-")

    def _plain(self) -> Iterator[str]:
        yield f"--- {self.before}"
        yield f"+++ {self.after}"
        for mark, text in self.lines:
            yield f"@@ {text} @@" if mark == "@" else f"{mark}{text}"

    def _lines(self) -> Iterator[Text]:
        from rich.text import Text

        styles = {"+": "green", "-": "red", "@": "cyan", " ": ""}
        heads = {"---": "bold red", "+++": "bold green"}
        for line in self._plain():
            yield Text(line, style=heads.get(line[:3], styles[line[0]]))

    def _repr_html_(self) -> str:
        marked = [line for line in self.lines if line.mark != "@"]
        code = iter(html_lines("\n".join(line.text for line in marked)))
        colours = {"+": _ADDED, "-": _DELETED, " ": "none"}
        rows = []
        for mark, text in self.lines:
            if mark == "@":
                rows.append(f'<div style="{_FADED};margin-top:0.8em">{html.escape(text)}</div>')
                continue
            style = f"background:{colours[mark]}"
            rows.append(f'<div style="{style}">{mark} {next(code)}</div>')
        title = f"<strong>{html.escape(self.before)} &rarr; {html.escape(self.after)}</strong>"
        body = "".join(rows) or "<div>equal sources</div>"
        return (
            f'<div class="adokernels" style="overflow-x:auto">{title}\n'
            f'<pre style="{PRE};width:max-content;min-width:100%">{body}</pre>\n</div>'
        )


def diff_of(before: Source, after: Source) -> Diff:
    """The change from the source of one variant to the source of another."""
    pairs = list(_matched(before.parts, after.parts))
    both = [(old, new) for old, new in pairs if old and new and old.kind != "variant"]
    renamed = {old.name: new.name for old, new in both if old.name != new.name}
    lines = (line for old, new in pairs for line in _compare(old, new, renamed))
    return Diff(before.parts[0].variant, after.parts[0].variant, tuple(lines))


def _matched(
    before: Sequence[SourcePart], after: Sequence[SourcePart]
) -> Iterator[tuple[SourcePart | None, SourcePart | None]]:
    """Pairs of definitions, in the order of `after`; then definitions that only `before` has."""
    left = list(before)
    partner: dict[int, SourcePart] = {}

    def pair(i: int, old: SourcePart) -> None:
        if i not in partner and old in left:
            partner[i] = old
            left.remove(old)

    for key in (attrgetter("path", "line"), attrgetter("kind", "name")):
        for i, new in enumerate(after):
            if old := next((p for p in left if key(p) == key(new)), None):
                pair(i, old)
    unpaired = [(i, new) for i, new in enumerate(after) if i not in partner]
    same_kind = [(i, new, old) for i, new in unpaired for old in left if old.kind == new.kind]
    ratios = [(_similarity(old, new), -i, old) for i, new, old in same_kind]
    for ratio, i, old in sorted(ratios, key=itemgetter(0, 1), reverse=True):
        if ratio >= _SIMILAR or old.kind in ("kernel", "variant"):
            pair(-i, old)
    yield from ((partner.get(i), new) for i, new in enumerate(after))
    yield from ((old, None) for old in left)


def _similarity(a: SourcePart, b: SourcePart) -> float:
    old, new = ([line for line in p.text.splitlines() if "//" not in line] for p in (a, b))
    return difflib.SequenceMatcher(None, old, new, autojunk=False).ratio()


def _compare(
    before: SourcePart | None, after: SourcePart | None, renamed: Mapping[str, str]
) -> Iterator[DiffLine]:
    parts = [part for part in (before, after) if part]
    shown = parts[-1:] if len({part.name for part in parts}) == 1 else parts
    places = " -> ".join(f"{part.path}:{part.line}" for part in shown)
    title = f"{' -> '.join(part.name for part in shown)} ({places})"
    old, new = (part.text.splitlines() if part else [] for part in (before, after))
    compared = [re.sub(r"\w+", lambda m: renamed.get(m[0], m[0]), line) for line in old]
    matcher = difflib.SequenceMatcher(None, compared, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        if all(kind == "equal" for kind, *_ in group):
            continue
        yield DiffLine("@", title)
        title = "..."
        for kind, first, last, new_first, new_last in group:
            if kind != "equal":
                yield from (DiffLine("-", line) for line in old[first:last])
            mark = " " if kind == "equal" else "+"
            yield from (DiffLine(mark, line) for line in new[new_first:new_last])
