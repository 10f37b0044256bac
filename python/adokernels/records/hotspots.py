"""Records of hot spots: warp samples and stall reasons per source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from rich.console import Group
from rich.text import Text

from adokernels.records.forms import Context, Count, Fields, Grid, Length, Size
from adokernels.storage import StoredRecord
from adokernels.tables.code import PRE, html_lines, text_lines
from adokernels.tables.printable import escaped, printable
from adokernels.tables.rendering import new_table, to_html, to_text
from adokernels.text import percent, quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.table import Table

#: Maximum number of lines in the table, and of characters of code per line.
_LINES, _CODE = 12, 60
#: Maximum number of characters of a path.
_LONGEST_PATH = 500
#: Maximum number of stall reasons per line, and the minimum share of the line's samples to show.
_REASONS, _LEAST = 2, 0.1
#: An excerpt is shown if it has at least this share of all samples.
_SHOWN = 0.01
#: Counts below this value have all digits; larger counts have a decimal prefix.
_LARGEST_WHOLE = 100_000
_NOT_ISSUED = "_not_issued"
_HEAT = "rgba(234,110,20,{:.2f})"  # readable on light and dark pages


@dataclass(frozen=True, kw_only=True)
class LineSamples(Fields):
    """The samples of one source line in one kernel.

    Attributes
    ----------
    kernel
        The kernel's name with its template arguments.
    path
        The file, relative to the repository, or as the compiler recorded it; empty if the kernel
        has no line information.
    line
        The line number, starting at 1; 0 if there is no line information.
    text
        The code of the line.
    reasons
        Samples per stall reason, with the names of Nsight Compute. ``"selected"`` is not a stall:
        the warp issued an instruction.
    not_issued
        Samples taken while the scheduler issued no instruction of any warp.
    """

    kernel: str
    path: str
    line: Count
    text: str
    reasons: Annotated[Mapping[str, Size], Length(1)]
    not_issued: Count

    @property
    def samples(self) -> int:
        """All samples of the line."""
        return sum(self.reasons.values())


@dataclass(frozen=True, kw_only=True)
class HotLine:
    """The samples of one source line in all kernels of a variant.

    Attributes
    ----------
    path, line, text, reasons, not_issued
        As in :class:`LineSamples`.
    samples
        All samples of the line.
    share
        Fraction of the samples of all lines.
    """

    path: str
    line: int
    text: str
    reasons: Mapping[str, int]
    not_issued: int
    samples: int
    share: float

    @property
    def reason(self) -> str:
        """The most frequent stall reason, for example ``"long scoreboard"``."""
        stalls = {name: n for name, n in self.reasons.items() if name != "selected"}
        return max(stalls, key=lambda name: stalls[name]).replace("_", " ") if stalls else ""

    @property
    def place(self) -> str:
        """File and line: ``"element_steps.cuh:24"``."""
        return f"{self.path.rpartition('/')[2]}:{self.line}" if self.path else "no source line"

    def __str__(self) -> str:
        reason = f", {self.reason}" if self.reason else ""
        return f"line {self.line}: {percent(self.share)} of samples{reason}"


@dataclass(frozen=True, kw_only=True)
class Excerpt(Fields):
    """Consecutive lines of a file that contain a definition with samples.

    Attributes
    ----------
    path
        The file, relative to the repository.
    line
        The first line of `text` in the file.
    text
        The code.
    """

    path: str
    line: Count
    text: str

    def __contains__(self, hot: LineSamples | HotLine) -> bool:
        end = self.line + self.text.count("\n")
        return hot.path == self.path and self.line <= hot.line <= end


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Hotspots(StoredRecord):
    """Samples of the program counters of a variant's warps, by source line.

    The hardware samples warps at regular intervals. Warps spend much time at a line with many
    samples. The stall reasons show the cause. Samples of inlined code are attributed to the line on
    which the code is written.

    Attributes
    ----------
    routine, variant, problem
        What was sampled; ``problem`` describes operands and options.
    block
        The requested block shape; None for the default.
    entries
        Samples per kernel and source line.
    excerpts
        The code around the lines.
    dropped
        Samples that the hardware dropped.
    unattributed
        Samples of kernels without a name; they are not in `entries`.
    context
        Machine, software and settings.
    """

    KIND = "hotspots"

    routine: str
    variant: str
    problem: str
    block: Grid | None
    entries: tuple[LineSamples, ...]
    excerpts: tuple[Excerpt, ...] = ()
    dropped: Count = 0
    unattributed: Count = 0
    context: Context = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """All samples of the entries."""
        return sum(entry.samples for entry in self.entries)

    @cached_property
    def lines(self) -> tuple[HotLine, ...]:
        """The source lines, those with the most samples first."""
        found: dict[tuple[str, int], list[LineSamples]] = {}
        for entry in self.entries:
            if entry.path:
                found.setdefault((entry.path, entry.line), []).append(entry)
        lines = [_summed(entries, self.samples) for entries in found.values()]
        return tuple(sorted(lines, key=lambda line: -line.samples))

    @cached_property
    def kernels(self) -> Mapping[str, int]:
        """Samples per kernel, in descending order."""
        totals = Counter[str]()
        for entry in self.entries:
            totals[entry.kernel] += entry.samples
        return dict(totals.most_common())

    @cached_property
    def reasons(self) -> Mapping[str, int]:
        """Samples per stall reason over all lines, in descending order."""
        return dict(_added(entry.reasons for entry in self.entries).most_common())

    def __iter__(self) -> Iterator[HotLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> HotLine:
        return self.lines[index]

    # ------------------------------------------------------------------------------ presentation

    def _tables(self) -> list[Table]:
        return [_line_table(self), *([_kernel_table(self)] if _needs_kernels(self) else [])]

    def _shown(self) -> list[tuple[Excerpt, dict[int, HotLine]]]:
        """Excerpts with enough samples and their hot lines, in descending order of samples."""
        found = [(e, {hot.line: hot for hot in self.lines if hot in e}) for e in self.excerpts]
        share = {id(e): sum(hot.share for hot in lines.values()) for e, lines in found}
        shown = [(e, lines) for e, lines in found if share[id(e)] >= _SHOWN]
        return sorted(shown, key=lambda pair: -share[id(pair[0])])

    def _annotated(self) -> Iterator[Text]:
        hottest = self.lines[0].share if self.lines else 1.0
        for excerpt, hot in self._shown():
            yield Text()
            yield Text(printable(f"{excerpt.path}:{excerpt.line}", _LONGEST_PATH), style="bold")
            for number, code in enumerate(text_lines(excerpt.text), excerpt.line):
                line = hot.get(number)
                heat = f"{percent(line.share):>7}" if line else " " * 7
                yield Text.assemble((heat, _style(line, hottest)), (f" {number:4} ", "dim"), code)

    def __repr__(self) -> str:
        tables = "\n".join(map(to_text, self._tables()))
        return "\n".join([tables, *(line.plain.rstrip() for line in self._annotated())])

    def __rich__(self) -> Group:
        return Group(*self._tables(), *self._annotated())

    def _repr_html_(self) -> str:
        hottest = self.lines[0].share if self.lines else 1.0
        blocks = [to_html(table) for table in self._tables()]
        for excerpt, hot in self._shown():
            rows = []
            for number, code in enumerate(html_lines(excerpt.text), excerpt.line):
                line = hot.get(number)
                heat = escaped(f"{percent(line.share):>7}") if line else " " * 7
                colour = _HEAT.format(0.75 * line.share / hottest) if line else "none"
                title = f' title="{escaped(_reasons_of(line, len(line.reasons)))}"' if line else ""
                rows.append(
                    f'<span style="background:{colour}"{title}>{heat}</span>'
                    f'<span style="opacity:0.65;user-select:none"> {number:4} </span>{code}'
                )
            name = escaped(f"{excerpt.path}:{excerpt.line}")
            code = "\n".join(rows)
            blocks.append(f'<div><strong>{name}</strong><pre style="{PRE}">{code}</pre></div>')
        body = "<br>\n".join(blocks)
        return f'<div class="adokernels" style="overflow-x:auto">\n{body}\n</div>'


def split_reasons(names: Sequence[str], samples: Sequence[int]) -> tuple[dict[str, int], int]:
    """Separate the samples per stall reason from those without an issued instruction.

    Parameters
    ----------
    names, samples
        Names and counts as CUPTI reports them: ``"long_scoreboard"``, and its subset
        ``"long_scoreboard_not_issued"``.
    """
    pairs = [(name, n) for name, n in zip(names, samples, strict=True) if n]
    reasons = {name: n for name, n in pairs if not name.endswith(_NOT_ISSUED)}
    return reasons, sum(n for name, n in pairs if name.endswith(_NOT_ISSUED))


def _count(samples: int) -> str:
    return str(samples) if samples < _LARGEST_WHOLE else quantity(samples, "").strip()


def _added(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return total


def _summed(entries: Sequence[LineSamples], total: int) -> HotLine:
    first, samples = entries[0], sum(entry.samples for entry in entries)
    return HotLine(
        path=first.path,
        line=first.line,
        text=first.text,
        reasons=dict(_added(entry.reasons for entry in entries).most_common()),
        not_issued=sum(entry.not_issued for entry in entries),
        samples=samples,
        share=samples / total if total else 0.0,
    )


def _reasons_of(line: HotLine, most: int) -> str:
    shares = [(name.replace("_", " "), n / line.samples) for name, n in line.reasons.items() if n]
    named = [f"{name} {percent(share)}" for name, share in shares if share >= _LEAST]
    return ", ".join(named[:most])


def _style(line: HotLine | None, hottest: float) -> str:
    if line is None:
        return ""
    relative = line.share / hottest
    return "bold red" if relative > 0.5 else "yellow" if relative > 0.1 else "dim"


def _needs_kernels(hotspots: Hotspots) -> bool:
    return len(hotspots.kernels) > 1 or any(not entry.path for entry in hotspots.entries)


def _line_table(hotspots: Hotspots) -> Table:
    title = f"{hotspots.routine}[{hotspots.variant}], {hotspots.problem}: hottest lines"
    headers = [("line", True), ("samples", False), ("share", False), ("not issued", False)]
    table = new_table(title, [*headers, ("stall reasons", True), ("code", True)])
    table.columns[0].max_width = None
    for line in hotspots.lines[:_LINES]:
        code = line.text.strip()
        cells = (
            line.place,
            _count(line.samples),
            percent(line.share),
            percent(line.not_issued / line.samples) if line.samples else "",
            _reasons_of(line, _REASONS),
            code if len(code) <= _CODE else f"{code[: _CODE - 3]}...",
        )
        table.add_row(*map(Text, cells))
    notes = [f"{_count(hotspots.samples)} samples."]
    if rest := len(hotspots.lines) - _LINES:
        share = sum(line.share for line in hotspots.lines[_LINES:])
        if rest > 0:
            notes.append(f"{rest} further lines have {percent(share)} of the samples.")
    notes.append("Not issued: share of samples in which the scheduler issued no instruction.")
    if hotspots.dropped:
        notes.append(f"The hardware dropped {_count(hotspots.dropped)} samples.")
    if hotspots.unattributed:
        notes.append(
            f"{_count(hotspots.unattributed)} further samples belong to kernels without a name."
        )
    table.caption = Text(" ".join(notes))
    return table


def _kernel_table(hotspots: Hotspots) -> Table:
    table = new_table("kernels", [("kernel", True), ("samples", False), ("share", False)])
    table.columns[0].max_width = None
    with_lines = {entry.kernel for entry in hotspots.entries if entry.path}
    for kernel, samples in hotspots.kernels.items():
        name = kernel.partition("<")[0]
        shown = name if kernel in with_lines else f"{name} (no source lines)"
        share = percent(samples / hotspots.samples) if hotspots.samples else ""
        table.add_row(*map(Text, (shown, _count(samples), share)))
    return table
