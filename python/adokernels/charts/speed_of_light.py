"""The speed-of-light chart: utilisation of compute and memory in each variant.

Source: the section "GPU Speed Of Light Throughput" of Nsight Compute 2025.3 and its thresholds of
60 and 80 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.patches import Patch

from adokernels.charts.canvas import COMPUTE, FADED, MEMORY, Canvas, entry
from adokernels.charts.counted import counted, draw_rows, finding, height_of, new_axes, subject
from adokernels.records.metrics import COMPUTE_BREAKDOWN, MEMORY_BREAKDOWN, of_peak
from adokernels.records.sweep import steps
from adokernels.text import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from adokernels.records.measurement import Measurement
    from adokernels.records.profile import Profile
    from adokernels.records.sweep import Sweep

#: From `_LOW`, a unit is close to its limit. From `_HIGH`, it limits the kernel.
_LOW, _HIGH = 0.6, 0.8
_BAR = 0.38
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
    names that unit: a pipe of the multiprocessors, or the memory level. A unit above 80 % limits
    the kernel. If both bars are below 60 %, the kernel is latency-bound or has too little work. A
    tick at each bar shows the previous variant, the baseline.

    Parameters
    ----------
    what
        A sweep or measurements with hardware counters; others are omitted.
    ax
        The axes to draw on; by default those of a new figure.
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
    measurements = [m for m, _ in rows]
    before = steps(measurements)
    ax = ax or new_axes(10.0, height_of(len(rows)))
    canvas = Canvas(ax, annotate=annotate)
    height = draw_rows(canvas, measurements, 1)
    _frame(canvas)
    for row, (m, profile) in enumerate(rows):
        baseline = before[m].profile if m in before else None
        for y, key, colour in (
            (row - _BAR / 2, "compute_sol", COMPUTE),
            (row + _BAR / 2, "memory_sol", MEMORY),
        ):
            share, old = profile.get(key), baseline.get(key) if baseline else None
            alpha = 0.5 if m.ceiling else 1.0
            ax.barh([y], [share or 0], height=_BAR, color=colour, alpha=alpha, lw=0, zorder=2)
            if old is not None:
                ends = [y - _BAR / 2, y + _BAR / 2]
                ax.plot([old, old], ends, color=canvas.ink, lw=2, zorder=3, solid_capstyle="butt")
        if annotate:
            _name_units(canvas, row, height, profile, baseline)
    if annotate:
        canvas.legend_below(
            [
                Patch(color=COMPUTE, label="compute: busiest pipe"),
                Patch(color=MEMORY, label="memory: busiest level"),
                *([_previous(canvas)] if before else []),
            ]
        )
    canvas.title(finding(rows, _limit), subject(measurements))
    return ax


def _previous(canvas: Canvas) -> Artist:
    return entry("previous variant", marker="|", color=canvas.ink, mew=2, ms=8)


def _frame(canvas: Canvas) -> None:
    ax = canvas.ax
    ax.set_xlim(0, _REACH if canvas.annotate else 1.0)
    ax.set_xlabel("Throughput, share of the hardware's maximum", fontsize=canvas.font)
    ax.axvspan(_HIGH, 1.0, color=canvas.ink, alpha=0.06, lw=0, zorder=0)
    for limit in (_LOW, _HIGH, 1.0):
        style = "-" if limit == 1.0 else "--"
        ax.axvline(limit, color=FADED, lw=0.9, ls=style, zorder=1)
    if canvas.annotate:
        middle = canvas.shift(0, -0.9 * canvas.font)
        top = canvas.ax.get_xaxis_transform() + middle
        for x, words in ((0.3, "both below 60 %: latency"), (0.7, "close"), (0.9, "limiter")):
            place: dict[str, Any] = {"ha": "center", "va": "center", "color": FADED, "bbox": None}
            canvas.label(words, position=(x, 1.0), transform=top, **place)


def _name_units(
    canvas: Canvas, row: int, height: float, profile: Profile, baseline: Profile | None
) -> None:
    """Write share and unit at the ends of the bars; in low rows, only at the longer bar."""
    sides = _sides(profile)
    places = [(key, row + shift) for key, shift in (("compute", -_BAR / 2), ("memory", _BAR / 2))]
    font = min(canvas.font, 0.4 * height)
    if font < _SMALLEST:
        font = min(canvas.font, 0.6 * height)
        places = [(max(sides, key=lambda side: sides[side][1]), row)]
    for side, y in places:
        unit, share = sides[side]
        old = baseline.get(f"{side}_sol") if baseline else None
        words = f"{percent(share)} {unit}"
        # Width of the text as a share. The text is between the bar and the tick if it fits.
        width = (0.62 * font * len(words) + 6) * canvas.ax.get_xlim()[1] / canvas.width
        start = max(share, old) if old is not None and old < share + width else share
        canvas.label(
            words,
            position=(start, y),
            va="center",
            fontsize=font,
            bbox={**canvas.label_box, "alpha": 0.8, "boxstyle": "square,pad=0"},
            transform=canvas.ax.transData + canvas.shift(3),
            zorder=4,
        )


def _sides(profile: Profile) -> dict[str, tuple[str, float]]:
    """The busiest unit of compute and of memory, with its share."""
    units = {"compute": _compute_shares(profile), "memory": memory_shares(profile)}
    return {
        side: (
            max(shares, key=lambda unit: shares[unit], default=""),
            profile.get(f"{side}_sol") or 0.0,
        )
        for side, shares in units.items()
    }


def _compute_shares(profile: Profile) -> dict[str, float]:
    return _shares(profile, COMPUTE_BREAKDOWN)


def memory_shares(profile: Profile) -> dict[str, float]:
    """Share of peak of each memory level, which is that of its busiest unit."""
    parts = {level: _shares(profile, group) for level, group in MEMORY_BREAKDOWN.items()}
    return {level: max(shares.values()) for level, shares in parts.items() if shares}


def _shares(profile: Profile, metrics: Mapping[str, str]) -> dict[str, float]:
    known = ((name, profile.get(of_peak(metric))) for name, metric in metrics.items())
    return {name: value / 100 for name, value in known if value is not None}


def _limit(profile: Profile) -> str:
    """Format the busiest unit, if it may be the limiter."""
    name, share = max(_sides(profile).values(), key=lambda unit: unit[1])
    return f"{name} {percent(share)}" if share >= _LOW else "no unit above 60 %"
