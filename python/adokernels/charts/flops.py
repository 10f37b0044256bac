"""The hierarchical roofline: FLOPs per second versus FLOPs per byte at each memory level.

Sources: Williams, Waterman & Patterson, "Roofline", CACM 2009; Yang, Kurth & Williams,
"Hierarchical Roofline Analysis for GPUs", CCPE 2020.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adokernels.charts.bandwidth import level_bandwidths
from adokernels.charts.canvas import COMPUTE, MEMORY, Canvas, entry, level_entries
from adokernels.charts.published import PublishedPoints, points_of, published_layer
from adokernels.charts.roofs import (
    REQUESTED,
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
    slower,
)
from adokernels.tables.numbers import number, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.artist import Artist

    from adokernels.charts.labels import Point
    from adokernels.charts.published import PublishedLayer
    from adokernels.measuring.records import Machine, Measurement, Sweep

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
    canvas: Canvas,
    sweep: Sweep,
    machine: Machine,
    highlight: set[str],
    wrong: Sequence[Measurement],
    options: FlopsOptions,
) -> tuple[str, str]:
    """Draw the roofline; return the finding and the layers, each as a short text.

    Raises
    ------
    ValueError
        If no measurement has the counters that points per precision need.
    """
    everything = (*sweep.measurements, *sweep.peers)
    tracks = [t for m in everything for t in _tracks(m, m in sweep.peers, options)]
    if options.by_precision and not tracks:
        raise ValueError(
            "what must contain counted FLOPs for by_precision=True, got none; measure with"
            " ado.sweep(..., counters=True)"
        )
    known = _roofs(canvas, machine, sweep, tracks, options)
    ours = {t.precision or t.m.problem.precision for t in tracks}
    roofs = [r for r in known if r.slope or r.name.split()[0] in ours]
    roofs = roofs if ours <= {c.level for c in machine.of_kind("compute")} and ours else known
    layer = _layer(machine, roofs, options)
    tracks = [_with_mix(t, roofs) for t in tracks]
    limits = [r for r in roofs if not r.name.endswith("add")]
    roofs += [r for t in tracks if sweep.variants and t.m is sweep.fastest for r in t.own]
    more = [*points_of(layer), *_visible_parts(roofs, options)]
    draw_frame(canvas, tracks, roofs, full=known if options.full else (), more=more)
    canvas.ax.set_xlabel("Arithmetic intensity [FLOP/byte]", fontsize=canvas.font + 1)
    canvas.ax.set_ylabel("Performance [FLOP/s]", fontsize=canvas.font + 1)
    visible = draw_roofs(canvas, roofs)
    walls = _compulsory(tracks) if options.shows("DRAM") and not options.by_precision else []
    draw_walls(canvas, walls)
    if layer:
        layer.draw(canvas)
    draw_tracks(canvas, tracks, highlight)
    # The order of these calls is the order of placement: labels with few candidate places first.
    mark_wrong(canvas, tracks, wrong)
    if canvas.annotate:
        label_roofs(canvas, visible)
        name_tracks(canvas, tracks, highlight)
        if layer:
            layer.label(canvas)
        others = len({t.m for t in tracks if t.m.variant not in highlight and not t.peer})
        key = _key(canvas, sweep, tracks, roofs, walls, highlight)
        key += layer.key(canvas) if layer else []
        canvas.legend_below([*key, *common_key(canvas, roofs, visible, others)])
    _shade(canvas, roofs)
    found = finding(tracks, limits, sweep) if tracks else "Ceilings"
    return found, layer.words if layer else ""


def _visible_parts(roofs: Sequence[Roof], options: FlopsOptions) -> list[Point]:
    """Points on the roofs of the requested levels, below the ridge points."""
    height = max(r.value for r in roofs if not r.slope) / _BELOW_RIDGE
    return [(height / r.value, height) for r in roofs if r.slope] if options.levels else []


def _layer(machine: Machine, roofs: Sequence[Roof], options: FlopsOptions) -> PublishedLayer | None:
    if options.published is None:
        return None
    levels = {level for r in roofs for level in r.levels}
    precisions = {r.name.split()[0] for r in roofs if not r.slope}
    return published_layer(options.published, machine, levels, precisions)


def _work(m: Measurement) -> float:
    """FLOPs per call: counted if available, else from the formula of the variant."""
    return (m.counted_flops or m.executed_flops) if m.flops else 0.0


def _tracks(m: Measurement, peer: bool, options: FlopsOptions) -> Iterator[Track]:
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
                amount=flops,
                intensities=places,
                peer=peer,
                compulsory=flops / m.bytes if compulsory else None,
                precision=precision,
            )


def _roofs(
    canvas: Canvas,
    machine: Machine,
    sweep: Sweep,
    tracks: Sequence[Track],
    options: FlopsOptions,
) -> list[Roof]:
    rates = [t.m.counted_bytes.get("DRAM", 0.0) / t.m.seconds for t in tracks]
    rates += [sweep.roof] if sweep.roof else []
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
    canvas: Canvas,
    sweep: Sweep,
    tracks: Sequence[Track],
    roofs: Sequence[Roof],
    walls: Sequence[Wall],
    highlight: set[str],
) -> list[Artist]:
    hollow = {"mfc": canvas.paper, "mec": canvas.ink}
    counted = [t.m for t in tracks if t.m.counted_flops]
    modelled = [t.m for t in tracks if not t.m.counted_flops and not t.peer]
    key: list[Artist] = list(level_entries(chosen_levels(tracks, highlight), "{} bytes, counted"))
    if any(REQUESTED in t.intensities and not t.peer for t in tracks):
        key.append(entry("requested bytes, by formula", marker="o", **hollow))
    slowest = min(r.value for r in roofs if r.slope)
    hollow_tracks = [t for t in tracks if REQUESTED in t.intensities]
    if any(t.height > _ABOVE_COPY * slowest * t.intensities[REQUESTED] for t in hollow_tracks):
        key.append(entry("points above the DRAM roof: caches serve part of the requested bytes"))
    if any(t.peer for t in tracks):
        key.append(entry("peer: useful FLOPs, compulsory bytes", marker="P", **hollow))
    if counted and modelled:
        names = ", ".join(m.variant for m in modelled)
        key.append(entry(f"FLOPs counted; by formula: {names}"))
    elif tracks:
        key.append(entry("FLOPs counted" if counted else "FLOPs by formula"))
    if any(r.style.get("ls") for r in roofs):
        key.append(
            entry(
                f"limit of the instruction mix of {sweep.fastest.variant}", color=canvas.ink, ls=":"
            )
        )
    left, right = canvas.ax.get_xlim()
    key += [entry(f"off scale: {wall.words}") for wall in walls if not left < wall.x < right]
    everything = (*sweep.measurements, *sweep.peers)
    shown = {t.m for t in tracks}
    if missing := [m.variant for m in everything if m not in shown]:
        key.append(entry(f"not shown, no FLOPs: {', '.join(missing)}"))
    return key


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
