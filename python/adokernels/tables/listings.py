"""Tables and listings of hot spots and heat maps: samples or counts per source line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rich.table import Table

from adokernels.code_text import Listing, Mark
from adokernels.records.heatmap import (
    ACCESSES,
    WARP,
    Accesses,
    Heatmap,
    HeatmapPair,
    LineCounts,
)
from adokernels.records.hotspots import HotLine, Hotspots
from adokernels.tables.rendering import new_table
from adokernels.text import count, percent

#: Maximum number of lines in the table, and of characters of code per line.
_LINES, _CODE = 12, 60
#: Maximum number of stall reasons per line, and the minimum share of the line's samples to show.
_REASONS, _LEAST = 2, 0.1
#: An excerpt is shown if it has at least this share of all samples.
_SHOWN = 0.01
#: Columns of the listings: the title and the kinds of accesses whose transfers it shows.
_TRANSFERS = {
    "sectors/request": ("loads", "stores"),
    "wavefronts/request": ("shared_loads", "shared_stores"),
    "atomic sectors/request": ("atomics",),
    "atomic wavefronts/request": ("shared_atomics",),
    "local sectors/request": ("local_loads", "local_stores"),
    "constants/request": ("constant_loads",),
}
#: The mark of a line without counts.
_NOTHING = Mark("", 0.0, "")
#: Maximum number of machine instructions in their table.
_INSTRUCTIONS = 12


def hotspot_blocks(hotspots: Hotspots) -> list[Table | Listing]:
    """Build the tables of hot spots, and the code around the lines with their shares."""
    tables: list[Table | Listing] = [_line_table(hotspots)]
    if len(hotspots.kernels) > 1 or any(not entry.path for entry in hotspots.entries):
        table = new_table("kernels", ["kernel", "samples", "share"], widths={0: None})
        with_lines = {entry.kernel for entry in hotspots.entries if entry.path}
        for kernel, samples in hotspots.kernels.items():
            name = kernel.partition("<")[0]
            shown = name if kernel in with_lines else f"{name} (no source lines)"
            share = percent(samples / hotspots.samples) if hotspots.samples else ""
            table.add_row(shown, count(samples), share)
        tables.append(table)
    return [*tables, *_hot_listings(hotspots)]


def _hot_listings(hotspots: Hotspots) -> Iterator[Listing]:
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


def heatmap_blocks(heatmap: Heatmap) -> list[Table | Listing]:
    """Build the listings of a heat map, and the table of its machine instructions."""
    found: list[Table | Listing] = [_totals(heatmap), *_listings([heatmap])]
    if any(entry.instruction for entry in heatmap.entries):
        found.append(_instruction_table(heatmap))
    return found


def heatmap_pair_blocks(pair: HeatmapPair) -> list[Table | Listing]:
    """Build the listings of the hardware and of the emulator side by side."""
    both = [pair.hardware, pair.emulator]
    headers = ["accesses", *(f"{part} {h.code}" for part in ("", "ideal") for h in both)]
    title = f"{_name(both[0])}: transfers per request"
    table = new_table(title, [header.strip() for header in headers], widths={0: None})
    for kind, name in ACCESSES.items():
        totals = [heatmap.total(kind) for heatmap in both]
        if any(total.requests for total in totals):
            counted = [_short(total.per_request) for total in totals]
            table.add_row(name, *counted, *(_short(total.ideal_per_request) for total in totals))
    table.caption = "; ".join(f"{h.code}: {h.source}, {h.problem}" for h in both)
    return [table, *_listings(both)]


def _short(value: float) -> str:
    return f"{value:.3g}"


def _name(heatmap: Heatmap) -> str:
    return f"{heatmap.routine}[{heatmap.variant}]"


def _totals(heatmap: Heatmap) -> Table:
    headers = ["accesses", "requests", "transfers", "ideal", "per request", "ideal per request"]
    title = f"{_name(heatmap)}, {heatmap.problem}: counted by {heatmap.source}"
    table = new_table(title, headers, widths={0: None})
    for kind, name in ACCESSES.items():
        total = heatmap.total(kind)
        if total.requests:
            cells = map(count, (total.requests, total.transfers, total.ideal))
            each = _short(total.per_request), _short(total.ideal_per_request)
            table.add_row(name, *cells, *each)
    executed = count(heatmap.instructions)
    table.caption = (
        f"{executed} {heatmap.code} instructions of warps. Transfers: sectors of global memory, "
        "wavefronts of shared memory. Atomics to the same address repeat them."
    )
    return table


def _listings(heatmaps: Sequence[Heatmap]) -> Iterator[Listing]:
    """The excerpts that have counted lines. A line has one mark per column and heat map."""
    columns: dict[str, Callable[[LineCounts, Heatmap], Mark]] = {
        "executed": _executed,
        "lanes": _lanes,
    }
    if any(entry.fp64 for heatmap in heatmaps for entry in heatmap.entries):
        columns["FP64"] = _fp64
    for title, kinds in _TRANSFERS.items():
        if any(heatmap.total(kind).requests for heatmap in heatmaps for kind in kinds):
            columns[title] = partial(_transfers, kinds=kinds)
    if len(heatmaps) == 1:
        headers = [f"{heatmaps[0].code} executed", *list(columns)[1:]]
    else:
        pairs = [(f"{title} {heatmaps[0].code}", heatmaps[1].code) for title in columns]
        headers = [header for pair in pairs for header in pair]
    counted = [{(line.path, line.line): line for line in h.lines} for h in heatmaps]
    excerpts = {(e.path, e.line): e for heatmap in reversed(heatmaps) for e in heatmap.excerpts}
    for excerpt in excerpts.values():
        last = excerpt.line + excerpt.text.count("\n") + 1
        marks = {}
        for number in range(excerpt.line, last):
            found = [lines.get((excerpt.path, number)) for lines in counted]
            if any(found):
                marks[number] = [
                    mark(line, heatmap) if line else _NOTHING
                    for mark in columns.values()
                    for line, heatmap in zip(found, heatmaps, strict=True)
                ]
        if marks:
            yield Listing(
                f"{excerpt.path}:{excerpt.line}", excerpt.text, excerpt.line, marks, headers
            )


def _executed(line: LineCounts, heatmap: Heatmap) -> Mark:
    most = max(each.instructions for each in heatmap.lines) or 1
    share = percent(line.instructions / (heatmap.instructions or 1))
    return Mark(
        share, line.instructions / most, f"{count(line.instructions)} instructions of warps"
    )


def _lanes(line: LineCounts, heatmap: Heatmap) -> Mark:
    hint = "active lanes per executed instruction, of 32"
    return Mark(_short(line.mean_lanes), 1 - line.mean_lanes / WARP, hint)


def _fp64(line: LineCounts, heatmap: Heatmap) -> Mark:
    share = line.fp64 / line.lanes if line.lanes else 0.0
    hint = "FP64 instructions, of the instructions of threads"
    return Mark(percent(share) if share else "", share, hint)


def _transfers(line: LineCounts, heatmap: Heatmap, kinds: Sequence[str]) -> Mark:
    found = {kind: of_kind for kind, of_kind in line.accesses().items() if kind in kinds}
    both = len(found) > 1
    texts = [
        f"{'S' if 'stores' in k else 'L'} {_per_request(a)}" if both else _per_request(a)
        for k, a in found.items()
    ]
    hints = [f"{count(a.requests)} {ACCESSES[k]}: {count(a.transfers)}" for k, a in found.items()]
    excess = max((a.excess for a in found.values()), default=0.0)
    return Mark(", ".join(texts), excess, "; ".join(hints))


def _per_request(accesses: Accesses) -> str:
    text, ideal = _short(accesses.per_request), _short(accesses.ideal_per_request)
    return text if text == ideal else f"{text} (ideal {ideal})"


def _instruction_table(heatmap: Heatmap) -> Table:
    """The machine instructions that access memory, those with the most transfers first."""
    headers = ["address", "instruction", "executed", "transfers", "ideal", "per request", "line"]
    left = ["instruction", "line"]
    table = new_table("Machine instructions that access memory", headers, left=left)
    accessing = [
        (entry, of_kind) for entry in heatmap.entries for of_kind in entry.accesses().values()
    ]
    for entry, of_kind in sorted(accessing, key=lambda pair: -pair[1].transfers)[:_INSTRUCTIONS]:
        place = f"{entry.path.rpartition('/')[2]}:{entry.line}" if entry.path else ""
        table.add_row(
            f"{entry.address:04x}",
            " ".join(entry.instruction.split()),
            count(entry.instructions),
            count(of_kind.transfers),
            count(of_kind.ideal),
            _short(of_kind.per_request),
            place,
        )
    return table
