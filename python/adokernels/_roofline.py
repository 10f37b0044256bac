"""Roofline charts: what a ladder reaches, against what the machine can do.

Sources: Williams, Waterman & Patterson, "Roofline", CACM 2009; Yang, Kurth & Williams,
"Hierarchical Roofline Analysis for GPUs", CCPE 2020. Colours: Okabe & Ito.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from adokernels._records import Machine, Measurement, Sweep
from adokernels._stats import Verdict
from adokernels._tables import number, peak, percent, precision, prefix, quantity, ratio, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase
    from numpy.typing import NDArray

    from adokernels._records import Ceiling

#: Colour and marker of each memory level, shared by its ceiling and the points measured there.
_LEVELS = {
    "DRAM": ("#0072B2", "o"),
    "L3": ("#009E73", "D"),
    "L2": ("#E69F00", "s"),
    "L1": ("#CC79A7", "^"),
}
_OTHER_LEVEL = ("#56B4E9", "v")
_BAR, _FADED, _ALARM = "#56B4E9", "0.55", "#C8102E"
_ALARM_TEXT = "above the roof: counter or ceiling wrong"
#: A ceiling is itself a measurement, so a point may exceed it by this much without alarm.
_TOLERANCE = 1.03
#: Beyond so many points, labels are numbers and the names go to a list.
_MOST_NAMES = 6
#: Requested bytes are shown where they differ from the compulsory ones by more than this.
_DIFFERS = 0.02
#: A rung that moved by less than this many points on paper gets no arrow.
_SHORTEST_ARROW = 15.0
_WHISKER: dict[str, Any] = {"elinewidth": 0.8, "capthick": 0.8, "capsize": 2}

Place = Callable[[], object]
Box = tuple[float, float, float, float]


def roofline(
    what: Sweep | Measurement | Sequence[Measurement] | Machine,
    *,
    ax: Axes | None = None,
    machine: Machine | None = None,
    annotate: bool = True,
) -> Axes:
    """Draw measurements under the ceilings of their machine.

    With FLOPs it is a roofline: FLOPs per second over arithmetic intensity, both logarithmic.
    Hollow markers stand at the algorithmic intensity (executed FLOPs over requested bytes), filled
    ones at what counters measured at each memory level. Without FLOPs it is one bar a rung:
    compulsory bytes over time, against the bandwidth ceilings.

    Parameters
    ----------
    what
        A sweep, one or several measurements, or a machine alone.
    ax
        Where to draw; by default a new figure.
    machine
        The ceilings; by default those of the sweep.
    annotate
        Whether to label points and steps and to add a key.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If there are FLOPs but no machine to give the ceilings, or nothing to draw at all.
    """
    measurements, machine = _subject(what, machine)
    computes = not measurements or any(m.executed_flops for m in measurements)
    if computes and (machine is None or not machine.of_kind("compute")):
        raise ValueError("a roofline needs the machine's ceilings: pass machine=")
    if ax is None:
        ax = plt.figure(layout="constrained").add_subplot()
    sheet = _Sheet(ax, measurements, machine, annotate)
    if computes and machine is not None:
        _draw_roofline(sheet, machine)
    else:
        _draw_bandwidth(sheet)
    parts = list(dict.fromkeys(f"{m.routine}, {m.cache}" for m in measurements))
    title = ", ".join([*parts, *([where(machine)] if machine else [])])
    ax.set_title(title, fontsize=sheet.font + 2, wrap=True)
    return ax


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure so that the same data gives the same bytes: SVG, PDF or PNG by the name."""
    target = Path(path)
    if target.suffix.lower() == ".svg":
        target.write_bytes(to_svg(figure))
    else:
        metadata = {"CreationDate": None} if target.suffix.lower() == ".pdf" else None
        figure.savefig(target, metadata=metadata)


def to_svg(figure: Figure) -> bytes:
    """Render a figure as SVG without date or random identifiers."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "adokernels"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def above_roof(measurement: Measurement, machine: Machine) -> bool:
    """Whether a measurement exceeds what the machine can do, which means that a number is wrong.

    Judged are executed and measured FLOPs, bytes counted at a level, and the compulsory bytes if
    the caches were cold. Requested bytes are not: caches serve them.
    """
    m = measurement
    limit = peak(m, machine)
    rates = [(max(m.executed_flops, m.measured_flops or 0), limit)]
    traffic = [*m.measured_bytes.items(), *([("DRAM", m.bytes)] if m.cache == "cold" else [])]
    rates += [(moved, _fastest(machine, level)) for level, moved in traffic]
    return any(roof and amount / m.seconds > _TOLERANCE * roof for amount, roof in rates)


# What is drawn on.


@dataclass
class _Sheet:
    """The axes, what goes on them, and the pens."""

    ax: Axes
    measurements: tuple[Measurement, ...]
    machine: Machine | None
    annotate: bool
    key: list[Artist] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.width, self.height = _size(self.ax)
        self.font = float(np.clip(self.width / 45, 5.0, 8.0))
        self.ink = mpl.rcParams["text.color"]
        self.paper = self.ax.get_facecolor()
        # Not a stroke around the letters: text drawn as paths is wider than text as measured.
        self.mat = {"boxstyle": "square,pad=0.1", "fc": self.paper, "alpha": 0.6, "lw": 0}
        self.labels = _Labels()
        self.ax.add_artist(self.labels)

    def text(self, words: str, x: float = 0, y: float = 0, **style: Any) -> Text:
        """Write words that other words keep clear of."""
        style = {"fontsize": self.font, "color": self.ink, "bbox": self.mat, **style}
        text = self.ax.text(x, y, words, **style)
        text.set_in_layout(False)
        return text

    def callout(self, words: str, point: tuple[float, float], **style: Any) -> Annotation:
        """Write words beside a point, to be placed, with a leader from one to the other."""
        leader = {"arrowstyle": "-", "lw": 0.5, "color": _FADED, "shrinkA": 0, "shrinkB": 3}
        callout = self.ax.annotate(
            words,
            point,
            xytext=(0, 0),
            textcoords="offset points",
            **{"fontsize": self.font, "arrowprops": leader, "bbox": self.mat, **style},
        )
        callout.set_in_layout(False)
        return callout

    def line(self, xs: Sequence[float], ys: Sequence[float], **style: Any) -> None:
        """Draw a line that words keep clear of."""
        self.ax.plot(xs, ys, **{"color": self.ink, "lw": 1.0, "zorder": 2, **style})
        self.labels.avoid_line(xs, ys)

    def mark(self, x: float, y: float, **style: Any) -> None:
        """Draw a marker that words keep clear of."""
        self.ax.plot([x], [y], **{"ls": "", "ms": 0.75 * self.font, "zorder": 4, **style})
        self.labels.avoid_point(x, y)

    def legend(self, handles: Sequence[Artist], corners: Sequence[str], title: str = "") -> None:
        """Add a list to be placed in the emptiest corner."""
        legend = Legend(
            self.ax,
            handles,
            [str(handle.get_label()) for handle in handles],
            fontsize=self.font - 0.5,
            title=title or None,
            title_fontsize=self.font - 0.5,
            framealpha=0.85,
            borderpad=0.3,
            labelspacing=0.25,
            handlelength=1.6,
            handletextpad=0.5,
            borderaxespad=0.4,
            alignment="left",
        )
        legend.set_in_layout(False)
        legend.set_zorder(5)
        self.ax.add_artist(legend)
        self.labels.add(legend, [_bind(legend.set_loc, corner) for corner in corners])

    def note(self, words: str) -> None:
        """Add a remark to the key."""
        self.key.append(Line2D([], [], ls="", label=words))


# Labels that find their own place.


class _Labels(Artist):
    """Puts each label at the best of its candidate places, afresh whenever the chart is drawn.

    Being drawn first, it moves the others before they draw themselves. The choice is greedy, in
    the order added, and depends on nothing but the chart, so the same chart gives the same bytes.
    """

    _CLASH, _CROSSING, _PREFERENCE = 50.0, 0.25, 0.05

    def __init__(self) -> None:
        super().__init__()
        self.set_zorder(-1)
        self.set_in_layout(False)
        self._items: list[tuple[Artist, list[Place]]] = []
        self._points: list[tuple[float, float]] = []
        self._lines: list[NDArray[np.float64]] = []

    def add(self, artist: Artist, places: Iterable[Place]) -> None:
        """Add a label with the functions that put it somewhere, the preferred place first."""
        self._items.append((artist, list(places)))

    def keep(self, artist: Artist) -> None:
        """Add a label that stays where it is and that others avoid."""
        self.add(artist, [_bind(artist.set)])

    def avoid_point(self, x: float, y: float) -> None:
        self._points.append((x, y))

    def avoid_line(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self._lines.append(np.column_stack([xs, ys]))

    def draw(self, renderer: RendererBase) -> None:
        axes = self.axes
        assert axes is not None
        reach = float(np.max(renderer.points_to_pixels(4.0)))
        points = axes.transData.transform(np.array(self._points).reshape(-1, 2))
        taken: list[Box] = [(x - reach, y - reach, x + reach, y + reach) for x, y in points]
        lines = [_sampled(axes.transData.transform(line), reach / 2) for line in self._lines]
        samples = np.concatenate([np.empty((0, 2)), *lines])
        frame = np.array([_box(axes.get_window_extent(renderer))])
        for artist, places in self._items:
            costs = []
            for preference, place in enumerate(places):
                place()
                boxes = np.array(_boxes(artist, renderer))
                cost = self._cost(boxes, np.array(taken), samples, frame)
                costs.append(cost + self._PREFERENCE * preference)
            places[int(np.argmin(costs))]()
            taken += _boxes(artist, renderer)

    def _cost(
        self,
        boxes: NDArray[np.float64],
        taken: NDArray[np.float64],
        samples: NDArray[np.float64],
        frame: NDArray[np.float64],
    ) -> float:
        size = boxes[:, 2:] - boxes[:, :2]
        area = float(np.sum(size[:, 0] * size[:, 1])) or 1.0
        inside = _overlap(boxes, frame)
        clash = area - inside + (_overlap(boxes, taken) if len(taken) else 0.0)
        low, high = boxes[:, None, :2] < samples, samples < boxes[:, None, 2:]
        crossings = np.count_nonzero((low & high).all(axis=2))
        # Any clash is worse than any crossing; among clashes, the smaller the better.
        penalty = self._CLASH * (1 + clash / area) if clash > area * 1e-6 else 0.0
        return penalty + self._CROSSING * crossings


def _boxes(artist: Artist, renderer: RendererBase) -> list[Box]:
    """Cover an artist with boxes in pixels; a slanted text takes several along its length."""
    if not isinstance(artist, Text):
        return [_box(artist.get_window_extent(renderer))]
    if isinstance(artist, Annotation):
        artist.update_positions(renderer)
    rotation = artist.get_rotation()
    slanted = bool(rotation % 90)
    artist.set_rotation(0 if slanted else rotation)
    # Not the annotation's own extent, which includes its leader.
    left, bottom, right, top = _box(Text.get_window_extent(artist, renderer).padded(1.0))
    artist.set_rotation(rotation)
    if not slanted:
        return [(left, bottom, right, top)]
    anchor = artist.get_transform().transform(artist.get_position())
    angle = math.radians(rotation)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    count = math.ceil((right - left) / (top - bottom))
    step = (right - left) / count
    half = (step * np.abs(turn[0]) + (top - bottom) * np.abs(turn[1])) / 2
    along = left + step * (np.arange(count) + 0.5)
    centres = np.column_stack([along, np.full(count, (bottom + top) / 2)])
    centres = (centres - anchor) @ turn + anchor
    corners = np.column_stack([centres - half, centres + half])
    return [(x0, y0, x1, y1) for x0, y0, x1, y1 in corners.tolist()]


def _box(bbox: BboxBase) -> Box:
    return bbox.x0, bbox.y0, bbox.x1, bbox.y1


def _overlap(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return float(np.prod(np.clip(high - low, 0, None), axis=2).sum())


def _sampled(line: NDArray[np.float64], spacing: float) -> NDArray[np.float64]:
    pieces = []
    for start, end in itertools.pairwise(line):
        count = max(int(np.hypot(*(end - start)) / spacing), 1) + 1
        pieces.append(np.linspace(start, end, count))
    return np.concatenate(pieces)


def _around(callout: Annotation, distances: Iterable[float]) -> list[Place]:
    """Offer places around the point that a callout belongs to, the nearest first."""
    compass = ((1, 0), (0, 1), (-1, 0), (0, -1), (0.7, 0.7), (-0.7, 0.7), (-0.7, -0.7), (0.7, -0.7))
    aligned = {0: "center", 1: "left", -1: "right"}
    raised = {0: "center", 1: "bottom", -1: "top"}
    return [
        _bind(
            callout.set,
            position=(distance * east, distance * north),
            ha=aligned[int(np.sign(east))],
            va=raised[int(np.sign(north))],
        )
        for distance in distances
        for east, north in compass
    ]


def _bind(function: Callable[..., object], *args: Any, **options: Any) -> Place:
    return lambda: function(*args, **options)


# The roofline proper.


def _draw_roofline(sheet: _Sheet, machine: Machine) -> None:
    points = [m for m in sheet.measurements if m.executed_flops and m.requested_bytes]
    missing = [m.variant for m in sheet.measurements if m not in points]
    if missing:
        sheet.note(f"not shown, no FLOPs: {', '.join(missing)}")
    _frame(sheet, machine, points)
    roofs = _Roofs(machine, points)
    for level in roofs.bandwidths:
        _diagonal(sheet, level, roofs)
    for compute in machine.of_kind("compute"):
        _horizontal(sheet, compute, roofs)
    _ridges(sheet, roofs)
    for m in points:
        _point(sheet, m)
    # From here on the order is that of choosing a place: the least movable labels first.
    _badge(sheet, [m for m in points if above_roof(m, machine)])
    if sheet.annotate:
        _name_points(sheet, points)
        _compulsory(sheet, points)
        _label_roofs(sheet, roofs)
    _shade(sheet, roofs)


class _Roofs:
    """The ceilings in play: one bandwidth a level, and the precisions of the points."""

    def __init__(self, machine: Machine, points: Sequence[Measurement]) -> None:
        self.bandwidths = _main_bandwidths(machine)
        self.compute = machine.of_kind("compute")
        every = {c.level for c in self.compute}
        levels = {precision(m) for m in points} or every
        self.levels = levels if levels <= every else every

    @property
    def top(self) -> float:
        """Return the highest roof."""
        return max(c.measured for c in self.compute)

    @property
    def fastest(self) -> float:
        """Return the highest bandwidth."""
        return max((c.measured for c in self.bandwidths), default=math.inf)

    @property
    def peaks(self) -> list[Ceiling]:
        """Return the highest roof of each precision in play."""
        ours = [c for c in self.compute if c.level in self.levels]
        return [
            max((c for c in ours if c.level == level), key=lambda c: c.measured)
            for level in dict.fromkeys(c.level for c in ours)
        ]


def _frame(sheet: _Sheet, machine: Machine, points: Sequence[Measurement]) -> None:
    """Set limits in whole decades that follow from the machine alone, unless points lie outside.

    So all charts of a machine are congruent and can be laid side by side.
    """
    speeds = [v for c in machine.of_kind("bandwidth") for v in _values(c)]
    peaks = [v for c in machine.of_kind("compute") for v in _values(c)]
    left = math.floor(math.log10(min(peaks) / max(speeds))) - 1
    right = math.ceil(math.log10(max(peaks) / min(speeds))) + 1
    bottom = math.floor(left + math.log10(min(speeds)))
    top = math.ceil(math.log10(max(peaks)) + 0.15)  # room for the label of the highest roof
    places = np.log10([place for m in points for place in _places(m)]).reshape(-1, 2)
    low = np.floor(np.vstack([places, [[left, bottom]]]).min(axis=0))
    high = np.ceil(np.vstack([places, [[right, top]]]).max(axis=0))
    ax = sheet.ax
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(10.0 ** low[0], 10.0 ** high[0])
    ax.set_ylim(10.0 ** low[1], 10.0 ** high[1])
    ax.set_xlabel("Arithmetic intensity [FLOP/byte]", fontsize=sheet.font + 1)
    ax.set_ylabel("Performance [FLOP/s]", fontsize=sheet.font + 1)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.yaxis.set_major_formatter(EngFormatter(sep=" "))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.tick_params(labelsize=sheet.font)


def _shade(sheet: _Sheet, roofs: _Roofs) -> None:
    """Shade where memory limits and where arithmetic does, seen from the slowest level."""
    if not roofs.bandwidths:
        return
    ridges = [c.measured / roofs.bandwidths[0].measured for c in roofs.peaks]
    left, right = sheet.ax.get_xlim()
    regions = (
        ("memory-bound", left, min(ridges), "#0072B2"),
        ("compute-bound", max(ridges), right, "#D55E00"),
    )
    for name, start, end, colour in regions:
        sheet.ax.axvspan(start, end, color=colour, alpha=0.05, lw=0, zorder=0)
        if sheet.annotate:
            text = sheet.text(name, ha="center", va="center", color=colour)
            text.set_transform(sheet.ax.get_xaxis_transform())
            places = [
                _bind(text.set, position=(start ** (1 - share) * end**share, y))
                for y in (0.03, 0.08, 0.25, 0.3, 0.35, 0.4, 0.97)
                for share in (0.5, 0.3, 0.7, 0.15, 0.85)
            ]
            sheet.labels.add(text, places)


def _diagonal(sheet: _Sheet, ceiling: Ceiling, roofs: _Roofs) -> None:
    colour, _ = _look(ceiling.level)
    left = sheet.ax.get_xlim()[0]
    for value, style in _styled(ceiling):
        xs = [left, roofs.top / value]
        sheet.line(xs, [x * value for x in xs], color=colour, **style)


def _horizontal(sheet: _Sheet, ceiling: Ceiling, roofs: _Roofs) -> None:
    colour = sheet.ink if ceiling.level in roofs.levels else _FADED
    right = sheet.ax.get_xlim()[1]
    for value, style in _styled(ceiling):
        sheet.line([value / roofs.fastest, right], [value, value], color=colour, **style)


def _ridges(sheet: _Sheet, roofs: _Roofs) -> None:
    for compute, bandwidth in itertools.product(roofs.peaks, roofs.bandwidths):
        ridge = compute.measured / bandwidth.measured
        colour, _ = _look(bandwidth.level)
        # On the lines already, so words may come closer than to a measurement.
        style = {"marker": "o", "ms": 3.5, "color": colour, "mec": sheet.ink, "mew": 0.5}
        sheet.ax.plot([ridge], [compute.measured], zorder=4, **style)


def _point(sheet: _Sheet, m: Measurement) -> None:
    algorithmic, *measured = _places(m)
    for level, place in zip(m.measured_bytes, measured, strict=True):
        colour, marker = _look(level)
        xs, ys = zip(algorithmic, place, strict=True)
        sheet.ax.plot(xs, ys, color=colour, lw=0.7, zorder=2.5)
        sheet.mark(*place, marker=marker, color=colour, mec=sheet.paper, mew=0.5)
    x, y = algorithmic
    low, high = (m.executed_flops / t for t in reversed(m.interval))
    error = [[y - low], [high - y]]
    sheet.ax.errorbar([x], [y], yerr=error, fmt="none", ecolor=sheet.ink, **_WHISKER)
    sheet.mark(x, y, marker="o", mfc=sheet.paper, mec=_FADED if m.ceiling else sheet.ink, mew=1.2)


def _name_points(sheet: _Sheet, points: Sequence[Measurement]) -> None:
    """Label the points and the steps between them, and add the key."""
    before = _before(points)
    arrows = {m: _long_enough(sheet, before[m], m) for m in before}
    # Where a step is too short for an arrow with a label, the list of names gives it.
    numbered = len(points) > _MOST_NAMES or not all(arrows.values())
    if numbered:
        names = [_name(m, before.get(m)) for m in points]
        handles = [_numeral(i, name, sheet.ink) for i, name in enumerate(names, 1)]
        sheet.legend(handles, ("upper left", "lower right", "lower left"))
    _key(sheet, points)
    for m, below in before.items():
        if arrows[m]:
            _arrow(sheet, below, m)
    for m, below in before.items():
        if arrows[m]:
            _step(sheet, below, m)
    for i, m in enumerate(points, 1):
        callout = sheet.callout(str(i) if numbered else m.variant, _places(m)[0])
        sheet.labels.add(callout, _around(callout, (6, 12, 20, 30, 45)))


def _arrow(sheet: _Sheet, below: Measurement, m: Measurement) -> None:
    start, end = _places(below)[0], _places(m)[0]
    style = {"arrowstyle": "-|>", "color": sheet.ink, "lw": 0.8, "shrinkA": 4, "shrinkB": 4}
    arrow = sheet.ax.annotate("", end, xytext=start, arrowprops=style)
    arrow.set_in_layout(False)
    sheet.labels.avoid_line(*zip(start, end, strict=True))


def _step(sheet: _Sheet, below: Measurement, m: Measurement) -> None:
    start, end = np.array(_places(below)[0]), np.array(_places(m)[0])
    middle = np.sqrt(start * end)
    callout = sheet.callout(
        ratio(below.seconds / m.seconds),
        (float(middle[0]), float(middle[1])),
        color=_step_colour(sheet, below, m),
        fontweight="bold",
    )
    sheet.labels.add(callout, _around(callout, (5, 9, 14, 20)))


def _compulsory(sheet: _Sheet, points: Sequence[Measurement]) -> None:
    for x in dict.fromkeys(m.flops / m.bytes for m in points if m.flops and m.bytes):
        bottom, top = sheet.ax.get_ylim()
        sheet.line([x, x], [bottom, top], ls=":", lw=1.0)
        text = sheet.text(f"compulsory {number(x)} FLOP/B", x, bottom, rotation=90)
        shifts = {"right": -2, "left": 2}
        places = [
            _bind(
                text.set,
                y=bottom * (top / bottom) ** up,
                ha=ha,
                va="bottom",
                transform=sheet.ax.transData + _shift(sheet, shift, 0),
            )
            for up in (0.02, 0.1, 0.2, 0.3, 0.4, 0.5)
            for ha, shift in shifts.items()
        ]
        sheet.labels.add(text, places)


def _label_roofs(sheet: _Sheet, roofs: _Roofs) -> None:
    """Write values on the roofs: slanted along the diagonals, at the right end of the others."""
    left, right = np.log10(sheet.ax.get_xlim())
    bottom = math.log10(sheet.ax.get_ylim()[0])
    for c in roofs.bandwidths:
        height = math.log10(c.measured)
        start, end = max(left, bottom - height), math.log10(roofs.top) - height
        spots = [start + share * (end - start) for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)]
        style = {"ha": "center", "color": _look(c.level)[0]}
        _along(sheet, c, [(x, x) for x in spots], style, slope=1)
    for c in sorted(roofs.compute, key=lambda c: c.level not in roofs.levels):
        spots = [right - share * (right - left) for share in (0.01, *np.arange(0.08, 0.6, 0.04))]
        colour = sheet.ink if c.level in roofs.levels else _FADED
        style = {"ha": "right", "color": colour}
        _along(sheet, c, [(x, 0.0) for x in spots], style, slope=0)


def _along(
    sheet: _Sheet,
    ceiling: Ceiling,
    spots: Sequence[tuple[float, float]],
    style: dict[str, Any],
    *,
    slope: int,
) -> None:
    """Write a roof's values above or below it, turned to its slope.

    The spots are for a roof of one FLOP or byte per second, in decades: there a roof is straight.
    """
    decades = sheet.ax.transLimits + sheet.ax.transAxes
    values = np.log10(_values(ceiling))
    size = sheet.font - 0.5
    text = sheet.text(_roof_name(ceiling), rotation_mode="anchor", fontsize=size, **style)

    def put(spot: tuple[float, float], va: str, value: float, rise: float) -> None:
        # The angle on paper is known only now, as the chart is drawn at its present size.
        start, end = decades.transform([(0, 0), (1, slope)])
        angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
        transform = decades + _shift(sheet, 0, rise)
        position = (spot[0], spot[1] + value)
        text.set(position=position, va=va, transform=transform, rotation=angle)

    sides = (("bottom", values.max(), 1.5), ("top", values.min(), -1.5))
    sheet.labels.add(text, [_bind(put, spot, *side) for spot in spots for side in sides])


def _key(sheet: _Sheet, points: Sequence[Measurement]) -> None:
    handles: list[Artist] = []
    if points:
        style = {"marker": "o", "ls": "", "ms": 5, "mfc": sheet.paper, "mec": sheet.ink}
        handles.append(Line2D([], [], label="executed FLOPs / requested bytes", **style))
    for level in dict.fromkeys(level for m in points for level in m.measured_bytes):
        colour, marker = _look(level)
        label = f"measured, {level}"
        handles.append(Line2D([], [], color=colour, marker=marker, ls="", ms=5, label=label))
    handles.append(Line2D([], [], color=sheet.ink, lw=1.3, label="measured ceiling"))
    handles.append(Line2D([], [], color=sheet.ink, lw=0.8, ls="--", label="theoretical"))
    sheet.legend(
        [*handles, *sheet.key], ("lower right", "upper left", "lower left", "center right")
    )


# The bandwidth view, for ladders without FLOPs.

_STEP_COLUMN = 0.89  # where the steps stand, as a share of the width
_NAME, _BAR_LINE = -0.24, 0.16  # where a row has its name and its bar


def _draw_bandwidth(sheet: _Sheet) -> None:
    reach = _reach(sheet)
    ceilings = _bandwidth_ceilings(sheet, reach)
    _key_bandwidth(sheet)
    header = _rows(sheet, reach, len(ceilings))
    for depth, (value, label, style) in enumerate(sorted(ceilings, key=lambda c: c[0])):
        # The leftmost line has the lowest label, so that no line runs through another's label.
        y = header * (depth + 0.7) / len(ceilings) - 0.5
        sheet.line([value, value], [len(sheet.measurements) - 0.5, y], **style)
        if sheet.annotate:
            shift = sheet.ax.transData + _shift(sheet, -2, 0)
            text = sheet.text(label, value, y, ha="right", va="center", transform=shift)
            text.set(fontsize=sheet.font - 0.5, color=style["color"])
            sheet.labels.keep(text)
    for row, m in enumerate(sheet.measurements):
        _bar(sheet, row, m, reach)
    if sheet.annotate:
        _steps(sheet)
        for row, m in enumerate(sheet.measurements):
            _bar_label(sheet, row, m, reach)
    machine = sheet.machine
    _badge(sheet, [m for m in sheet.measurements if machine and above_roof(m, machine)])


def _reach(sheet: _Sheet) -> float:
    """How far the axis goes: past memory's ceilings, and past the bars if they go further."""
    values = [m.bytes_per_second for m in sheet.measurements]
    if sheet.machine is not None:
        memory = [c for c in sheet.machine.of_kind("bandwidth") if c.level == "DRAM"]
        values += [value for c in memory for value in _values(c)]
    return 1.2 * max(values)


def _rows(sheet: _Sheet, reach: float, labels: int) -> float:
    """Set up one row a measurement, from top to bottom, and return the rows that the header takes.

    The header holds the labels of the ceilings and the key, a line each.
    """
    ax, count = sheet.ax, len(sheet.measurements)
    lines = max(labels, len(sheet.key)) + 0.5 if sheet.annotate else 0.0
    points = min(1.45 * sheet.font * lines, sheet.height / 2)
    header = -count * points / (sheet.height - points)
    ax.set_xlim(0, reach / (_STEP_COLUMN - 0.04))
    ax.set_ylim(count - 0.5, header - 0.5)
    ax.set_yticks([])
    ax.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1e9:g}"))
    ax.set_xlabel("Effective bandwidth [GB/s] (compulsory bytes / time)", fontsize=sheet.font + 1)
    ax.tick_params(labelsize=sheet.font)
    ax.spines[["top", "right"]].set_visible(False)
    return header


def _bandwidth_ceilings(sheet: _Sheet, reach: float) -> list[tuple[float, str, dict[str, Any]]]:
    """List the ceilings that fit, with label and pen; the others become a remark in the key."""
    if sheet.machine is None:
        return []
    shown = []
    main = _main_bandwidths(sheet.machine)
    for c in sheet.machine.of_kind("bandwidth"):
        reads = c.level == "DRAM" and c.operation == "read"
        if c.measured > reach and c in main:
            sheet.note(f"off scale: {c.name} {quantity(c.measured, 'B/s')}")
        if c.measured > reach or not (c in main or reads):
            continue
        colour, _ = _look(c.level)
        width = 1.5 if c in main else 0.7
        label = f"{c.name} {quantity(c.measured, 'B/s')}"
        shown.append((c.measured, label, {"color": colour, "lw": width}))
        if c in main and c.theoretical and c.theoretical < reach:
            label = f"{c.level} theoretical {quantity(c.theoretical, 'B/s')}"
            shown.append((c.theoretical, label, {"color": colour, "lw": 0.8, "ls": "--"}))
    return shown


def _key_bandwidth(sheet: _Sheet) -> None:
    handles: list[Artist] = []
    if any(map(_requests_more, sheet.measurements)):
        style = {"marker": "D", "ls": "", "ms": 4.5, "mfc": sheet.paper, "mec": sheet.ink}
        handles.append(Line2D([], [], label="requested bytes / time", **style))
    for level in dict.fromkeys(level for m in sheet.measurements for level in m.measured_bytes):
        colour, marker = _look(level)
        label = f"measured, {level}"
        handles.append(Line2D([], [], color=colour, marker=marker, ls="", ms=5, label=label))
    roof = _ladder_roof(sheet)
    if roof:
        sheet.note(f"% of the roof, {quantity(roof, 'B/s')}")
    if any(m.ceiling for m in sheet.measurements):
        handles.append(Patch(**_bar_style(True), label="ceiling, not an answer"))
    sheet.key[:0] = handles
    if sheet.annotate and sheet.key:
        sheet.legend(sheet.key, ("upper left",))


def _bar_style(ceiling: bool) -> dict[str, Any]:
    if ceiling:
        return {"facecolor": "0.85", "edgecolor": "0.7", "hatch": "////", "lw": 0.5}
    return {"facecolor": _BAR, "edgecolor": "none"}


def _bar(sheet: _Sheet, row: int, m: Measurement, reach: float) -> None:
    y, rate = row + _BAR_LINE, m.bytes_per_second
    low, high = (m.bytes / t for t in reversed(m.interval))
    sheet.ax.barh([y], [rate], height=0.42, zorder=1, **_bar_style(m.ceiling))
    error = [[rate - low], [high - rate]]
    sheet.ax.errorbar([rate], [y], xerr=error, fmt="none", ecolor=sheet.ink, **_WHISKER)
    for level, moved in m.measured_bytes.items():
        colour, marker = _look(level)
        if moved / m.seconds < reach:
            sheet.mark(moved / m.seconds, y, marker=marker, color=colour, mec=sheet.paper)
    if _requests_more(m):
        requested = m.requested_bytes / m.seconds
        off = requested > reach
        style = {"marker": ">" if off else "D", "mfc": sheet.paper, "mec": sheet.ink}
        sheet.mark(min(requested, reach), y, **style)


def _bar_label(sheet: _Sheet, row: int, m: Measurement, reach: float) -> None:
    y, rate = row + _BAR_LINE, m.bytes_per_second
    requested = m.requested_bytes / m.seconds
    label = f"{m.variant}: {quantity(m.seconds, 's')}, {quantity(rate, 'B/s')}"
    if requested > reach and _requests_more(m):
        label += f", requests {quantity(requested, 'B/s')}"
    name = sheet.text(label, 0, row + _NAME, va="center", fontsize=sheet.font)
    name.set_transform(sheet.ax.transData + _shift(sheet, 3, 0))
    sheet.labels.keep(name)
    roof = _ladder_roof(sheet)
    if roof is None:
        return
    text = sheet.text(percent(rate / roof), rate, y, va="center")
    ink, mat = (sheet.ink, sheet.mat) if m.ceiling else ("black", None)
    inside = {"x": rate, "ha": "right", "color": ink, "bbox": mat}
    beyond = {"ha": "left", "color": sheet.ink, "bbox": sheet.mat}
    marks = sorted((requested, *(moved / m.seconds for moved in m.measured_bytes.values())))
    styles = [(5, {"x": rate, **beyond}), (-5, inside), (-15, inside)]
    styles += [(shift, {"x": x, **beyond}) for x in marks for shift in (7, 15)]
    data = sheet.ax.transData
    places = [_bind(text.set, transform=data + _shift(sheet, dx, 0), **how) for dx, how in styles]
    sheet.labels.add(text, places)


def _steps(sheet: _Sheet) -> None:
    """Draw the steps from bar to bar in a column at the right."""
    rows = {m: row + _BAR_LINE for row, m in enumerate(sheet.measurements)}
    column = sheet.ax.get_yaxis_transform()
    for m, below in _before(sheet.measurements).items():
        colour = _step_colour(sheet, below, m)
        style = {"arrowstyle": "-|>", "color": colour, "lw": 0.8, "shrinkA": 2, "shrinkB": 2}
        arrow = sheet.ax.annotate(
            "",
            (_STEP_COLUMN, rows[m]),
            xytext=(_STEP_COLUMN, rows[below]),
            xycoords=column,
            textcoords=column,
            arrowprops=style,
        )
        arrow.set_in_layout(False)
        words = ratio(below.seconds / m.seconds)
        y = (rows[m] + rows[below]) / 2
        text = sheet.text(words, _STEP_COLUMN, y, va="center", color=colour)
        text.set(transform=column + _shift(sheet, 4, 0), fontweight="bold")
        sheet.labels.keep(text)


# Shared by both.


def _subject(
    what: Sweep | Measurement | Sequence[Measurement] | Machine, machine: Machine | None
) -> tuple[tuple[Measurement, ...], Machine | None]:
    if isinstance(what, Machine):
        return (), what
    if isinstance(what, Measurement):
        return (what,), machine
    own = what.machine if isinstance(what, Sweep) else None
    if not len(what):
        raise ValueError("nothing to draw: no measurement")
    return tuple(what), machine or own


def _badge(sheet: _Sheet, offenders: Sequence[Measurement]) -> None:
    """Say visibly that something is wrong, rather than clip it."""
    if not offenders:
        return
    for m in offenders:
        if sheet.ax.get_xscale() == "log":
            x, y = _places(m)[0]
        else:
            row = sheet.measurements.index(m)
            x, y = m.bytes_per_second, row + _BAR_LINE
        sheet.ax.plot([x], [y], marker="o", ms=13, mfc="none", mec=_ALARM, mew=1.5, zorder=6)
    text = sheet.text(
        f"{', '.join(m.variant for m in offenders)}\n{_ALARM_TEXT}",
        transform=sheet.ax.transAxes,
        color="white",
        fontweight="bold",
        ha="center",
        va="center",
        bbox={"facecolor": _ALARM, "edgecolor": "none", "boxstyle": "round"},
        zorder=6,
    )
    heights, columns = (0.92, 0.8, 0.65, 0.5, 0.35, 0.2, 0.08), (0.3, 0.5, 0.7)
    places = [_bind(text.set, position=(x, y)) for y in heights for x in columns]
    sheet.labels.add(text, places)


def _places(m: Measurement) -> list[tuple[float, float]]:
    """Where a measurement stands: algorithmic first, then as measured at each memory level."""
    flops = m.measured_flops or m.executed_flops
    measured = [(flops / moved, flops / m.seconds) for moved in m.measured_bytes.values()]
    return [(m.intensity, m.flops_per_second), *measured]


def _before(measurements: Sequence[Measurement]) -> dict[Measurement, Measurement]:
    """Pair each rung with the previous one of the same ladder and problem."""
    rungs = [m for m in measurements if not m.ceiling]
    return {
        m: below
        for below, m in itertools.pairwise(rungs)
        if (m.routine, m.problem, m.cache) == (below.routine, below.problem, below.cache)
    }


def _name(m: Measurement, below: Measurement | None) -> str:
    return m.variant if below is None else f"{m.variant} ({ratio(below.seconds / m.seconds)})"


def _numeral(index: int, name: str, colour: str) -> Line2D:
    return Line2D([], [], ls="", marker=f"${index}$", color=colour, mew=0.2, ms=4.5, label=name)


def _step_colour(sheet: _Sheet, below: Measurement, m: Measurement) -> str:
    """Grey for a step that noise could explain."""
    certain = m.compare(below)[0] in (Verdict.FASTER, Verdict.SLOWER)
    return str(sheet.ink) if certain else _FADED


def _long_enough(sheet: _Sheet, below: Measurement, m: Measurement) -> bool:
    limits = np.log10([sheet.ax.get_xlim(), sheet.ax.get_ylim()])
    step = np.diff(np.log10([_places(below)[0], _places(m)[0]]), axis=0)[0]
    length = np.hypot(*(step / np.diff(limits)[:, 0] * (sheet.width, sheet.height)))
    return bool(length > _SHORTEST_ARROW)


def _requests_more(m: Measurement) -> bool:
    return abs(m.requested_bytes - m.bytes) > _DIFFERS * m.bytes


def _ladder_roof(sheet: _Sheet) -> float | None:
    machine, rungs = sheet.machine, sheet.measurements
    return Sweep(routine="", measurements=rungs, machine=machine).roof


def _fastest(machine: Machine, level: str) -> float:
    ours = (c.measured for c in machine.of_kind("bandwidth") if c.level == level)
    return max(ours, default=0.0)


def _main_bandwidths(machine: Machine) -> list[Ceiling]:
    """One ceiling a level: what streams through memory both ways, and reading from the caches."""
    return [
        c
        for c in machine.of_kind("bandwidth")
        if c.operation == ("copy" if c.level == "DRAM" else "read")
    ]


def _values(ceiling: Ceiling) -> list[float]:
    return [v for v in (ceiling.measured, ceiling.theoretical) if v]


def _styled(ceiling: Ceiling) -> list[tuple[float, dict[str, Any]]]:
    solid = {"lw": 1.5 if ceiling.operation != "add" else 1.0}
    dashed = {"lw": 0.8, "ls": "--"}
    return list(zip(_values(ceiling), (solid, dashed), strict=False))


def _roof_name(ceiling: Ceiling) -> str:
    unit = "B/s" if ceiling.kind == "bandwidth" else "FLOP/s"
    factor, name = prefix(ceiling.measured, unit)
    operation = "FMA" if ceiling.operation == "fma" else ceiling.operation
    words = f"{ceiling.level} {operation} {number(ceiling.measured / factor)} {name}"
    if ceiling.theoretical:
        words += f" (theory {number(ceiling.theoretical / factor)})"
    return words


def _look(level: str) -> tuple[str, str]:
    return _LEVELS.get(level, _OTHER_LEVEL)


def _shift(sheet: _Sheet, x: float, y: float) -> ScaledTranslation:
    """Move by points on paper."""
    return ScaledTranslation(x / 72, y / 72, sheet.ax.figure.dpi_scale_trans)


def _size(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes in points."""
    box, scale = ax.get_window_extent(), 72 / ax.figure.dpi
    return float(box.width * scale), float(box.height * scale)
