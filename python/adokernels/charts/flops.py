"""The hierarchical roofline: FLOPs per second versus FLOPs per byte at each memory level.

Sources: Williams, Waterman & Patterson, "Roofline", CACM 2009; Yang, Kurth & Williams,
"Hierarchical Roofline Analysis for GPUs", CCPE 2020.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adokernels.charts.bandwidth import level_bandwidths
from adokernels.charts.canvas import COMPUTE, MEMORY, Canvas, entry
from adokernels.charts.published import PublishedPoints, points_of, published_layer
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
    slower,
)
from adokernels.charts.series import hosts_of
from adokernels.charts.tracks import (
    REQUESTED,
    Below,
    Track,
    draw_tracks,
    finding,
    mark_wrong,
    name_tracks,
    track_entries,
)
from adokernels.text import number, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.artist import Artist

    from adokernels.charts.labels import Point
    from adokernels.charts.published import PublishedLayer
    from adokernels.charts.series import Host, Series
    from adokernels.records.machine import Machine
    from adokernels.records.measurement import Measurement

#: Rates that exceed the DRAM copy ceiling by this factor are compared with the read ceiling.
_ABOVE_COPY = 1.03
#: The roof of a requested level is visible down to its ridge point divided by this factor.
_BELOW_RIDGE = 3.0
#: Precisions whose FLOPs are counted, in the order of labelling.
_PRECISIONS = ("FP32", "FP64")


@dataclass(frozen=True, kw_only=True)
class FlopsOptions:
    """What a roofline shows.

    Attributes
    ----------
    full
        Whether the axes depend only on the machine.
    levels
        The memory levels; None for all.
    by_precision
        Whether the FLOPs of each precision have their own points.
    published
        Published points of another machine; None for none.
    """

    full: bool = False
    levels: frozenset[str] | None = None
    by_precision: bool = False
    published: PublishedPoints | None = None

    def shows(self, level: str) -> bool:
        """Whether the points of a memory level are shown."""
        return self.levels is None or level in self.levels


def draw_flops(
    canvas: Canvas, series: Sequence[Series], wrong: Sequence[Measurement], options: FlopsOptions
) -> tuple[str, str]:
    """Draw the roofline; return the finding and the layers, each as a short text.

    Raises
    ------
    ValueError
        If no measurement has the counters that points per precision need.
    """
    tracks = [t for s in series for m in s.everything for t in _tracks(m, s, options)]
    if options.by_precision and not tracks:
        raise ValueError(
            "what must contain counted FLOPs for by_precision=True, got none; measure with"
            " ado.sweep(..., counters=True)"
        )
    known: list[Roof] = []
    layers: list[Below] = []
    for host in hosts_of(series):
        of_host = [s for s in series if s.host is host]
        ours = [t for t in tracks if t.series.host is host]
        found = _roofs(canvas, host.machine, of_host, ours, options)
        known += found
        layers.append(_below(canvas, host, found, ours, series))
    tracks = [t for below in layers for t in below.tracks]
    roofs = [r for below in layers for r in below.roofs]
    published = _layer(layers, options)
    more = [*points_of(published), *_visible_parts(layers, options)]
    draw_frame(canvas, tracks, roofs, full=known if options.full else (), more=more)
    canvas.ax.set_xlabel("Arithmetic intensity [FLOP/byte]", fontsize=canvas.font + 1)
    canvas.ax.set_ylabel("Performance [FLOP/s]", fontsize=canvas.font + 1)
    visible = [draw_roofs(canvas, below.roofs) for below in layers]
    alone = len(series) == 1
    with_walls = alone and options.shows("DRAM") and not options.by_precision
    walls = _compulsory(tracks) if with_walls else []
    draw_walls(canvas, walls)
    if published:
        published.draw(canvas)
    draw_tracks(canvas, tracks)
    # The order of these calls is the order of placement: labels with few candidate places first.
    mark_wrong(canvas, tracks, wrong)
    if canvas.annotate:
        for labelled in visible:
            label_roofs(canvas, labelled)
        name_tracks(canvas, tracks)
        if published:
            published.label(canvas)
        key = track_entries(canvas, series, tracks, "{} bytes, counted")
        key += _key(canvas, series, layers, walls)
        key += published.key(canvas) if published else []
        key += roof_entries(canvas, layers, [r for labelled in visible for r in labelled])
        canvas.legend_below(key)
    if len(layers) == 1:
        _shade(canvas, roofs)
    found_words = finding(layers, series) if tracks else "Ceilings"
    return found_words, published.words if published else ""


def _below(
    canvas: Canvas,
    host: Host,
    known: Sequence[Roof],
    tracks: Sequence[Track],
    series: Sequence[Series],
) -> Below:
    """Select the roofs of a machine: those of the precisions of its points."""
    ours = {t.precision or t.m.problem.precision for t in tracks}
    roofs = [r for r in known if r.slope or r.name.split()[0] in ours]
    peaks = {c.level for c in host.machine.of_kind("compute")}
    roofs = roofs if ours and ours <= peaks else list(known)
    limits = [r for r in roofs if not r.name.endswith("add")]
    if len(series) == 1:
        tracks = [_with_mix(t, roofs) for t in tracks]
        variants = series[0].sweep.variants
        roofs += [r for t in tracks if variants and t.m is series[0].sweep.fastest for r in t.own]
    elif not host.alone:
        roofs = limits
    return Below(
        host=host, roofs=roofs_of(canvas, roofs, host, series), limits=limits, tracks=tracks
    )


def _visible_parts(layers: Sequence[Below], options: FlopsOptions) -> list[Point]:
    """Points on the roofs of the requested levels, below the ridge points of each machine."""
    if not options.levels or not any(below.tracks for below in layers):
        return []
    found = []
    for below in layers:
        height = max(r.value for r in below.roofs if not r.slope) / _BELOW_RIDGE
        found += [(height / r.value, height) for r in below.roofs if r.slope]
    return found


def _layer(layers: Sequence[Below], options: FlopsOptions) -> PublishedLayer | None:
    if options.published is None:
        return None
    roofs = [r for below in layers for r in below.roofs]
    levels = {level for r in roofs for level in r.levels}
    precisions = {r.name.split()[0] for r in roofs if not r.slope}
    machines = [below.host.machine for below in layers]
    return published_layer(options.published, machines, levels, precisions)


def _work(m: Measurement) -> float:
    """FLOPs per call: counted if available, else from the formula of the variant."""
    return (m.counted_flops or m.executed_flops) if m.flops else 0.0


def _tracks(m: Measurement, series: Series, options: FlopsOptions) -> Iterator[Track]:
    """The points of a measurement: those of all FLOPs, or those of each precision."""
    if not _work(m):
        return
    if options.by_precision:
        counted = {
            p: m.profile.get(f"flops_{p.lower()}") if m.profile else None for p in _PRECISIONS
        }
        amounts = {precision: flops for precision, flops in counted.items() if flops}
    else:
        amounts = {"": _work(m)}
    for precision, flops in amounts.items():
        moved = m.counted_bytes or {REQUESTED: m.requested_bytes}
        places = {
            level: flops / amount
            for level, amount in moved.items()
            if amount and (options.shows(level) or level == REQUESTED)
        }
        compulsory = m.bytes and m.cache == "cold" and not m.counted_bytes
        if places:
            yield Track(
                m=m,
                series=series,
                amount=flops,
                intensities=places,
                compulsory=flops / m.bytes if compulsory else None,
                precision=precision,
            )


def _roofs(
    canvas: Canvas,
    machine: Machine,
    series: Sequence[Series],
    tracks: Sequence[Track],
    options: FlopsOptions,
) -> list[Roof]:
    rates = [t.m.counted_bytes.get("DRAM", 0.0) / t.m.seconds for t in tracks]
    rates += [s.sweep.roof for s in series if s.sweep.roof]
    reading = max(rates, default=0.0) > _ABOVE_COPY * machine.roof
    roofs = [
        r
        for r in bandwidth_roofs(level_bandwidths(machine, reading=reading), 1.0, "B/s")
        if any(map(options.shows, r.levels))
    ]
    for c in machine.of_kind("compute"):
        if options.by_precision and c.operation != "fma":
            continue
        operation = "FMA" if c.operation == "fma" else c.operation
        roofs.append(
            Roof(
                name=f"{c.level} {operation}",
                value=c.measured,
                theoretical=c.theoretical,
                slope=0,
                unit="FLOP/s",
                colour=canvas.ink,
                style={"lw": 1.5 if c.operation == "fma" else 1.0},
            )
        )
    return roofs


def _with_mix(track: Track, roofs: Sequence[Roof]) -> Track:
    """Add the roof of the instruction mix of a measurement, if its instructions are counted.

    This roof exists only for GPUs, where one pipe executes all floating-point instructions. CPUs
    may have separate pipes for additions.
    """
    m = track.m
    share = m.profile.get("fma_share") if m.profile else None
    share = m.fma_share if share is None else share
    precision = m.problem.precision
    fused = next((r for r in roofs if r.name == f"{precision} FMA"), None)
    if share is None or fused is None or m.device != "cuda" or track.peer or track.precision:
        return track
    mix = slower(fused, (1 + share) / 2, f"{precision} with {percent(share)} FMA")
    return dataclasses.replace(track, own=(mix,))


def _compulsory(tracks: Sequence[Track]) -> list[Wall]:
    xs = dict.fromkeys(t.m.flops / t.m.bytes for t in tracks if t.m.flops and t.m.bytes)
    return [Wall(x=x, words=f"compulsory {number(x)} FLOP/B") for x in xs]


def _key(
    canvas: Canvas, series: Sequence[Series], layers: Sequence[Below], walls: Sequence[Wall]
) -> list[Artist]:
    tracks = [t for below in layers for t in below.tracks]
    roofs = [r for below in layers for r in below.roofs]
    hollow = {"mfc": canvas.paper, "mec": canvas.ink}
    key: list[Artist] = []
    by_formula = [t for t in tracks if REQUESTED in t.intensities]
    if any(not t.peer for t in by_formula):
        key.append(entry("requested bytes, by formula", marker="o", **hollow))
    for below in layers:
        slowest = min(r.value for r in below.roofs if r.slope)
        if any(
            t.height > _ABOVE_COPY * slowest * t.intensities[REQUESTED]
            for t in below.tracks
            if REQUESTED in t.intensities
        ):
            words = "points above the DRAM roof: caches serve part of the requested bytes"
            key.append(entry(words))
            break
    if any(t.peer for t in tracks):
        key.append(entry("peer: useful FLOPs, compulsory bytes", marker="P", **hollow))
    key += _sources(series, tracks)
    if any(t.own for t in tracks):
        fastest = series[0].sweep.fastest.variant
        if any(r.style.get("ls") for r in roofs):
            words = f"limit of the instruction mix of {fastest}"
            key.append(entry(words, color=canvas.ink, ls=":"))
    left, right = canvas.ax.get_xlim()
    key += [entry(f"off scale: {wall.words}") for wall in walls if not left < wall.x < right]
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


def _shade(canvas: Canvas, roofs: Sequence[Roof]) -> None:
    """Shade the memory-bound and compute-bound regions of the slowest memory level."""
    slowest = min((r for r in roofs if r.slope), key=lambda r: r.value)
    peaks = [r.value for r in roofs if not r.slope]
    fused = [r.value for r in roofs if r.name.endswith("FMA")]
    ridges = [peak / slowest.value for peak in fused or peaks]
    left, right = canvas.ax.get_xlim()
    level = slowest.levels[0]
    regions = (
        (f"{level}: memory-bound", left, min(*ridges, right), MEMORY),
        ("compute-bound", max(*ridges, left), right, COMPUTE),
    )
    for name, start, end, colour in regions:
        if start >= end:
            continue
        canvas.ax.axvspan(start, end, color=colour, alpha=0.05, lw=0, zorder=0)
        canvas.ax.set_xlim(left, right)
        if canvas.annotate:
            places = [
                {"position": (start ** (1 - share) * end**share, y)}
                for y in (0.03, 0.08, 0.25, 0.3, 0.35, 0.4, 0.97)
                for share in (0.5, 0.3, 0.7, 0.15, 0.85)
            ]
            transform = canvas.ax.get_xaxis_transform()
            style: dict[str, Any] = {"ha": "center", "va": "center", "color": colour}
            canvas.label(name, places, transform=transform, **style)
