"""Listings of counts per source line: executed instructions, lanes, sectors and wavefronts."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from adokernels.code_text import Listing, Mark
from adokernels.records.heatmap import ACCESSES, WARP, Accesses, Heatmap, LineCounts
from adokernels.tables.rendering import new_table
from adokernels.text import count, percent

#: Columns of the listings: the title and the kinds of accesses whose transfers it shows.
_TRANSFERS = {
    "sectors/request": ("loads", "stores"),
    "wavefronts/request": ("shared_loads", "shared_stores"),
}
#: Letters before the transfers of a line that both loads and stores.
_LETTERS = {"loads": "L", "stores": "S", "shared_loads": "L", "shared_stores": "S"}
#: Maximum number of machine instructions in their table.
_INSTRUCTIONS = 12


def heatmap_blocks(heatmap: Heatmap) -> list[Table | Listing]:
    """Build the listings of a heat map, and the table of its machine instructions."""
    found: list[Table | Listing] = [_totals(heatmap), *_listings(heatmap)]
    if any(entry.instruction for entry in heatmap.entries):
        found.append(_instruction_table(heatmap))
    return found


def _short(value: float) -> str:
    return f"{value:.3g}"


def _title(heatmap: Heatmap) -> str:
    return f"{heatmap.routine}[{heatmap.variant}], {heatmap.problem}: counted by {heatmap.source}"


def _totals(heatmap: Heatmap) -> Table:
    headers = ["accesses", "requests", "transfers", "ideal", "per request", "ideal per request"]
    table = new_table(_title(heatmap), headers, widths={0: None})
    for kind, title in ACCESSES.items():
        total = heatmap.total(kind)
        if total.requests:
            cells = map(count, (total.requests, total.transfers, total.ideal))
            each = _short(total.per_request), _short(total.ideal_per_request)
            table.add_row(title, *cells, *each)
    executed = count(heatmap.instructions)
    table.caption = (
        f"{executed} {heatmap.code} instructions of warps. Transfers: sectors of global memory, "
        "wavefronts of shared memory."
    )
    return table


def _listings(heatmap: Heatmap) -> Iterator[Listing]:
    """The excerpts with counted lines, each line with its marks."""
    most = max((line.instructions for line in heatmap.lines), default=0)
    shown = {
        title: kinds
        for title, kinds in _TRANSFERS.items()
        if any(getattr(line, kind).requests for line in heatmap.lines for kind in kinds)
    }
    headers = (f"{heatmap.code} executed", "lanes", *shown)
    for excerpt in heatmap.excerpts:
        marks = {
            line.line: (
                _executed(line, heatmap.instructions, most),
                _lanes(line),
                *(_transfers(line, kinds) for kinds in shown.values()),
            )
            for line in heatmap.lines
            if line in excerpt
        }
        if marks:
            title = f"{excerpt.path}:{excerpt.line}"
            yield Listing(title, excerpt.text, excerpt.line, marks, headers)


def _executed(line: LineCounts, total: int, most: int) -> Mark:
    share = percent(line.instructions / total) if total else ""
    hint = f"{count(line.instructions)} instructions of warps"
    return Mark(share, line.instructions / most if most else 0.0, hint)


def _lanes(line: LineCounts) -> Mark:
    hint = "active lanes per executed instruction, of 32"
    return Mark(_short(line.mean_lanes), 1 - line.mean_lanes / WARP, hint)


def _transfers(line: LineCounts, kinds: tuple[str, ...]) -> Mark:
    found = {kind: of_kind for kind, of_kind in line.accesses().items() if kind in kinds}
    both = len(found) > 1
    texts = [
        f"{_LETTERS[k]} {_per_request(a)}" if both else _per_request(a) for k, a in found.items()
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
