"""The difference between the sources of two variants."""

from __future__ import annotations

import difflib
import html
import re
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from adokernels.code_text import PRE, ShownAsCode, html_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adokernels.model.source import Source, SourcePart

_FADED = "opacity:0.65"
_ADDED, _DELETED = "rgba(46,160,67,0.22)", "rgba(248,81,73,0.22)"  # on light and dark pages
_CONTEXT = 3
#: Functions, types and constants are compared if at least this share of their lines is equal.
_SIMILAR = 0.5


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
    """The change from the source of one variant to that of another."""
    pairs = list(_matched(before.parts, after.parts))
    both = [(old, new) for old, new in pairs if old and new and old.kind != "variant"]
    renamed = {old.name: new.name for old, new in both if old.name != new.name}
    lines = (line for old, new in pairs for line in _compare(old, new, renamed))
    return Diff(before.parts[0].variant, after.parts[0].variant, tuple(lines))


def _matched(
    before: Sequence[SourcePart], after: Sequence[SourcePart]
) -> Iterator[tuple[SourcePart | None, SourcePart | None]]:
    """Pairs of definitions, in the order of `after`; then those that only `before` has."""
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
