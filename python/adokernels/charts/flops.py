"""The hierarchical roofline: FLOPs per second versus FLOPs per byte at each memory level.

Sources: Williams, Waterman & Patterson, "Roofline", CACM 2009; Yang, Kurth & Williams,
"Hierarchical Roofline Analysis for GPUs", CCPE 2020.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

from matplotlib.artist import Artist

from adokernels.charts.bandwidth import level_bandwidths
from adokernels.charts.canvas import COMPUTE, MEMORY, Canvas, entry, level_style
from adokernels.charts.content import Content
from adokernels.charts.labels import Point
from adokernels.charts.published import PublishedPoints, published_layer
from adokernels.charts.roofs import Roof, Wall, bandwidth_roofs, flat_roof
from adokernels.charts.series import Host, Series, hosts_of
from adokernels.charts.tracks import REQUESTED, Layer, Track
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import mix_limit
from adokernels.text import number, percent

#: Kinds of ceilings that are drawn only on request, or if a point exceeds the others.
OPTIONAL: tuple[Literal["link"], Literal["tensor"]] = ("link", "tensor")
_LINK = "host link"
#: Rates that exceed the DRAM copy ceiling by this factor are compared with the read ceiling.
_ABOVE_COPY = 1.03
#: The roof of a requested level is visible down to its ridge point divided by this factor.
_BELOW_RIDGE = 3.0
#: Precisions whose FLOPs are counted, in the order of labelling.
_PRECISIONS = ("FP32", "FP64")


def flops(
    canvas: Canvas,
    series: Sequence[Series],
    *,
    full: bool,
    levels: frozenset[str] | None,
    by_precision: bool,
    published: PublishedPoints | None,
) -> Content:
    """Collect the content of the roofline; the arguments are the same as for :func:`roofline`.

    Raises ValueError if no measurement has the counters that points per precision need.
    """

    def shows(level: str) -> bool:
        return levels is None or level in levels

    everything = [(m, s) for s in series for m in s.everything]
    tracks = [t for m, s in everything for t in _tracks(m, s, shows, by_precision=by_precision)]
    if by_precision and not tracks:
        raise ValueError(
            "what must contain counted FLOPs for by_precision=True, got none; measure with"
            " ado.sweep(..., counters=True)"
        )
    known: list[Roof] = []
    layers: list[Layer] = []
    for host in hosts_of(series):
        ours = [t for t in tracks if t.series.host is host]
        found = _memory_roofs(host, series, ours, shows)
        found += _compute_roofs(host, canvas.ink, fused_only=by_precision)
        known += found
        more = _optional_roofs(host, ours, levels or frozenset(), canvas.ink)
        layers.append(_layer(host, found, more, ours, series, canvas.ink))
    walls: list[Wall] = []
    if len(series) == 1 and shows("DRAM") and not by_precision:
        xs = dict.fromkeys(t.m.flops / t.m.bytes for t in tracks if t.m.flops and t.m.bytes)
        walls = [Wall(x, f"compulsory {number(x)} FLOP/B") for x in xs]
    return Content(
        x="Arithmetic intensity [FLOP/byte]",
        y="Performance [FLOP/s]",
        layers=layers,
        full=known if full else (),
        walls=walls,
        more=_visible_parts(layers) if levels and tracks else (),
        points="{} bytes, counted",
        notes=partial(_notes, series=series, layers=layers),
        regions=_regions(layers[0].roofs) if len(layers) == 1 else (),
        published=published_layer(published, layers) if published else None,
    )


def _layer(
    host: Host,
    known: Sequence[Roof],
    more: Sequence[Roof],
    tracks: Sequence[Track],
    series: Sequence[Series],
    ink: str,
) -> Layer:
    """Select the roofs of a machine for the plotted precisions, and add `more` roofs."""
    ours = {t.precision or t.m.problem.precision for t in tracks}
    peaks = {c.level for c in host.machine.of_kind("compute")}
    roofs = list(known)
    if ours and ours <= peaks:
        roofs = [r for r in known if r.slope or r.name.split()[0] in ours]
    roofs += more
    limits = [r for r in roofs if not r.name.endswith("add") and _LINK not in r.levels]
    if len(series) > 1:
        shown = roofs if host.alone else limits
        return Layer(host, [r.beside_others(host, ink) for r in shown], limits, tracks)
    tracks = [_with_mix(t, roofs) for t in tracks]
    variants = series[0].sweep.variants
    roofs += [r for t in tracks if variants and t.m is series[0].sweep.fastest for r in t.own]
    return Layer(host, roofs, limits, tracks)


def _visible_parts(layers: Sequence[Layer]) -> list[Point]:
    """Points on the roofs of the requested levels, below the ridge points of each machine."""
    found = []
    for layer in layers:
        height = max(r.value for r in layer.roofs if not r.slope) / _BELOW_RIDGE
        found += [(height / r.value, height) for r in layer.roofs if r.slope]
    return found


def has_flops(m: Measurement) -> bool:
    """Whether useful FLOPs are declared, or, as in reports of Nsight Compute, FLOPs are counted."""
    return bool(m.flops or m.counted_flops)


def _tracks(
    m: Measurement, series: Series, shows: Callable[[str], bool], *, by_precision: bool
) -> Iterator[Track]:
    """The points of a measurement for all FLOPs, or per precision; counted FLOPs if available."""
    amounts = {"": m.counted_flops or m.executed_flops}
    if by_precision:
        counted = ((p, m.profile and m.profile.get(f"flops_{p.lower()}")) for p in _PRECISIONS)
        amounts = {precision: flops or 0.0 for precision, flops in counted}
    moved = m.counted_bytes or {REQUESTED: m.requested_bytes}
    moved = {k: v for k, v in moved.items() if v and (shows(k) or k == REQUESTED)}
    bounded = m.bytes and m.cache == "cold" and not m.counted_bytes
    for precision, flops in amounts.items():
        if has_flops(m) and flops and moved:
            places = {level: flops / amount for level, amount in moved.items()}
            own: dict[str, Any] = {
                "compulsory": flops / m.bytes if bounded else None,
                "precision": precision,
            }
            yield Track(m=m, series=series, amount=flops, intensities=places, **own)


def _memory_roofs(
    host: Host, series: Sequence[Series], tracks: Sequence[Track], shows: Callable[[str], bool]
) -> list[Roof]:
    machine = host.machine
    rates = [t.m.counted_bytes.get("DRAM", 0.0) / t.m.seconds for t in tracks]
    rates += [s.sweep.roof for s in series if s.host is host and s.sweep.roof]
    reading = max(rates, default=0.0) > _ABOVE_COPY * machine.roof
    roofs = bandwidth_roofs(level_bandwidths(machine, reading=reading), 1.0, "B/s")
    return [r for r in roofs if any(map(shows, r.levels))]


def _compute_roofs(host: Host, ink: str, *, fused_only: bool) -> list[Roof]:
    ceilings = host.machine.of_kind("compute")
    fused = [c for c in ceilings if c.operation == "fma"]
    roofs = {c: flat_roof(c, f"{c.level} FMA", "FLOP/s", ink) for c in fused}
    return [
        roofs.get(c) or flat_roof(c, f"{c.level} {c.operation}", "FLOP/s", ink, width=1.0)
        for c in (fused if fused_only else ceilings)
    ]


def _optional_roofs(
    host: Host, tracks: Sequence[Track], levels: frozenset[str], ink: str
) -> list[Roof]:
    """Make the roofs of tensor cores that points need, and those of the requested levels."""
    machine = host.machine
    needed = {
        best.level
        for t in tracks
        if (best := machine.fastest(t.precision or t.m.problem.precision, t.height))
    }
    roofs = [
        dataclasses.replace(flat_roof(c, c.level, "FLOP/s", ink, width=2.2), tensor=True)
        for c in machine.of_kind("tensor")
        if c.level in needed | levels
    ]
    style: dict[str, Any] = {"slope": 1, "unit": "B/s", "colour": level_style(_LINK)[0]}
    style |= {"levels": (_LINK,), "style": {"lw": 1.3, "ls": (0, (6, 2, 1, 2))}}
    for c in machine.of_kind("link"):
        if c.level in levels and c.operation.endswith("to device"):
            own: dict[str, Any] = {"name": c.name, "value": c.measured}
            roofs.append(Roof(**own, theoretical=c.theoretical, **style))
    return roofs


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
    fused = next((r for r in roofs if r.name == f"{precision} FMA"), None)
    if share is None or fused is None or m.device != "cuda" or track.peer or track.precision:
        return track
    mix = dataclasses.replace(
        fused,
        name=f"{precision} mix limit, {percent(share)} FMA",
        value=mix_limit(share) * fused.value,
        theoretical=None,
        style={"lw": 1.0, "ls": ":"},
    )
    return dataclasses.replace(track, own=(mix,))


def _notes(canvas: Canvas, series: Sequence[Series], layers: Sequence[Layer]) -> list[Artist]:
    tracks = [t for layer in layers for t in layer.tracks]
    key: list[Artist] = []
    by_formula = [t for t in tracks if REQUESTED in t.intensities]
    if any(not t.peer for t in by_formula):
        key.append(entry("requested bytes, by formula", marker="o", **canvas.hollow))
    for layer in layers:
        slowest = _ABOVE_COPY * _slowest_memory(layer.roofs).value
        if any(t.height > slowest * t.intensities.get(REQUESTED, math.inf) for t in layer.tracks):
            key.append(
                entry("points above the DRAM roof: caches serve part of the requested bytes")
            )
            break
    if any(t.peer for t in tracks):
        key.append(entry("peer: useful FLOPs, compulsory bytes", marker="P", **canvas.hollow))
    key += _sources(series, tracks)
    if any(r.style.get("ls") == ":" and r in t.own for t in tracks for r in layers[0].roofs):
        words = f"limit of the instruction mix of {series[0].sweep.fastest.variant}"
        key.append(entry(words, color=canvas.ink, ls=":"))
    return key


def _sources(series: Sequence[Series], tracks: Sequence[Track]) -> list[Artist]:
    """Note the origin of the FLOPs, and the measurements that have none."""
    counted = [t.m for t in tracks if t.m.counted_flops]
    modelled = [t for t in tracks if not t.m.counted_flops and not t.peer]
    notes: list[Artist] = []
    if counted and modelled:
        names = dict.fromkeys(t.series.name or t.m.variant for t in modelled)
        notes.append(entry(f"FLOPs counted; by formula: {', '.join(names)}"))
    elif tracks:
        notes.append(entry("FLOPs counted" if counted else "FLOPs by formula"))
    shown = {t.m for t in tracks}
    missing: list[str] = []
    for s in series:
        without = [m.variant for m in s.everything if m not in shown]
        missing += without if len(without) < len(s.everything) or not s.name else [s.name]
    if missing:
        notes.append(entry(f"not shown, no FLOPs: {', '.join(dict.fromkeys(missing))}"))
    return notes


def _regions(roofs: Sequence[Roof]) -> list[tuple[str, float, float, str]]:
    """The memory-bound and compute-bound regions of the slowest memory level."""
    slowest = _slowest_memory(roofs)
    peaks = [r for r in roofs if not (r.slope or r.tensor)]
    fused = [r for r in peaks if r.name.endswith("FMA")]
    ridges = [r.value / slowest.value for r in fused or peaks]
    below = (f"{slowest.levels[0]}: memory-bound", 0.0, min(ridges), MEMORY)
    return [below, ("compute-bound", max(ridges), math.inf, COMPUTE)]
