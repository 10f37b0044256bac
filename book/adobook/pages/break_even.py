"""docs/results/break_even.md and its chart, from scans with copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

import adokernels as ado
from adobook.charts import new_canvas
from adobook.pages.stored import fill_template, origin
from adobook.text import write_table
from adokernels.charts.canvas import COMPUTE, FADED, MEMORY, entry
from adokernels.text import binary_size, ratio

BreakEven = ado.records.BreakEven
Scans = Mapping[str, ado.records.Scan]
#: Name, colour and marker of both break-even sizes, and their distance from the row of the routine.
_LOOKS = (("with copies", MEMORY, "o", -0.13), ("kernel alone", COMPUTE, "^", 0.13))


def text(scans: Scans) -> str:
    """Return the page as Markdown."""
    rows = []
    for name, scan in scans.items():
        even, alone, largest = *_sizes(scan), scan.offloads[-1]
        gain = largest.gpu.speedup_over(largest.cpu)
        ends = " to ".join(binary_size(scan.kernels[i].bytes) for i in (0, -1))
        link = f"[{name}](../../notebooks/data/break_even/{name}.json.xz)"
        rows.append((link, _cell(even), _cell(alone), ratio(gain), ends))
    header = ("routine", "with copies", "kernel alone", "at the largest size", "sizes measured")
    table = write_table(header, rows, ["---", "---", "---", "---:", "---"])
    contexts = [m.context for s in scans.values() for m in (s.kernels[0], s.offloads[0].cpu)]
    return fill_template("break_even.md", table=table, origin=origin(contexts))


def draw(scans: Scans) -> Figure:
    """Draw the break-even sizes of all routines on one axis."""
    canvas = new_canvas(1.6 + 0.34 * len(scans))
    ax = canvas.ax
    ax.set_xscale("log", base=2)
    for row, scan in enumerate(scans.values()):
        for even, (_, colour, marker, shift) in zip(_sizes(scan), _LOOKS, strict=True):
            style: dict[str, Any] = {"color": colour, "ls": "", "ms": 6, "zorder": 3}
            y = row + shift
            if even.upto is None:
                ax.plot([even.largest], [y], marker="x", **style)
                ax.plot([even.smallest, even.largest], [y, y], color=FADED, lw=0.8, ls=":")
                continue
            size = even.crossing or even.upto
            ax.plot([size], [y], marker=marker, **style)
            ax.plot([size, even.largest], [y, y], color=colour, lw=3, alpha=0.35)
    canvas.row_names(list(scans))
    ax.invert_yaxis()
    ax.xaxis.set_major_formatter(lambda x, _: binary_size(x))
    canvas.frame("Compulsory bytes, logarithmic; lines: the GPU is faster", spines="left bottom")
    keys = [entry(name, color=colour, marker=marker) for name, colour, marker, _ in _LOOKS]
    never = entry("not faster at the largest size", color=FADED, marker="x")
    canvas.legend_below([*keys, never])
    paying = sum(s.break_even is not None and s.break_even.upto is not None for s in scans.values())
    devices = {str(s.kernels[0].context.get("device_name", "GPU")) for s in scans.values()}
    title = f"With copies, the GPU pays off for {paying} of {len(scans)} routines"
    canvas.title(title, f"Default calls with NumPy arrays, {', '.join(sorted(devices))}")
    figure = ax.figure
    assert isinstance(figure, Figure)
    return figure


def _sizes(scan: ado.records.Scan) -> Sequence[BreakEven]:
    """The break-even size with copies, and the one of the kernel alone."""
    with_copies, alone = scan.break_even, scan.kernel_break_even
    assert with_copies is not None
    assert alone is not None
    return with_copies, alone


def _cell(even: BreakEven) -> str:
    if even.upto is None and even.ever:
        return f"some, but not {binary_size(even.largest)}"
    if even.upto is None:
        return f"none up to {binary_size(even.largest)}"
    if even.crossing is None:
        return f"{binary_size(even.upto)} or less"
    return (
        f"{binary_size(even.crossing)} ({binary_size(even.above or 0)} to {binary_size(even.upto)})"
    )
