"""Tables and listings of hot spots."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from adokernels.code_text import Listing, Mark
from adokernels.records.hotspots import HotLine, Hotspots
from adokernels.tables.rendering import new_table
from adokernels.text import count, percent

#: Maximum number of lines in the table, and of characters of code per line.
_LINES, _CODE = 12, 60
#: Maximum number of stall reasons per line, and the minimum share of the line's samples to show.
_REASONS, _LEAST = 2, 0.1
#: An excerpt is shown if it has at least this share of all samples.
_SHOWN = 0.01


def hotspot_blocks(hotspots: Hotspots) -> list[Table | Listing]:
    """Build the tables of hot spots, and the code around the lines with their shares."""
    tables: list[Table | Listing] = [_line_table(hotspots)]
    if len(hotspots.kernels) > 1 or any(not entry.path for entry in hotspots.entries):
        tables.append(_kernel_table(hotspots))
    return [*tables, *_listings(hotspots)]


def _listings(hotspots: Hotspots) -> Iterator[Listing]:
    """Excerpts with enough samples, in descending order of samples."""
    hottest = hotspots.lines[0].share if hotspots.lines else 1.0
    found = [(e, [hot for hot in hotspots.lines if hot in e]) for e in hotspots.excerpts]
    for excerpt, lines in sorted(found, key=lambda pair: -sum(hot.share for hot in pair[1])):
        if sum(hot.share for hot in lines) >= _SHOWN:
            marks = {}
            for hot in lines:
                reasons = _reasons_of(hot, len(hot.reasons))
                marks[hot.line] = [Mark(percent(hot.share), hot.share / hottest, reasons)]
            yield Listing(f"{excerpt.path}:{excerpt.line}", excerpt.text, excerpt.line, marks)


def _reasons_of(line: HotLine, most: int) -> str:
    shares = [(name.replace("_", " "), n / line.samples) for name, n in line.reasons.items() if n]
    named = [f"{name} {percent(share)}" for name, share in shares if share >= _LEAST]
    return ", ".join(named[:most])


def _line_table(hotspots: Hotspots) -> Table:
    title = f"{hotspots.routine}[{hotspots.variant}], {hotspots.problem}: hottest lines"
    sentences = ["stall reasons", "code"]
    headers = ["line", "samples", "share", "not issued", *sentences]
    table = new_table(title, headers, left=sentences, widths={0: None})
    for line in hotspots.lines[:_LINES]:
        code = line.text.strip()
        table.add_row(
            line.place,
            count(line.samples),
            percent(line.share),
            percent(line.not_issued / line.samples) if line.samples else "",
            _reasons_of(line, _REASONS),
            code if len(code) <= _CODE else f"{code[: _CODE - 3]}...",
        )
    notes = [f"{count(hotspots.samples)} samples."]
    if rest := hotspots.lines[_LINES:]:
        share = percent(sum(line.share for line in rest))
        notes.append(f"{len(rest)} further lines have {share} of the samples.")
    notes.append("Not issued: share of samples in which the scheduler issued no instruction.")
    if hotspots.dropped:
        notes.append(f"The hardware dropped {count(hotspots.dropped)} samples.")
    if hotspots.unattributed:
        others = count(hotspots.unattributed)
        notes.append(f"{others} further samples belong to kernels without a name.")
    table.caption = " ".join(notes)
    return table


def _kernel_table(hotspots: Hotspots) -> Table:
    table = new_table("kernels", ["kernel", "samples", "share"], widths={0: None})
    with_lines = {entry.kernel for entry in hotspots.entries if entry.path}
    for kernel, samples in hotspots.kernels.items():
        name = kernel.partition("<")[0]
        shown = name if kernel in with_lines else f"{name} (no source lines)"
        share = percent(samples / hotspots.samples) if hotspots.samples else ""
        table.add_row(shown, count(samples), share)
    return table
