"""Rooflines with logarithmic axes: performance versus work per byte or per transaction.

FLOPs per byte at each memory level: Williams, Waterman & Patterson, "Roofline", CACM 2009; Yang,
Kurth & Williams, "Hierarchical Roofline Analysis for GPUs", CCPE 2020. Warp instructions per
32-byte sector: Ding & Williams, "An Instruction Roofline Model for GPUs", PMBS 2019.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from adokernels._core import Unavailable
from adokernels.charts.bandwidth import level_bandwidths
from adokernels.charts.canvas import COMPUTE, FADED, MEMORY, Canvas, Point, entry, level_style
from adokernels.charts.layers import (
    REQUESTED,
    Layer,
    Roof,
    Track,
    bandwidth_roofs,
    draw_roofs,
    draw_tracks,
    label_roofs,
    name_tracks,
    roof_of,
    track_entries,
)
from adokernels.charts.series import Host, Series, hosts_of, subject
from adokernels.charts.stated import STATED, StatedPoints
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import SECTOR, WARP, mix_limit
from adokernels.text import NO_LIMIT, number, percent

#: Kinds of ceilings that are drawn only on request, or if a point exceeds the others.
OPTIONAL: tuple[Literal["link"], Literal["tensor"]] = ("link", "tensor")
_LINK = "host link"
#: Rates that exceed the DRAM copy ceiling by this factor are compared with the read ceiling.
_ABOVE_COPY = 1.03
#: The roof of a requested level is visible down to its ridge point divided by this factor.
_BELOW_RIDGE = 3.0
_LEVELS = ("L1", "L2", "DRAM")
#: Minimum share of the instructions for which loads or stores are shown.
_LEAST = 1e-3
_ACCESS: dict[str, dict[str, Any]] = {
    "load": {"marker": "<", "ms": 5.5},
    "store": {"marker": ">", "ms": 5.5},
}
#: Ratio of the frame to the range of the points.
_MARGIN = 1.8
_DECADES_WITH_STEPS = 2.5  # shorter axes also have labels at 2 and 5
#: Fractions of the height of a wall, a vertical line, at which its label can be.
_ALONG_WALL = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5)
#: A wall marks, for example, an access pattern of global memory: its position and label.
Wall = tuple[float, str]
#: A shaded range of intensities: name, start, end and colour.
Region = tuple[str, float, float, str]


def draw_flops(
    canvas: Canvas,
    series: Sequence[Series],
    wrong: Sequence[Measurement],
    *,
    levels: frozenset[str] | None,
    stated: StatedPoints,
) -> None:
    """Draw the roofline; the arguments are the same as for :func:`roofline`."""

    def shows(level: str) -> bool:
        return levels is None or level in levels

    everything = [(m, s) for s in series for m in s.everything]
    tracks = [track for m, s in everything if (track := _track(m, s, shows))]
    layers = [_layer(canvas, h, series, tracks, levels) for h in hosts_of(series)]
    walls: list[Wall] = []
    if len(series) == 1 and shows("DRAM"):
        xs = dict.fromkeys(t.m.flops / t.m.bytes for t in tracks if t.m.flops and t.m.bytes)
        walls = [(x, f"compulsory {number(x)} FLOP/B") for x in xs]
    visible = []  # points on the roofs of the requested levels, below the ridge points
    for layer in layers if levels and (tracks or stated.points) else ():
        flat = [r for r in layer.roofs if not r.slope]
        height = max(r.value for r in flat) / _BELOW_RIDGE
        visible += [(height / r.value, height) for r in layer.roofs if r.slope]
        asked = [r.value for r in flat if r.tensor or layer.host.machine.name == STATED]
        room = _BELOW_RIDGE / _slowest_memory(layer.roofs).value
        visible += [(room * value, value) for value in asked]
    regions: list[Region] = []  # memory-bound and compute-bound, for the slowest memory level
    if len(layers) == 1:
        slowest = _slowest_memory(layers[0].roofs)
        peaks = [r for r in layers[0].roofs if not (r.slope or r.tensor)]
        fused = [r for r in peaks if not r.name.endswith("add")]
        ridges = [r.value / slowest.value for r in fused or peaks]
        below = (f"{slowest.levels[0]}: memory-bound", 0.0, min(ridges), MEMORY)
        regions = [below, ("compute-bound", max(ridges), math.inf, COMPUTE)]
    _draw(
        canvas,
        series,
        wrong,
        layers,
        x="Arithmetic intensity [FLOP/byte]",
        y="Performance [FLOP/s]",
        points="{} bytes, counted",
        notes=_notes(canvas, series, layers),
        walls=walls,
        more=visible,
        regions=regions,
        stated=stated,
    )


def _layer(
    canvas: Canvas,
    host: Host,
    series: Sequence[Series],
    tracks: Sequence[Track],
    levels: frozenset[str] | None,
) -> Layer:
    """The points of a machine, with the roofs of their precisions."""
    machine, tracks = host.machine, [t for t in tracks if t.series.host is host]
    rates = [t.m.counted_bytes.get("DRAM", 0.0) / t.m.seconds for t in tracks]
    rates += [s.sweep.roof for s in series if s.host is host and s.sweep.roof]
    reading = max(rates, default=0.0) > _ABOVE_COPY * machine.roof
    roofs = bandwidth_roofs(level_bandwidths(machine, reading=reading), "B/s")
    roofs = [r for r in roofs if levels is None or not levels.isdisjoint(r.levels)]
    ceilings = machine.of_kind("compute")
    for c in ceilings:
        operation, width = ("FMA", 1.5) if c.operation == "fma" else (c.operation, 1.0)
        name = f"{c.level} {operation}"
        roofs.append(roof_of(c, name, "FLOP/s", canvas.ink, style={"lw": width}))
    ours = {t.m.problem.precision for t in tracks}
    if ours and ours <= {c.level for c in ceilings}:
        roofs = [r for r in roofs if r.slope or r.name.split()[0] in ours]
    # Tensor cores and links have roofs if `levels` contains them; tensor cores also if points need
    # them.
    best = (machine.fastest(t.m.problem.precision, t.height) for t in tracks)
    optional = (levels or frozenset()) | {c.level for c in best if c}
    tensor = [c for c in machine.of_kind("tensor") if c.level in optional]
    style: dict[str, Any] = {"tensor": True, "style": {"lw": 2.2}}
    roofs += [roof_of(c, c.level, "FLOP/s", canvas.ink, **style) for c in tensor]
    for c in machine.of_kind("link"):
        if c.level in optional and c.operation.endswith("to device"):
            style = {"levels": (_LINK,), "style": {"lw": 1.3, "ls": (0, (6, 2, 1, 2))}}
            roofs.append(roof_of(c, c.name, "B/s", level_style(_LINK)[0], slope=1, **style))
    if machine.name == STATED:  # the names of the user
        ordinary = {r.name: r.name.rsplit(" ", 1)[0] for r in roofs if not r.tensor}
        roofs = [dataclasses.replace(r, name=ordinary.get(r.name, r.name)) for r in roofs]
    limits = [r for r in roofs if not r.name.endswith("add") and _LINK not in r.levels]
    if len(series) > 1:
        shown = _of_host(host, roofs if host.alone else limits, canvas.ink)
        return Layer(host, shown, limits, tracks)
    tracks = [_with_mix(t, roofs) for t in tracks]
    variants = series[0].sweep.variants
    roofs += [r for t in tracks if variants and t.m is series[0].sweep.fastest for r in t.own]
    return Layer(host, roofs, limits, tracks)


def _of_host(host: Host, roofs: Sequence[Roof], colour: str) -> list[Roof]:
    """The roofs in a chart of several sweeps: line style of the machine, measured values only."""
    common: dict[str, Any] = {"theoretical": None, "colour": colour, "host": host.name}
    return [dataclasses.replace(r, style={**r.style, "ls": host.line}, **common) for r in roofs]


def has_flops(m: Measurement) -> bool:
    """Whether useful FLOPs are declared, or, as in reports of Nsight Compute, FLOPs are counted."""
    return bool(m.flops or m.counted_flops)


def _track(m: Measurement, series: Series, shows: Callable[[str], bool]) -> Track | None:
    """The points of a measurement, with counted FLOPs if available; None without FLOPs."""
    flops = m.counted_flops or m.executed_flops
    moved = m.counted_bytes or {REQUESTED: m.requested_bytes}
    moved = {k: v for k, v in moved.items() if v and (shows(k) or k == REQUESTED)}
    if not (has_flops(m) and flops and moved):
        return None
    bounded = m.bytes and m.cache == "cold" and not m.counted_bytes
    return Track(
        m=m,
        series=series,
        amount=flops,
        intensities={level: flops / amount for level, amount in moved.items()},
        compulsory=flops / m.bytes if bounded else None,
    )


def _slowest_memory(roofs: Sequence[Roof]) -> Roof:
    return min((r for r in roofs if r.slope and _LINK not in r.levels), key=lambda r: r.value)


def _with_mix(track: Track, roofs: Sequence[Roof]) -> Track:
    """Add the roof of the instruction mix of a measurement, if its instructions are counted.

    It exists only on GPUs, where one pipe executes all floating-point instructions.
    """
    m = track.m
    share = m.profile.get("fma_share") if m.profile else None
    share = m.fma_share if share is None else share
    precision = m.problem.precision
    fused = next((r for r in roofs if r.name in (precision, f"{precision} FMA")), None)
    if share is None or fused is None or m.device != "cuda" or track.peer:
        return track
    mix = dataclasses.replace(
        fused,
        name=f"{precision} mix limit, {percent(share)} FMA",
        value=mix_limit(share) * fused.value,
        theoretical=None,
        style={"lw": 1.0, "ls": ":"},
    )
    return dataclasses.replace(track, own=(mix,))


def _notes(canvas: Canvas, series: Sequence[Series], layers: Sequence[Layer]) -> list[Artist | str]:
    """Make legend entries for points, the origin of the FLOPs, and measurements without FLOPs."""
    tracks = [t for layer in layers for t in layer.tracks]
    key: list[Artist | str] = []
    by_formula = [t for t in tracks if REQUESTED in t.intensities]
    if any(not t.peer for t in by_formula):
        key.append(entry("requested bytes, by formula", marker="o", **canvas.hollow))
    for layer in layers:
        slowest = _ABOVE_COPY * _slowest_memory(layer.roofs).value
        if any(t.height > slowest * t.intensities.get(REQUESTED, math.inf) for t in layer.tracks):
            key.append("points above the DRAM roof: caches serve part of the requested bytes")
            break
    if any(t.peer for t in tracks):
        key.append(entry("peer: useful FLOPs, compulsory bytes", marker="P", **canvas.hollow))
    counted = [t.m for t in tracks if t.m.counted_flops]
    modelled = [t for t in tracks if not t.m.counted_flops and not t.peer]
    if counted and modelled:
        names = dict.fromkeys(t.series.name or t.m.variant for t in modelled)
        key.append(f"FLOPs counted; by formula: {', '.join(names)}")
    elif tracks:
        key.append("FLOPs counted" if counted else "FLOPs by formula")
    missing, measured = [], {t.m for t in tracks}
    for s in series:
        without = [m.variant for m in s.everything if m not in measured]
        missing += without if len(without) < len(s.everything) or not s.name else [s.name]
    if missing:
        key.append(f"not shown, no FLOPs: {', '.join(dict.fromkeys(missing))}")
    if any(r.style.get("ls") == ":" and r in t.own for t in tracks for r in layers[0].roofs):
        words = f"limit of the instruction mix of {series[0].sweep.fastest.variant}"
        key.append(entry(words, color=canvas.ink, ls=":"))
    return key


def draw_instructions(
    canvas: Canvas, series: Sequence[Series], wrong: Sequence[Measurement]
) -> None:
    """Draw the instruction roofline; Unavailable without an issue rate."""
    tracks = list(_instruction_tracks(series))
    layers = []
    for host in hosts_of(series):
        issue, reading = host.machine.issue_rate, level_bandwidths(host.machine, reading=True)
        if issue is None:
            raise Unavailable(
                "kind='instructions' needs the issue rate, which is unknown for "
                f"{host.machine.title}; it is known for NVIDIA GPUs with 128 FP32 lanes per "
                "multiprocessor: use kind='bandwidth'"
            )
        roofs = bandwidth_roofs([c for c in reading if c.level in _LEVELS], "sectors/s", SECTOR)
        roofs.append(roof_of(issue, "issue slots", "inst/s", canvas.ink))
        if len(series) > 1:
            roofs = _of_host(host, roofs, canvas.ink)
        ours = [t for t in tracks if t.series.host is host]
        layers.append(Layer(host, roofs, limits=roofs, tracks=ours))
    # Walls of the access patterns: sectors per request of global loads and stores.
    sizes = {np.dtype(o.dtype).itemsize for t in tracks for o in t.m.problem.operands}
    patterns = [(1, "stride 0"), *((size, f"unit stride, {size} B") for size in sorted(sizes))]
    walls: dict[int, list[str]] = {}
    for sectors, words in (*patterns, (WARP, "scattered")):
        walls.setdefault(sectors, []).append(words)
    used = [style for t in tracks if t.chosen for *_, style in t.extra]
    notes: list[Artist | str] = [
        entry(f"global {op}s only / their sectors", **style, **canvas.hollow)
        for op, style in _ACCESS.items()
        if style in used
    ]
    shown = {t.m for t in tracks}
    missing = dict.fromkeys(m.variant for s in series for m in s.everything if m not in shown)
    notes += [f"not shown, no counters: {', '.join(missing)}"] if missing else []
    _draw(
        canvas,
        series,
        wrong,
        layers,
        x="Instruction intensity [warp instructions / 32-byte sector]",
        y="Warp instructions / s",
        points="all instructions / {} sectors",
        notes=notes,
        walls=[(1 / sectors, "; ".join(words)) for sectors, words in walls.items()],
        wide=True,
    )


def _instruction_tracks(series: Sequence[Series]) -> Iterator[Track]:
    """The points of the measurements with counted instructions."""
    for s in series:
        for m in s.everything:
            get = m.profile.get if m.profile else lambda _: None
            if not (instructions := get("instructions")):
                continue
            extra = []
            for op, style in _ACCESS.items():
                requests, sectors = get(f"{op}_requests"), get(f"{op}_sectors")
                if requests and sectors and requests > _LEAST * instructions:
                    extra.append((requests / sectors, requests / m.seconds, style))
            moved = {k: m.counted_bytes[k] for k in _LEVELS if k in m.counted_bytes}
            places = {level: instructions * SECTOR / amount for level, amount in moved.items()}
            yield Track(m=m, series=s, amount=instructions, intensities=places, extra=tuple(extra))


def _draw(
    canvas: Canvas,
    series: Sequence[Series],
    wrong: Sequence[Measurement],
    layers: Sequence[Layer],
    *,
    x: str,
    y: str,
    points: str,
    notes: Sequence[Artist | str],
    walls: Sequence[Wall] = (),
    wide: bool = False,
    more: Sequence[Point] = (),
    regions: Sequence[Region] = (),
    stated: StatedPoints | None = None,
) -> None:
    """Draw a roofline with one layer per machine, and its title.

    `x` and `y` are the names of the axes, `points` is the legend entry of points with a placeholder
    for their memory level, and `notes` are further legend entries. The limits of the axes depend on
    the points, the positions `more` and, if `wide`, on the walls; without points, on the machine.
    """
    tracks = [t for layer in layers for t in layer.tracks]
    roofs = [r for layer in layers for r in layer.roofs]
    stated = stated or StatedPoints()
    more = [*(point.place for point in stated.points), *more]
    _set_limits(canvas, layers, more, [place for place, _ in walls] if wide else ())
    canvas.frame(x, y, spines="left right bottom top")
    visible = [draw_roofs(canvas, layer.roofs) for layer in layers]
    (left, right), (bottom, top) = canvas.ax.get_xlim(), canvas.ax.get_ylim()
    for place, words in walls:
        if left < place < right:
            canvas.line([place] * 2, [bottom, top], ls=":", color=FADED)
            canvas.label_wall(words, place, bottom, top, _ALONG_WALL)
    stated_key = stated.draw(canvas)
    draw_tracks(canvas, tracks)
    # The order of these calls is the order of placement: labels with few candidate places first.
    canvas.badge([(t.m, t.last) for t in tracks if t.m in wrong])
    if canvas.annotate:
        for labelled in visible:
            label_roofs(canvas, labelled)
        name_tracks(canvas, tracks)
        for point in stated.points:
            canvas.callout(point.words, point.place, (8, 14, 22, 32, 45))
        key = [*track_entries(series, tracks, points), *notes]
        key += [f"off scale: {words}" for place, words in walls if not left < place < right]
        key += stated_key
        flat, slopes = (max(r.value for r in roofs if r.slope == s) for s in (0, 1))
        above = [
            p.label for p in stated.points if p.rate > NO_LIMIT * min(flat, p.intensity * slopes)
        ]
        if above:
            key.append(f"above all roofs: {', '.join(above)}; rates are in FLOP/s and B/s")
        for host in (layer.host for layer in layers):
            words = "measured ceiling" if host.alone else f"ceilings of {host.machine.title}"
            words = STATED if host.machine.name == STATED else words
            key.append(entry(words, color=canvas.ink, ls=host.line, lw=1.3))
        shown = [r for labelled in visible for r in labelled]
        if any(r.theoretical for r in shown):
            key.append(entry("theoretical", color=canvas.ink, ls="--", lw=0.9))
        if hidden := [r for r in roofs if r not in shown]:
            key.append("off scale or at the edge: " + ", ".join(r.words for r in hidden))
        canvas.legend_below(key)
    _shade(canvas, regions)
    ends = dict.fromkeys(point.words for point in (*stated.points[:1], *stated.points[-1:]))
    finding = stated.finding or "; ".join(ends) or "Ceilings"
    if tracks:  # the nearest roof of the summarised variants of each sweep, with its share
        nearest = {t.m: t.nearest(layer.limits) for layer in layers for t in layer.tracks}
        parts = []
        for s in series:
            for m in s.summarised:
                if near := nearest.get(m):
                    share, roof = near
                    of_roof = f"{percent(share)} of" if share <= NO_LIMIT else "above"
                    parts.append(f"{s.name or m.variant}: {of_roof} {roof.name}")
        finding = "; ".join(parts)
    canvas.title(
        finding, ", ".join(filter(None, [subject(series), stated.subject if stated.points else ""]))
    )


def _set_limits(
    canvas: Canvas,
    layers: Sequence[Layer],
    more: Sequence[Point],
    walls: Sequence[float],
) -> None:
    """Set the logarithmic limits: around points and roofs, or whole decades without points."""
    tracks = [t for layer in layers for t in layer.tracks]
    roofs = [r for layer in layers for r in layer.roofs]
    places = [(x, t.height) for t in tracks for x in t.intensities.values()]
    places += [(x, y) for t in tracks for x, y, _ in t.extra]
    points = np.log10([*places, *more]).reshape(-1, 2)
    speeds = [v for r in roofs if r.slope for v in r.values]
    peaks = [v for r in roofs if not r.slope for v in r.values]
    if not len(points):
        left = math.floor(math.log10(min(peaks) / max(speeds))) - 1
        right = math.ceil(math.log10(max(peaks) / min(speeds))) + 1
        bottom = math.floor(left + math.log10(min(speeds)))
        top = math.ceil(math.log10(max(peaks)) + 0.15)  # space for the label of the highest roof
        low, high = np.array([left, bottom], float), np.array([right, top], float)
    else:
        margin = math.log10(_MARGIN)
        low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
        for x in np.log10(walls):
            low[0], high[0] = min(low[0], x - 0.15), max(high[0], x + 0.15)
        attainable = [y for _, y in more]
        for t in tracks:
            for level, x in t.intensities.items():
                ours = (r.value for r in roofs if level in r.levels)
                attainable.append(min(x * max(ours, default=max(speeds)), max(peaks)))
        # Space for a label above the highest roof.
        room = 1 + 2.5 * canvas.font / canvas.height
        high[1] = max(high[1], low[1] + room * (math.log10(max(attainable)) - low[1]))
        middle, half = (low + high) / 2, np.maximum((high - low) / 2, 0.5)  # at least one decade
        low, high = middle - half, middle + half
    ax = canvas.ax
    ax.set(xscale="log", yscale="log")
    ax.set(xlim=(10.0 ** low[0], 10.0 ** high[0]), ylim=(10.0 ** low[1], 10.0 ** high[1]))
    for axis, length in zip((ax.xaxis, ax.yaxis), high - low, strict=True):
        axis.set_minor_formatter(NullFormatter())
        if length < _DECADES_WITH_STEPS:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.yaxis.set_major_formatter(EngFormatter(sep=" "))


def _shade(canvas: Canvas, regions: Sequence[Region]) -> None:
    """Shade the regions, and name them where there is space."""
    left, right = canvas.ax.get_xlim()
    for name, lowest, highest, colour in regions:
        start, end = max(lowest, left), min(highest, right)
        if start >= end:
            continue
        canvas.ax.axvspan(start, end, color=colour, alpha=0.05, lw=0, zorder=0)
        canvas.ax.set_xlim(left, right)
        shares = [*((share, "center") for share in (0.5, 0.3, 0.7, 0.15, 0.85)), (0.02, "left")]
        places = [
            {"position": (start ** (1 - share) * end**share, y), "ha": side}
            for y in (0.03, 0.08, 0.25, 0.3, 0.35, 0.4, 0.97)
            for share, side in shares
        ]
        transform = canvas.ax.get_xaxis_transform()
        canvas.label(name, places, va="center", color=colour, transform=transform)
