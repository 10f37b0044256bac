"""Charts and pictures of the notebooks that the package does not have, and their axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from adokernels.charts.canvas import FADED, MEMORY, Canvas
from adokernels.patterns.sectors import Sectors
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import SECTOR
from adokernels.records.sweep import Sweep
from adokernels.text import percent, quantity

_MODEL, _COUNTED, _USEFUL = "#0072B2", "#D55E00", "#009E73"
_GRID, _TILE, _WARP = "#808080", "#56B4E9", "#D55E00"
_ISSUED, _WAITING, _EMPTY, _BOTH = "#0072B2", "#D9D9D9", "#FFFFFF", "#009E73"
_ELIGIBLE = "#F0E442"
_FIRST, _SECOND, _HALO, _LINE = "#56B4E9", "#E69F00", "#CFE8F7", "#606060"
_FONT = 9
#: Cycles that the timeline of warps shows, relative to the latency.
_SHOWN = 2.5


def new_canvas(height: float, width: float = 10.0) -> Canvas:
    """A canvas on the axes of a new figure, without the upper and the right line of the frame."""
    ax = plt.figure(figsize=(width, height), layout="constrained").add_subplot()
    return open_canvas(ax)


def open_canvas(ax: Axes) -> Canvas:
    """A canvas on axes, without the upper and the right line of the frame."""
    ax.spines[["top", "right"]].set_visible(False)
    return Canvas(ax, annotate=True)


def label_axis(axis: Axis, label: str, unit: str = "", *, font: float | None = None) -> None:
    """Label an axis, and its ticks with quantities of this unit; a share is a percentage."""
    if unit == "%":
        axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    elif unit:
        axis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, unit)))
    axis.set_label_text(label)
    if font:
        axis.label.set_fontsize(font + 1)
        axis.set_tick_params(labelsize=font)


# --- A routine over a stride or an offset ---------------------------------------------------------


def stride_chart(sweep: Sweep, option: str, model: Callable[[int], Sectors]) -> tuple[Axes, Axes]:
    """Draw the utilisation of loaded sectors and the bytes per second over an option.

    The upper chart has the utilisation that the model predicts, the counted utilisation, and the
    utilisation of the bytes read from DRAM. The lower chart has the bytes per second: the
    compulsory bytes, and all sectors that L1 transfers. Returns the axes of both charts.

    Parameters
    ----------
    sweep
        Measurements of one variant, each with another value of the option.
    option
        The option, for example ``"stride"``.
    model
        The load of a warp, for a value of the option.

    Raises
    ------
    ValueError
        If a measurement has no counters, or its problem does not have the option.
    """
    points = sorted((_point(m, option, model) for m in sweep), key=lambda point: point.x)
    axes: tuple[Axes, Axes] = tuple(
        plt.figure(figsize=(10.0, 6.4), layout="constrained").subplots(2, 1)
    )
    upper, lower = map(open_canvas, axes)
    _utilisation(upper, points)
    _bandwidth(lower, points, sweep.machine)
    for canvas in (upper, lower):
        ax = canvas.ax
        ax.set_ylim(0, 1.15 * ax.get_ylim()[1])  # the legend is above all data and the roof
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=17, steps=[1, 2, 4, 8, 10]))
        ax.tick_params(labelsize=canvas.font)
        ax.grid(visible=True, axis="y", lw=0.4, color="0.9")
        style: dict[str, Any] = {"fontsize": canvas.font, "frameon": False, "borderaxespad": 0}
        ax.legend(loc="upper right", ncols=len(ax.lines), **style)
    upper.ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    label_axis(lower.ax.xaxis, f"{option.capitalize()} in elements", font=lower.font)
    return axes


class _Point(NamedTuple):
    """One measurement of the chart: shares are fractions, rates are in bytes per second."""

    x: int
    predicted: float
    counted: float
    of_dram: float | None
    useful: float
    moved: float


def _point(m: Measurement, option: str, model: Callable[[int], Sectors]) -> _Point:
    x, counters = m.problem.options.get(option), m.profile
    if not isinstance(x, int):
        raise ValueError(f"problem must have the option {option!r}, got {m.problem}")
    if counters is None:
        raise ValueError(f"measurement must have counters, got none for {option} {x}")
    load = model(x)
    used = counters["load_requests"] * load.used_bytes / load.requests
    loaded, read = counters["load_sectors"], counters.get("dram_read_bytes")
    moved = SECTOR * (loaded + counters["store_sectors"]) / m.seconds
    of_dram = used / read if read else None
    counted = used / (SECTOR * loaded)
    return _Point(x, load.utilisation, counted, of_dram, m.bytes_per_second, moved)


def _utilisation(canvas: Canvas, points: Sequence[_Point]) -> None:
    ax, xs = canvas.ax, [point.x for point in points]
    predicted, counted = ([getattr(p, name) for p in points] for name in ("predicted", "counted"))
    ax.plot(xs, predicted, color=_MODEL, lw=1.5, zorder=2, label="model, per sector")
    ax.plot(xs, counted, "o", color=_COUNTED, ms=5, zorder=3, label="counted, per loaded sector")
    read = [(point.x, point.of_dram) for point in points if point.of_dram is not None]
    if read:
        style: dict[str, Any] = {"color": FADED, "ls": ":", "marker": "D", "ms": 4, "mfc": "none"}
        label = "counted, per byte read from DRAM"
        ax.plot(*zip(*read, strict=True), zorder=1, label=label, **style)
    label_axis(ax.yaxis, "Bytes used / bytes moved", "%", font=canvas.font)
    off = max(abs(point.counted / point.predicted - 1) for point in points)
    canvas.title(
        f"Utilisation: the counters differ from the model by at most {percent(off)}", "loads"
    )


def _bandwidth(canvas: Canvas, points: Sequence[_Point], machine: Machine | None) -> None:
    ax, xs = canvas.ax, [point.x for point in points]
    useful, moved = ([getattr(p, name) for p in points] for name in ("useful", "moved"))
    ax.plot(xs, useful, "o-", color=_USEFUL, ms=5, zorder=3, label="compulsory bytes")
    label = "sectors of loads and stores"
    ax.plot(xs, moved, "s--", color=MEMORY, ms=4, mfc="none", zorder=2, label=label)
    if machine:
        words = f"DRAM copy {quantity(machine.roof, 'B/s')}"
        ax.axhline(machine.roof, color=canvas.ink, lw=1.0, ls=":", zorder=1, label=words)
    label_axis(ax.yaxis, "Bytes per second", "B/s", font=canvas.font)
    rates = " to ".join(quantity(useful[end], "B/s") for end in (0, -1))
    canvas.title(f"Compulsory bytes per second: {rates}", "loads and stores")


# --- A transpose through a tile in shared memory --------------------------------------------------


def draw_tile_transpose() -> Figure:
    """Draw the three parts of a transpose through a tile in shared memory.

    The elements that one warp accesses are red. A warp copies a row of the matrix tile to a row of
    the shared-memory tile. After a barrier, it copies a column of the shared-memory tile to a row
    of the result. Both global accesses are coalesced.
    """
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    titles = (
        "1. Load along the rows of a: coalesced",
        "2. The block is mirrored at the diagonal",
        "3. Store along the rows of out: coalesced",
    )
    limits = ((-0.3, 12), (-3, 9), (-0.3, 12))  # in tiles of the matrix
    for ax, title, xlim in zip(axes, titles, limits, strict=True):
        ax.set_title(title, fontsize=10)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set(xlim=xlim, ylim=(6.96, -0.3))  # rows count downwards, as in a matrix
    load, mirror, store = axes
    for ax, left, row, name in ((load, 0, 1, "a"), (mirror, 0, 4, "out"), (store, 5.7, 4, "out")):
        _box(ax, left + 5 - row, row, _TILE, 1, 1, ec="none")
        _grid(ax, left, 0, 6, 6, f"{name} (global memory)")
    for ax, left in ((load, 8.1), (store, 0)):
        _box(ax, left, 1.2, _TILE, 3.6, 3.6, ec="none", alpha=0.5)
        _grid(ax, left, 1.2, 3.6, 4, "tile (shared memory)")
    for ax, x, y, width, height in (
        *((load, 4, 1.25, 1, 0.25), (load, 8.1, 2.1, 3.6, 0.9)),
        *((store, 0.9, 1.2, 0.9, 3.6), (store, 6.7, 4.25, 1, 0.25)),
    ):
        _box(ax, x, y, _WARP, width, height, ec="none")
    mirror.plot([0, 6], [0, 6], color=_GRID, ls="--")
    mirror.add_patch(Rectangle((4, 1), 1, 1, fill=False, ec=_TILE, ls="--", lw=1.5))
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 14, "color": "#404040"}
    load.add_patch(FancyArrowPatch((6.12, 1.5), (7.92, 2.7), **arrow))
    mirror.add_patch(FancyArrowPatch((4.4, 2.1), (2.1, 4.38), **arrow))
    store.add_patch(FancyArrowPatch((3.78, 3.3), (6.52, 4.5), **arrow))
    return figure


def _grid(ax: Axes, left: float, top: float, size: float, cells: int, name: str) -> None:
    """The lines of a square of cells, and its name below."""
    for i in range(cells + 1):
        at = i * size / cells
        ax.plot([left, left + size], [top + at, top + at], color=_GRID, lw=0.7)
        ax.plot([left + at, left + at], [top, top + size], color=_GRID, lw=0.7)
    ax.text(left + size / 2, top + size + 0.6, name, ha="center", va="center", fontsize=9)


def _box(
    ax: Axes, x: float, y: float, colour: str, width: float = 1, height: float = 1, **style: Any
) -> None:
    ax.add_patch(Rectangle((x, y), width, height, fc=colour, **{"ec": _LINE, "lw": 0.4, **style}))


# --- The execution of warps, and the windows of a filter ------------------------------------------


def draw_latency(latency: int, warps: Sequence[int]) -> Figure:
    """Draw the warps of one scheduler over time, for several numbers of warps.

    A warp is eligible again `latency` cycles after its instruction. The scheduler issues one
    instruction per cycle. The row above the warps shows its issue slots, used or empty.
    """
    heights = [count + 2.5 for count in warps]
    figure, found = plt.subplots(
        len(warps), 1, figsize=(10, 0.9 + 0.24 * sum(heights)), layout="constrained",
        height_ratios=heights, squeeze=False,
    )  # fmt: skip
    cycles = int(_SHOWN * latency)
    for ax, count in zip(found[:, 0], warps, strict=True):
        period = max(latency, count)
        for cycle in range(cycles):
            _box(ax, cycle, 0, _ISSUED if cycle % period < count else _EMPTY)
            for warp in range(count):
                since = (cycle - warp) % period
                waiting = _WAITING if since < latency else _ELIGIBLE
                _box(ax, cycle, warp + 1.5, waiting if since else _ISSUED)
        rows = ["issue slots", *(f"warp {warp}" for warp in range(count))]
        ax.set_yticks([0.5, *(warp + 2 for warp in range(count))], rows, fontsize=_FONT - 1)
        ax.set(xlim=(0, cycles), ylim=(count + 1.6, -0.1), xticks=range(0, cycles + 1, latency))
        share = min(1.0, count / latency)
        used = f"{percent(share)} of the issue slots used"
        words = f"{count} warps, a latency of {latency} cycles: {used}"
        ax.set_title(words, fontsize=_FONT + 1, loc="left")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    found[-1, 0].set_xlabel("cycle")
    colours = {"issues": _ISSUED, "waits": _WAITING, "eligible, another is selected": _ELIGIBLE}
    key = [Patch(fc=colour, ec=_LINE, lw=0.4, label=words) for words, colour in colours.items()]
    figure.legend(handles=key, loc="outside lower right", ncols=3, frameon=False, fontsize=_FONT)
    return figure


def draw_windows(block: tuple[int, int], radius: int) -> Figure:
    """Draw the windows of two neighbouring pixels, and the tile of a block with its halo.

    `block` is the number of columns and rows of a block, and `radius` the radius of the filter.
    """
    side = 2 * radius + 1
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 3.6), layout="constrained", width_ratios=(1, 2)
    )
    for row in range(side):
        for col in range(side + 1):
            colour = _FIRST if col == 0 else _SECOND if col == side else _BOTH
            _box(left, col, row, colour)
    for col in (radius, radius + 1):
        left.add_patch(Rectangle((col, radius), 1, 1, fill=False, ec="black", lw=2))
    left.set(xlim=(-0.2, side + 1.2), ylim=(side + 0.2, -0.2))
    left.set_title(
        f"Two neighbouring pixels share {side * (side - 1)} of their {side * side} inputs",
        fontsize=_FONT + 1, loc="left",
    )  # fmt: skip
    cols, rows = block
    width, height = cols + 2 * radius, rows + 2 * radius
    for row in range(height):
        for col in range(width):
            inside = radius <= row < radius + rows and radius <= col < radius + cols
            _box(right, col, row, _BOTH if inside else _HALO)
    right.set(xlim=(-0.2, width + 0.2), ylim=(height + 0.2, -0.2))
    right.set_title(
        f"A block of {cols} x {rows} pixels and its halo of {radius}: {width * height} pixels are "
        f"loaded once\ninstead of {side * side} x {cols * rows} = {side * side * cols * rows}",
        fontsize=_FONT + 1, loc="left",
    )  # fmt: skip
    for ax in (left, right):
        ax.set_aspect("equal")
        ax.set_axis_off()
    return figure
