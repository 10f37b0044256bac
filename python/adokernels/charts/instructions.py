"""The instruction roofline: warp instructions per second versus instructions per transaction.

Source: Ding & Williams, "An Instruction Roofline Model for GPUs", PMBS 2019. Transactions are
32-byte sectors at each memory level. Walls are vertical lines that mark access patterns of global
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist

from adokernels._core import Unavailable
from adokernels.charts.bandwidth import level_bandwidths
from adokernels.charts.canvas import Canvas, entry
from adokernels.charts.content import Content
from adokernels.charts.roofs import Roof, Wall, bandwidth_roofs, flat_roof
from adokernels.charts.series import Host, Series, hosts_of
from adokernels.charts.tracks import Layer, Track
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import SECTOR, WARP

_LEVELS = ("L1", "L2", "DRAM")
#: Minimum share of the instructions for which loads or stores are shown.
_LEAST = 1e-3
_ACCESS: dict[str, dict[str, Any]] = {
    "load": {"marker": "<", "ms": 5.5},
    "store": {"marker": ">", "ms": 5.5},
}


def instructions(canvas: Canvas, series: Sequence[Series], *, full: bool) -> Content:
    """Collect the content of the instruction roofline; Unavailable without an issue rate."""
    tracks = [t for s in series for m in s.everything if (t := _track(m, s))]
    layers = []
    for host in hosts_of(series):
        roofs = _roofs(host, canvas.ink)
        if len(series) > 1:
            roofs = [r.beside_others(host, canvas.ink) for r in roofs]
        layers.append(Layer(host, roofs, roofs, [t for t in tracks if t.series.host is host]))

    def notes(canvas: Canvas) -> list[Artist]:
        used = [style for t in tracks if t.chosen for *_, style in t.extra]
        key: list[Artist] = []
        for op, style in _ACCESS.items():
            if style in used:
                key.append(entry(f"global {op}s only / their sectors", **style, **canvas.hollow))
        shown = {t.m for t in tracks}
        missing = [m.variant for s in series for m in s.everything if m not in shown]
        if missing:
            key.append(entry(f"not shown, no counters: {', '.join(dict.fromkeys(missing))}"))
        return key

    return Content(
        x="Instruction intensity [warp instructions / 32-byte sector]",
        y="Warp instructions / s",
        layers=layers,
        full=[r for layer in layers for r in layer.roofs] if full else (),
        walls=_walls(tracks),
        wide=True,
        points="all instructions / {} sectors",
        notes=notes,
    )


def _roofs(host: Host, colour: str) -> list[Roof]:
    issue = host.machine.issue_rate
    if issue is None:
        raise Unavailable(
            f"kind='instructions' needs the issue rate, which is unknown for {host.machine.title}; "
            "it is known for NVIDIA GPUs with 128 FP32 lanes per multiprocessor: use "
            "kind='bandwidth'"
        )
    reading = level_bandwidths(host.machine, reading=True)
    roofs = bandwidth_roofs([c for c in reading if c.level in _LEVELS], SECTOR, "sectors/s")
    return [*roofs, flat_roof(issue, "issue slots", "inst/s", colour)]


def _track(m: Measurement, series: Series) -> Track | None:
    instructions = m.profile.get("instructions") if m.profile else None
    if not m.profile or not instructions:
        return None
    extra = []
    for op, style in _ACCESS.items():
        requests, sectors = m.profile.get(f"{op}_requests"), m.profile.get(f"{op}_sectors")
        if requests and sectors and requests > _LEAST * instructions:
            extra.append((requests / sectors, requests / m.seconds, style))
    moved = {level: m.counted_bytes[level] for level in _LEVELS if level in m.counted_bytes}
    places = {level: instructions * SECTOR / amount for level, amount in moved.items()}
    return Track(m=m, series=series, amount=instructions, intensities=places, extra=tuple(extra))


def _walls(tracks: Sequence[Track]) -> list[Wall]:
    """Make the walls of the access patterns: sectors per request of global loads and stores."""
    sizes = {np.dtype(o.dtype).itemsize for t in tracks for o in t.m.problem.operands}
    patterns = [(1, "stride 0"), *((size, f"unit stride, {size} B") for size in sorted(sizes))]
    found: dict[int, list[str]] = {}
    for sectors, words in (*patterns, (WARP, "scattered")):
        found.setdefault(sectors, []).append(words)
    return [Wall(1 / sectors, "; ".join(words)) for sectors, words in found.items()]
