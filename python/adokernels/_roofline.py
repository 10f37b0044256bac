"""Roofline charts: what a ladder reaches, against what the machine can do.

Sources: Williams, Waterman & Patterson, "Roofline", CACM 2009; Yang, Kurth & Williams,
"Hierarchical Roofline Analysis for GPUs", CCPE 2020.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import EngFormatter, FuncFormatter, NullFormatter

from adokernels._bandwidth import draw_bandwidth, main_bandwidths
from adokernels._records import Ceiling, Machine, Measurement, Sweep
from adokernels._sheet import FADED, Point, Sheet, entry, level_entries, look
from adokernels._tables import (
    number,
    peak,
    percent,
    precision,
    prefix,
    ratio,
    step_of,
    steps,
    where,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: A ceiling is itself a measurement, so a point may exceed it by this much without alarm.
_TOLERANCE = 1.03
#: Beyond so many times the last-level cache, memory's bandwidth limits a problem.
_BEYOND_CACHE = 4
#: Intensities that differ by less are one.
_SAME_INTENSITY = 1.01
#: Beyond so many points, labels are numbers and the names go to a list.
_MOST_NAMES = 6
#: A rung that moved by less than this many points on paper gets no arrow.
_SHORTEST_ARROW = 15.0
_RUNG, _PEER = "o", "P"


def roofline(
    what: Sweep | Measurement | Sequence[Measurement] | Machine,
    *,
    ax: Axes | None = None,
    machine: Machine | None = None,
    annotate: bool = True,
) -> Axes:
    """Draw measurements under the ceilings of their machine.

    With FLOPs it is a roofline: FLOPs per second over arithmetic intensity, both logarithmic.
    Hollow markers stand at the algorithmic intensity (executed FLOPs over requested bytes), filled
    ones at what counters measured at each memory level. Where the fastest rung counts its
    instructions, a dotted roof says what their mix of FMAs allows. Without FLOPs, or where memory
    limits a ladder whose rungs have all the same intensity, it is one bar a rung: compulsory bytes
    over time, against the bandwidth ceilings. Peers of a sweep look different and are no steps;
    what they execute and request is unknown, so they stand at the useful FLOPs and compulsory
    bytes.

    Parameters
    ----------
    what
        A sweep, one or several measurements, or a machine alone.
    ax
        Where to draw; by default a new figure.
    machine
        The ceilings; by default those of the sweep.
    annotate
        Whether to label points and steps and to add a key.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If there are FLOPs but no machine to give the ceilings, or nothing to draw at all.
    """
    sweep = _as_sweep(what, machine)
    machine, everything = sweep.machine, (*sweep.measurements, *sweep.peers)
    computes = not len(sweep) or any(m.executed_flops for m in sweep)
    if machine and _intensity_tells_nothing(sweep.rungs, machine):
        computes = False
    if computes and not (machine and machine.of_kind("compute") and main_bandwidths(machine)):
        raise ValueError("a roofline needs the machine's ceilings: pass machine=")
    if ax is None:
        ax = plt.figure(layout="constrained").add_subplot()
    sheet = Sheet(ax, annotate=annotate)
    wrong = [m for m in everything if machine and above_roof(m, machine)]
    if computes and machine:
        _draw_roofline(sheet, sweep, machine, wrong)
    else:
        draw_bandwidth(sheet, sweep, wrong)
    parts = list(dict.fromkeys(f"{m.routine}, {m.problem}, {m.cache}" for m in sweep))
    title = ", ".join([*parts, *([where(machine)] if machine else [])])
    ax.set_title(title, fontsize=sheet.font + 2, wrap=True)
    return ax


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure so that the same data gives the same bytes: SVG, PDF or PNG by the name."""
    target = Path(path)
    if target.suffix.lower() == ".svg":
        target.write_bytes(to_svg(figure))
    else:
        metadata = {"CreationDate": None} if target.suffix.lower() == ".pdf" else None
        figure.savefig(target, metadata=metadata)


def to_svg(figure: Figure) -> bytes:
    """Render a figure as SVG without date or random identifiers."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "adokernels"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def above_roof(measurement: Measurement, machine: Machine) -> bool:
    """Whether a measurement exceeds what the machine can do, which means that a number is wrong.

    Judged are executed and measured FLOPs, bytes counted at a level, and the compulsory bytes if
    the caches were cold and are small beside them. Requested bytes are not: caches serve them.
    """
    m = measurement
    cache = machine.context.get("last_level_cache_bytes", 0)
    streams = m.cache == "cold" and m.bytes > _BEYOND_CACHE * cache
    rates = [(max(m.executed_flops, m.measured_flops or 0), peak(m, machine))]
    traffic = [*m.measured_bytes.items(), *([("DRAM", m.bytes)] if streams else [])]
    rates += [(moved, _fastest(machine, level)) for level, moved in traffic]
    return any(roof and amount / m.seconds > _TOLERANCE * roof for amount, roof in rates)


def _mix(m: Measurement, machine: Machine) -> Ceiling | None:
    """Find what no code with this measurement's mix of instructions exceeds, if it is counted.

    Only of a GPU, where one pipe does all of them; processors may have others for additions.
    """
    share, level = m.fma_share, precision(m)
    if share is None or m.device != "cuda":
        return None
    for c in machine.of_kind("compute"):
        if (c.level, c.operation) == (level, "fma"):
            words = f"with {percent(share)} FMA"
            limit = c.measured * (1 + share) / 2
            return dataclasses.replace(c, operation=words, measured=limit, theoretical=None)
    return None


def _intensity_tells_nothing(rungs: Sequence[Measurement], machine: Machine) -> bool:
    """Whether the points would stand one above the other under the slope of memory."""
    intensities = [m.intensity for m in rungs]
    if len(rungs) < 2 or any(m.measured_bytes for m in rungs):
        return False
    highest = [peak(m, machine) or 0.0 for m in rungs]
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
        raise ValueError("nothing to draw: no measurement")
    if isinstance(what, Sweep):
        return dataclasses.replace(what, machine=machine or what.machine)
    return Sweep(routine="", measurements=tuple(what), machine=machine)


def _fastest(machine: Machine, level: str) -> float:
    ours = (c.measured for c in machine.of_kind("bandwidth") if c.level == level)
    return max(ours, default=0.0)


# Logarithmic, for ladders with FLOPs.


def _draw_roofline(
    sheet: Sheet, sweep: Sweep, machine: Machine, wrong: Sequence[Measurement]
) -> None:
    everything = (*sweep.measurements, *sweep.peers)
    points = [m for m in everything if m.executed_flops and m.requested_bytes]
    _frame(sheet, machine, points)
    reading = sweep.roof is not None and sweep.roof > _TOLERANCE * machine.roof
    roofs = _Roofs(machine, points, sweep.rungs, reading=reading)
    _draw_roofs(sheet, roofs)
    for m in points:
        _point(sheet, m, _PEER if m in sweep.peers else _RUNG)
    # From here on the order is that of choosing a place: the least movable labels first.
    sheet.badge([(m.variant, _places(m)[0]) for m in points if m in wrong])
    if sheet.annotate:
        _name_points(sheet, sweep, points, roofs)
        _compulsory(sheet, points)
        _label_roofs(sheet, roofs)
    _shade(sheet, roofs)


def _frame(sheet: Sheet, machine: Machine, points: Sequence[Measurement]) -> None:
    """Set limits in whole decades that follow from the machine alone, unless points lie outside.

    So all charts of a machine are congruent and can be laid side by side.
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
    ax = sheet.ax
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(10.0 ** low[0], 10.0 ** high[0])
    ax.set_ylim(10.0 ** low[1], 10.0 ** high[1])
    ax.set_xlabel("Arithmetic intensity [FLOP/byte]", fontsize=sheet.font + 1)
    ax.set_ylabel("Performance [FLOP/s]", fontsize=sheet.font + 1)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.yaxis.set_major_formatter(EngFormatter(sep=" "))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.tick_params(labelsize=sheet.font)


class _Roofs:
    """The ceilings in play: one bandwidth a level, and the precisions of the points."""

    def __init__(
        self,
        machine: Machine,
        points: Sequence[Measurement],
        rungs: Sequence[Measurement],
        *,
        reading: bool,
    ) -> None:
        self.bandwidths = main_bandwidths(machine, reading=reading)
        self.compute = machine.of_kind("compute")
        every = {c.level for c in self.compute}
        levels = {precision(m) for m in points} or every
        self.levels = levels if levels <= every else every
        self.top = max(c.measured for c in self.compute)
        self.fastest = max(c.measured for c in self.bandwidths)
        ours = sorted((c.measured, c.level) for c in self.compute if c.level in self.levels)
        self.peaks = {level: value for value, level in ours}.values()  # the highest of each level
        mixed = min(rungs, key=lambda m: m.seconds, default=None)
        self.mix = _mix(mixed, machine) if mixed else None
        self.mixed_by = mixed.variant if mixed else ""


def _draw_roofs(sheet: Sheet, roofs: _Roofs) -> None:
    """Draw the ceilings, and the ridge points where they meet."""
    left, right = sheet.ax.get_xlim()
    for c in roofs.bandwidths:
        for value, style in _pens(c):
            xs = [left, roofs.top / value]
            sheet.line(xs, [x * value for x in xs], color=look(c.level)[0], **style)
    for c in roofs.compute:
        for value, style in _pens(c):
            xs = [value / roofs.fastest, right]
            sheet.line(xs, [value, value], color=_ink(sheet, c, roofs), **style)
    if roofs.mix:
        value = roofs.mix.measured
        sheet.line([value / roofs.fastest, right], [value, value], ls=":")
    for top, c in itertools.product(roofs.peaks, roofs.bandwidths):
        # On the lines already, so words may come closer than to a measurement.
        style = {"marker": "o", "ms": 3.5, "color": look(c.level)[0], "mec": sheet.ink, "mew": 0.5}
        sheet.ax.plot([top / c.measured], [top], zorder=4, **style)


def _point(sheet: Sheet, m: Measurement, shape: str) -> None:
    (x, y), *measured = _places(m)
    for level, place in zip(m.measured_bytes, measured, strict=True):
        colour, marker = look(level)
        sheet.ax.plot([x, place[0]], [y, place[1]], color=colour, lw=0.7, zorder=2.5)
        sheet.mark(*place, marker=marker, color=colour, mec=sheet.paper, mew=0.5)
    low, high = (m.executed_flops / t for t in reversed(m.interval))
    sheet.whisker(x, y, yerr=[[y - low], [high - y]])
    edge = FADED if m.ceiling else sheet.ink
    sheet.mark(x, y, marker=shape, mfc=sheet.paper, mec=edge, mew=1.2)


def _name_points(sheet: Sheet, sweep: Sweep, points: Sequence[Measurement], roofs: _Roofs) -> None:
    """Label the points and the steps between them, and add the key."""
    before = steps(m for m in points if m not in sweep.peers)
    arrows = {m: below for m, below in before.items() if _long_enough(sheet, below, m)}
    # Where a step is too short for an arrow with a label, the list of names gives it.
    numbered = len(points) > _MOST_NAMES or len(arrows) < len(before)
    if numbered:
        sheet.legend(
            [
                entry(_name(m, before.get(m)), marker=f"${i}$", color=sheet.ink, mew=0.2, ms=4.5)
                for i, m in enumerate(points, 1)
            ],
            ("upper left", "lower right", "lower left"),
        )
    _key(sheet, sweep, points, roofs)
    for m, below in arrows.items():
        start, end = _places(below)[0], _places(m)[0]
        sheet.arrow(start, end, 4, sheet.ink)
        sheet.labels.lines.append(np.array([start, end]))
    for m, below in arrows.items():
        (x, y), (end_x, end_y) = _places(below)[0], _places(m)[0]
        middle = (math.sqrt(x * end_x), math.sqrt(y * end_y))
        verdict, gain = step_of(m, below)
        colour, words = sheet.step_ink(verdict), ratio(gain)
        sheet.callout(words, middle, (5, 9, 14, 20), color=colour, fontweight="bold")
    for i, m in enumerate(points, 1):
        name = str(i) if numbered else m.variant
        sheet.callout(name, _places(m)[0], (6, 12, 20, 30, 45))


def _key(sheet: Sheet, sweep: Sweep, points: Sequence[Measurement], roofs: _Roofs) -> None:
    hollow = {"mfc": sheet.paper, "mec": sheet.ink}
    key = []
    if points:
        key.append(entry("executed FLOPs / requested bytes", marker=_RUNG, **hollow))
    if any(m in sweep.peers for m in points):
        key.append(entry("peer, useful FLOPs / compulsory bytes", marker=_PEER, **hollow))
    key += level_entries(level for m in points for level in m.measured_bytes)
    key.append(entry("measured ceiling", color=sheet.ink, ls="-", lw=1.3))
    key.append(entry("theoretical", color=sheet.ink, ls="--", lw=0.8))
    if roofs.mix:
        words = f"ceiling of the mix in {roofs.mixed_by}"
        key.append(entry(words, color=sheet.ink, ls=":", lw=1.0))
    missing = [m.variant for m in (*sweep, *sweep.peers) if m not in points]
    if missing:
        key.append(entry(f"not shown, no FLOPs: {', '.join(missing)}"))
    sheet.legend(key, ("lower right", "upper left", "lower left", "center right"))


def _compulsory(sheet: Sheet, points: Sequence[Measurement]) -> None:
    bottom, top = sheet.ax.get_ylim()
    shifts = {"right": sheet.shift(-2), "left": sheet.shift(2)}
    for x in dict.fromkeys(m.flops / m.bytes for m in points if m.flops and m.bytes):
        sheet.line([x, x], [bottom, top], ls=":")
        places = [
            {
                "y": bottom * (top / bottom) ** up,
                "ha": ha,
                "transform": sheet.ax.transData + shift,
            }
            for up in (0.02, 0.1, 0.2, 0.3, 0.4, 0.5)
            for ha, shift in shifts.items()
        ]
        sheet.label(f"compulsory {number(x)} FLOP/B", places, x=x, va="bottom", rotation=90)


def _label_roofs(sheet: Sheet, roofs: _Roofs) -> None:
    """Write values on the roofs: slanted along the diagonals, at the right end of the others."""
    left, right = np.log10(sheet.ax.get_xlim())
    bottom = math.log10(sheet.ax.get_ylim()[0])
    for c in roofs.bandwidths:
        height = math.log10(c.measured)
        start, end = max(left, bottom - height), math.log10(roofs.top) - height
        spots = [start + share * (end - start) for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)]
        _along(sheet, c, 1, spots, ha="center", color=look(c.level)[0])
    spots = [right - share * (right - left) for share in (0.01, *np.arange(0.08, 0.6, 0.04))]
    ceilings = [*([roofs.mix] if roofs.mix else []), *roofs.compute]
    for c in sorted(ceilings, key=lambda c: c.level not in roofs.levels):
        # Beyond the label of another where two lie close to each other, and this one is not ours.
        aways = (1.5,) if c.level in roofs.levels else (1.5, 12.0)
        _along(sheet, c, 0, spots, aways, ha="right", color=_ink(sheet, c, roofs))


def _along(
    sheet: Sheet,
    c: Ceiling,
    slope: int,
    spots: Sequence[float],
    aways: Sequence[float] = (1.5,),
    **style: Any,
) -> None:
    """Write a roof's values above or below it, turned to its slope.

    That is at one of these decades, and so many points away.
    """
    decades = sheet.ax.transLimits + sheet.ax.transAxes  # there a roof is straight
    values = np.log10(_values(c))
    size = sheet.font - 0.5
    text = sheet.text(_roof_name(c), rotation_mode="anchor", fontsize=size, **style)

    def put(x: float, va: str, value: float, rise: float) -> None:
        # The angle on paper is known only now, as the chart is drawn at its present size.
        start, end = decades.transform([(0, 0), (1, slope)])
        angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
        transform = decades + sheet.shift(0, rise)
        text.set(position=(x, slope * x + value), va=va, transform=transform, rotation=angle)

    places = [
        partial(put, x, va, value, rise)
        for away in aways
        for x in spots
        for va, value, rise in (("bottom", values.max(), away), ("top", values.min(), -away))
    ]
    sheet.labels.add(text, places)


def _shade(sheet: Sheet, roofs: _Roofs) -> None:
    """Shade where memory limits and where arithmetic does, seen from the slowest level."""
    ridges = [top / roofs.bandwidths[0].measured for top in roofs.peaks]
    left, right = sheet.ax.get_xlim()
    regions = (
        ("memory-bound", left, min(ridges), "#0072B2"),
        ("compute-bound", max(ridges), right, "#D55E00"),
    )
    for name, start, end, colour in regions:
        sheet.ax.axvspan(start, end, color=colour, alpha=0.05, lw=0, zorder=0)
        if sheet.annotate:
            places = [
                {"position": (start ** (1 - share) * end**share, y)}
                for y in (0.03, 0.08, 0.25, 0.3, 0.35, 0.4, 0.97)
                for share in (0.5, 0.3, 0.7, 0.15, 0.85)
            ]
            transform = sheet.ax.get_xaxis_transform()
            style = {"ha": "center", "va": "center", "color": colour, "transform": transform}
            sheet.label(name, places, **style)


def _places(m: Measurement) -> list[Point]:
    """Where a measurement stands: algorithmic first, then as measured at each memory level."""
    flops = m.measured_flops or m.executed_flops
    measured = [(flops / moved, flops / m.seconds) for moved in m.measured_bytes.values()]
    return [(m.intensity, m.flops_per_second), *measured]


def _name(m: Measurement, below: Measurement | None) -> str:
    return m.variant if below is None else f"{m.variant} ({ratio(step_of(m, below)[1])})"


def _long_enough(sheet: Sheet, below: Measurement, m: Measurement) -> bool:
    limits = np.log10([sheet.ax.get_xlim(), sheet.ax.get_ylim()])
    step = np.diff(np.log10([_places(below)[0], _places(m)[0]]), axis=0)[0]
    length = np.hypot(*(step / np.diff(limits)[:, 0] * (sheet.width, sheet.height)))
    return bool(length > _SHORTEST_ARROW)


def _values(ceiling: Ceiling) -> list[float]:
    return [v for v in (ceiling.measured, ceiling.theoretical) if v]


def _pens(ceiling: Ceiling) -> list[tuple[float, dict[str, Any]]]:
    solid = {"lw": 1.5 if ceiling.operation != "add" else 1.0}
    dashed = {"lw": 0.8, "ls": "--"}
    return list(zip(_values(ceiling), (solid, dashed), strict=False))


def _ink(sheet: Sheet, ceiling: Ceiling, roofs: _Roofs) -> str:
    return sheet.ink if ceiling.level in roofs.levels else FADED


def _roof_name(ceiling: Ceiling) -> str:
    unit = "B/s" if ceiling.kind == "bandwidth" else "FLOP/s"
    factor, name = prefix(ceiling.measured, unit)
    operation = "FMA" if ceiling.operation == "fma" else ceiling.operation
    words = f"{ceiling.level} {operation} {number(ceiling.measured / factor)} {name}"
    if ceiling.theoretical:
        words += f" (theory {number(ceiling.theoretical / factor)})"
    return words
