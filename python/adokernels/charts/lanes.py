"""The chart of an access pattern: lanes over the sectors that they touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.patches import Patch, Rectangle

from adokernels.charts.canvas import FADED, MEMORY, Canvas
from adokernels.charts.counted import new_axes
from adokernels.records.metrics import SECTOR
from adokernels.text import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from adokernels.patterns.accesses import Accesses
    from adokernels.patterns.sectors import Sectors

#: Colours of bytes that lanes use, of the other bytes of their sectors, and of the other sectors.
USED, UNUSED, UNMOVED = MEMORY, "#E69F00", "0.93"
#: Fill colour of inactive lanes.
INACTIVE = "0.93"
_LINE = 128
#: Vertical extent of the lanes and of the memory.
_LANES, _MEMORY = (0.82, 1.0), (0.0, 0.2)
#: Gaps between consecutive cache lines, and between cache lines that are not consecutive. Each has
#: a share of the width of a line, and a maximum share of the width of the chart.
_NEXT, _APART = (0.02, 0.004), (0.35, 0.012)
#: Elements below this width in points have edges of their own colour, so that they are visible.
_LEAST_WIDTH = 3.0
#: Up to this number of cache lines, the address of each is shown.
_MOST_ADDRESSES = 8


def draw_sectors(of: Sectors, request: int, *, ax: Axes | None, annotate: bool) -> Axes:
    """Draw the lanes of one request over the sectors that they touch; see ``Sectors.plot``."""
    first, active = lanes_of(of.accesses, request)
    size = of.accesses.itemsize
    ax = ax or new_axes(10.0, 3.0)
    canvas = Canvas(ax, annotate=annotate)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_xlim(-0.002, 1.002)
    ax.set_ylim(-0.08, 1)
    elements = sorted({int(byte) for byte in first[active]})
    memory = _Memory(sorted({byte // _LINE for byte in elements}))
    _lanes(canvas, active)
    _memory(canvas, memory, elements, size)
    width = 1 / len(first)
    starts = [((lane + 0.5) * width, _LANES[0]) for lane in np.flatnonzero(active)]
    ends = [(memory.x(int(byte)) + memory.width(size) / 2, _MEMORY[1]) for byte in first[active]]
    pairs = list(zip(starts, ends, strict=True))
    ax.add_collection(LineCollection(pairs, colors=USED, lw=0.9, alpha=0.75, zorder=2))
    if annotate:
        _addresses(canvas, memory)
        legend = [(USED, "bytes that the lanes use"), (UNUSED, "bytes moved but not used")]
        legend += [(UNMOVED, "sector not moved")]
        canvas.legend_below([Patch(fc=c, ec=FADED, lw=0.4, label=words) for c, words in legend])
    _title(canvas, of, request)
    return ax


def lanes_of(accesses: Accesses, request: int) -> tuple[Any, Any]:
    """The first byte of each lane of one request, and whether the lane is active."""
    if isinstance(request, bool) or not isinstance(request, int | np.integer):
        raise TypeError(f"request must be an integer, got {type(request).__name__}")
    if not 0 <= request < accesses.requests:
        raise ValueError(f"request must be from 0 to {accesses.requests - 1}, got {request}")
    return accesses.offsets[request] * accesses.itemsize, accesses.active[request]


class _Memory:
    """Horizontal positions of the bytes of the touched cache lines; other lines are left out."""

    def __init__(self, lines: list[int]) -> None:
        self.lines = lines
        count = len(self.lines)
        steps = np.diff(self.lines)
        close, apart = (min(share / count, most) for share, most in (_NEXT, _APART))
        gaps = np.where(steps == 1, close, apart)
        self.line = (1 - float(gaps.sum())) / count
        self.lefts = np.concatenate([[0.0], np.cumsum(self.line + gaps)])

    def x(self, byte: int) -> float:
        """Position of a byte."""
        place = self.lines.index(byte // _LINE)
        return float(self.lefts[place]) + self.width(byte % _LINE)

    def width(self, count: int) -> float:
        """Width of a number of bytes."""
        return self.line * count / _LINE


def _lanes(canvas: Canvas, active: Sequence[bool]) -> None:
    width, (bottom, top) = 1 / len(active), _LANES
    for lane, works in enumerate(active):
        style: dict[str, Any] = {"fc": USED if works else INACTIVE, "ec": canvas.paper, "lw": 1.0}
        canvas.ax.add_patch(Rectangle((lane * width, bottom), width, top - bottom, **style))
        if canvas.annotate:
            canvas.label(
                str(lane),
                position=((lane + 0.5) * width, (bottom + top) / 2),
                ha="center",
                va="center",
                color="white" if works else FADED,
                fontsize=0.9 * canvas.font,
                bbox=None,
                zorder=3,
            )


def _memory(canvas: Canvas, memory: _Memory, elements: Sequence[int], size: int) -> None:
    sectors = {byte // SECTOR for byte in elements}
    every = [line * _LINE + start for line in memory.lines for start in range(0, _LINE, SECTOR)]
    for moved, colour in ((True, UNUSED), (False, UNMOVED)):
        some = [byte for byte in every if (byte // SECTOR in sectors) is moved]
        _boxes(canvas, memory, some, SECTOR, fc=colour, ec="none")
    wide = memory.width(size) * canvas.width > _LEAST_WIDTH
    edge = {"ec": canvas.paper, "lw": 0.3} if wide else {"ec": USED, "lw": 0.8}
    _boxes(canvas, memory, elements, size, fc=USED, **edge)
    _boxes(canvas, memory, every, SECTOR, fc="none", ec=canvas.ink, lw=0.5, zorder=3)


def _boxes(canvas: Canvas, memory: _Memory, firsts: Iterable[int], size: int, **style: Any) -> None:
    bottom, top = _MEMORY
    width = memory.width(size)
    boxes = [Rectangle((memory.x(byte), bottom), width, top - bottom) for byte in firsts]
    canvas.ax.add_collection(PatchCollection(boxes, **{"zorder": 2, **style}))


def _addresses(canvas: Canvas, memory: _Memory) -> None:
    """Write the addresses below the cache lines: all, or those of the first and the last."""
    last = len(memory.lines) - 1
    shown = range(last + 1) if last < _MOST_ADDRESSES else (0, last)
    for place in shown:
        left = float(memory.lefts[place])
        edge = place == last and place > 0 and last >= _MOST_ADDRESSES
        canvas.label(
            f"byte {memory.lines[place] * _LINE}",
            position=(left + memory.line if edge else left, -0.03),
            ha="right" if edge else "left",
            va="top",
            color=FADED,
            fontsize=0.9 * canvas.font,
            bbox=None,
        )


def _title(canvas: Canvas, of: Sectors, request: int) -> None:
    sectors, lines = int(of.request_sectors[request]), int(of.request_lines[request])
    used = _distinct(of.accesses, request) * of.accesses.itemsize
    share = number(100 * used / (SECTOR * sectors))
    finding = f"{_plural(sectors, 'sector')} of {_plural(lines, 'cache line')}"
    which = f", request {request} of {of.requests}" if of.requests > 1 else ""
    canvas.title(f"{finding}: {share} % of the moved bytes are used", f"{of.accesses}{which}")


def _distinct(accesses: Accesses, request: int) -> int:
    return len(np.unique(accesses.offsets[request][accesses.active[request]]))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"
