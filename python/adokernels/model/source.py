"""The source code of variants, as shipped in the package, and the differences between them.

The source of a variant is the text between two rulers: from the comment line ``// ---- tiled ----``
(with more dashes) to the next ruler. A ruler can name several variants.
"""

from __future__ import annotations

import difflib
import functools
import html
import os
import re
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from adokernels.code_text import PRE, Listing, ShownAsCode, html_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.text import Text

_PACKAGE = Path(__file__).parents[1]
_FADED = "opacity:0.65"
_ADDED, _DELETED = "rgba(46,160,67,0.22)", "rgba(248,81,73,0.22)"  # on light and dark pages
_CONTEXT = 3
_FOLDERS = ("cuda", "src/core", "src/cpu")
#: The line above a section. A ruler without names ends the last section.
_RULER = re.compile(r"// -{4} (\w+(?:, \w+)*) -{4,}|// -{90,}")
#: Included files that several ladders share. Their rulers name variants of these ladders.
_SHARED = re.compile(r'#include "((?:image|strided|common|cpu/common|cpu/image|cpu/strided)/.+)"')


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
def _files() -> tuple[str, ...]:
    found = (path for name in _FOLDERS for path in (sources_folder() / name).rglob("*.[ch]*"))
    return tuple(sorted(path.relative_to(sources_folder()).as_posix() for path in found))


def _text_of(path: str) -> str:
    return (sources_folder() / path).read_text(encoding="utf-8")


def shipped_path(recorded: str) -> str:
    """The shipped file that had this path when it was compiled; otherwise `recorded`.

    The compiler can record ``"/home/me/adokernels/cuda/sobel/../image/tiles.cuh"``.
    """
    path = os.path.normpath(recorded) if recorded else ""
    return next((p for p in _files() if f"/{path}".endswith(f"/{p}")), recorded)


def given_path(recorded: str, names: Iterable[str]) -> str:
    """The name of a source from its path in the code, to which the compiler may add a folder."""
    recorded = os.path.normpath(recorded) if recorded else ""
    for name in names:
        parts = Path(os.path.normpath(name)).parts
        if parts == Path(recorded).parts[-len(parts) :]:
            return name
    return recorded


@dataclass(frozen=True, kw_only=True)
class SourcePart:
    """A section of a file.

    `name` is the name of a variant, and `variant` is its label, such as ``"transpose[tiled]"``.
    `text` is the section. It begins in line `line`, from 1, of the file `path`, relative to the
    repository.
    """

    name: str
    path: str
    line: int
    text: str
    variant: str


@dataclass(frozen=True, repr=False)
class Source(ShownAsCode):
    """The source of a variant: ``print`` shows it as plain text.

    Attributes
    ----------
    parts : tuple of SourcePart
        The sections that the variant shares with others, then its own section with its kernel and
        its entry in the ladder. General helpers that several routines use are not included. A
        pipeline also has the sections of its stages.
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

    def _listings(self) -> list[Listing]:
        return [Listing(f"{p.path}:{p.line}", p.text, p.line, {}, ()) for p in self.parts]

    def _lines(self) -> list[Text]:
        return [line for listing in self._listings() for line in listing.lines()][1:]

    def _repr_html_(self) -> str:
        return "<br>\n".join(listing.to_html() for listing in self._listings())


def source_of(*variants: str) -> Source:
    """The source of a variant, and of its stages if it is a pipeline: ``"transpose[tiled]"``."""
    parts: dict[tuple[str, int], SourcePart] = {}
    for label in variants:
        for part in _sections(label):
            parts.setdefault((part.path, part.line), part)
    return Source(tuple(parts.values()))


def _sections(label: str) -> Iterator[SourcePart]:
    """The sections whose rulers name a variant: first those that its ladder shares with others."""
    routine, _, name = label.rstrip("]").partition("[")
    routine = routine.removesuffix("_tiles")  # in the folder of gpp
    folders = f"cuda/{routine}/", f"src/cpu/{routine}/", f"src/cpu/{routine}.cpp"
    own = [path for path in _files() if path.startswith(folders)]
    sections = [part for path in own for part in _sections_of(path, name, label)]
    sections.sort(key=lambda part: -part.text.partition("\n")[0].count(","))  # own section last
    device = sections[0].path.partition("/")[0] if sections else None  # "cuda" or "src"
    paths = [path for path in own if path.partition("/")[0] == device]
    included = [found for path in paths for found in _SHARED.findall(_text_of(path))]
    for path in dict.fromkeys(included):
        yield from _sections_of(("src/" if path[:4] == "cpu/" else "cuda/") + path, name, label)
    yield from sections


def _sections_of(path: str, name: str, label: str) -> Iterator[SourcePart]:
    """The sections of a file whose rulers have this name."""
    lines = _text_of(path).split("\n")
    rulers = [(i, found[1] or "") for i, line in enumerate(lines) if (found := _RULER.match(line))]
    for (first, names), (last, _) in pairwise([*rulers, (len(lines), "")]):
        if name in names.split(", "):
            text = "\n".join(lines[first:last]).rstrip("\n")
            yield SourcePart(name=name, path=path, line=first + 1, text=text, variant=label)


class DiffLine(NamedTuple):
    """A line of a difference: ``mark`` is ``" "``, ``"+"``, ``"-"``, or ``"@"`` for a heading."""

    mark: str
    text: str


@dataclass(frozen=True, repr=False)
class Diff(ShownAsCode):
    """The change from one variant to another: ``print`` shows it as plain text.

    Definitions are compared with their counterparts. A line that differs only in its indentation
    or in the name of a renamed definition counts as equal.

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
    renamed = dict[str, str]()
    for old, new in pairs:
        if old and new:
            renamed |= dict(zip(_names_of(old), _names_of(new), strict=False))
    lines = (line for old, new in pairs for line in _compare(old, new, renamed))
    return Diff(before.parts[0].variant, after.parts[0].variant, tuple(lines))


def _names_of(part: SourcePart) -> list[str]:
    """The names of the kernel and the entry of a variant."""
    routine, _, variant = part.variant.rstrip("]").partition("[")
    return [f"{routine}_{variant}", "k" + variant.title().replace("_", "")]


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

    for key in (attrgetter("path", "line"), attrgetter("name")):
        for i, new in enumerate(after):
            if old := next((p for p in left if key(p) == key(new)), None):
                pair(i, old)
    pair(len(after) - 1, before[-1])  # the variants' own sections
    unpaired = [i for i in range(len(after)) if i not in partner]
    for i, old in zip(unpaired, [*left], strict=False):
        pair(i, old)
    yield from ((partner.get(i), new) for i, new in enumerate(after))
    yield from ((old, None) for old in left)


def _compare(
    before: SourcePart | None, after: SourcePart | None, renamed: Mapping[str, str]
) -> Iterator[DiffLine]:
    if before and after and before.text == after.text:
        return
    parts = [part for part in (before, after) if part]
    shown = parts[-1:] if len({part.name for part in parts}) == 1 else parts
    places = " -> ".join(f"{part.path}:{part.line}" for part in shown)
    title = f"{' -> '.join(part.name for part in shown)} ({places})"
    old, new = (part.text.splitlines() if part else [] for part in (before, after))
    compared = [re.sub(r"\w+", lambda m: renamed.get(m[0], m[0]), line).strip() for line in old]
    matcher = difflib.SequenceMatcher(None, compared, [n.strip() for n in new], autojunk=False)
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
