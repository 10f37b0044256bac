"""The memory chart: data transfers between registers, caches and DRAM.

Source: the section "Memory Workload Analysis Chart" of Nsight Compute 2025.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.patches import FancyArrow, Rectangle

from adokernels.charts.canvas import FADED, LOST, Canvas, level_style
from adokernels.charts.counted import counted, new_axes, subject
from adokernels.charts.speed_of_light import memory_shares
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import SECTOR
from adokernels.text import number, percent, quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from adokernels.records.profile import Profile

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
#: NVIDIA's rule for shared-memory bank conflicts fires at this share of wavefronts.
_CONFLICTS = 0.1
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
    total of both directions. Boxes show hit rates, and a bar for the share of the level's peak. The
    box of the instructions shows sectors per request with the ideal value, and the share of the
    shared-memory wavefronts that are bank conflicts. Losses are coloured.

    Parameters
    ----------
    m
        A measurement with hardware counters.
    other
        A second measurement, drawn beside the first.
    ax
        The axes to draw on; by default those of a new figure.
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
    shown = [x for x in (m, other) if x is not None]
    for x in shown:
        if not isinstance(x, Measurement):
            raise TypeError(f"memory_chart draws one or two Measurements, got {type(x).__name__}")
    columns = [counted(x)[0] for x in shown]
    ax = ax or new_axes(5.5 * len(columns), 6.0)
    ax.set_axis_off()
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlim(0, len(columns))
    ax.set_ylim(-0.01, 1.1)
    canvas = Canvas(ax, annotate=annotate)
    flows = [_flows(profile) for _, profile in columns]
    largest = max(flow.bytes for each in flows for flow in each)
    for place, ((each, profile), arrows) in enumerate(zip(columns, flows, strict=True)):
        column = _Column(canvas, profile, place, len(columns))
        column.head(f"{each.variant}: {quantity(each.seconds, 's')}")
        column.boxes()
        column.arrows(arrows, largest)
    if annotate:
        canvas.title(_finding(columns), subject(shown))
    return ax


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
    """Bytes of each link; links without traffic are omitted.

    If the counters do not separate loads and stores, one link has the total.
    """
    get = profile.get

    def total(names: Sequence[str], unit: float = 1.0) -> float | None:
        values = [get(name) for name in names]
        return None if None in values else unit * sum(v for v in values if v)

    def link(
        upper: str,
        lower: str,
        xs: tuple[float, float],
        parts: tuple[float | None, float | None],
        both: float | None = None,
        words: tuple[str, str] = ("", ""),
    ) -> list[_Flow]:
        if None in parts:
            middle = sum(xs) / 2
            return [_Flow(upper, lower, middle, None, both, "in total")] if both else []
        ways = zip(xs, (True, False), parts, words, strict=True)
        return [_Flow(upper, lower, x, up, amount, said) for x, up, amount, said in ways if amount]

    accesses = ("loads", "stores")
    loads = total([_SASS.format("global", op) for op in ("ld", "ldgsts")])
    stores = total([_SASS.format("global", "st")])
    shared = (
        total([_SASS.format("shared", "ld")]),
        # Asynchronous copies transfer data from global to shared memory.
        total([_SASS.format("shared", op) for op in ("st", "ldgsts")]),
    )
    sectors = (total(["load_sectors"], SECTOR), total(["store_sectors"], SECTOR))
    l2 = (get("l1tex__m_xbar2l1tex_read_bytes.sum"), get("l1tex__m_l1tex2xbar_write_bytes.sum"))
    dram = (get("dram_read_bytes"), get("dram_write_bytes"))
    left, right = (0.14, 0.36), (0.62, 0.82)
    every = get("shared_bytes")
    return [
        *link("kernel", "instructions", left, (loads, stores), words=accesses),
        *link("kernel", "instructions", right, shared, every, accesses),
        *link("instructions", "L1", left, sectors, get("l1_bytes"), ("sectors", "sectors")),
        *link("instructions", "L1", right, shared, every),
        *link("L1", "L2", left, l2, get("l2_bytes")),
        *link("L2", "DRAM", left, dram, get("dram_bytes")),
    ]


class _Column:
    """Draws one measurement in its column."""

    def __init__(self, canvas: Canvas, profile: Profile, place: int, columns: int) -> None:
        self.canvas, self.profile, self.place = canvas, profile, place
        self.width = canvas.width / columns  # in points
        self.font = min(canvas.font, self.width / 31, canvas.height / 34)

    def x(self, share: float) -> float:
        return self.place + 0.02 + 0.96 * share

    def write(self, words: str, x: float, y: float, **style: Any) -> None:
        style = {"ha": "left", "va": "center", "fontsize": self.font, "bbox": None, **style}
        self.canvas.label(words, position=(self.x(x), y), zorder=4, **style)

    def head(self, words: str) -> None:
        self.write(words, 0.5, 1.06, ha="center", fontweight="bold", fontsize=self.font + 1)

    def box(self, layer: str, left: float, right: float, lines: list[tuple[str, bool]]) -> None:
        """Draw a frame with lines of text; lines with a loss are coloured."""
        low, high = _LAYERS[layer]
        style: dict[str, Any] = {"fc": "none", "ec": self.canvas.ink, "lw": 1.0, "zorder": 3}
        edge = self.x(left)
        self.canvas.ax.add_patch(Rectangle((edge, low), self.x(right) - edge, high - low, **style))
        step = min(1.35 * self.font / self.canvas.height * 1.11, (high - low) / (len(lines) + 0.4))
        top = (low + high) / 2 + step * (len(lines) - 1) / 2
        for line, (words, loss) in enumerate(lines):
            ink = LOST if loss else self.canvas.ink
            weight = "bold" if loss or not line else "normal"
            self.write(words, left + 0.02, top - step * line, color=ink, fontweight=weight)

    def fill(self, layer: str, left: float, right: float, share: float | None) -> None:
        """Draw the share of the level's peak as a bar within its box."""
        if share is None:
            return
        low, high = _LAYERS[layer]
        colour, _ = level_style(layer)
        edge, width = self.x(left), self.x(right) - self.x(left)
        bar = Rectangle((edge, low), width * min(share, 1.0), high - low, fc=colour, alpha=0.35)
        bar.set(lw=0, zorder=1)
        self.canvas.ax.add_patch(bar)
        middle = (low + high) / 2
        words = f"{percent(share)} of peak"
        self.write(words, right - 0.02, middle, ha="right", fontweight="bold")

    def boxes(self) -> None:
        get, shares = self.profile.get, memory_shares(self.profile)
        instructions = get("instructions")
        count = "" if instructions is None else f", {_count(instructions)} warp instructions"
        self.box("kernel", 0, 1, [(f"registers{count}", False)])
        self.box("instructions", 0, 0.49, self.accesses())
        self.box("instructions", 0.51, 1, self.conflicts())
        self.fill("L1", 0, 1, shares.get("L1"))
        self.box("L1", 0, 1, [("L1 and shared memory", False), *self.hits("l1_hit_rate")])
        self.fill("L2", 0, 1, shares.get("L2"))
        self.box("L2", 0, 1, [("L2", False), *self.hits("l2_hit_rate")])
        self.fill("DRAM", 0, 1, shares.get("DRAM"))
        self.box("DRAM", 0, 1, [("DRAM", False)])

    def hits(self, key: str) -> list[tuple[str, bool]]:
        rate = self.profile.get(key)
        return [] if rate is None else [(f"hit rate {percent(rate)}", False)]

    def accesses(self) -> list[tuple[str, bool]]:
        """Format sectors per request of loads and stores with the ideal value, and spills."""
        lines = []
        for op in ("load", "store"):
            per_request = self.profile.get(f"{op}_sectors_per_request")
            sectors = self.profile.get(f"{op}_sectors")
            ideal = self.profile.ideal_sectors_per_request(op)
            if per_request is None or not sectors:
                continue
            known = "" if ideal is None else f", ideal {number(ideal)}"
            loss = ideal is not None and per_request > _LOSS * ideal
            lines.append((f"{op}: {number(per_request)}{known}", loss))
        if spilled := self.profile.get("local_bytes"):
            lines.append((f"spills: {quantity(spilled, 'B')}", True))
        head = "global: sectors/request" if lines else "global memory: not used"
        return [(head, False), *lines]

    def conflicts(self) -> list[tuple[str, bool]]:
        """Format the share of shared-memory wavefronts that are bank conflicts, per access type."""
        lines = []
        for op in ("load", "store"):
            wavefronts = self.profile.get(f"shared_{op}_wavefronts")
            conflicts = self.profile.get(f"shared_{op}_conflicts")
            if wavefronts and conflicts is not None:
                share = conflicts / wavefronts
                lines.append((f"{op}: {percent(share)}", share > _CONFLICTS))
        head = "shared: bank conflicts" if lines else "shared memory: not used"
        return [(head, False), *lines]

    def arrows(self, flows: list[_Flow], largest: float) -> None:
        """Draw the arrows between the boxes, with their bytes."""
        height = self.canvas.height
        for flow in flows:
            top, bottom = _LAYERS[flow.upper][0], _LAYERS[flow.lower][1]
            thick = max(0.03 * flow.bytes / largest, 0.002)
            low, high = bottom + _GAP, top - _GAP
            start, end = (high, low) if flow.up is False else (low, high)
            arrow = FancyArrow(
                self.x(flow.x),
                start,
                0,
                end - start,
                width=thick,
                head_width=thick if flow.up is None else max(1.8 * thick, 0.018),
                head_length=1e-9 if flow.up is None else 6 / height,
                length_includes_head=True,
                fc=FADED,
                ec="none",
                zorder=2,
            )
            self.canvas.ax.add_patch(arrow)
            words = quantity(flow.bytes, "B") + (f"\n{flow.words}" if flow.words else "")
            self.write(words, flow.x + 0.035, (top + bottom) / 2, linespacing=1.05)


def _count(value: float) -> str:
    return quantity(value, "").strip()


def _finding(columns: list[tuple[Measurement, Profile]]) -> str:
    """Format the busiest memory level of each measurement."""
    parts = []
    for m, profile in columns:
        shares = memory_shares(profile)
        if shares:
            level = max(shares, key=lambda name: shares[name])
            parts.append(f"{m.variant}: {level} at {percent(shares[level])} of peak")
    return "; ".join(parts)
