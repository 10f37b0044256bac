"""Common functions of the charts of hardware counters: measurements, rows and words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from adokernels.charts.canvas import Canvas
from adokernels.charts.series import problem_of
from adokernels.records.measurement import Measurement
from adokernels.records.profile import Profile
from adokernels.records.sweep import Sweep
from adokernels.text import percent, require

Counted = list[tuple[Measurement, Profile]]


def counted(what: Sweep | Measurement | Sequence[Measurement]) -> Counted:
    """Select the measurements with counters, with their profiles; ValueError if there are none."""
    words = "a sweep, a measurement, or several measurements"
    require(Iterable, words, what=(what,) if isinstance(what, Measurement) else what)
    measurements = (what,) if isinstance(what, Measurement) else tuple(what)
    for m in measurements:
        require(Measurement, words, what=m)
    found = [(m, m.profile) for m in measurements if m.profile]
    if not found:
        raise ValueError(
            "what must contain measurements with hardware counters, got none: "
            "repeat the measurement with ado.sweep(..., counters=True)"
        )
    return found


def limit_of(m: Measurement) -> str:
    """Format the limiter of a measurement, with the utilisation of its unit if it is a unit."""
    found = m.limiter
    return found.name if found.share is None else f"{found.name} {percent(found.share)}"


def draw_title(canvas: Canvas, rows: Counted, words: Callable[[Measurement, Profile], str]) -> None:
    """Write `words` of the first and of the fastest variant, and what was measured."""
    variants = [(m, p) for m, p in rows if not m.ceiling] or rows
    shown = dict([variants[0], min(variants, key=lambda row: row[0].seconds)])
    finding = "; ".join(f"{m.variant}: {words(m, profile)}" for m, profile in shown.items())
    canvas.title(finding, subject([m for m, _ in rows]))


def size_of(rows: int) -> tuple[float, float]:
    """Width and height in inches of a chart with this number of rows."""
    return 10.0, 1.8 + 0.36 * rows


def draw_rows(
    rows: Counted, header: int, words: str, *, reach: float, ax: Axes | None, annotate: bool
) -> tuple[Canvas, float]:
    """Set up one row per measurement, from top to bottom, below a header of `header` text lines.

    The horizontal axis is a share from 0 to 100 %, with the name `words`. Columns at the right have
    space up to `reach`. The results are the canvas and the height of a row in points.
    """
    canvas = Canvas(ax, annotate=annotate, size=size_of(len(rows)))
    ax = canvas.ax
    points = 1.3 * canvas.font * (header + 0.5) if annotate else 0.0
    height = max(canvas.height - points, canvas.height / 2) / len(rows)
    ax.set(xlim=(0, reach), ylim=(len(rows) - 0.5, -0.5 - points / height))
    ax.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    canvas.row_names([f"{m.variant} (ceiling)" if m.ceiling else m.variant for m, _ in rows])
    canvas.frame(words, spines="bottom", fontsize=canvas.font)
    ax.tick_params(axis="y", length=0)
    ax.spines["bottom"].set_bounds(0, 1)
    return canvas, height


def subject(measurements: Sequence[Measurement]) -> str:
    """Describe the measurements: routine, problem, device, cold or warm caches."""
    parts = [f"{m.routine}, {problem_of(m)}" for m in measurements]
    parts += [str(m.context.get("device_name", m.device)) for m in measurements]
    parts += [f"counters {m.profile.cache}" for m in measurements if m.profile]
    if any(len(m.profile) > 1 for m in measurements if m.profile):
        parts.append("shares of peak: of the longest kernel")
    return ", ".join(dict.fromkeys(parts))
