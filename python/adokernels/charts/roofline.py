"""Roofline charts: the performance of a ladder below the ceilings of the machine.

Sources: Williams, Waterman & Patterson, "Roofline", CACM 2009; Yang, Kurth & Williams,
"Hierarchical Roofline Analysis for GPUs", CCPE 2020.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import EngFormatter, FuncFormatter, NullFormatter

from adokernels.charts.bandwidth import draw_bandwidth, level_bandwidths
from adokernels.charts.canvas import FADED, Canvas, Point, entry, level_entries, level_style
from adokernels.measuring.records import Ceiling, Machine, Measurement, Sweep, steps
from adokernels.tables.numbers import number, percent, prefix, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

#: A point may exceed a ceiling by this factor without a warning, because ceilings are measured.
_TOLERANCE = 1.03
#: A problem this many times larger than the last-level cache is limited by memory bandwidth.
_BEYOND_CACHE = 4
#: Intensities that differ by less than this factor count as equal.
_SAME_INTENSITY = 1.01
#: With more points than this, labels are numbers and a legend lists the names.
_MAX_NAMES = 6
#: Minimum length of a step with an arrow, in points.
_SHORTEST_ARROW = 15.0
_VARIANT, _PEER = "o", "P"


def roofline(
    what: Sweep | Measurement | Sequence[Measurement] | Machine,
    *,
    ax: Axes | None = None,
    machine: Machine | None = None,
    annotate: bool = True,
) -> Axes:
    """Draw measurements under the ceilings of their machine.

    If the variants execute FLOPs, the chart is a roofline: FLOPs per second over arithmetic
    intensity, both logarithmic. Hollow markers show the algorithmic intensity (executed FLOPs over
    requested bytes), filled markers the intensity that counters measured at each memory level. If
    the instructions of the fastest variant are counted, a dotted roof shows the limit of their
    FMA mix.

    Without FLOPs, or if all variants are memory-bound with the same intensity, it is a bar chart:
    compulsory bytes over time, one bar per variant, with the bandwidth ceilings.

    Peers of a sweep have a different marker and are not steps. Their executed FLOPs and requested
    bytes are unknown, so they are shown with the useful FLOPs and compulsory bytes.

    Parameters
    ----------
    what
        A sweep, one or several measurements, or a machine alone.
    ax
        The axes to draw on; by default those of a new figure.
    machine
        The ceilings; by default those of the sweep.
    annotate
        Whether to label points and steps, and to add a legend.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If there are FLOPs but no machine with ceilings, or there is nothing to draw.
    """
    sweep = _as_sweep(what, machine)
    machine, everything = sweep.machine, (*sweep.measurements, *sweep.peers)
    computes = not len(sweep) or any(m.executed_flops for m in sweep)
    if machine and _same_intensity(sweep.variants, machine):
        computes = False
    if computes and not (machine and machine.of_kind("compute") and level_bandwidths(machine)):
        raise ValueError("a roofline needs the ceilings of a machine: pass machine=")
    if ax is None:
        ax = plt.figure(layout="constrained").add_subplot()
    canvas = Canvas(ax, annotate=annotate)
    wrong = [m for m in everything if machine and above_roof(m, machine)]
    if computes and machine:
        _draw_roofline(canvas, sweep, machine, wrong)
    else:
        draw_bandwidth(canvas, sweep, wrong)
    parts = list(dict.fromkeys(f"{m.routine}, {m.problem}, {m.cache}" for m in sweep))
    title = ", ".join([*parts, *([machine.title] if machine else [])])
    ax.set_title(title, fontsize=canvas.font + 2, wrap=True)
    return ax


def above_roof(measurement: Measurement, machine: Machine) -> bool:
    """Whether a measurement exceeds a ceiling of the machine, so that a number must be wrong.

    The comparison covers executed and measured FLOPs, bytes counted at a level, and compulsory
    bytes if the caches were cold and are much smaller than the problem. Requested bytes may exceed
    a ceiling, because caches serve them.
    """
    m = measurement
    cache = machine.context.get("last_level_cache_bytes", 0)
    streams = m.cache == "cold" and m.bytes > _BEYOND_CACHE * cache
    rates = [(max(m.executed_flops, m.counted_flops or 0), machine.peak(m.problem.precision))]
    traffic = [*m.counted_bytes.items(), *([("DRAM", m.bytes)] if streams else [])]
    rates += [(moved, _fastest(machine, level)) for level, moved in traffic]
    return any(roof and amount / m.seconds > _TOLERANCE * roof for amount, roof in rates)


def _mix(m: Measurement, machine: Machine) -> Ceiling | None:
    """The ceiling of a measurement's instruction mix, if the instructions are counted.

    It exists only on a GPU, where one pipe executes all floating-point instructions. CPUs may have
    separate pipes for additions.
    """
    share, level = m.fma_share, m.problem.precision
    if share is None or m.device != "cuda":
        return None
    for c in machine.of_kind("compute"):
        if (c.level, c.operation) == (level, "fma"):
            words = f"with {percent(share)} FMA"
            limit = c.measured * (1 + share) / 2
            return dataclasses.replace(c, operation=words, measured=limit, theoretical=None)
    return None


def _same_intensity(variants: Sequence[Measurement], machine: Machine) -> bool:
    """Whether all points would have the same intensity, in the memory-bound region."""
    intensities = [m.intensity for m in variants]
    if len(variants) < 2 or any(m.counted_bytes for m in variants):
        return False
    highest = [machine.peak(m.problem.precision) or 0.0 for m in variants]
    same = max(intensities) <= _SAME_INTENSITY * min(intensities)
    return same and max(intensities) * machine.roof < min(highest)


def _as_sweep(
    what: Sweep | Measurement | Sequence[Measurement] | Machine, machine: Machine | None
) -> Sweep:
    if isinstance(what, Machine):
        return Sweep(routine="", measurements=(), machine=what)
    if isinstance(what, Measurement):
        what = (what,)
    if not len(what):
        raise ValueError("what must contain at least one measurement, got none")
    if isinstance(what, Sweep):
        return dataclasses.replace(what, machine=machine or what.machine)
    return Sweep(routine="", measurements=tuple(what), machine=machine)


def _fastest(machine: Machine, level: str) -> float:
    ours = (c.measured for c in machine.of_kind("bandwidth") if c.level == level)
    return max(ours, default=0.0)


def _draw_roofline(
    canvas: Canvas, sweep: Sweep, machine: Machine, wrong: Sequence[Measurement]
) -> None:
    everything = (*sweep.measurements, *sweep.peers)
    points = [m for m in everything if m.executed_flops and m.requested_bytes]
    _frame(canvas, machine, points)
    reading = sweep.roof is not None and sweep.roof > _TOLERANCE * machine.roof
    roofs = _Roofs(machine, points, sweep.variants, reading=reading)
    _draw_roofs(canvas, roofs)
    for m in points:
        _point(canvas, m, _PEER if m in sweep.peers else _VARIANT)
    # Labels are placed in the following order: those with the fewest candidate places come first.
    canvas.badge([(m.variant, _places(m)[0]) for m in points if m in wrong])
    if canvas.annotate:
        _name_points(canvas, sweep, points, roofs)
        _compulsory(canvas, points)
        _label_roofs(canvas, roofs)
    _shade(canvas, roofs)


def _frame(canvas: Canvas, machine: Machine, points: Sequence[Measurement]) -> None:
    """Set limits in whole decades that depend on the machine alone, unless points lie outside.

    All charts of a machine then have the same axes and can be compared side by side.
    """
    speeds = [v for c in machine.of_kind("bandwidth") for v in _values(c)]
    peaks = [v for c in machine.of_kind("compute") for v in _values(c)]
    left = math.floor(math.log10(min(peaks) / max(speeds))) - 1
    right = math.ceil(math.log10(max(peaks) / min(speeds))) + 1
    bottom = math.floor(left + math.log10(min(speeds)))
    top = math.ceil(math.log10(max(peaks)) + 0.15)  # room for the label of the highest roof
    places = np.log10([place for m in points for place in _places(m)]).reshape(-1, 2)
    low = np.floor(np.vstack([places, [[left, bottom]]]).min(axis=0))
    high = np.ceil(np.vstack([places, [[right, top]]]).max(axis=0))
    ax = canvas.ax
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(10.0 ** low[0], 10.0 ** high[0])
    ax.set_ylim(10.0 ** low[1], 10.0 ** high[1])
    ax.set_xlabel("Arithmetic intensity [FLOP/byte]", fontsize=canvas.font + 1)
    ax.set_ylabel("Performance [FLOP/s]", fontsize=canvas.font + 1)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.yaxis.set_major_formatter(EngFormatter(sep=" "))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.tick_params(labelsize=canvas.font)


class _Roofs:
    """The ceilings to draw: one bandwidth per level, and the precisions of the points."""

    def __init__(
        self,
        machine: Machine,
        points: Sequence[Measurement],
        variants: Sequence[Measurement],
        *,
        reading: bool,
    ) -> None:
        self.bandwidths = level_bandwidths(machine, reading=reading)
        self.compute = machine.of_kind("compute")
        every = {c.level for c in self.compute}
        levels = {m.problem.precision for m in points} or every
        self.levels = levels if levels <= every else every
        self.top = max(c.measured for c in self.compute)
        self.fastest = max(c.measured for c in self.bandwidths)
        ours = sorted((c.measured, c.level) for c in self.compute if c.level in self.levels)
        self.peaks = {level: value for value, level in ours}.values()  # the highest of each level
        mixed = min(variants, key=lambda m: m.seconds, default=None)
        self.mix = _mix(mixed, machine) if mixed else None
        self.mixed_by = mixed.variant if mixed else ""


def _draw_roofs(canvas: Canvas, roofs: _Roofs) -> None:
    """Draw the ceilings, and the ridge points where they meet."""
    left, right = canvas.ax.get_xlim()
    for c in roofs.bandwidths:
        for value, style in _pens(c):
            xs = [left, roofs.top / value]
            canvas.line(xs, [x * value for x in xs], color=level_style(c.level)[0], **style)
    for c in roofs.compute:
        for value, style in _pens(c):
            xs = [value / roofs.fastest, right]
            canvas.line(xs, [value, value], color=_ink(canvas, c, roofs), **style)
    if roofs.mix:
        value = roofs.mix.measured
        canvas.line([value / roofs.fastest, right], [value, value], ls=":")
    for top, c in itertools.product(roofs.peaks, roofs.bandwidths):
        # Labels already avoid the lines, so they need not avoid these markers.
        style = {
            "marker": "o",
            "ms": 3.5,
            "color": level_style(c.level)[0],
            "mec": canvas.ink,
            "mew": 0.5,
        }
        canvas.ax.plot([top / c.measured], [top], zorder=4, **style)


def _point(canvas: Canvas, m: Measurement, shape: str) -> None:
    (x, y), *measured = _places(m)
    for level, place in zip(m.counted_bytes, measured, strict=True):
        colour, marker = level_style(level)
        canvas.ax.plot([x, place[0]], [y, place[1]], color=colour, lw=0.7, zorder=2.5)
        canvas.mark(*place, marker=marker, color=colour, mec=canvas.paper, mew=0.5)
    low, high = (m.executed_flops / t for t in reversed(m.interval))
    canvas.error_bar(x, y, yerr=[[y - low], [high - y]])
    edge = FADED if m.ceiling else canvas.ink
    canvas.mark(x, y, marker=shape, mfc=canvas.paper, mec=edge, mew=1.2)


def _name_points(
    canvas: Canvas, sweep: Sweep, points: Sequence[Measurement], roofs: _Roofs
) -> None:
    """Label the points and the steps between them, and add the legend."""
    previous = steps(m for m in points if m not in sweep.peers)
    arrows = {m: before for m, before in previous.items() if _long_enough(canvas, before, m)}
    # The legend gives the speed-up of steps that are too short for an arrow with a label.
    numbered = len(points) > _MAX_NAMES or len(arrows) < len(previous)
    if numbered:
        canvas.legend(
            [
                entry(_name(m, previous.get(m)), marker=f"${i}$", color=canvas.ink, mew=0.2, ms=4.5)
                for i, m in enumerate(points, 1)
            ],
            ("upper left", "lower right", "lower left"),
        )
    _key(canvas, sweep, points, roofs)
    for m, before in arrows.items():
        start, end = _places(before)[0], _places(m)[0]
        canvas.arrow(start, end, 4, canvas.ink)
        canvas.labels.lines.append(np.array([start, end]))
    for m, before in arrows.items():
        (x, y), (end_x, end_y) = _places(before)[0], _places(m)[0]
        middle = (math.sqrt(x * end_x), math.sqrt(y * end_y))
        verdict, gain, _ = m.compare(before)
        colour, words = canvas.step_ink(verdict), ratio(gain)
        canvas.callout(words, middle, (5, 9, 14, 20), color=colour, fontweight="bold")
    for i, m in enumerate(points, 1):
        name = str(i) if numbered else m.variant
        canvas.callout(name, _places(m)[0], (6, 12, 20, 30, 45))


def _key(canvas: Canvas, sweep: Sweep, points: Sequence[Measurement], roofs: _Roofs) -> None:
    hollow = {"mfc": canvas.paper, "mec": canvas.ink}
    key = []
    if points:
        key.append(entry("executed FLOPs / requested bytes", marker=_VARIANT, **hollow))
    if any(m in sweep.peers for m in points):
        key.append(entry("peer, useful FLOPs / compulsory bytes", marker=_PEER, **hollow))
    key += level_entries(level for m in points for level in m.counted_bytes)
    key.append(entry("measured ceiling", color=canvas.ink, ls="-", lw=1.3))
    key.append(entry("theoretical", color=canvas.ink, ls="--", lw=0.8))
    if roofs.mix:
        words = f"ceiling of the mix in {roofs.mixed_by}"
        key.append(entry(words, color=canvas.ink, ls=":", lw=1.0))
    missing = [m.variant for m in (*sweep, *sweep.peers) if m not in points]
    if missing:
        key.append(entry(f"not shown, no FLOPs: {', '.join(missing)}"))
    canvas.legend(key, ("lower right", "upper left", "lower left", "center right"))


def _compulsory(canvas: Canvas, points: Sequence[Measurement]) -> None:
    bottom, top = canvas.ax.get_ylim()
    shifts = {"right": canvas.shift(-2), "left": canvas.shift(2)}
    for x in dict.fromkeys(m.flops / m.bytes for m in points if m.flops and m.bytes):
        canvas.line([x, x], [bottom, top], ls=":")
        places = [
            {
                "y": bottom * (top / bottom) ** up,
                "ha": ha,
                "transform": canvas.ax.transData + shift,
            }
            for up in (0.02, 0.1, 0.2, 0.3, 0.4, 0.5)
            for ha, shift in shifts.items()
        ]
        canvas.label(f"compulsory {number(x)} FLOP/B", places, x=x, va="bottom", rotation=90)


def _label_roofs(canvas: Canvas, roofs: _Roofs) -> None:
    """Label the roofs: along diagonal lines, and at the right end of horizontal lines."""
    left, right = np.log10(canvas.ax.get_xlim())
    bottom = math.log10(canvas.ax.get_ylim()[0])
    for c in roofs.bandwidths:
        height = math.log10(c.measured)
        start, end = max(left, bottom - height), math.log10(roofs.top) - height
        spots = [start + share * (end - start) for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)]
        _along(canvas, c, 1, spots, ha="center", color=level_style(c.level)[0])
    spots = [right - share * (right - left) for share in (0.01, *np.arange(0.08, 0.6, 0.04))]
    ceilings = [*([roofs.mix] if roofs.mix else []), *roofs.compute]
    for c in sorted(ceilings, key=lambda c: c.level not in roofs.levels):
        # The label of another precision's roof may be farther away, beyond a neighbouring label.
        aways = (1.5,) if c.level in roofs.levels else (1.5, 12.0)
        _along(canvas, c, 0, spots, aways, ha="right", color=_ink(canvas, c, roofs))


def _along(
    canvas: Canvas,
    c: Ceiling,
    slope: int,
    spots: Sequence[float],
    aways: Sequence[float] = (1.5,),
    **style: Any,
) -> None:
    """Label a roof above or below its line, rotated to its slope.

    `spots` are candidate positions in decades, `aways` candidate distances in points.
    """
    decades = canvas.ax.transLimits + canvas.ax.transAxes  # a roof is straight in these coordinates
    values = np.log10(_values(c))
    size = canvas.font - 0.5
    text = canvas.text(_roof_name(c), rotation_mode="anchor", fontsize=size, **style)

    def put(x: float, va: str, value: float, rise: float) -> None:
        # The angle in pixels depends on the current size of the chart.
        start, end = decades.transform([(0, 0), (1, slope)])
        angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
        transform = decades + canvas.shift(0, rise)
        text.set(position=(x, slope * x + value), va=va, transform=transform, rotation=angle)

    places = [
        partial(put, x, va, value, rise)
        for away in aways
        for x in spots
        for va, value, rise in (("bottom", values.max(), away), ("top", values.min(), -away))
    ]
    canvas.labels.add(text, places)


def _shade(canvas: Canvas, roofs: _Roofs) -> None:
    """Shade the memory-bound and compute-bound regions of the slowest memory level."""
    ridges = [top / roofs.bandwidths[0].measured for top in roofs.peaks]
    left, right = canvas.ax.get_xlim()
    regions = (
        ("memory-bound", left, min(ridges), "#0072B2"),
        ("compute-bound", max(ridges), right, "#D55E00"),
    )
    for name, start, end, colour in regions:
        canvas.ax.axvspan(start, end, color=colour, alpha=0.05, lw=0, zorder=0)
        if canvas.annotate:
            places = [
                {"position": (start ** (1 - share) * end**share, y)}
                for y in (0.03, 0.08, 0.25, 0.3, 0.35, 0.4, 0.97)
                for share in (0.5, 0.3, 0.7, 0.15, 0.85)
            ]
            transform = canvas.ax.get_xaxis_transform()
            style = {"ha": "center", "va": "center", "color": colour, "transform": transform}
            canvas.label(name, places, **style)


def _places(m: Measurement) -> list[Point]:
    """Positions of a measurement: first the algorithmic one, then one per measured level."""
    flops = m.counted_flops or m.executed_flops
    measured = [(flops / moved, flops / m.seconds) for moved in m.counted_bytes.values()]
    return [(m.intensity, m.flops_per_second), *measured]


def _name(m: Measurement, before: Measurement | None) -> str:
    return m.variant if before is None else f"{m.variant} ({ratio(m.compare(before)[1])})"


def _long_enough(canvas: Canvas, before: Measurement, m: Measurement) -> bool:
    limits = np.log10([canvas.ax.get_xlim(), canvas.ax.get_ylim()])
    step = np.diff(np.log10([_places(before)[0], _places(m)[0]]), axis=0)[0]
    length = np.hypot(*(step / np.diff(limits)[:, 0] * (canvas.width, canvas.height)))
    return bool(length > _SHORTEST_ARROW)


def _values(ceiling: Ceiling) -> list[float]:
    return [v for v in (ceiling.measured, ceiling.theoretical) if v]


def _pens(ceiling: Ceiling) -> list[tuple[float, dict[str, Any]]]:
    solid = {"lw": 1.5 if ceiling.operation != "add" else 1.0}
    dashed = {"lw": 0.8, "ls": "--"}
    return list(zip(_values(ceiling), (solid, dashed), strict=False))


def _ink(canvas: Canvas, ceiling: Ceiling, roofs: _Roofs) -> str:
    return canvas.ink if ceiling.level in roofs.levels else FADED


def _roof_name(ceiling: Ceiling) -> str:
    unit = "B/s" if ceiling.kind == "bandwidth" else "FLOP/s"
    factor, name = prefix(ceiling.measured, unit)
    operation = "FMA" if ceiling.operation == "fma" else ceiling.operation
    words = f"{ceiling.level} {operation} {number(ceiling.measured / factor)} {name}"
    if ceiling.theoretical:
        words += f" (theory {number(ceiling.theoretical / factor)})"
    return words
