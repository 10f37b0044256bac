"""The source code of variants, as shipped in the package, and the difference between two variants.

A variant is declared once, in the list of its ladder's file. Its source is that entry, the kernels
that it launches, and the definitions of the routine's folder that these use.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import html
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from adokernels.ladders.definitions import (
    Definition,
    accepts_call,
    blank,
    definitions_of,
    includes_of,
    matching,
    matching_angle,
    opens_template,
    references,
    split_top,
)
from adokernels.tables.code import PRE, ShownAsCode, html_lines, text_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any as AnyVariant
    from typing import Any as Variant

_PACKAGE = Path(__file__).parents[1]
_FADED = "opacity:0.65"
_ADDED, _DELETED = "rgba(46,160,67,0.22)", "rgba(248,81,73,0.22)"  # on light and dark pages
_CONTEXT = 3
#: Functions, types and constants are compared if at least this share of their lines is equal.
_SIMILAR = 0.5
#: Folders with code of several ladders. It is shown like the code in a ladder's own folder.
_SHARED_FOLDERS = ("image", "strided")


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

    def __str__(self) -> str:
        return self.text

    def _lines(self) -> Iterator[Text]:
        for i, part in enumerate(self.parts):
            if i:
                yield Text()
            yield Text(f"// {part.path}:{part.line}", style="bold")
            for number, line in enumerate(text_lines(part.text), part.line):
                yield Text.assemble((f"{number:4} ", "dim"), line)

    def __rich__(self) -> Text:
        return Text("\n").join(self._lines())

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


class _Entry(NamedTuple):
    """The entry of a variant in its ladder, and where the search for its code starts."""

    part: Definition
    helper: Definition | None  # a function that returns the entry, if it defines what runs
    run: str  # the code of what runs


class _Ladder:
    """The files of a ladder: the one with its variants, its folder, and folders that it shares."""

    def __init__(self, root: Path, routine: str, device: str) -> None:
        folder, name = (
            ("cuda", f"{routine}.cu") if device == "cuda" else ("src/cpu", f"{routine}.cpp")
        )
        paths = sorted((root / folder).rglob(name))
        if len(paths) != 1:
            raise FileNotFoundError(
                f"{root / folder} must contain one file {name}, got {len(paths)}"
            )
        self.root, self.path = root, str(paths[0].relative_to(root))
        self._folders = tuple(f"{folder}/{name}/" for name in (routine, *_SHARED_FOLDERS))
        self.definitions: dict[str, list[Definition]] = {}
        self._reaches_kernel: dict[Definition, bool] = {}
        self._read(self.path, set())

    def _read(self, path: str, seen: set[str]) -> None:
        """Read the definitions of a file and of those that it includes, in reading order."""
        seen.add(path)
        for other in includes_of(self.root, path):
            if other not in seen and self._is_part(other):
                self._read(other, seen)
        for definition in definitions_of(self.root, path):
            for name in definition.names:
                self.definitions.setdefault(name, []).append(definition)

    def _is_part(self, path: str) -> bool:
        """Whether it is a file of the ladder's folder, or a helper that declares variants."""
        if path.startswith(self._folders):
            return True
        return "/common/" in path and any(
            "Variant<" in d.code.split("{")[0] for d in definitions_of(self.root, path)
        )

    def entry(self, name: str) -> _Entry:
        (ladder,) = (d for d in self.definitions["kVariants"] if d.path == self.path)
        text = (self.root / self.path).read_text(encoding="utf-8")
        code = blank(text)
        first = code.index("{", code.index("kVariants[]"))
        for begin, end in split_top(code, first + 1, matching(code, first) - 1):
            item, item_code = text[begin:end], code[begin:end]
            if not item_code.strip():
                continue
            helper = self._helper_of(item_code)
            if self._name_of(item, helper) != name:
                continue
            start = begin + len(item) - len(item.lstrip())
            line_begin = text.rindex("\n", 0, start) + 1
            part = dataclasses.replace(
                ladder,
                line=text.count("\n", 0, start) + 1,
                last_line=text.count("\n", 0, end) + 1,
                names=(name,),
                kind="variant",
                text=textwrap.dedent(text[line_begin : end + (text[end] == ",")]),
                code=item_code,
            )
            run = _run_of(item_code)
            if helper and not run:
                run = _run_of(helper.code)
            elif helper:
                helper = None
            return _Entry(part, helper, run)
        raise LookupError(f"{self.path} has no variant {name!r}")

    def _helper_of(self, code: str) -> Definition | None:
        called = re.match(r"\s*(\w+)", code)
        return self.definitions[called[1]][0] if called else None

    @staticmethod
    def _name_of(item: str, helper: Definition | None) -> str:
        fixed = re.search(r'\.name = "([^"]+)"', helper.text if helper else item)
        given = fixed or re.search(r'"([^"]+)"', item)
        return given[1] if given else ""

    def used_by(self, entry: _Entry) -> list[Definition]:
        """The definitions that an entry uses, kernels first, then by file."""
        cuda = self.path.startswith("cuda/")
        found: dict[Definition, None] = {}
        chosen: set[Definition] = set()
        known = _lambda_names(entry.run)
        queue = [(name, entry.run, cuda) for name in references(entry.run, known)]
        while queue:
            while queue:
                name, code, from_host = queue.pop(0)
                for definition in self.definitions.get(name, ()):
                    if definition in found or definition in chosen:
                        continue
                    if not accepts_call(definition, code):
                        continue
                    host = cuda and definition.kind == "function"
                    # Host code of a CUDA variant is included if it launches kernels. The source
                    # contains the tile shapes, but not the choice of a shape or element type.
                    if from_host and _chooses(definition):
                        chosen.add(definition)
                        host = True
                    elif host and not self._reaches(definition):
                        continue
                    else:
                        found[definition] = None
                    queue += [(other, definition.code, host) for other in definition.references]
            operators = self._operators_used(found)
            queue = [(name, "", False) for name in operators]
        return _reading_order(found)

    def _operators_used(self, found: Iterable[Definition]) -> list[str]:
        """The names of overloaded operators that are used on types among the definitions."""
        types = {d.name for d in found if d.kind in ("type", "alias")}
        code = [d.code for d in found]
        used = []
        for name, overloads in self.definitions.items():
            if not name.startswith("operator") or all(d in found for d in overloads):
                continue
            symbol = re.escape(name.removeprefix("operator"))
            pattern = re.compile(rf"[\w)\]] {symbol}=? |(?<![\w)\]] ){symbol}[\w(]")
            taken = {word for d in overloads for word in re.findall(r"\w+", d.parameters)}
            if taken & types and any(pattern.search(c) for c in code):
                used.append(name)
        return used

    def _reaches(self, definition: Definition) -> bool:
        """Whether host code launches a kernel, itself or through functions that it calls."""
        if definition not in self._reaches_kernel:
            self._reaches_kernel[definition] = False  # ends recursion
            self._reaches_kernel[definition] = any(
                other.kind == "kernel" or (other.kind == "function" and self._reaches(other))
                for name in definition.references
                for other in self.definitions.get(name, ())
            ) or bool(re.search(r"\blaunch\(", definition.code))
        return self._reaches_kernel[definition]


def _chooses(definition: Definition) -> bool:
    """Whether it only calls a function with one of several types."""
    return bool(re.search(r"\bvisit\)", definition.code.split("{")[0]))


def _lambda_names(code: str) -> set[str]:
    return {m[1] for m in re.finditer(r"\]<class (\w+)", code)} | {
        m[1] for m in re.finditer(r"(?:auto|using|[&*]) (\w+)", code)
    }


def _run_of(code: str) -> str:
    """The code in ``ADO_RUN(...)``, or the value of ``.run``."""
    if match := re.search(r"\bADO_RUN\(", code):
        return code[match.end() : matching(code, match.end() - 1) - 1]
    if match := re.search(r"\.run = ", code):
        at = match.end()
        while at < len(code) and code[at] not in ",}":
            at = matching_angle(code, at) if opens_template(code, at) else at + 1
        return "" if code[match.end() : at] in _parameters_of(code) else code[match.end() : at]
    return ""


def _parameters_of(code: str) -> set[str]:
    return set(re.findall(r"\(\*(\w+)\)\(", code.split("{")[0]))


def _reading_order(found: Iterable[Definition]) -> list[Definition]:
    """Kernels as they are launched; then the rest by file, each file from top to bottom."""
    found = list(found)
    kernels = [d for d in found if d.kind == "kernel"]
    others = [d for d in found if d.kind != "kernel"]
    files = list(dict.fromkeys(d.path for d in (*kernels, *others)))
    return kernels + sorted(others, key=lambda d: (files.index(d.path), d.line))


@functools.lru_cache(maxsize=32)
def _ladder(root: Path, routine: str, device: str) -> _Ladder:
    return _Ladder(root, routine, device)


def source_of(variant: Variant) -> Source:
    """The source of a variant, and of its stages if it is a pipeline."""
    return Source(tuple(_parts(variant.routine.name, variant.name, variant.device, variant.stages)))


def _parts(
    routine: str, name: str, device: str, stages: Sequence[tuple[str, str]]
) -> Iterator[SourcePart]:
    ladder = _ladder(sources_folder(), routine, device)
    entry = ladder.entry(name)
    helper = [entry.helper] if entry.helper else []
    used = [d for d in ladder.used_by(entry) if d not in helper]
    for definition in (entry.part, *helper, *used):
        yield SourcePart(
            kind=definition.kind,
            name=definition.name,
            path=definition.path,
            line=definition.line,
            text=definition.text,
            variant=f"{routine}[{name}]",
        )
    seen = {(d.path, d.line) for d in (*helper, *used)}
    for stage in stages:
        for part in _parts(*stage, device, ()):
            if (part.path, part.line) not in seen:
                seen.add((part.path, part.line))
                yield part


@dataclass(frozen=True, kw_only=True)
class _Change:
    """Two versions of a definition, or one that only one of the variants has."""

    before: SourcePart | None
    after: SourcePart | None

    @property
    def title(self) -> str:
        before, after = self.before, self.after
        if before and after:
            here = f"{after.path}:{after.line}"
            if before.name == after.name:
                return f"{after.name} ({here})"
            return f"{before.name} -> {after.name} ({before.path}:{before.line} -> {here})"
        part = before or after
        assert part is not None
        return f"{part.name} ({part.path}:{part.line})"


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

    def __str__(self) -> str:
        return self.text

    def _lines(self) -> Iterator[Text]:
        styles = {"+": "green", "-": "red", "@": "cyan", " ": ""}
        heads = {"---": "bold red", "+++": "bold green"}
        for line in self._plain():
            yield Text(line, style=heads.get(line[:3], styles[line[0]]))

    def __rich__(self) -> Text:
        return Text("\n").join(self._lines())

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


def diff_of(before: AnyVariant, after: AnyVariant) -> Diff:
    """The change from the source of one variant to that of another."""
    changes = list(_matched(before.source.parts, after.source.parts))
    renamed = {
        c.before.name: c.after.name
        for c in changes
        if c.before and c.after and c.before.kind != "variant" and c.before.name != c.after.name
    }
    lines = [line for change in changes for line in _compare(change, renamed)]
    return Diff(before.label, after.label, tuple(lines))


def _matched(before: Sequence[SourcePart], after: Sequence[SourcePart]) -> Iterator[_Change]:
    """Pairs of definitions, in the order of `after`; then those that only `before` has."""
    left, partner = list(before), dict[int, SourcePart]()

    def pair(i: int, part: SourcePart) -> None:
        partner[i] = part
        left.remove(part)

    for same in (_same_place, _same_name):
        for i, part in enumerate(after):
            if i not in partner and (match := next((p for p in left if same(p, part)), None)):
                pair(i, match)
    candidates = [
        (_similarity(old, new), -i, old)
        for i, new in enumerate(after)
        if i not in partner
        for old in left
        if old.kind == new.kind
    ]
    for ratio, i, old in sorted(candidates, key=lambda c: c[:2], reverse=True):
        kernels = old.kind in ("kernel", "variant")
        if -i not in partner and old in left and (kernels or ratio >= _SIMILAR):
            pair(-i, old)
    for i, new in enumerate(after):
        yield _Change(before=partner.get(i), after=new)
    for old in left:
        yield _Change(before=old, after=None)


def _same_place(a: SourcePart, b: SourcePart) -> bool:
    return (a.path, a.line) == (b.path, b.line)


def _same_name(a: SourcePart, b: SourcePart) -> bool:
    return (a.kind, a.name) == (b.kind, b.name)


def _similarity(a: SourcePart, b: SourcePart) -> float:
    old, new = ([line for line in p.text.splitlines() if "//" not in line] for p in (a, b))
    return difflib.SequenceMatcher(None, old, new, autojunk=False).ratio()


def _compare(change: _Change, renamed: dict[str, str]) -> Iterator[DiffLine]:
    old = change.before.text.splitlines() if change.before else []
    new = change.after.text.splitlines() if change.after else []
    if renamed:
        names = re.compile(r"\b(?:" + "|".join(map(re.escape, renamed)) + r")\b")
        compared = [names.sub(lambda m: renamed[m[0]], line) for line in old]
    else:
        compared = old
    matcher = difflib.SequenceMatcher(None, compared, new, autojunk=False)
    groups = [g for g in matcher.get_grouped_opcodes(_CONTEXT) if any(o[0] != "equal" for o in g)]
    for i, group in enumerate(groups):
        yield DiffLine("@", change.title if i == 0 else "...")
        for kind, first, last, new_first, new_last in group:
            if kind == "equal":
                yield from (DiffLine(" ", line) for line in new[new_first:new_last])
                continue
            yield from (DiffLine("-", line) for line in old[first:last])
            yield from (DiffLine("+", line) for line in new[new_first:new_last])
