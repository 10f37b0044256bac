"""The instruction roofline: warp instructions per second versus instructions per transaction.

Source: Ding & Williams, "An Instruction Roofline Model for GPUs", PMBS 2019. Transactions are
32-byte sectors at each memory level. Walls are vertical lines that mark access patterns of global
memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels._core import Unavailable
from adokernels.charts.bandwidth import level_bandwidths
from adokernels.charts.canvas import entry
from adokernels.charts.roofs import (
    Roof,
    Wall,
    bandwidth_roofs,
    draw_frame,
    draw_roofs,
    draw_walls,
    label_roofs,
    roof_entries,
    roofs_of,
)
from adokernels.charts.series import hosts_of
from adokernels.charts.tracks import (
    Below,
    Track,
    draw_tracks,
    finding,
    mark_wrong,
    name_tracks,
    track_entries,
)
from adokernels.records.metrics import SECTOR, WARP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist

    from adokernels.charts.canvas import Canvas
    from adokernels.charts.series import Host, Series
    from adokernels.records.measurement import Measurement

_LEVELS = ("L1", "L2", "DRAM")
#: Minimum share of the instructions for which loads or stores are shown.
_LEAST = 1e-3
_ACCESS: dict[str, dict[str, Any]] = {
    "load": {"marker": "<", "ms": 5.5},
    "store": {"marker": ">", "ms": 5.5},
}


def draw_instructions(
    canvas: Canvas, series: Sequence[Series], wrong: Sequence[Measurement], *, full: bool
) -> str:
    """Draw the instruction roofline; return the finding as a short text.

    Raises
    ------
    Unavailable
        If the issue rate of a machine is unknown.
    """
    tracks = [t for s in series for m in s.everything if (t := _track(m, s))]
    layers = []
    for host in hosts_of(series):
        roofs = roofs_of(canvas, _roofs(canvas, host), host, series)
        ours = [t for t in tracks if t.series.host is host]
        layers.append(Below(host=host, roofs=roofs, limits=roofs, tracks=ours))
    roofs = [r for below in layers for r in below.roofs]
    walls = _walls(tracks)
    draw_frame(canvas, tracks, roofs, walls=walls, full=roofs if full else ())
    canvas.ax.set_xlabel(
        "Instruction intensity [warp instructions / 32-byte sector]", fontsize=canvas.font + 1
    )
    canvas.ax.set_ylabel("Warp instructions / s", fontsize=canvas.font + 1)
    visible = [draw_roofs(canvas, below.roofs) for below in layers]
    draw_walls(canvas, walls)
    draw_tracks(canvas, tracks)
    mark_wrong(canvas, tracks, wrong)
    if canvas.annotate:
        for labelled in visible:
            label_roofs(canvas, labelled)
        name_tracks(canvas, tracks)
        key = track_entries(canvas, series, tracks, "all instructions / {} sectors")
        key += _key(canvas, series, tracks)
        key += roof_entries(canvas, layers, [r for labelled in visible for r in labelled])
        canvas.legend_below(key)
    return finding(layers, series)


def _roofs(canvas: Canvas, host: Host) -> list[Roof]:
    issue = host.machine.issue_rate
    if issue is None:
        raise Unavailable(
            f"kind='instructions' needs the issue rate, which is unknown for {host.machine.title}; "
            "it is known for NVIDIA GPUs with 128 FP32 lanes per multiprocessor: use "
            "kind='bandwidth'"
        )
    reading = level_bandwidths(host.machine, reading=True)
    roofs = bandwidth_roofs([c for c in reading if c.level in _LEVELS], SECTOR, "sectors/s")
    roofs.append(
        Roof(
            name="issue slots",
            value=issue.measured,
            theoretical=issue.theoretical,
            slope=0,
            unit="inst/s",
            colour=canvas.ink,
        )
    )
    return roofs


def _key(canvas: Canvas, series: Sequence[Series], tracks: Sequence[Track]) -> list[Artist]:
    hollow = {"mfc": canvas.paper, "mec": canvas.ink}
    used = [style for t in tracks if t.chosen for *_, style in t.extra]
    key: list[Artist] = [
        entry(f"global {op}s only / their sectors", **style, **hollow)
        for op, style in _ACCESS.items()
        if style in used
    ]
    shown = {t.m for t in tracks}
    missing = [m.variant for s in series for m in s.everything if m not in shown]
    if missing:
        key.append(entry(f"not shown, no counters: {', '.join(dict.fromkeys(missing))}"))
    return key


def _track(m: Measurement, series: Series) -> Track | None:
    instructions = m.profile.get("instructions") if m.profile else None
    if not m.profile or not instructions:
        return None
    moved = {level: m.counted_bytes[level] for level in _LEVELS if level in m.counted_bytes}
    extra = []
    for op, style in _ACCESS.items():
        requests, sectors = m.profile.get(f"{op}_requests"), m.profile.get(f"{op}_sectors")
        if requests and sectors and requests > _LEAST * instructions:
            extra.append((requests / sectors, requests / m.seconds, style))
    places = {level: instructions * SECTOR / amount for level, amount in moved.items()}
    return Track(m=m, series=series, amount=instructions, intensities=places, extra=tuple(extra))


def _walls(tracks: Sequence[Track]) -> list[Wall]:
    """Make the walls of the access patterns: sectors per request of global loads and stores."""
    dtypes = {o.dtype for t in tracks for o in t.m.problem.operands}
    found: dict[int, str] = {1: "stride 0"}
    for size in sorted({np.dtype(dtype).itemsize for dtype in dtypes}):
        words = f"unit stride, {size} B"
        found[size] = f"{found[size]}; {words}" if size in found else words
    scattered = f"{found[WARP]}; scattered" if WARP in found else "scattered"
    found[WARP] = scattered
    return [Wall(x=1 / sectors, words=words) for sectors, words in found.items()]
