"""Tables and listings of code: samples or counts per source line, and machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich.table import Table

from adokernels.code_text import Listing, Mark
from adokernels.records.heatmap import (
    ACCESSES,
    WARP,
    Accesses,
    Heatmap,
    LineCounts,
)
from adokernels.records.hotspots import HotLine, Hotspots
from adokernels.records.instructions import Code
from adokernels.records.sass import Sass
from adokernels.tables.rendering import table_of
from adokernels.text import count, percent, ratio

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
#: Maximum number of machine instructions in their table.
_INSTRUCTIONS = 12


def hotspot_blocks(hotspots: Hotspots) -> list[Table | Listing]:
    """Build the tables of hot spots, and the code around the lines with their shares."""
    tables: list[Table | Listing] = [_line_table(hotspots)]
    if len(hotspots.kernels) > 1 or any(not entry.path for entry in hotspots.entries):
        with_lines = {entry.kernel for entry in hotspots.entries if entry.path}
        rows = []
        for kernel, samples in hotspots.kernels.items():
            lines = "" if kernel in with_lines else " (no source lines)"
            share = percent(samples / hotspots.samples) if hotspots.samples else ""
            name = kernel.partition("<")[0] + lines
            rows.append({"kernel": name, "samples": count(samples), "share": share})
        tables.append(table_of("kernels", rows, {"kernel": None}))
    # Excerpts with enough samples, in descending order of samples.
    hottest = hotspots.lines[0].share if hotspots.lines else 1.0
    found = [(e, [hot for hot in hotspots.lines if hot in e]) for e in hotspots.excerpts]
    for excerpt, hots in sorted(found, key=lambda pair: -sum(hot.share for hot in pair[1])):
        if sum(hot.share for hot in hots) >= _SHOWN:
            marks = {}
            for hot in hots:
                reasons = _reasons_of(hot, len(hot.reasons))
                marks[hot.line] = [Mark(percent(hot.share), hot.share / hottest, reasons)]
            title = f"{excerpt.path}:{excerpt.line}"
            tables.append(Listing(title, excerpt.text, excerpt.line, marks))
    return tables


def _reasons_of(line: HotLine, most: int) -> str:
    shares = [(name.replace("_", " "), n / line.samples) for name, n in line.reasons.items() if n]
    named = [f"{name} {percent(share)}" for name, share in shares if share >= _LEAST]
    return ", ".join(named[:most])


def _line_table(hotspots: Hotspots) -> Table:
    rows = []
    for line in hotspots.lines[:_LINES]:
        code = line.text.strip()
        rows.append(
            {
                "line": line.place,
                "samples": count(line.samples),
                "share": percent(line.share),
                "not issued": percent(line.not_issued / line.samples) if line.samples else "",
                "stall reasons": _reasons_of(line, _REASONS),
                "code": code if len(code) <= _CODE else f"{code[: _CODE - 3]}...",
            }
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
    title = f"{hotspots.routine}[{hotspots.variant}], {hotspots.problem}: hottest lines"
    text = {"line": None, "stall reasons": 0, "code": 0}
    return table_of(title, rows, text, notes=[" ".join(notes)])


def heatmap_blocks(heatmap: Heatmap) -> list[Table | Listing]:
    """Build the listings of a heat map, and the table of its machine instructions."""
    rows = []
    for kind, name in ACCESSES.items():
        total = heatmap.total(kind)
        if total.requests:
            rows.append({"accesses": name, "requests": count(total.requests), **_cells(total)})
            rows[-1]["ideal per request"] = _short(total.ideal_per_request)
    title = f"{_name(heatmap)}, {heatmap.problem}: counted by {heatmap.source}"
    note = (
        f"{count(heatmap.instructions)} {heatmap.code} instructions of warps. Transfers: sectors "
        "of global memory, wavefronts of shared memory. Atomics to one address repeat transfers."
    )
    totals = table_of(title, rows, {"accesses": None}, notes=[note])
    found: list[Table | Listing] = [totals, *_listings(heatmap)]
    if any(entry.instruction for entry in heatmap.entries):
        accessing = [(e, of_kind) for e in heatmap.entries for of_kind in e.accesses().values()]
        most = sorted(accessing, key=lambda pair: -pair[1].transfers)[:_INSTRUCTIONS]
        rows = [
            {
                "address": f"{entry.address:04x}",
                "instruction": " ".join(entry.instruction.split()),
                "executed": count(entry.instructions),
                **_cells(of_kind),
                "line": f"{entry.path.rpartition('/')[2]}:{entry.line}" if entry.path else "",
            }
            for entry, of_kind in most
        ]
        title = "Machine instructions that access memory"
        found.append(table_of(title, rows, ("instruction", "line")))
    return found


def _short(value: float) -> str:
    return f"{value:.3g}"


def _name(heatmap: Heatmap) -> str:
    return f"{heatmap.routine}[{heatmap.variant}]" if heatmap.routine else heatmap.variant


def _cells(accesses: Accesses) -> dict[str, str]:
    return {
        "transfers": count(accesses.transfers),
        "ideal": count(accesses.ideal),
        "per request": _short(accesses.per_request),
    }


def _listings(heatmap: Heatmap) -> Iterator[Listing]:
    """The excerpts that have counted lines. A line has one mark per column."""
    columns: dict[str, Callable[[LineCounts, Heatmap], Mark]] = {
        f"{heatmap.code} executed": _executed,
        "lanes": _lanes,
    }
    if any(entry.fp64 for entry in heatmap.entries):
        columns["FP64"] = _fp64
    for title, kinds in _TRANSFERS.items():
        if any(heatmap.total(kind).requests for kind in kinds):
            columns[title] = partial(_transfers, kinds=kinds)
    if heatmap.gains:
        columns["gain if ideal"] = _gain_if_ideal
    counted = {(line.path, line.line): line for line in heatmap.lines}
    for excerpt in heatmap.excerpts:
        last = excerpt.line + excerpt.text.count("\n") + 1
        marks = {
            number: [mark(line, heatmap) for mark in columns.values()]
            for number in range(excerpt.line, last)
            if (line := counted.get((excerpt.path, number)))
        }
        if marks:
            title = f"{excerpt.path}:{excerpt.line}"
            yield Listing(title, excerpt.text, excerpt.line, marks, [*columns])


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


def _gain_if_ideal(line: LineCounts, heatmap: Heatmap) -> Mark:
    gain = heatmap.gains.get(f"{line.path.rpartition('/')[2]}:{line.line}", 0.0)
    hint = "gain of the experiment on this line alone"
    return Mark(ratio(gain) if gain else "", max(0.0, 1 - 1 / gain) if gain else 0.0, hint)


def _transfers(line: LineCounts, heatmap: Heatmap, kinds: Sequence[str]) -> Mark:
    found = {kind: of_kind for kind, of_kind in line.accesses().items() if kind in kinds}
    texts = []
    for kind, accesses in found.items():
        text, ideal = _short(accesses.per_request), _short(accesses.ideal_per_request)
        letter = "S " if "stores" in kind else "L "
        letter = letter if len(found) > 1 else ""
        texts.append(letter + (text if text == ideal else f"{text} (ideal {ideal})"))
    hints = [f"{count(a.requests)} {ACCESSES[k]}: {count(a.transfers)}" for k, a in found.items()]
    excess = max((a.excess for a in found.values()), default=0.0)
    return Mark(", ".join(texts), excess, "; ".join(hints))


#: Columns of accesses: the heading, the kind and the space.
_WIDTHS = {
    "global\nloads": ("load", "global"),
    "global\nstores": ("store", "global"),
    "copies to\nshared": ("copy", "global"),
    "shared\nloads": ("load", "shared"),
    "shared\nstores": ("store", "shared"),
    "local\nloads": ("load", "local"),
}
#: Maximum number of source lines per loop in the table.
_LOOP_LINES = 4


def sass_tables(sass: Sass) -> list[Table]:
    """Build the tables of machine code: kernels, and loops if there are any."""
    kernels = [
        {
            "kernel": k.name.partition("<")[0],
            "block": " x ".join(map(str, k.block)),
            "instructions": str(len(k.instructions)),
            "registers": str(k.registers),
            "compiler's\nlimit": str(k.register_limit),
            "registers\nleft unused": str(
                "unknown" if k.registers_unused is None else k.registers_unused
            ),
            **_widths(k),
        }
        for k in sass.kernels
    ]
    loops = []
    for kernel in sass.kernels:
        for loop in kernel.loops:
            more = len(loop.lines) - _LOOP_LINES
            loops.append(
                {
                    **({"kernel": kernel.name.partition("<")[0]} if len(sass) > 1 else {}),
                    "first": f"{loop.first:#06x}{' (main)' if loop is kernel.main_loop else ''}",
                    "last": f"{loop.last:#06x}",
                    "depth": str(loop.depth),
                    "instructions": str(len(loop)),
                    **_widths(loop),
                    "waits for\nglobal loads": str(loop.load_waits) if loop.innermost else "",
                    "source lines": ", ".join(loop.lines[:_LOOP_LINES])
                    + (f" and {more} more" if more > 0 else ""),
                }
            )
    title = f"{sass.routine}[{sass.variant}]: machine code for {sass.arch}"
    note = (
        "Registers per thread. Left unused: available without reducing the resident blocks. "
        "Accesses: instructions x bits per thread."
    )
    tables = [table_of(title, kernels, ("block", *_WIDTHS), notes=[note], sparse=True)]
    if loops:
        text = ("first", "last", *_WIDTHS, "source lines")
        note = (
            "Main: the innermost loop that loads the most bytes. Waits: how often an iteration "
            "waits for loads; loads that overlap count once (innermost loops only)."
        )
        tables.append(table_of("Loops, per iteration", loops, text, notes=[note], sparse=True))
    return tables


def _widths(code: Code) -> dict[str, str]:
    """The cells of accesses, for example ``"2 x 64, 1 x 128"``."""
    cells = {}
    for header, (kind, space) in _WIDTHS.items():
        widths = code.widths(kind, space)  # type: ignore[arg-type]
        cells[header] = ", ".join(f"{n} x {b}" if b else f"{n}" for b, n in widths.items())
    return cells


def puzzle_table(progress: Mapping[str, Mapping[str, Any]]) -> Table:
    """The puzzles with their state, for the program."""
    rows = [
        {
            "puzzle": name,
            "track": each["track"],
            "title": each["title"],
            "state": "done" if each["done"] else "open" if each["attempts"] else "",
            "attempts": str(each["attempts"] or ""),
            "hints": str(each["hints"] or ""),
        }
        for name, each in progress.items()
    ]
    done = sum(bool(each["done"]) for each in progress.values())
    title = f"Puzzles: {done} of {len(rows)} done"
    notes = ["adokernels puzzles start NAME writes the file to complete into this folder."]
    text, first = ("puzzle", "track", "title", "state"), ("title", "hints", "attempts", "track")
    return table_of(title, rows, text, notes=notes, expendable=first)
