"""The memory chart: data transfers between registers, caches and DRAM.

Source: the section "Memory Workload Analysis Chart" of Nsight Compute 2025.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrow, Rectangle

from adokernels.charts.canvas import FADED, LOST, Canvas, level_style
from adokernels.charts.counters import counted, limit_of, subject
from adokernels.records.definitions import NOTABLE
from adokernels.records.limiter import Kind
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import MEMORY_BREAKDOWN, SECTOR
from adokernels.records.profile import Profile
from adokernels.text import count, percent, quantity, require

#: The lines of text in a box, and whether each is a loss.
_Lines = list[tuple[str, bool]]

#: Bottom and top of each layer, in axes fractions.
_LAYERS = {
    "kernel": (0.93, 1.0),
    "instructions": (0.69, 0.85),
    "L1": (0.44, 0.59),
    "L2": (0.20, 0.32),
    "DRAM": (0.0, 0.10),
}
#: Gap between an arrow and the boxes.
_GAP = 0.006
#: Accesses above this multiple of the ideal are coloured as a loss.
_LOSS = 1.1
_SASS = "sm__sass_data_bytes_mem_{}_op_{}.sum"


def memory_chart(
    m: Measurement,
    other: Measurement | None = None,
    *,
    ax: Axes | None = None,
    annotate: bool = True,
) -> Axes:
    """Draw the bytes transferred between registers, L1 and shared memory, L2, and DRAM.

    Arrows show bytes: up for loads and reads, down for stores and writes. The width of an arrow is
    proportional to the bytes, with one scale for the whole chart. A line without a head is the
    total of both directions. Boxes show hit rates. A bar shows the utilisation of the busiest unit
    of the level (in the longest kernel), as in the table of counters. The box of the instructions
    shows sectors per request with the ideal value, and the share of the shared-memory wavefronts
    that are bank conflicts. Losses are coloured.

    Parameters
    ----------
    m
        A measurement with hardware counters.
    other
        A second measurement, drawn beside the first.
    ax
        The axes to draw on; by default, new axes of a new figure.
    annotate
        Whether to add the title.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If a measurement has no hardware counters.
    TypeError
        If an argument is not a measurement.
    """
    require(Measurement, "a Measurement", m=m)
    require((Measurement, type(None)), "a Measurement", other=other)
    shown = [m] if other is None else [m, other]
    columns = [counted(x)[0] for x in shown]
    canvas = Canvas(ax, annotate=annotate, size=(5.5 * len(columns), 6.0))
    canvas.ax.set_axis_off()
    canvas.ax.set(xticks=[], yticks=[], xlim=(0, len(columns)), ylim=(-0.01, 1.1))
    flows = [_flows(profile) for _, profile in columns]
    largest = max((flow.bytes for each in flows for flow in each), default=0.0)
    for place, ((each, profile), arrows) in enumerate(zip(columns, flows, strict=True)):
        column = _Column(canvas, place, len(columns))
        words = f"{each.variant}: {quantity(each.seconds, 's')}"
        column.write(words, 0.5, 1.06, ha="center", fontweight="bold", fontsize=column.font + 1)
        instructions = profile.get("instructions")
        words = "registers"
        if instructions is not None:
            words += f", {quantity(instructions, '').strip()} warp instructions"
        column.box("kernel", 0, 1, [(words, False)])
        column.box("instructions", 0, 0.49, _accesses(profile))
        column.box("instructions", 0.51, 1, _conflicts(profile))
        for level, name in (("L1", "L1 and shared memory"), ("L2", "L2"), ("DRAM", "DRAM")):
            if unit := profile.longest.busiest(level):
                column.fill(level, unit.share)
            rate = profile.get(f"{level.lower()}_hit_rate") if level != "DRAM" else None
            hits = [] if rate is None else [(f"hit rate {percent(rate)}", False)]
            column.box(level, 0, 1, [(name, False), *hits])
        for flow in arrows:
            column.arrow(flow, 0.03 * flow.bytes / largest)
    if annotate:
        parts, named = [], (Kind.SHARED, Kind.MEMORY, *MEMORY_BREAKDOWN)
        for each, profile in columns:
            memory = next((u for u in profile.longest.units if u.level in MEMORY_BREAKDOWN), None)
            parts.append(f"{each.variant}: {limit_of(each)}")
            if memory and each.limiter.kind not in named:
                parts[-1] += f", busiest level {memory.level} {percent(memory.share)}"
        canvas.title("; ".join(parts), subject(shown))
    return canvas.ax


@dataclass(frozen=True)
class _Flow:
    """Bytes between two layers at a horizontal position: up, down, or both directions (None)."""

    upper: str
    lower: str
    x: float
    up: bool | None
    bytes: float
    words: str = ""


def _flows(profile: Profile) -> list[_Flow]:
    """Bytes of each link with traffic; one link if the counters do not separate the directions."""
    get = profile.get

    def moved(space: str, *operations: str) -> float | None:
        values = [get(_SASS.format(space, op)) for op in operations]
        return None if None in values else sum(v for v in values if v)

    def sectors(access: str) -> float | None:
        count = get(f"{access}_sectors")
        return None if count is None else SECTOR * count

    accesses, left, right = ("loads", "stores"), (0.14, 0.36), (0.62, 0.82)
    wide = (moved("global", "ld", "ldgsts"), moved("global", "st"))
    # Asynchronous copies transfer data from global to shared memory.
    shared = (moved("shared", "ld"), moved("shared", "st", "ldgsts"))
    requested = (sectors("load"), sectors("store"))
    l2 = (get("l1tex__m_xbar2l1tex_read_bytes.sum"), get("l1tex__m_l1tex2xbar_write_bytes.sum"))
    dram = (get("dram_read_bytes"), get("dram_write_bytes"))
    every, no_words = get("shared_bytes"), ("", "")
    # Upper and lower layer, positions, bytes up and down, words beside them, bytes in total.
    links = (
        ("kernel", "instructions", left, wide, accesses, None),
        ("kernel", "instructions", right, shared, accesses, every),
        ("instructions", "L1", left, requested, ("sectors", "sectors"), get("l1_bytes")),
        ("instructions", "L1", right, shared, no_words, every),
        ("L1", "L2", left, l2, no_words, get("l2_bytes")),
        ("L2", "DRAM", left, dram, no_words, get("dram_bytes")),
    )
    flows = []
    for upper, lower, xs, parts, words, both in links:
        if None not in parts:
            ways = zip(xs, (True, False), parts, words, strict=True)
            flows += [_Flow(upper, lower, x, up, n, said) for x, up, n, said in ways if n]
        elif both:
            flows.append(_Flow(upper, lower, sum(xs) / 2, None, both, "in total"))
    return flows


class _Column:
    """One of the columns of the chart; positions are shares of its width."""

    def __init__(self, canvas: Canvas, place: int, columns: int) -> None:
        self.canvas, self.place = canvas, place
        self.font = min(canvas.font, canvas.width / columns / 31, canvas.height / 34)

    def x(self, share: float) -> float:
        """Convert a position in the column to a position on the horizontal axis."""
        return self.place + 0.02 + 0.96 * share

    def write(self, words: str, x: float, y: float, **style: Any) -> None:
        """Write text that the chart has also without annotations."""
        style = {"ha": "left", "fontsize": self.font, "zorder": 4, "always": True, **style}
        self.canvas.write(words, self.x(x), y, **style)

    def rectangle(self, layer: str, left: float, right: float, **style: Any) -> None:
        """Draw a rectangle with the height of a layer."""
        (low, high), edge = _LAYERS[layer], self.x(left)
        self.canvas.ax.add_patch(Rectangle((edge, low), self.x(right) - edge, high - low, **style))

    def box(self, layer: str, left: float, right: float, lines: _Lines) -> None:
        """Draw a frame with lines of text; lines with a loss are coloured."""
        self.rectangle(layer, left, right, fc="none", ec=self.canvas.ink, lw=1.0, zorder=3)
        low, high = _LAYERS[layer]
        step = min(1.35 * self.font / self.canvas.height * 1.11, (high - low) / (len(lines) + 0.4))
        top = (low + high) / 2 + step * (len(lines) - 1) / 2
        for line, (words, loss) in enumerate(lines):
            ink = LOST if loss else self.canvas.ink
            weight = "bold" if loss or not line else "normal"
            self.write(words, left + 0.02, top - step * line, color=ink, fontweight=weight)

    def fill(self, layer: str, share: float) -> None:
        """Draw the share of the level's peak as a bar within its box."""
        style = {"fc": level_style(layer)[0], "alpha": 0.35, "lw": 0, "zorder": 1}
        self.rectangle(layer, 0, min(share, 1.0), **style)
        words = f"{percent(share)} of peak"
        self.write(words, 0.98, sum(_LAYERS[layer]) / 2, ha="right", fontweight="bold")

    def arrow(self, flow: _Flow, width: float) -> None:
        """Draw an arrow between two layers, with its bytes."""
        top, bottom = _LAYERS[flow.upper][0], _LAYERS[flow.lower][1]
        width = max(width, 0.002)
        low, high = bottom + _GAP, top - _GAP
        start, end = (high, low) if flow.up is False else (low, high)
        style: dict[str, Any] = {"width": width, "head_width": width, "head_length": 1e-9}
        if flow.up is not None:
            style |= {"head_width": max(1.8 * width, 0.018), "head_length": 6 / self.canvas.height}
        style |= {"length_includes_head": True, "fc": FADED, "ec": "none", "zorder": 2}
        self.canvas.ax.add_patch(FancyArrow(self.x(flow.x), start, 0, end - start, **style))
        words = quantity(flow.bytes, "B") + (f"\n{flow.words}" if flow.words else "")
        self.write(words, flow.x + 0.035, (top + bottom) / 2, linespacing=1.05)


def _accesses(profile: Profile) -> _Lines:
    """Format sectors per request of loads and stores with the ideal value, and spills."""
    lines = []
    for op in ("load", "store"):
        per_request = profile.get(f"{op}_sectors_per_request")
        ideal = profile.ideal_sectors_per_request(op)
        if per_request is None or not profile.get(f"{op}_sectors"):
            continue
        known = "" if ideal is None else f", ideal {count(ideal)}"
        loss = ideal is not None and per_request > _LOSS * ideal
        lines.append((f"{op}: {count(per_request)}{known}", loss))
    if spilled := profile.get("local_bytes"):
        lines.append((f"spills: {quantity(spilled, 'B')}", True))
    sectors = (profile.get(f"{op}_sectors") for op in ("load", "store"))
    head = "global: sectors/request" if lines else f"global memory: {_unused(*sectors)}"
    return [(head, False), *lines]


def _conflicts(profile: Profile) -> _Lines:
    """Format the share of shared-memory wavefronts that are bank conflicts, per access type."""
    lines = []
    for op in ("load", "store"):
        total = profile.get(f"shared_{op}_wavefronts")
        conflicts = profile.get(f"shared_{op}_conflicts")
        if total and conflicts is not None:
            share = conflicts / total
            lines.append((f"{op}: {percent(share)}", share >= NOTABLE))
    wavefronts = (profile.get(f"shared_{op}_wavefronts") for op in ("load", "store"))
    head = "shared: bank conflicts" if lines else f"shared memory: {_unused(*wavefronts)}"
    return [(head, False), *lines]


def _unused(*counts: float | None) -> str:
    """Why a memory space has no lines: it was not used, or its counts were not collected."""
    return "not used" if all(n == 0 for n in counts) else "not collected"
