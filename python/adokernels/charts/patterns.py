"""The charts of access patterns: the memory that the lanes of a warp touch, and active lanes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Patch, Rectangle

from adokernels.charts.canvas import FADED, LOST, MEMORY, Canvas, ink_on
from adokernels.patterns.accesses import WarpAccesses, share
from adokernels.patterns.banks import BANKS, WORD, BankConflicts
from adokernels.patterns.divergence import Divergence
from adokernels.patterns.sectors import LINE, Sectors
from adokernels.records.metrics import SECTOR, WARP

#: Colours of bytes that lanes use, of the other bytes of their sectors, and of the other sectors.
_USED, _UNUSED, _UNMOVED = MEMORY, "#E69F00", "0.93"
#: Fill colour of inactive lanes.
_INACTIVE = "0.93"
#: Vertical extent of the lanes and of the memory.
_LANES, _MEMORY = (0.82, 1.0), (0.0, 0.2)
#: Gaps between consecutive cache lines, and between cache lines that are not consecutive. Each has
#: a share of the width of a line, and a maximum share of the width of the chart.
_NEXT, _APART = (0.02, 0.004), (0.35, 0.012)
#: Elements below this width in points have edges of their own colour, so that they are visible.
_LEAST_WIDTH = 3.0
#: Smallest font of the numbers of lanes, in points.
_LEAST_FONT = 6.0
#: Up to this number of cache lines, the address of each is shown.
_MOST_ADDRESSES = 8
#: Maximum number of wavefronts in the legend. If there are more, it has the first and the last.
_MOST_ENTRIES = 6
#: Colours of the wavefronts. Perceptually uniform, and legible with any colour vision.
_WAVEFRONTS = "cividis"
#: Colours of the branches, in order; they are repeated if there are more. Okabe & Ito.
_BRANCHES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_MOST_WARPS = 8


def draw_sectors(
    of: Sectors, *, request: int = 0, ax: Axes | None = None, annotate: bool = True
) -> Axes:
    """Draw the lanes of one request over the sectors that they touch."""
    first, active = _lanes_of(of.accesses, request)
    size = of.accesses.itemsize
    canvas = Canvas(ax, annotate=annotate, size=(10.0, 3.0))
    canvas.ax.set(xticks=[], yticks=[], xlim=(-0.002, 1.002), ylim=(-0.08, 1))
    canvas.ax.spines[:].set_visible(False)
    elements = sorted({int(byte) for byte in first[active]})
    memory = _Memory(sorted({byte // LINE for byte in elements}))
    width, (bottom, top) = 1 / WARP, _LANES
    for lane, works in enumerate(active):
        _cell(canvas, lane * width, bottom, width, top - bottom, _USED if works else _INACTIVE)
        style = {"color": "white" if works else FADED, "fontsize": 0.9 * canvas.font}
        canvas.write(str(lane), (lane + 0.5) * width, (bottom + top) / 2, **style)
    _draw_memory(canvas, memory, elements, size)
    starts = [((lane + 0.5) * width, bottom) for lane in np.flatnonzero(active)]
    ends = [(memory.x(int(byte)) + memory.width(size) / 2, _MEMORY[1]) for byte in first[active]]
    pairs = list(zip(starts, ends, strict=True))
    canvas.ax.add_collection(LineCollection(pairs, colors=_USED, lw=0.9, alpha=0.75, zorder=2))
    last = len(memory.lines) - 1
    style = {"va": "top", "color": FADED, "fontsize": 0.9 * canvas.font}
    for place in range(last + 1) if last < _MOST_ADDRESSES else (0, last):
        edge = place == last >= _MOST_ADDRESSES
        x, ha = float(memory.lefts[place]) + edge * memory.line, "right" if edge else "left"
        canvas.write(f"byte {memory.lines[place] * LINE}", x, -0.03, ha=ha, **style)
    legend = {"bytes that the lanes use": _USED, "bytes moved but not used": _UNUSED}
    _legend(canvas, {**legend, "sector not moved": _UNMOVED})
    sectors, lines = int(of.request_sectors[request]), int(of.request_lines[request])
    used = len(np.unique(of.accesses.offsets[request][active])) * size
    found = f"{_plural(sectors, 'sector')} of {_plural(lines, 'cache line')}"
    finding = f"{found}: {share(used / (SECTOR * sectors))} of the moved bytes are used"
    canvas.title(finding, f"{of.accesses}{_which(of.accesses, request)}")
    return canvas.ax


def _lanes_of(accesses: WarpAccesses, request: int) -> tuple[Any, Any]:
    """The first byte of each lane of one request, and whether the lane is active."""
    if isinstance(request, bool) or not isinstance(request, int | np.integer):
        raise TypeError(f"request must be an integer, got {type(request).__name__}")
    if not 0 <= request < accesses.requests:
        raise ValueError(f"request must be from 0 to {accesses.requests - 1}, got {request}")
    return accesses.offsets[request] * accesses.itemsize, accesses.active[request]


def _which(accesses: WarpAccesses, request: int) -> str:
    return f", request {request} of {accesses.requests}" if accesses.requests > 1 else ""


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"


def _cell(canvas: Canvas, x: float, y: float, width: float, height: float, colour: str) -> None:
    style: dict[str, Any] = {"fc": colour, "ec": canvas.paper, "lw": 1.0}
    canvas.ax.add_patch(Rectangle((x, y), width, height, **style))


def _legend(canvas: Canvas, colours: Mapping[str, str]) -> None:
    style: dict[str, Any] = {"ec": FADED, "lw": 0.4}
    canvas.legend_below([Patch(fc=c, label=words, **style) for words, c in colours.items()])


class _Memory:
    """Horizontal positions of the bytes of the touched cache lines; other lines are left out."""

    def __init__(self, lines: list[int]) -> None:
        self.lines = lines
        close, apart = (min(part / len(lines), most) for part, most in (_NEXT, _APART))
        gaps = np.where(np.diff(lines) == 1, close, apart)
        self.line = (1 - float(gaps.sum())) / len(lines)
        self.lefts = np.concatenate([[0.0], np.cumsum(self.line + gaps)])

    def x(self, byte: int) -> float:
        """Position of a byte."""
        return float(self.lefts[self.lines.index(byte // LINE)]) + self.width(byte % LINE)

    def width(self, count: int) -> float:
        """Width of a number of bytes."""
        return self.line * count / LINE


def _draw_memory(canvas: Canvas, memory: _Memory, elements: Sequence[int], size: int) -> None:
    def boxes(firsts: Iterable[int], size: int, **style: Any) -> None:
        (bottom, top), width = _MEMORY, memory.width(size)
        found = [Rectangle((memory.x(byte), bottom), width, top - bottom) for byte in firsts]
        canvas.ax.add_collection(PatchCollection(found, **{"zorder": 2, **style}))

    sectors = {byte // SECTOR for byte in elements}
    every = [line * LINE + start for line in memory.lines for start in range(0, LINE, SECTOR)]
    for moved, colour in ((True, _UNUSED), (False, _UNMOVED)):
        some = [byte for byte in every if (byte // SECTOR in sectors) is moved]
        boxes(some, SECTOR, fc=colour, ec="none")
    wide = memory.width(size) * canvas.width > _LEAST_WIDTH
    edge = {"ec": canvas.paper, "lw": 0.3} if wide else {"ec": _USED, "lw": 0.8}
    boxes(elements, size, fc=_USED, **edge)
    # Outlines of the sectors, with gaps between them so that readers can count them.
    gap = min(3.0, 0.2 * memory.width(SECTOR) * canvas.width)
    boxes(every, SECTOR, fc="none", ec=canvas.paper, lw=gap, zorder=3)
    boxes(every, SECTOR, fc="none", ec=canvas.ink, lw=0.5, zorder=3)


def draw_banks(
    of: BankConflicts, *, request: int = 0, ax: Axes | None = None, annotate: bool = True
) -> Axes:
    """Draw the lanes of one request over the 32 banks of shared memory."""
    first, active = _lanes_of(of.accesses, request)
    words = of.words[request]
    # The lanes that access each word, by row of 32 words and bank.
    cells: dict[tuple[int, int], list[int]] = {}
    for lane in np.flatnonzero(active):
        for part in range(of.phases):
            row, bank = divmod(int(first[lane]) // WORD + part, BANKS)
            cells.setdefault((row, bank), []).append(int(lane))
    rows = sorted({row for row, _ in cells})
    served = _wavefronts(cells, words)
    size = (10.0, 2.2 + 0.2 * min(len(rows), 8) + 0.13 * max(len(rows) - 8, 0))
    canvas = Canvas(ax, annotate=annotate, size=size)
    ax, height = canvas.ax, len(rows)
    ax.set(xlim=(-0.5, BANKS - 0.5), ylim=(height + 0.9, -0.5))
    named = range(0, height, max(1, -(-height // 16)))
    names = [f"byte {WORD * BANKS * rows[place]}" for place in named]
    ax.set_yticks([*named, height + 0.3], [*names, "words in bank"])
    _number_lanes(canvas, BANKS, "Bank")
    style: dict[str, Any] = {"color": canvas.tint(0.1), "lw": 0.5, "zorder": 1}
    ax.hlines(np.arange(height + 1) - 0.5, -0.5, BANKS - 0.5, **style)
    ax.vlines(np.arange(BANKS + 1) - 0.5, -0.5, height - 0.5, **style)
    count = int(words.max(axis=1).sum())
    scale = 0.15 + 0.85 * np.arange(count) / max(count - 1, 1)
    colours = list(map(to_hex, mpl.colormaps[_WAVEFRONTS](scale)))
    unit = 0.75 * canvas.height / (len(rows) + 2)
    each = math.ceil(_LEAST_FONT / unit)  # in low rows, only some lanes have numbers
    for (row, bank), lanes in cells.items():
        y, colour = rows.index(row), colours[served[row, bank]]
        style = {"fc": colour, "ec": canvas.paper, "lw": 0.7, "zorder": 2}
        canvas.ax.add_patch(Rectangle((bank - 0.5, y - 0.5), 1, 1, **style))
        font = min((0.9 if len(lanes) == 1 else 0.68) * canvas.font, each * unit)
        if y % each == 0:
            style = {"color": ink_on(colour), "fontsize": font, "zorder": 3}
            canvas.write(_numbers(lanes), bank, y, **style)
    for bank, needed in enumerate(words.max(axis=0)):
        style = {"color": LOST, "fontweight": "bold"} if needed > 1 else {"color": FADED}
        canvas.write(str(needed) if needed else "-", bank, len(rows) + 0.3, **style)
    shown = range(count) if count <= _MOST_ENTRIES else (0, count - 1)
    canvas.legend_below([Patch(fc=colours[n], label=f"served by wavefront {n + 1}") for n in shown])
    ways = int(words.max())
    conflict = f"{ways}-way bank conflict" if ways > 1 else "No bank conflict"
    which = _which(of.accesses, request)
    subject = f"{of.accesses} in shared memory{which}; numbers in cells: lanes"
    canvas.title(f"{conflict}: {_plural(count, 'wavefront')}", subject)
    return ax


def _wavefronts(
    cells: Mapping[tuple[int, int], list[int]], words: Any
) -> dict[tuple[int, int], int]:
    """The wavefront that serves each word: by phase, then by row of its bank."""
    lanes_per_phase = BANKS // len(words)
    starts = np.concatenate([[0], np.cumsum(words.max(axis=1))])
    served: dict[tuple[int, int], int] = {}
    before: Counter[tuple[int, int]] = Counter()
    for (row, bank), lanes in sorted(cells.items()):
        phase = lanes[0] // lanes_per_phase
        served[row, bank] = int(starts[phase]) + before[phase, bank]
        before[phase, bank] += 1
    return served


def _number_lanes(canvas: Canvas, count: int, name: str, **style: Any) -> None:
    """Number the columns of a chart that has no spines and no tick marks."""
    canvas.ax.set_xticks(range(count), [str(number) for number in range(count)])
    canvas.frame(name, spines="", fontsize=canvas.font, **style)
    canvas.ax.tick_params(length=0)


def _numbers(lanes: list[int]) -> str:
    """Format the lanes that share a word: a number, a range, or their count."""
    if len(lanes) == 1:
        return str(lanes[0])
    contiguous = lanes[-1] - lanes[0] == len(lanes) - 1
    return f"{lanes[0]}-{lanes[-1]}" if contiguous else f"{len(lanes)}x"


def draw_divergence(of: Divergence, *, ax: Axes | None = None, annotate: bool = True) -> Axes:
    """Draw the active and the masked lanes of each pass of the first warps."""
    warps = min(of.warps, _MOST_WARPS)
    passes = [(w, b) for w, b in np.argwhere(of.lanes.any(axis=2).T).tolist() if w < warps]
    colours = [_BRANCHES[b % len(_BRANCHES)] for b in range(len(of.branches))]
    canvas = Canvas(ax, annotate=annotate, size=(10.0, 1.7 + 0.3 * len(passes)))
    heights = [place + 0.35 * warp for place, (warp, _) in enumerate(passes)]
    for height, (warp, branch) in zip(heights, passes, strict=True):
        active = of.lanes[branch, warp]
        for lane, works in enumerate(active):
            colour = colours[branch] if works else _INACTIVE
            _cell(canvas, lane - 0.5, height - 0.42, 1, 0.84, colour)
        words = f"{np.count_nonzero(active)} of {WARP}"
        canvas.write(words, WARP - 0.2, height, ha="left")
    ax = canvas.ax
    ax.set(xlim=(-0.6, WARP + (3.2 if annotate else -0.4)), ylim=(max(heights) + 0.6, -0.6))
    ax.set_yticks(heights, [f"warp {w}, {of.branches[b]}" for w, b in passes])
    _number_lanes(canvas, WARP, "Lane", x=0.5 * WARP / (WARP + 3.2))
    legend = {f"active in {n}": c for n, c in zip(of.branches, colours, strict=True)}
    _legend(canvas, {**legend, "masked": _INACTIVE})
    more = f", the first {warps} of {of.warps} warps" if warps < of.warps else ""
    subject = f"{of.passes} passes of {_plural(of.warps, 'warp')}{more}"
    canvas.title(f"{share(of.lane_efficiency)} of the lanes are active", subject)
    return ax
