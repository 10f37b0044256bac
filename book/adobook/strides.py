"""The chart of a routine over a stride or an offset: utilisation, and bytes per second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from adobook.axes import open_canvas
from adokernels.charts.canvas import FADED, MEMORY, Canvas, entry
from adokernels.patterns.sectors import Sectors
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import SECTOR
from adokernels.records.sweep import Sweep
from adokernels.text import percent, quantity

_MODEL, _COUNTED, _USEFUL = "#0072B2", "#D55E00", "#009E73"


def stride_chart(
    sweep: Sweep,
    option: str,
    model: Callable[[int], Sectors],
    *,
    axes: tuple[Axes, Axes] | None = None,
) -> tuple[Axes, Axes]:
    """Draw the utilisation of loaded sectors and the bytes per second over an option.

    The upper chart has the utilisation that the model predicts, the counted utilisation, and the
    utilisation of the bytes read from DRAM. The lower chart has the bytes per second: the
    compulsory bytes, and all sectors that L1 transfers. It returns the axes of both.

    Parameters
    ----------
    sweep
        Measurements of one variant, each with another value of the option.
    option
        The option, for example ``"stride"``.
    model
        The load of a warp, for a value of the option.
    axes
        The two axes to draw on. Default: a new figure.

    Raises
    ------
    ValueError
        If a measurement has no counters, or its problem does not have the option.
    """
    points = sorted((_Point.of(m, option, model) for m in sweep), key=lambda point: point.x)
    if axes is None:
        axes = tuple(plt.figure(figsize=(10.0, 6.4), layout="constrained").subplots(2, 1))
    upper, lower = map(open_canvas, axes)
    _utilisation(upper, points)
    _bandwidth(lower, points, sweep.machine)
    lower.ax.set_xlabel(f"{option.capitalize()} in elements", fontsize=lower.font)
    return axes


class _Point(NamedTuple):
    """One measurement of the chart: shares are fractions, rates are in bytes per second."""

    x: int
    predicted: float
    counted: float
    of_dram: float | None
    useful: float
    moved: float

    @classmethod
    def of(cls, m: Measurement, option: str, model: Callable[[int], Sectors]) -> _Point:
        value, profile = m.problem.options.get(option), m.profile
        if not isinstance(value, int):
            raise ValueError(f"problem must have the option {option!r}, got {m.problem}")
        if profile is None:
            raise ValueError(f"measurement must have counters, got none for {option} {value}")
        load = model(value)
        used = profile["load_requests"] * load.used_bytes / load.requests
        read = profile.get("dram_read_bytes")
        sectors = profile["load_sectors"] + profile["store_sectors"]
        return cls(
            x=value,
            predicted=load.utilisation,
            counted=used / (SECTOR * profile["load_sectors"]),
            of_dram=used / read if read else None,
            useful=m.bytes_per_second,
            moved=SECTOR * sectors / m.seconds,
        )


def _utilisation(canvas: Canvas, points: Sequence[_Point]) -> None:
    ax, xs = canvas.ax, [point.x for point in points]
    ax.plot(xs, [point.predicted for point in points], color=_MODEL, lw=1.5, zorder=2)
    ax.plot(xs, [point.counted for point in points], "o", color=_COUNTED, ms=5, zorder=3)
    legend = [entry("model, per sector", color=_MODEL, ls="-")]
    legend.append(entry("counted, per loaded sector", color=_COUNTED, marker="o"))
    read = [(point.x, point.of_dram) for point in points if point.of_dram is not None]
    if read:
        style: dict[str, Any] = {"color": FADED, "ls": ":", "marker": "D", "ms": 4, "mfc": "none"}
        ax.plot(*zip(*read, strict=True), zorder=1, **style)
        legend.append(entry("counted, per byte read from DRAM", **style))
    _frame(canvas, legend)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    ax.set_ylabel("Bytes used / bytes moved", fontsize=canvas.font)
    furthest = max(points, key=lambda point: abs(point.counted / point.predicted - 1))
    off = abs(furthest.counted / furthest.predicted - 1)
    canvas.title(
        f"Utilisation: the counters differ from the model by at most {percent(off)}", "loads"
    )


def _bandwidth(canvas: Canvas, points: Sequence[_Point], machine: Machine | None) -> None:
    ax, xs = canvas.ax, [point.x for point in points]
    ax.plot(xs, [point.useful for point in points], "o-", color=_USEFUL, ms=5, zorder=3)
    ax.plot(xs, [point.moved for point in points], "s--", color=MEMORY, ms=4, mfc="none", zorder=2)
    legend = [entry("compulsory bytes", color=_USEFUL, marker="o", ls="-")]
    legend.append(
        entry("sectors of loads and stores", color=MEMORY, marker="s", mfc="none", ls="--")
    )
    if machine:
        ax.axhline(machine.roof, color=canvas.ink, lw=1.0, ls=":", zorder=1)
        words = f"DRAM copy {quantity(machine.roof, 'B/s')}"
        legend.append(entry(words, color=canvas.ink, ls=":"))
    _frame(canvas, legend)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, "B/s")))
    ax.set_ylabel("Bytes per second", fontsize=canvas.font)
    first, last = points[0], points[-1]
    rates = " to ".join(quantity(point.useful, "B/s") for point in (first, last))
    canvas.title(f"Compulsory bytes per second: {rates}", "loads and stores")


def _frame(canvas: Canvas, legend: Sequence[Line2D]) -> None:
    ax = canvas.ax
    ax.set_ylim(0, 1.15 * ax.get_ylim()[1])  # the legend is above all data and the roof
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=17, steps=[1, 2, 4, 8, 10]))
    ax.tick_params(labelsize=canvas.font)
    ax.grid(visible=True, axis="y", lw=0.4, color="0.9")
    ax.legend(
        handles=legend,
        fontsize=canvas.font,
        frameon=False,
        loc="upper right",
        ncols=len(legend),
        borderaxespad=0,
    )
