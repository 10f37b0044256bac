"""The common part of both roofline charts: their content and its drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.artist import Artist
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from adokernels.charts.canvas import Canvas, entry
from adokernels.charts.labels import Point
from adokernels.charts.published import PublishedLayer
from adokernels.charts.roofs import Roof, Wall, draw_roofs, draw_walls, label_roofs
from adokernels.charts.series import Series
from adokernels.charts.tracks import Layer, Track, draw_tracks, name_tracks, track_entries
from adokernels.records.measurement import Measurement
from adokernels.text import NO_LIMIT, percent

#: Ratio of the frame to the range of the points.
_MARGIN = 1.8
_DECADES_WITH_STEPS = 2.5  # shorter axes also have labels at 2 and 5


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of a roofline.

    By default, the limits of the axes depend on the points. If there are `full` roofs, all charts
    of a machine have the same limits, which depend only on these roofs, unless points are outside.
    """

    x: str  # the names of the axes
    y: str
    layers: Sequence[Layer]  # one per machine
    full: Sequence[Roof]
    walls: Sequence[Wall]
    points: str  # the legend entry of points, with a placeholder for their memory level
    notes: Callable[[Canvas], list[Artist]]  # makes further legend entries
    wide: bool = False  # whether the axes contain all walls
    more: Sequence[Point] = ()  # further positions that the axes contain
    regions: Sequence[tuple[str, float, float, str]] = ()  # shaded: name, start, end and colour
    published: PublishedLayer | None = None  # published points of another machine

    @property
    def tracks(self) -> list[Track]:
        """The points of all machines."""
        return [t for layer in self.layers for t in layer.tracks]

    @property
    def roofs(self) -> list[Roof]:
        """The roofs of all machines."""
        return [r for layer in self.layers for r in layer.roofs]


def draw_content(
    canvas: Canvas, series: Sequence[Series], wrong: Sequence[Measurement], content: Content
) -> str:
    """Draw a roofline; return the finding."""
    tracks, published = content.tracks, content.published
    _set_limits(canvas, content)
    canvas.frame(content.x, content.y, spines="left right bottom top")
    visible = [draw_roofs(canvas, layer.roofs) for layer in content.layers]
    hidden = draw_walls(canvas, content.walls)
    if published:
        published.draw(canvas)
    draw_tracks(canvas, tracks)
    # The order of these calls is the order of placement: labels with few candidate places first.
    canvas.badge([(t.m, t.last) for t in tracks if t.m in wrong])
    if canvas.annotate:
        for labelled in visible:
            label_roofs(canvas, labelled)
        name_tracks(canvas, tracks)
        if published:
            published.label(canvas)
        key = track_entries(series, tracks, content.points) + content.notes(canvas)
        key += [entry(f"off scale: {wall.words}") for wall in hidden]
        key += published.key(canvas, tracks) if published else []
        key += _roof_entries(canvas, content, [r for labelled in visible for r in labelled])
        canvas.legend_below(key)
    _shade(canvas, content)
    if tracks:
        return _finding(content, series)
    return published.finding if published and published.points else "Ceilings"


def _set_limits(canvas: Canvas, content: Content) -> None:
    """Set the logarithmic limits: around points and roofs, or whole decades for the machine."""
    tracks, roofs = content.tracks, content.roofs
    more = [*(content.published.places if content.published else ()), *content.more]
    places = [(x, t.height) for t in tracks for x in t.intensities.values()]
    places += [(x, y) for t in tracks for x, y, _ in t.extra]
    points = np.log10([*places, *more]).reshape(-1, 2)
    speeds = [v for r in content.full or roofs if r.slope for v in r.values]
    peaks = [v for r in content.full or roofs if not r.slope for v in r.values]
    if content.full or not len(points):
        left = math.floor(math.log10(min(peaks) / max(speeds))) - 1
        right = math.ceil(math.log10(max(peaks) / min(speeds))) + 1
        bottom = math.floor(left + math.log10(min(speeds)))
        top = math.ceil(math.log10(max(peaks)) + 0.15)  # space for the label of the highest roof
        low = np.floor(np.vstack([points, [[left, bottom]]]).min(axis=0))
        high = np.ceil(np.vstack([points, [[right, top]]]).max(axis=0))
    else:
        margin = math.log10(_MARGIN)
        low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
        if content.wide:
            ends = np.log10([wall.x for wall in content.walls])
            low[0], high[0] = min(low[0], ends.min() - 0.15), max(high[0], ends.max() + 0.15)
        attainable = [y for _, y in more]
        for t in tracks:
            for level, x in t.intensities.items():
                ours = (r.value for r in roofs if level in r.levels)
                attainable.append(min(x * max(ours, default=max(speeds)), max(peaks)))
        # Space for a label above the highest roof.
        room = 1 + 2.5 * canvas.font / canvas.height
        high[1] = max(high[1], low[1] + room * (math.log10(max(attainable)) - low[1]))
        middle, half = (low + high) / 2, np.maximum((high - low) / 2, 0.5)  # at least one decade
        low, high = middle - half, middle + half
    ax = canvas.ax
    ax.set(xscale="log", yscale="log")
    ax.set(xlim=(10.0 ** low[0], 10.0 ** high[0]), ylim=(10.0 ** low[1], 10.0 ** high[1]))
    for axis, length in zip((ax.xaxis, ax.yaxis), high - low, strict=True):
        axis.set_minor_formatter(NullFormatter())
        if length < _DECADES_WITH_STEPS:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.yaxis.set_major_formatter(EngFormatter(sep=" "))


def _roof_entries(canvas: Canvas, content: Content, visible: Sequence[Roof]) -> list[Artist]:
    """Make the legend entries of the roofs, and a note of those outside the frame."""
    key: list[Artist] = []
    for host in (layer.host for layer in content.layers):
        words = "measured ceiling" if host.alone else f"ceilings of {host.machine.title}"
        key.append(entry(words, color=canvas.ink, ls=host.line, lw=1.3))
    if any(r.theoretical for r in visible):
        key.append(entry("theoretical", color=canvas.ink, ls="--", lw=0.9))
    if hidden := [r for r in content.roofs if r not in visible]:
        key.append(entry("off scale or at the edge: " + ", ".join(r.words for r in hidden)))
    return key


def _shade(canvas: Canvas, content: Content) -> None:
    """Shade the regions, and name them where there is space."""
    left, right = canvas.ax.get_xlim()
    for name, lowest, highest, colour in content.regions:
        start, end = max(lowest, left), min(highest, right)
        if start >= end:
            continue
        canvas.ax.axvspan(start, end, color=colour, alpha=0.05, lw=0, zorder=0)
        canvas.ax.set_xlim(left, right)
        shares = [*((share, "center") for share in (0.5, 0.3, 0.7, 0.15, 0.85)), (0.02, "left")]
        places = [
            {"position": (start ** (1 - share) * end**share, y), "ha": side}
            for y in (0.03, 0.08, 0.25, 0.3, 0.35, 0.4, 0.97)
            for share, side in shares
        ]
        transform = canvas.ax.get_xaxis_transform()
        canvas.label(name, places, va="center", color=colour, transform=transform)


def _finding(content: Content, series: Sequence[Series]) -> str:
    """Format the nearest roof of the summarised variants of each sweep, with its share."""
    nearest = {t.m: t.nearest(layer.limits) for layer in content.layers for t in layer.tracks}
    parts = []
    summarised = [(s, m) for s in series for m in s.summarised]
    for s, m in summarised:
        if near := nearest.get(m):
            share, roof = near
            of_roof = f"{percent(share)} of" if share <= NO_LIMIT else "above"
            parts.append(f"{s.name or m.variant}: {of_roof} {roof.name}")
    return "; ".join(parts)
