"""The speed-of-light chart: utilisation of compute and memory in each variant.

Source: the section "GPU Speed Of Light Throughput" of Nsight Compute 2025.3 and its thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from adokernels.charts.canvas import COMPUTE, FADED, MEMORY, Canvas, entry
from adokernels.charts.counted import counted, draw_rows, draw_title, limit_of
from adokernels.records.definitions import BOUND, LIMITING
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import MEMORY_BREAKDOWN
from adokernels.records.profile import KernelProfile
from adokernels.records.sweep import Sweep, steps
from adokernels.text import percent

_BAR = 0.38
#: The side, the colour, and the vertical position in the row of the two bars.
_BARS = (("compute", COMPUTE, -_BAR / 2), ("memory", MEMORY, _BAR / 2))
#: Minimum row height in points for two lines of text per row.
_SMALLEST = 6.0
_REACH = 1.18  # end of the axis: 100 % plus space for text


def speed_of_light(
    what: Sweep | Measurement | Sequence[Measurement],
    *,
    ax: Axes | None = None,
    annotate: bool = True,
) -> Axes:
    """Draw the utilisation of compute and memory as a pair of bars per variant.

    A bar shows the throughput of the busiest unit as a share of the sustainable maximum. Its label
    names that unit: a pipe of the multiprocessors, or the memory level. The longer bar is the
    limiter if it reaches 60 %. From 80 %, only less work for this unit makes the kernel faster. If
    both bars are below 60 %, the kernel is latency-bound or has too little work. If a variant has
    several kernels, the bars show the longest one. A tick at each bar shows the previous variant,
    the baseline.

    Parameters
    ----------
    what
        A sweep or measurements with hardware counters; others are omitted.
    ax
        The axes to draw on; by default, new axes of a new figure.
    annotate
        Whether to write values and units at the bars, and to add a legend.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If no measurement has hardware counters.
    """
    rows = counted(what)
    before = steps([m for m, _ in rows])
    words = "Throughput, share of the hardware's maximum"
    reach = _REACH if annotate else 1.0
    canvas, height = draw_rows(rows, 1, words, reach=reach, ax=ax, annotate=annotate)
    _draw_regions(canvas)
    for row, (m, profile) in enumerate(rows):
        baseline = before[m].profile if m in before else None
        sides, old = _sides(profile.longest), _sides(baseline.longest) if baseline else {}
        for side, colour, shift in _BARS:
            y, share = row + shift, sides[side][1] if side in sides else 0.0
            alpha = 0.5 if m.ceiling else 1.0
            canvas.ax.barh([y], [share], height=_BAR, color=colour, alpha=alpha, lw=0, zorder=2)
            if side in old:
                old_share = old[side][1]
                ends = [y - _BAR / 2, y + _BAR / 2]
                tick: dict[str, Any] = {"color": canvas.ink, "lw": 2, "solid_capstyle": "butt"}
                canvas.ax.plot([old_share] * 2, ends, zorder=3, **tick)
        _name_units(canvas, row, height, sides, old)
    colours = {"compute: busiest pipe": COMPUTE, "memory: busiest level": MEMORY}
    key: list[Artist] = [Patch(color=colour, label=label) for label, colour in colours.items()]
    if before:
        key.append(entry("previous variant", marker="|", color=canvas.ink, mew=2, ms=8))
    canvas.legend_below(key)
    draw_title(canvas, rows, lambda m, _: limit_of(m))
    return canvas.ax


def _draw_regions(canvas: Canvas) -> None:
    """Draw the thresholds, and the meaning of the shares between them."""
    canvas.ax.axvspan(BOUND, 1.0, color=canvas.ink, alpha=0.06, lw=0, zorder=0)
    for limit in (LIMITING, BOUND, 1.0):
        style = "-" if limit == 1.0 else "--"
        canvas.ax.axvline(limit, color=FADED, lw=0.9, ls=style, zorder=1)
    top = canvas.ax.get_xaxis_transform() + canvas.shift(0, -0.9 * canvas.font)
    for start, end, words in (
        (0.0, LIMITING, f"both below {percent(LIMITING)}: latency"),
        (LIMITING, BOUND, "limiter"),
        (BOUND, 1.0, "near peak"),
    ):
        canvas.write(words, (start + end) / 2, 1.0, color=FADED, transform=top)


#: Name and share of the busiest unit, by side. A side without collected units is missing.
_Sides = dict[str, tuple[str, float]]


def _sides(kernel: KernelProfile) -> _Sides:
    """The busiest unit of compute and the busiest memory level."""
    levels = {"compute": ("compute",), "memory": tuple(MEMORY_BREAKDOWN)}
    busiest = (
        (side, next((u for u in kernel.units if u.level in of), None))
        for side, of in levels.items()
    )
    return {
        side: (unit.name if side == "compute" else unit.level, unit.share)
        for side, unit in busiest
        if unit
    }


def _name_units(canvas: Canvas, row: int, height: float, sides: _Sides, old: _Sides) -> None:
    """Write share and unit at the ends of the bars; in low rows, only at the longer bar."""
    places = [(side, row + shift) for side, _, shift in _BARS if side in sides]
    font = min(canvas.font, 0.4 * height)
    if font < _SMALLEST and sides:
        font = min(canvas.font, 0.6 * height)
        places = [(max(sides, key=lambda side: sides[side][1]), row)]
    for side, y in places:
        unit, share = sides[side]
        words = f"{percent(share)} {unit}"
        # Width of the text as a share. If the tick of the previous variant is where the text would
        # be, the text is inside the bar, so that it does not seem to belong to the tick.
        width = (0.55 * font * len(words) + 6) * canvas.ax.get_xlim()[1] / canvas.width
        tick = old[side][1] if side in old else 0.0
        covered = share < tick < share + width
        inside = covered and share > width
        start = tick if covered and not inside else share
        box = {**canvas.label_box, "alpha": 0.8, "boxstyle": "square,pad=0"}
        style: dict[str, Any] = {"va": "center", "fontsize": font, "bbox": box, "zorder": 4}
        style["transform"] = canvas.ax.transData + canvas.shift(-3 if inside else 3)
        if inside:
            style |= {"ha": "right", "color": "white", "bbox": None, "fontweight": "bold"}
        canvas.label(words, position=(start, y), **style)
