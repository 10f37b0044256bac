"""The chart of a scan: bandwidth or time against the size of the problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from adokernels.charts.canvas import FADED, Canvas, entry
from adokernels.charts.counted import new_axes
from adokernels.tables.numbers import prefix, quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

    from adokernels.measuring.records import Measurement, Sweep
    from adokernels.measuring.scans import Scan

#: Colours of Okabe & Ito, and markers, so that many lines remain distinct.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "0.35")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def draw_scan(scan: Scan, kind: str, ax: Axes | None) -> Axes:
    """Draw one line per variant and peer, and a vertical line per cache."""
    if kind not in ("bandwidth", "time"):
        raise ValueError(f"kind must be 'bandwidth' or 'time', got {kind!r}")
    ax = ax or new_axes(9.0, 5.0)
    canvas = Canvas(ax, annotate=True)
    lines = {name: scan.of(name) for name in scan.names}
    key: list[Any] = []
    peers = {m.variant for s in scan for m in s.peers}
    for i, (name, found) in enumerate(lines.items()):
        style: dict[str, Any] = {
            "color": _COLOURS[i % len(_COLOURS)],
            "marker": _MARKERS[i % len(_MARKERS)],
        }
        dashed = "--" if name in peers else ":" if found[0].ceiling else "-"
        xs, ys = [m.bytes for m in found], [_value(m, kind) for m in found]
        ax.plot(xs, ys, ls=dashed, lw=1.5, ms=5, **style)
        kinds = " (peer)" if name in peers else " (ceiling)" if found[0].ceiling else ""
        key.append(entry(f"{found[0].shown_as}{kinds}", ls=dashed, **style))
    ax.set_xscale("log", base=2)
    ax.set_yscale("log" if kind == "time" else "linear")
    _axes(canvas, scan, kind)
    for level, size in scan.caches.items():
        if ax.get_xlim()[0] < size < ax.get_xlim()[1]:
            ax.axvline(size, color=FADED, lw=0.9, ls="--", zorder=1)
            sides = [
                {
                    "ha": ha,
                    "transform": ax.get_xaxis_transform() + canvas.shift(dx, -0.8 * canvas.font),
                }
                for ha, dx in (("left", 3), ("right", -3))
            ]
            style = {"position": (size, 1.0), "va": "center", "color": FADED}
            canvas.label(f"{level} {_binary(size)}", sides, **style)
    canvas.legend_below(key)
    canvas.title(_finding(scan), scan.title)
    return ax


def _value(m: Measurement, kind: str) -> float:
    return m.bytes_per_second if kind == "bandwidth" else m.seconds


def _axes(canvas: Canvas, scan: Scan, kind: str) -> None:
    ax = canvas.ax
    unit = "B/s" if kind == "bandwidth" else "s"
    largest = max(_value(m, kind) for name in scan.names for m in scan.of(name))
    factor, prefixed = prefix(largest, unit)
    if kind == "bandwidth":
        ax.set_ylim(0, 1.12 * largest)
        ax.set_ylabel(f"Bandwidth [{prefixed}], compulsory bytes / time", fontsize=canvas.font + 1)
    else:
        ax.set_ylabel(f"Time of a call [{prefixed}], logarithmic", fontsize=canvas.font + 1)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y / factor:g}"))
    ax.xaxis.set_major_locator(LogLocator(base=4))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _binary(x)))
    ax.set_xlabel("Compulsory bytes, logarithmic", fontsize=canvas.font + 1)
    ax.tick_params(labelsize=canvas.font)
    ax.grid(axis="y", color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _binary(size: float) -> str:
    """Format a number of bytes with a binary prefix: ``"256 KiB"``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} TiB"


def _finding(scan: Scan) -> str:
    """Name the bandwidth of the largest problem, and the highest one."""

    def fastest(sweeps: Iterable[Sweep]) -> Measurement:
        found = [m for s in sweeps for m in s.variants or s.measurements]
        return max(found, key=lambda m: m.bytes_per_second)

    best, largest = fastest(scan), fastest(scan.sweeps[-1:])
    words = f"{quantity(largest.bytes_per_second, 'B/s')} at {quantity(largest.bytes, 'B')}"
    if best is largest:
        return words
    return f"{quantity(best.bytes_per_second, 'B/s')} at {quantity(best.bytes, 'B')}, and {words}"
