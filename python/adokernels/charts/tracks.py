"""The points of a roofline chart: one track of points per measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist

from adokernels.charts.canvas import (
    COMPASS,
    FADED,
    Canvas,
    entry,
    largest_first,
    level_entries,
    level_style,
)
from adokernels.charts.labels import Point
from adokernels.charts.roofs import Roof
from adokernels.charts.series import Host, Series
from adokernels.records.measurement import Measurement
from adokernels.text import NO_LIMIT, quantity

#: Level name of a point whose bytes come from the formula of the variant, not from counters.
REQUESTED = "requested"
#: Size of the markers of variants without a label, in points.
_SMALL = 3.5
#: Distance in typographic points below which labels have the vertical order of their markers.
_NEAR = 40.0


@dataclass(frozen=True, kw_only=True)
class Track:
    """The points of one measurement: one height, and one intensity per memory level."""

    m: Measurement
    series: Series
    amount: float  # work per call, for example in FLOPs
    intensities: Mapping[str, float]
    compulsory: float | None = None  # highest possible DRAM intensity, if bytes were not counted
    own: tuple[Roof, ...] = ()  # roofs only for this measurement: of its mix
    extra: tuple[tuple[float, float, Mapping[str, Any]], ...] = ()  # further points with style
    precision: str = ""  # precision of the work, if each precision has its own points

    @property
    def words(self) -> str:
        """The label: name and time, or name and precision."""
        sweep = f"{self.series.name}: " if self.series.name else ""
        return f"{sweep}{self.m.shown_as}, {self.precision or quantity(self.m.seconds, 's')}"

    @property
    def peer(self) -> bool:
        """Whether this is a measurement of code of another library."""
        return self.m in self.series.sweep.peers

    @property
    def highlighted(self) -> bool:
        """Whether this is a variant in colour."""
        return self.m.variant in self.series.highlight

    @property
    def chosen(self) -> bool:
        """Whether the points are large and have a label."""
        return self.highlighted or self.peer

    @property
    def height(self) -> float:
        """Work per second."""
        return self.amount / self.m.seconds

    @property
    def last(self) -> Point:
        """The rightmost point."""
        return max(self.intensities.values()), self.height

    def nearest(self, roofs: Iterable[Roof]) -> tuple[float, Roof] | None:
        """The nearest roof: the largest share that this measurement reaches, and its roof.

        Code that exceeds the roof of ordinary instructions is compared with tensor cores. Code is
        compared with the flat roofs of other precisions only if its own precision has none.
        """
        shares = []
        compared = (*roofs, *self.own)
        has_tensor = any(roof.tensor for roof in compared)
        flat = {roof.name.split()[0] for roof in compared if not roof.slope and not roof.tensor}
        precision = self.precision or self.m.problem.precision
        for roof in compared:
            if precision in flat and roof.name.split()[0] in flat - {precision}:
                continue
            exceeded = not roof.slope and self.height > NO_LIMIT * roof.value
            if has_tensor and exceeded and not roof.tensor:
                continue
            xs = [x for level, x in self.intensities.items() if level in roof.levels]
            xs += [self.compulsory] if self.compulsory and "DRAM" in roof.levels else []
            if not roof.slope:
                shares.append((self.height / roof.value, roof))
            shares += [(self.height / (x * roof.value), roof) for x in xs]
        return max(shares, key=lambda pair: pair[0], default=None)


@dataclass(frozen=True)
class Layer:
    """The roofs of a machine, and the points below them."""

    host: Host
    roofs: Sequence[Roof]  # drawn
    limits: Sequence[Roof]  # compared with the points
    tracks: Sequence[Track]


def draw_tracks(canvas: Canvas, tracks: Sequence[Track]) -> None:
    """Draw the points: highlighted ones in colour and connected, the others small."""
    for t in sorted(tracks, key=lambda t: t.highlighted):
        if t.chosen:
            _draw_chosen(canvas, t)
            continue
        for level, x in largest_first(t.intensities):
            style: dict[str, Any] = {"mec": canvas.paper, "mew": 0.3, "alpha": 0.6, "ms": _SMALL}
            style |= {"mfc": t.series.colour or FADED, "marker": _marker(t, level)}
            canvas.ax.plot([x], [t.height], zorder=2.5, gid=canvas.gid(t.m), **style)


def _draw_chosen(canvas: Canvas, t: Track) -> None:
    colour, xs = t.series.colour, list(t.intensities.values())
    if len(xs) > 1:
        style = {"color": colour} if colour else {}
        canvas.line([min(xs), max(xs)], [t.height] * 2, lw=1.0, zorder=3, **style)
    canvas.error_bar(*t.last, ends=(t.amount / s for s in reversed(t.m.interval)), along="y")
    for level, x in largest_first(t.intensities):
        shape: dict[str, Any] = {"marker": _marker(t, level), "gid": canvas.gid(t.m)}
        if level == REQUESTED:
            ink = FADED if t.m.ceiling else colour or canvas.ink
            shape |= {"mfc": canvas.paper, "mec": ink, "mew": 1.2}
        elif colour:
            shape["color"] = colour
        canvas.mark_level(x, t.height, level, **shape)
    for x, y, own in t.extra:
        ink = colour or canvas.ink
        canvas.mark(x, y, gid=canvas.gid(t.m), mec=ink, mfc=canvas.paper, **own)


def _marker(t: Track, level: str) -> str:
    if level == REQUESTED:
        return "P" if t.peer else "o"
    return level_style(level)[1]


def name_tracks(canvas: Canvas, tracks: Sequence[Track]) -> None:
    """Label the highlighted measurements with name and time."""
    chosen = [t for t in tracks if t.chosen]
    ends = np.log10([t.last for t in chosen]).reshape(-1, 2)
    limits = np.log10([canvas.ax.get_xlim(), canvas.ax.get_ylim()])
    spots = ends / np.diff(limits)[:, 0] * (canvas.width, canvas.height)
    for t, spot in zip(chosen, spots, strict=True):
        # Labels of adjacent points have the vertical order of the points.
        close = spots[(np.abs(spots - spot) < _NEAR).all(axis=1)]
        lowest, highest = spot[1] <= close[:, 1].min(), spot[1] >= close[:, 1].max()
        compass = [way for way in COMPASS if (way[1] >= 0 or lowest) and (way[1] <= 0 or highest)]
        style = {"fontweight": "normal" if t.peer else "bold", "gid": canvas.gid(t.m)}
        style |= {"color": t.series.colour} if t.series.colour else {}
        canvas.callout(t.words, t.last, (8, 14, 22, 32, 45), compass, **style)
    for t in tracks:
        if t.highlighted:
            # Points at the same position share one label.
            for x, y in dict.fromkeys((round(x, 6), y) for x, y, _ in t.extra):
                canvas.callout(t.m.variant, (x, y), (7, 12, 20, 30), color=FADED)


def track_entries(series: Sequence[Series], tracks: Sequence[Track], words: str) -> list[Artist]:
    """Make the legend entries of the sweeps, of the small points, and `words` per memory level."""
    levels = {level for t in tracks if t.chosen for level in t.intensities} - {REQUESTED}
    several = any(s.colour for s in series)
    key: list[Artist] = [
        entry(s.name, marker="o", ms=6, color=s.colour) for s in series if s.colour
    ]
    key += [entry(f"{s.name}: {s.details}") for s in series if s.name]
    key += level_entries(levels, words, colour=FADED if several else None)
    if small := len({t.m for t in tracks if not t.chosen}):
        words = f"{small} other variant{'s' if small > 1 else ''}"
        key.append(entry(words, marker="o", color=FADED, ms=_SMALL))
    return key
