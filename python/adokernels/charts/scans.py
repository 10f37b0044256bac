"""The chart of a scan: bandwidth and time against the size of the problem."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from adokernels.charts.canvas import FADED, Canvas, entry, log_ticks
from adokernels.charts.verdicts import beside_peers
from adokernels.records.measurement import Measurement
from adokernels.records.scan import Scan
from adokernels.records.sweep import Sweep
from adokernels.text import prefix, quantity

#: Colours of Okabe & Ito, and markers, so that many lines remain distinct.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "0.35")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def draw_scan(scan: Scan, kind: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw one line per variant and peer, and a vertical line per cache."""
    kind = kind or ("bandwidth" if ax else "both")
    if kind not in ("bandwidth", "time", "both"):
        raise ValueError(f"kind must be 'bandwidth', 'time' or 'both', got {kind!r}")
    if kind != "both":
        canvas = Canvas(ax, annotate=True, size=(9.0, 5.0))
        canvas.legend_below(_draw(canvas, scan, kind))
        canvas.title(_finding(scan), scan.title)
        return canvas.ax
    if ax:
        raise ValueError("kind must be 'bandwidth' or 'time' if ax is given, got 'both'")
    figure = plt.figure(figsize=(9.0, 8.0), layout="constrained")
    upper, lower = (Canvas(each, annotate=True) for each in figure.subplots(2, 1, sharex=True))
    _draw(upper, scan, "bandwidth")
    upper.ax.set_xlabel("")
    upper.title(_finding(scan), scan.title)
    lower.legend_below(_draw(lower, scan, "time"))
    return upper.ax


def _draw(canvas: Canvas, scan: Scan, kind: str) -> list[Artist]:
    """Draw the lines; return the legend entries."""
    ax = canvas.ax
    key: list[Artist] = []
    peers = {m.variant for s in scan for m in s.peers}
    looks = itertools.cycle(zip(_COLOURS, _MARKERS, strict=True))
    for name, (colour, marker) in zip(scan.names, looks, strict=False):
        found = scan.of(name)
        ceiling = (" (ceiling)", ":") if found[0].ceiling else ("", "-")
        suffix, line = (" (peer)", "--") if name in peers else ceiling
        style: dict[str, Any] = {"color": colour, "marker": marker, "ls": line}
        xs, ys = [m.bytes for m in found], [_value(m, kind) for m in found]
        ax.plot(xs, ys, lw=1.5, ms=5, **style)
        key.append(entry(f"{found[0].shown_as}{suffix}", **style))
        canvas.labels.points += zip(xs, ys, strict=True)
        ends = [[m.bytes / t if kind == "bandwidth" else t for t in m.interval] for m in found]
        ax.vlines(xs, *zip(*ends, strict=True), color=colour, lw=0.9)
    if all(len(s) == 1 for s in scan):  # only the variant that a call uses, per problem
        called = [m for s in scan for m in s]
        xs, ys = [m.bytes for m in called], [_value(m, kind) for m in called]
        ax.plot(xs, ys, color=FADED, lw=0.9, zorder=1.5)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log" if kind == "time" else "linear")
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
    for level, size in scan.caches.items():
        if left < size < right:
            ax.axvline(size, color=FADED, lw=0.9, ls="--", zorder=1)
            top = ax.get_xaxis_transform() + canvas.shift(0, -0.8 * canvas.font)
            sides = (("left", canvas.shift(3)), ("right", canvas.shift(-3)))
            places = [{"ha": ha, "transform": top + shift} for ha, shift in sides]
            style = {"position": (size, 1.0), "va": "center", "color": FADED}
            canvas.label(f"{level} {_binary(size)}", places, **style)
    return key


def _value(m: Measurement, kind: str) -> float:
    return m.bytes_per_second if kind == "bandwidth" else m.seconds


def _frame(canvas: Canvas, scan: Scan, kind: str) -> None:
    ax = canvas.ax
    values = [_value(m, kind) for name in scan.names for m in scan.of(name)]
    factor, unit = prefix(max(values), "B/s" if kind == "bandwidth" else "s")
    if kind == "bandwidth":
        ax.set_ylim(0, 1.12 * max(values))
        name = f"Bandwidth [{unit}], compulsory bytes / time"
    else:
        ax.yaxis.set_major_locator(FixedLocator(log_ticks(0.9 * min(values), 1.1 * max(values))))
        ax.yaxis.set_minor_locator(NullLocator())
        name = f"Time per call [{unit}], logarithmic"
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{float(f'{y / factor:.3g}'):g}"))
    ax.xaxis.set_major_locator(LogLocator(base=4))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _binary(x)))
    canvas.frame("Compulsory bytes, logarithmic", name)
    ax.grid(axis="y", color="0.9", lw=0.6)
    ax.set_axisbelow(True)


def _binary(size: float) -> str:
    """Format a number of bytes with a binary prefix: ``"256 KiB"``."""
    units = ["TiB", "GiB", "MiB", "KiB", "B"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop()
    return f"{float(f'{size:.3g}'):g} {units[-1]}"


def _finding(scan: Scan) -> str:
    """Name the highest bandwidth, and the largest problem versus the fastest peer."""

    def fastest(sweeps: Iterable[Sweep]) -> Measurement:
        found = [m for s in sweeps for m in s.variants or s.measurements]
        return max(found, key=lambda m: m.bytes_per_second)

    def words(m: Measurement) -> str:
        rate = f"{quantity(m.bytes_per_second, 'B/s')} at {_binary(m.bytes)}"
        return rate if len(scan.names) == 1 else f"{m.variant}: {rate}"

    last = scan.sweeps[-1]
    best, largest = fastest(scan), fastest([last])
    parts = [words(m) for m in dict.fromkeys([best, largest])]
    return ", ".join(["; ".join(parts), *beside_peers(largest, last.peers)])
