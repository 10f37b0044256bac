"""Pictures of the execution of warps, of pipes, and of the windows of a filter."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from adokernels.records.measurement import Measurement
from adokernels.text import percent

_ISSUED, _WAITING, _EMPTY, _BOTH = "#0072B2", "#D9D9D9", "#FFFFFF", "#009E73"
_ELIGIBLE = "#F0E442"
_FIRST, _SECOND, _HALO, _LINE = "#56B4E9", "#E69F00", "#CFE8F7", "#606060"
_FONT = 9
#: Cycles that the timeline shows, relative to the latency.
_SHOWN = 2.5


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


def draw_pipes(measurements: Sequence[Measurement], pipes: Sequence[str]) -> Figure:
    """Draw the schedulers and the pipes of a multiprocessor, filled to their utilisation.

    `pipes` are the names of the counted pipes, for example ``"lsu"``.
    """
    figure, found = plt.subplots(
        len(measurements), 1, figsize=(10, 1.7 * len(measurements) + 0.3), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for ax, m in zip(found[:, 0], measurements, strict=True):
        assert m.profile is not None
        shares = [("issue slots of 4 schedulers", m.profile["issue_active"])]
        shares += [(f"{name.upper()} pipe", m.profile[f"pipe_{name}"]) for name in pipes]
        for place, (name, share) in enumerate(shares):
            wide = 1.6 if place == 0 else 0.85
            start = 0 if place == 0 else place + 1.0
            ax.add_patch(Rectangle((start, 0), wide, 1, fc=_WAITING, ec=_LINE, lw=0.8))
            ax.add_patch(Rectangle((start, 0), wide, share, fc=_ISSUED, ec="none"))
            ax.text(start + wide / 2, 1.06, name, ha="center", va="bottom", fontsize=_FONT)
            ax.text(
                start + wide / 2, 0.5, percent(share), ha="center", va="center", fontsize=_FONT + 1,
                bbox={"fc": "white", "ec": "none", "alpha": 0.8, "pad": 1.5},
            )  # fmt: skip
        ax.annotate("", (1.95, 0.5), (1.62, 0.5), arrowprops={"arrowstyle": "-|>", "color": _LINE})
        ax.set(xlim=(-0.05, len(shares) + 1.0), ylim=(-0.05, 1.3))
        busiest = max(shares, key=lambda pair: pair[1])
        ax.set_title(f"{m.variant}: {busiest[0]}, {percent(busiest[1])}", fontsize=10, loc="left")
        ax.set_axis_off()
    return figure


def _box(ax: Axes, x: float, y: float, colour: str) -> None:
    ax.add_patch(Rectangle((x, y), 1, 1, fc=colour, ec=_LINE, lw=0.4))
