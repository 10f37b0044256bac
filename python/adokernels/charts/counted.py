"""Common functions of the charts of hardware counters: measurements, axes and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import pyplot as plt
from matplotlib.ticker import PercentFormatter

from adokernels.records.measurement import Measurement
from adokernels.records.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from adokernels.charts.canvas import Canvas
    from adokernels.records.profile import Profile

Counted = list[tuple[Measurement, "Profile"]]


def counted(what: Sweep | Measurement | Sequence[Measurement]) -> Counted:
    """Select the measurements with counters, each with its profile.

    Raises
    ------
    ValueError
        If no measurement has counters.
    """
    measurements = (what,) if isinstance(what, Measurement) else tuple(what)
    found = [(m, m.profile) for m in measurements if m.profile]
    if not found:
        raise ValueError(
            "what must contain measurements with hardware counters, got none;"
            " measure with ado.sweep(..., counters=True)"
        )
    return found


def finding(rows: Counted, limit_of: Callable[[Profile], str]) -> str:
    """Format the limit of the first and of the fastest variant, for the title of a chart."""
    variants = [(m, p) for m, p in rows if not m.ceiling] or rows
    shown = dict([variants[0], min(variants, key=lambda row: row[0].seconds)])
    return "; ".join(f"{m.variant}: {limit_of(profile)}" for m, profile in shown.items())


def new_axes(width: float, height: float) -> Axes:
    """Create the axes of a new figure; sizes are in inches."""
    return plt.figure(figsize=(width, height), layout="constrained").add_subplot()


def height_of(rows: int) -> float:
    """Height in inches of a chart with this number of rows."""
    return 1.8 + 0.36 * rows


def draw_rows(canvas: Canvas, measurements: Sequence[Measurement], lines: int) -> float:
    """Set up one row per measurement, from top to bottom, below a header of `lines` text lines.

    The horizontal axis is a share from 0 to 100 %. Its limit may be larger if there are columns.

    Returns
    -------
    float
        Height of a row in points.
    """
    ax, rows = canvas.ax, len(measurements)
    points = 1.3 * canvas.font * (lines + 0.5) if canvas.annotate else 0.0
    height = max(canvas.height - points, canvas.height / 2) / rows
    ax.set_ylim(rows - 0.5, -0.5 - points / height)
    ax.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    ax.spines["bottom"].set_bounds(0, 1)
    names = [f"{m.variant} (ceiling)" if m.ceiling else m.variant for m in measurements]
    canvas.row_names(names)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=canvas.font)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return height


def subject(measurements: Sequence[Measurement]) -> str:
    """Describe the measurements: routine, problem, device, cold or warm caches."""
    parts = [f"{m.routine}, {m.problem}" for m in measurements]
    parts += [str(m.context.get("device_name", m.device)) for m in measurements]
    parts += [f"counters {m.profile.cache}" for m in measurements if m.profile]
    return ", ".join(dict.fromkeys(parts))
