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
from adokernels.charts.canvas import entry, level_entries
from adokernels.charts.roofs import (
    Roof,
    Track,
    Wall,
    bandwidth_roofs,
    chosen_levels,
    common_key,
    draw_frame,
    draw_roofs,
    draw_tracks,
    draw_walls,
    finding,
    label_roofs,
    mark_wrong,
    name_tracks,
)
from adokernels.counters.metrics import SECTOR, WARP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adokernels.charts.canvas import Canvas
    from adokernels.measuring.records import Machine, Measurement, Sweep

_LEVELS = ("L1", "L2", "DRAM")
#: Minimum share of the instructions for which loads or stores are shown.
_LEAST = 1e-3
_ACCESS: dict[str, dict[str, Any]] = {
    "load": {"marker": "<", "ms": 5.5},
    "store": {"marker": ">", "ms": 5.5},
}


def draw_instructions(
    canvas: Canvas,
    sweep: Sweep,
    machine: Machine,
    highlight: set[str],
    wrong: Sequence[Measurement],
    *,
    full: bool,
) -> str:
    """Draw the instruction roofline; return the finding as a short text.

    Raises
    ------
    Unavailable
        If the issue rate of the machine is unknown.
    ValueError
        If no measurement has counters.
    """
    issue = machine.issue_rate
    if issue is None:
        raise Unavailable(
            "an instruction roofline needs the issue rate, which is known for GPUs with 128 FP32"
            " lanes per multiprocessor: use kind='bandwidth'"
        )
    everything = (*sweep.measurements, *sweep.peers)
    tracks = [t for m in everything if (t := _track(m, peer=m in sweep.peers))]
    if not tracks:
        raise ValueError(
            "an instruction roofline needs hardware counters: measure with"
            " ado.sweep(..., counters=True)"
        )
    unit = "sectors/s"
    ceilings = [c for c in level_bandwidths(machine, reading=True) if c.level in _LEVELS]
    roofs = bandwidth_roofs(ceilings, SECTOR, unit)
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
    walls = _walls(tracks)
    draw_frame(canvas, tracks, roofs, walls=walls, full=roofs if full else ())
    canvas.ax.set_xlabel(
        "Instruction intensity [warp instructions / 32-byte sector]", fontsize=canvas.font + 1
    )
    canvas.ax.set_ylabel("Warp instructions / s", fontsize=canvas.font + 1)
    visible = draw_roofs(canvas, roofs)
    draw_walls(canvas, walls)
    draw_tracks(canvas, tracks, highlight)
    mark_wrong(canvas, tracks, wrong)
    if canvas.annotate:
        label_roofs(canvas, visible)
        name_tracks(canvas, tracks, highlight)
        others = sum(t.m.variant not in highlight and not t.peer for t in tracks)
        hollow = {"mfc": canvas.paper, "mec": canvas.ink}
        key = level_entries(chosen_levels(tracks, highlight), "all instructions / {} sectors")
        used = [style for t in tracks if t.m.variant in highlight for *_, style in t.extra]
        key += [
            entry(f"global {op}s only / their sectors", **style, **hollow)
            for op, style in _ACCESS.items()
            if style in used
        ]
        canvas.legend_below([*key, *common_key(canvas, roofs, visible, others)])
    return finding(tracks, roofs, sweep)


def _track(m: Measurement, *, peer: bool) -> Track | None:
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
    return Track(m=m, amount=instructions, intensities=places, peer=peer, extra=tuple(extra))


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
