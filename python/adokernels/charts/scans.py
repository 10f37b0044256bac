"""The chart of a scan: bandwidth, time, and ratio of times against the size of the problem."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from adokernels.charts.canvas import FADED, Canvas, entry, log_ticks
from adokernels.charts.steps import beside_peers
from adokernels.records.measurement import Measurement
from adokernels.records.scan import Scan, elements, link_seconds
from adokernels.records.statistics import Comparison
from adokernels.records.sweep import Sweep
from adokernels.text import binary_size, prefix, quantity, ratio

#: Colours of Okabe & Ito, and markers, so that many lines remain distinct.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "0.35")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_QUOTED = "{!r}, {!r} or {!r}"


def draw_scan(scan: Scan, kind: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw one line per variant and peer, and a vertical line per cache."""
    if not scan.names:
        raise ValueError("scan must contain at least one measurement, got none")
    if scan.offloads:
        if kind not in (None, "time"):
            raise ValueError(f"kind must be 'time' for a scan with copies, got {kind!r}")
        return _draw_offloads(scan, ax)
    first, second = ("time", "ratio") if scan.lengths else ("bandwidth", "time")
    kinds = [first] if scan.lengths and not scan.comparisons else [first, second, "both"]
    kind = kind or (first if ax else kinds[-1])
    if kind not in kinds:
        known = " or ".join(map(repr, kinds)) if len(kinds) < 3 else _QUOTED.format(*kinds)
        raise ValueError(f"kind must be {known}, got {kind!r}")
    if kind != "both":
        canvas = Canvas(ax, annotate=True, size=(9.0, 5.0))
        canvas.legend_below(_draw(canvas, scan, kind))
        canvas.title(_finding(scan), scan.title)
        return canvas.ax
    if ax:
        raise ValueError(f"kind must be {first!r} or {second!r} if ax is given, got 'both'")
    figure = plt.figure(figsize=(9.0, 8.0), layout="constrained")
    upper, lower = (Canvas(each, annotate=True) for each in figure.subplots(2, 1, sharex=True))
    _draw(upper, scan, first)
    upper.ax.set_xlabel("")
    upper.title(_finding(scan), scan.title)
    lower.legend_below(_draw(lower, scan, second))
    return upper.ax


def _draw(canvas: Canvas, scan: Scan, kind: str) -> list[Artist]:
    """Draw the lines; return the legend entries."""
    ax = canvas.ax
    key: list[Artist] = []
    hollow: list[Artist] = []
    peers = {m.variant for s in scan for m in s.peers}
    looks = itertools.cycle(zip(_COLOURS, _MARKERS, strict=True))
    for name, (colour, marker) in zip(scan.names, looks, strict=False):
        found = scan.of(name)
        ceiling = (" (ceiling)", ":") if found[0].ceiling else ("", "-")
        suffix, line = (" (peer)", "--") if name in peers else ceiling
        style: dict[str, Any] = {"color": colour, "marker": marker, "ls": line}
        key.append(entry(f"{found[0].shown_as}{suffix}", **style))
        xs = scan.sizes if scan.lengths else [m.bytes for m in found]
        if kind == "ratio":
            if compared := scan.comparisons.get(name):
                hollow += _draw_ratios(canvas, xs, compared, style)
            continue
        _draw_line(canvas, xs, found, kind, style)
    if not scan.lengths and all(
        len(s) == 1 for s in scan
    ):  # only the variant that a call uses, per problem
        called = [m for s in scan for m in s]
        xs, ys = [m.bytes for m in called], [_value(m, kind) for m in called]
        ax.plot(xs, ys, color=FADED, lw=0.9, zorder=1.5)
    ax.set_xscale("log", base=2)
    ax.set_yscale("linear" if kind == "bandwidth" else "log")
    _frame(canvas, scan, kind)
    machine = scan.sweeps[0].machine
    if machine and kind == "bandwidth" and machine.roof < ax.get_ylim()[1]:
        ax.axhline(machine.roof, color=canvas.ink, lw=0.8, zorder=1)
        transform = ax.get_yaxis_transform()
        places = [
            {"position": (x, machine.roof), "ha": ha, "va": va, "transform": transform + shift}
            for x, ha in ((0.99, "right"), (0.01, "left"), (0.5, "center"))
            for va, shift in (("bottom", canvas.shift(0, 2)), ("top", canvas.shift(0, -2)))
        ]
        canvas.label(f"DRAM copy {quantity(machine.roof, 'B/s')}", places)
    left, right = ax.get_xlim()
    for level, size in scan.caches.items() if not scan.lengths else ():
        if left < size < right:
            ax.axvline(size, color=FADED, lw=0.9, ls="--", zorder=1)
            top = ax.get_xaxis_transform() + canvas.shift(0, -0.8 * canvas.font)
            sides = (("left", canvas.shift(3)), ("right", canvas.shift(-3)))
            places = [{"ha": ha, "transform": top + shift} for ha, shift in sides]
            style = {"position": (size, 1.0), "va": "center", "color": FADED}
            canvas.label(f"{level} {binary_size(size)}", places, **style)
    return key + hollow[:1]


def _draw_line(
    canvas: Canvas,
    xs: Sequence[float],
    found: Sequence[Measurement],
    kind: str,
    style: dict[str, Any],
) -> None:
    """Draw bandwidths or times with their intervals."""
    ys = [_value(m, kind) for m in found]
    canvas.ax.plot(xs, ys, lw=1.5, ms=5, **style)
    canvas.labels.points += zip(xs, ys, strict=True)
    ends = [[m.bytes / t if kind == "bandwidth" else t for t in m.interval] for m in found]
    canvas.ax.vlines(xs, *zip(*ends, strict=True), color=style["color"], lw=0.9)


def _draw_ratios(
    canvas: Canvas, xs: Sequence[float], compared: Sequence[Comparison], style: dict[str, Any]
) -> list[Artist]:
    """Draw the ratios of times with their intervals as a band; unclear ones are hollow.

    Return the legend entry of hollow markers.
    """
    ax, ratios = canvas.ax, [c.ratio for c in compared]
    ax.plot(xs, ratios, lw=1.5, ms=5, **style)
    unclear = [(x, c.ratio) for x, c in zip(xs, compared, strict=True) if c.verdict == "unclear"]
    if unclear:
        ax.plot(*zip(*unclear, strict=True), ms=5, **style | {"ls": "", "mfc": canvas.paper})
    low, high = zip(*(c.interval for c in compared), strict=True)
    ax.fill_between(xs, low, high, color=style["color"], alpha=0.2, lw=0)
    canvas.labels.points += zip(xs, ratios, strict=True)
    return [entry("unclear", marker="o", **canvas.hollow)] if unclear else []


def _draw_offloads(scan: Scan, ax: Axes | None) -> Axes:
    """Draw times of the CPU, of the GPU with copies, of the kernel alone, and of the link's roof.

    The sizes at which the GPU pays off for NumPy arrays are shaded.
    """
    canvas = Canvas(ax, annotate=True, size=(9.0, 5.5))
    ax = canvas.ax
    sizes = [m.bytes for m in scan.kernels]
    blue, orange, green = _COLOURS[:3]
    lines: list[tuple[str, Sequence[Measurement], dict[str, Any]]] = [
        ("CPU", [o.cpu for o in scan.offloads], {"color": orange, "marker": "s"}),
        ("GPU with copies", [o.gpu for o in scan.offloads], {"color": blue, "marker": "o"}),
        ("kernel alone", scan.kernels, {"color": green, "marker": "^"}),
    ]
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    for _, found, style in lines:
        _draw_line(canvas, sizes, found, "time", style)
    key = [entry(name, ls="-", **style) for name, _, style in lines]
    pairs = zip(sizes, scan, scan.offloads, strict=True)
    links = [(x, link_seconds(s.machine, o.uploaded, o.downloaded)) for x, s, o in pairs]
    if roof := [(x, t) for x, t in links if t]:
        ax.plot(*zip(*roof, strict=True), color=canvas.ink, lw=1.0, ls="--", zorder=1.5)
        key.append(entry("copies at the link's roof", color=canvas.ink, ls="--"))
    canvas.legend_below(key)
    low, high = (f(m.seconds for _, found, _ in lines for m in found) for f in (min, max))
    ax.set_ylim(0.4 * min([low, *(t for _, t in roof)]), 2.5 * high)
    ax.set_xlim(sizes[0] / 1.6, sizes[-1] * 1.6)
    _frame(canvas, scan, "time")
    if (even := scan.break_even) and even.upto is not None:
        # Shade the sizes at which the GPU pays off, and name the break-even size.
        left, right = ax.get_xlim()
        start = even.crossing or (even.upto if even.upto > even.smallest else left)
        ax.axvspan(start, right, color=blue, alpha=0.08, lw=0, zorder=0)
        ax.set_xlim(left, right)
        words = "the GPU pays off"
        if even.crossing:
            ax.axvline(even.crossing, color=blue, lw=1.2, zorder=1)
            words = f"break-even {binary_size(even.crossing)}"
        shades = ax.get_xaxis_transform()
        places = [
            {"position": (start, height), "ha": ha, "transform": shades + canvas.shift(dx)}
            for height in (0.96, 0.03, 0.88, 0.1)
            for ha, dx in (("left", 4), ("right", -4))
        ]
        canvas.label(words, places, va="center", color=blue, fontweight="bold")
    title, _, kernel = scan.finding.partition("; ")
    canvas.title(title, f"{scan.title}; {kernel.rstrip('.')}")
    return ax


def _value(m: Measurement, kind: str) -> float:
    return m.bytes_per_second if kind == "bandwidth" else m.seconds


def _frame(canvas: Canvas, scan: Scan, kind: str) -> None:
    ax = canvas.ax
    if kind == "ratio":
        values = [end for each in scan.comparisons.values() for c in each for end in c.interval]
        ax.axhline(1.0, color=canvas.ink, lw=0.8, zorder=1)
    else:
        values = [_value(m, kind) for name in scan.names for m in scan.of(name)]
        values += [m.seconds for o in scan.offloads for m in (o.cpu, o.gpu)]
    if kind == "bandwidth":
        factor, unit = prefix(max(values), "B/s")
        ax.set_ylim(0, 1.12 * max(values))
        name = f"Bandwidth [{unit}], compulsory bytes / time"
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{float(f'{y / factor:.3g}'):g}"))
    else:
        ax.yaxis.set_major_locator(FixedLocator(log_ticks(0.9 * min(values), 1.1 * max(values))))
        ax.yaxis.set_minor_locator(NullLocator())
        name = "Time per call, logarithmic"
        ax.yaxis.set_major_formatter(EngFormatter("s", sep=" "))  # 1 µs to 1 s on one axis
    if kind == "ratio":
        name = f"Speed-up over {scan.routine}, 99.9 % interval"
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: ratio(y)))
    binary = not scan.lengths or all(math.log2(n).is_integer() for n in scan.sizes)
    ax.xaxis.set_major_locator(LogLocator(base=4 if binary else 10))
    ax.xaxis.set_minor_locator(NullLocator())
    size = (lambda x: f"{x:,.0f}") if scan.lengths else binary_size
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: size(x)))
    canvas.frame("n, logarithmic" if scan.lengths else "Compulsory bytes, logarithmic", name)
    ax.grid(axis="y", color=canvas.tint(0.1), lw=0.6)
    ax.set_axisbelow(True)


def _finding(scan: Scan) -> str:
    """Name the highest bandwidth, and the largest problem versus the fastest peer.

    For functions: from which size each peer is faster, or the time of the largest problem.
    """
    last = scan.sweeps[-1]
    if scan.lengths:
        time = f"{quantity(last[0].seconds, 's')} at {elements(scan.sizes[-1])}"
        return scan.finding or f"{last[0].variant}: {time}"

    def fastest(sweeps: Iterable[Sweep]) -> Measurement:
        found = [m for s in sweeps for m in s.variants or s.measurements]
        return max(found, key=lambda m: m.bytes_per_second)

    def words(m: Measurement) -> str:
        rate = f"{quantity(m.bytes_per_second, 'B/s')} at {binary_size(m.bytes)}"
        return rate if len(scan.names) == 1 else f"{m.variant}: {rate}"

    best, largest = fastest(scan), fastest([last])
    parts = [words(m) for m in dict.fromkeys([best, largest])]
    return ", ".join(["; ".join(parts), *beside_peers(largest, last.peers)])
