"""Axes with drawing methods that share fonts and colours, and labels that do not overlap.

Colours: Okabe & Ito.
"""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from adokernels.records.measurement import Measurement
from adokernels.text import prefix, printable, require

Point = tuple[float, float]
_Array = NDArray[np.float64]
#: Properties of a text that move it to one of its candidate positions.
Place = Mapping[str, Any]


class Labels(Artist):
    """Moves each label to the best of its candidate positions whenever the chart is drawn.

    This artist is drawn first, so labels are moved before they are drawn. The choice is greedy: it
    processes labels in the order in which they were added. It depends only on the chart. Labels
    avoid the `points`, and the `lines` from point to point, which are in data coordinates.
    """

    _OVERLAP, _CROSSING, _PREFERENCE = 50.0, 0.25, 0.05

    def __init__(self) -> None:
        super().__init__()
        self.set_zorder(-1)
        self.set_in_layout(False)
        self.points: list[Point] = []
        self.lines: list[_Array] = []
        self._items: list[tuple[Text, list[list[Place]], Callable[[], None] | None]] = []

    def add(
        self, text: Text, *places: Iterable[Place], fit: Callable[[], None] | None = None
    ) -> None:
        """Add a label with its candidate positions, the preferred one first.

        The positions of a further group are used only if the label overlaps something at all
        positions of the previous groups. `fit` adapts the label to the current size of the chart.
        """
        self._items.append((text, list(map(list, places)), fit))

    def draw(self, renderer: RendererBase) -> None:
        """Place the labels."""
        axes = self.axes
        assert axes is not None
        reach = float(np.max(renderer.points_to_pixels(4.0)))
        points = axes.transData.transform(np.reshape(self.points, (-1, 2)))
        taken = np.hstack([points - reach, points + reach])
        samples = [np.empty((0, 2))]  # of the lines
        for line in self.lines:
            for start, end in itertools.pairwise(axes.transData.transform(line)):
                count = max(int(np.hypot(*(end - start)) / (reach / 2)), 1) + 1
                samples.append(np.linspace(start, end, count))
        crossed = np.concatenate(samples)
        frame = np.array([axes.get_window_extent(renderer).extents])
        for text, groups, fit in self._items:
            if fit:
                fit()
            costs: list[tuple[float, int, Place]] = []
            for group in groups:
                for place in group:
                    text.set(**place)
                    cost = self._cost(_boxes(text, renderer), taken, crossed, frame)
                    costs.append((cost + self._PREFERENCE * len(costs), len(costs), place))
                if min(costs)[0] < self._OVERLAP:
                    break
            text.set(**min(costs)[2])
            taken = np.concatenate([taken, _boxes(text, renderer)])

    def _cost(self, boxes: _Array, taken: _Array, samples: _Array, frame: _Array) -> float:
        area = float(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1).sum()) or 1.0
        overlap = area - _overlap(boxes, frame) + _overlap(boxes, taken)
        low, high = boxes[:, None, :2] < samples, samples < boxes[:, None, 2:]
        crossings = np.count_nonzero((low & high).all(axis=2))
        # Any overlap costs more than any number of crossings; smaller overlaps cost less.
        penalty = self._OVERLAP * (1 + overlap / area) if overlap > area * 1e-6 else 0.0
        return penalty + self._CROSSING * crossings


def _boxes(text: Text, renderer: RendererBase) -> _Array:
    """Cover a text with boxes, in pixels; rotated text needs several along its length."""
    if isinstance(text, Annotation):
        text.update_positions(renderer)
    rotation = text.get_rotation()
    slanted = bool(rotation % 90)
    text.set_rotation(0 if slanted else rotation)
    # The annotation's own extent would include its leader line.
    extents = np.array([Text.get_window_extent(text, renderer).padded(1.0).extents])
    text.set_rotation(rotation)
    if not slanted:
        return extents
    left, bottom, right, top = extents[0]
    anchor = text.get_transform().transform(text.get_position())
    angle = math.radians(rotation)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    count = math.ceil((right - left) / (top - bottom))
    step = (right - left) / count
    half = (step * np.abs(turn[0]) + (top - bottom) * np.abs(turn[1])) / 2
    along = left + step * (np.arange(count) + 0.5)
    centres = np.column_stack([along, np.full(count, (bottom + top) / 2)])
    centres = (centres - anchor) @ turn + anchor
    return np.column_stack([centres - half, centres + half])


def _overlap(boxes: _Array, others: _Array) -> float:
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return float(np.prod(np.clip(high - low, 0, None), axis=2).sum())


#: Colour, marker and marker size in points of each memory level, shared by its ceiling and the
#: points measured there. The sizes differ, so that coinciding points of several levels are visible.
_LEVELS = {
    "DRAM": ("#0072B2", "o", 11.0),
    "L3": ("#009E73", "D", 9.5),
    "L2": ("#E69F00", "s", 8.5),
    "L1": ("#CC79A7", "^", 6.0),
    "shared": ("#009E73", "v", 8.0),  # only on GPUs, which have no L3
}
_OTHER_LEVEL = ("#8C510A", "X", 6.5)
#: Colours of memory limits, and of compute and instruction limits.
MEMORY, COMPUTE = "#0072B2", "#D55E00"
FADED, LOST, _ALARM = "0.55", "#D55E00", "#C8102E"
#: Directions from a point to its label, the preferred one first.
COMPASS = ((1, 0), (0, 1), (-1, 0), (0, -1), (0.7, 0.7), (-0.7, 0.7), (-0.7, -0.7), (0.7, -0.7))
#: Distances from a point to its label, in points, where no near label has space.
_FAR = (62, 84, 112)

#: Property of every chart text that can contain names from outside of the package. Matplotlib would
#: otherwise interpret ``$`` in a name as mathematics.
LITERAL: Mapping[str, Any] = {"parse_math": False}
#: Maximum number of characters of a row name, of a label, and of a title or note.
_LONGEST_NAME, _LONGEST_LABEL, _LONGEST_NOTE = 34, 200, 450
_NO_BREAK = "\N{NO-BREAK SPACE}"
#: Mean width of a character relative to the size of the font, in regular and in bold type.
CHARACTER, _BOLD_CHARACTER = 0.56, 0.62


class Canvas:
    """Axes, or a new figure of this size in inches, with methods that share fonts and colours.

    Labels and a legend are drawn only if `annotate` is true.
    """

    def __init__(
        self, ax: Axes | None, *, annotate: bool, size: tuple[float, float] = (10.0, 6.0)
    ) -> None:
        require((Axes, type(None)), "Axes of matplotlib", ax=ax)
        self.ax = ax or plt.figure(figsize=size, layout="constrained").add_subplot()
        box, points = self.ax.get_window_extent(), 72 / self.ax.figure.dpi
        self.annotate = annotate
        self.width, self.height = box.width * points, box.height * points
        self.font = float(np.clip(self.width / 45, 5.0, 8.5))
        if annotate:  # the layout reserves space for title and legend
            self.height = max(self.height - 3 * self.font, self.height / 2)
        self.ink = str(mpl.rcParams["text.color"])
        self.paper = self.ax.get_facecolor()
        #: Style of a marker that is not filled.
        self.hollow = {"mfc": self.paper, "mec": self.ink}
        # A box, because a stroke around the letters would draw the text as paths, which are wider
        # than its measured size.
        self.label_box = {"boxstyle": "square,pad=0.1", "fc": self.paper, "alpha": 0.6, "lw": 0}
        self._label: dict[str, Any] = {"fontsize": self.font, "bbox": self.label_box, **LITERAL}
        self._label["in_layout"] = False
        self.labels = Labels()
        self.ax.add_artist(self.labels)
        self._points: dict[int, str] = {}
        self._numbers = itertools.count()

    def tint(self, share: float) -> tuple[float, ...]:
        """The colour of the paper with this share of ink: for lines on light and dark paper."""
        paper, ink = (np.array(to_rgb(colour)) for colour in (self.paper, self.ink))
        return tuple((1 - share) * paper + share * ink)

    def settle(self) -> None:
        """Compute the layout, so that `width` excludes the names of the rows."""
        root = self.ax.figure.figure  # also if the axes are in a SubFigure
        assert isinstance(root, Figure)
        root.draw_without_rendering()
        self.width = self.ax.get_window_extent().width * 72 / self.ax.figure.dpi

    def identify(self, groups: Iterable[Sequence[Measurement]]) -> None:
        """Give each measurement an identifier for SVG files: its group, and its place there."""
        for g, group in enumerate(groups):
            self._points |= {id(m): f"point-{g}-{row}" for row, m in enumerate(group)}

    def gid(self, m: Measurement) -> str | None:
        """A new identifier for an artist that belongs to a measurement: ``"point-0-3-17"``."""
        point = self._points.get(id(m))
        return f"{point}-{next(self._numbers)}" if point else None

    def frame(self, x: str, y: str = "", /, *, spines: str = "left bottom", **style: Any) -> None:
        """Name the axes and show some of the spines; `style` applies to the horizontal one."""
        self.ax.set_xlabel(x, **{"fontsize": self.font + 1, **style})
        self.ax.set_ylabel(y, fontsize=self.font + 1)
        self.ax.tick_params(labelsize=self.font)
        for side, spine in self.ax.spines.items():
            spine.set_visible(side in spines)

    def text(self, words: str, **style: Any) -> Text:
        """Add text without a position."""
        words = printable(words, _LONGEST_LABEL, lines=True)
        return self.ax.text(**{"x": 0, "y": 0, "s": words, **self._label, **style})

    def label(
        self,
        words: str,
        places: Iterable[Place] = ({},),
        *,
        rows: float = math.inf,
        always: bool = False,
        **style: Any,
    ) -> None:
        """Add text at the best of several places, each given as text properties.

        The font is no larger than `rows` units of the vertical axis. Without annotations, only text
        that is `always` shown is added.
        """
        if not (self.annotate or always):
            return
        text = self.text(words, **style)
        largest = text.get_fontsize()

        def fit() -> None:
            (_, low), (_, high) = self.ax.transData.transform([(0, 0), (0, 1)])
            text.set_fontsize(min(largest, rows * abs(high - low) * 72 / self.ax.figure.dpi))

        self.labels.add(text, places, fit=fit if rows < math.inf else None)

    def label_wall(
        self, words: str, x: float, low: float, high: float, shares: Iterable[float], **style: Any
    ) -> None:
        """Label a vertical line at a share of its length, if the vertical axis is logarithmic."""
        places = [
            {
                "position": (x, low * (high / low) ** share),
                "ha": ha,
                "transform": self.ax.transData + self.shift(dx),
            }
            for share in shares
            for ha, dx in (("right", -2), ("left", 2))
        ]
        self.label(words, places, va="bottom", rotation=90, color=FADED, **style)

    def write(self, words: str, x: float, y: float, **style: Any) -> None:
        """Add text without a box, by default centred at a position."""
        style = {"ha": "center", "va": "center", "bbox": None, **style}
        self.label(words, position=(x, y), **style)

    def callout(
        self,
        words: str,
        point: Point,
        distances: Iterable[float],
        compass: Iterable[Point] = COMPASS,
        **style: Any,
    ) -> None:
        """Add text near a point, at one of these distances and directions, with a leader line.

        If it overlaps something everywhere, all directions and larger distances are tried.
        """
        leader = {"arrowstyle": "-", "lw": 0.5, "color": FADED, "shrinkA": 0, "shrinkB": 3}
        style = {**self._label, "arrowprops": leader, **style}
        words = printable(words, _LONGEST_LABEL, lines=True)
        text = self.ax.annotate(words, point, (0, 0), "data", "offset points", **style)
        nearby = tuple(distances)
        groups = ((nearby, tuple(compass)), ((*nearby, *_FAR), COMPASS))
        places = [
            [
                {
                    "position": (distance * east, distance * north),
                    "ha": ("center", "left", "right")[int(np.sign(east))],
                    "va": ("center", "bottom", "top")[int(np.sign(north))],
                }
                for distance in some
                for east, north in ways
            ]
            for some, ways in groups
        ]
        self.labels.add(text, *places)

    def line(self, xs: Sequence[float], ys: Sequence[float], **style: Any) -> None:
        """Draw straight lines between consecutive points. Labels avoid them."""
        self.ax.plot(xs, ys, **{"color": self.ink, "lw": 1.0, "zorder": 2, **style})
        self.labels.lines.append(np.column_stack([xs, ys]))

    def mark(self, x: float, y: float, **style: Any) -> None:
        """Draw a marker that labels avoid."""
        self.ax.plot([x], [y], **{"ls": "", "ms": 0.75 * self.font, "zorder": 4, **style})
        self.labels.points.append((x, y))

    def mark_level(self, x: float, y: float, level: str, scale: float = 1.0, **style: Any) -> None:
        """Draw the marker of a memory level."""
        colour, marker, size = level_style(level)
        own = {"marker": marker, "ms": scale * size, "color": colour, "mec": self.paper, "mew": 0.5}
        self.mark(x, y, **{**own, **style})

    def error_bar(self, x: float, y: float, *, ends: Iterable[float], along: str = "x") -> None:
        """Draw a confidence interval along an axis, from its lower to its upper end."""
        low, high = ends
        centre = x if along == "x" else y
        style: dict[str, Any] = {"elinewidth": 0.8, "capthick": 0.8, "capsize": 2, "fmt": "none"}
        style[f"{along}err"] = [[centre - low], [high - centre]]
        self.ax.errorbar([x], [y], ecolor=self.ink, **style)

    def legend_below(self, key: Sequence[Artist | str]) -> None:
        """Add a legend with all columns that fit; texts in `key` are notes, which are its title.

        Without entries and notes, there is no legend.
        """
        if not key or not self.annotate:
            return
        notes = "; ".join(printable(note, _LONGEST_NOTE) for note in key if isinstance(note, str))
        handles = [handle for handle in key if not isinstance(handle, str)]
        for handle in handles:
            label = printable(str(handle.get_label()), _LONGEST_NOTE)
            # Matplotlib omits entries that begin with an underscore.
            handle.set_label(f" {label}" if label.startswith("_") else label)
        longest = max((len(str(handle.get_label())) for handle in handles), default=0)
        columns = int(1.1 * self.width / (self.font * (3.6 + CHARACTER * longest)))
        wrapped = _wrapped(notes, int(1.1 * self.width / (CHARACTER * self.font)))
        legend = self.ax.legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=self.ax.transAxes + self.shift(0, -13 - 2.5 * self.font),
            ncols=max(1, min(len(handles), columns)),
            fontsize=self.font,
            title="\n".join(wrapped) or None,
            title_fontsize=self.font,
            frameon=False,
            borderaxespad=0.2,
            handlelength=1.4,
            columnspacing=1.4,
        )
        for text in (legend.get_title(), *legend.get_texts()):
            text.set(**LITERAL)

    def title(self, finding: str, subject: str) -> None:
        """Write the finding in bold, and below it the subject of the measurement."""
        size = self.font

        def lines(words: str, character: float) -> list[str]:
            width = max(20, int(self.width / character))
            return _wrapped(printable(words, _LONGEST_NOTE), width)

        below = lines(subject, 0.52 * size)
        style: dict[str, Any] = {"va": "bottom", "annotation_clip": False, "gid": "subject"}
        style |= {"fontsize": size, "color": FADED, **LITERAL}
        self.ax.annotate(
            "\n".join(below), (0, 1), (0, 4), "axes fraction", "offset points", **style
        )
        bold = lines(finding, _BOLD_CHARACTER * (size + 2))
        style = {"fontsize": size + 2, "fontweight": "bold", "loc": "left", **LITERAL}
        style["pad"] = 7 + 1.32 * size * len(below)
        self.ax.set_title("\n".join(bold), **style)

    def badge(self, suspects: Sequence[tuple[Measurement, Point]]) -> None:
        """Mark impossible points, with a visible message that names them."""
        if not suspects:
            return
        names = ", ".join(m.shown_as for m, _ in suspects)
        unchecked = all(m.shown_as != m.variant for m, _ in suspects)
        reason = "no result to check" if unchecked else "wrong counter or ceiling"
        for _, (x, y) in suspects:
            self.ax.plot([x], [y], marker="o", ms=13, mfc="none", mec=_ALARM, mew=1.5, zorder=6)
            self.labels.points.append((x, y))
        heights = (0.92, 0.8, 0.65, 0.5, 0.35, 0.2, 0.08)
        places = [{"position": (x, y)} for y in heights for x in (0.3, 0.5, 0.7)]
        style: dict[str, Any] = {"ha": "center", "va": "center", "transform": self.ax.transAxes}
        style |= {"color": "white", "fontweight": "bold", "zorder": 6}
        style["bbox"] = {"facecolor": _ALARM, "edgecolor": "none", "boxstyle": "round"}
        self.label(f"{names}\nabove the roof: {reason}", places, always=True, **style)

    def row_names(self, names: Sequence[str], rows: Iterable[float] = ()) -> None:
        """Label each row on the vertical axis with its name; by default, numbered from 0."""
        shown = [printable(name, _LONGEST_NAME) for name in names]
        positions = [*rows] or range(len(names))
        self.ax.set_yticks(positions, shown, fontsize=self.font, **LITERAL)

    def shift(self, x: float, y: float = 0.0) -> ScaledTranslation:
        """An offset in points."""
        return ScaledTranslation(x / 72, y / 72, self.ax.figure.dpi_scale_trans)


def _wrapped(words: str, width: int) -> list[str]:
    """Lines of at most `width` characters; a number and its unit stay on one line."""
    joined = re.sub(r"(?<=\d) ", _NO_BREAK, words)
    return [line.replace(_NO_BREAK, " ") for line in textwrap.wrap(joined, width)]


def level_style(level: str) -> tuple[str, str, float]:
    """Colour, marker and marker size in points of a memory level."""
    return _LEVELS.get(level, _OTHER_LEVEL)


def largest_first(by_level: Mapping[str, float]) -> list[tuple[str, float]]:
    """The values of the memory levels, in the order in which to draw their markers."""
    return sorted(by_level.items(), key=lambda item: -level_style(item[0])[2])


def ink_on(colour: str) -> str:
    """Choose black or white for text on a colour, given as ``"#RRGGBB"``."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return "black" if np.dot([red, green, blue], [0.299, 0.587, 0.114]) > 0.45 else "white"


def entry(words: str, **style: Any) -> Line2D:
    """Make a legend entry: text with an optional marker."""
    return Line2D([], [], **{"ls": "", "ms": 5, "label": words, **style})


def level_entries(
    levels: Iterable[str], words: str, scale: float = 0.8, colour: str | None = None
) -> list[Line2D]:
    """Make a legend entry per distinct level, smallest marker first, by default in its colour."""
    found = []
    for level in sorted(set(levels), key=lambda level: level_style(level)[2]):
        own, marker, size = level_style(level)
        style = {"color": colour or own, "marker": marker, "ms": scale * size}
        found.append(entry(words.format(level), **style))
    return found


#: Candidates for ticks, as multiples of powers of ten. The first one with enough ticks is used.
_MULTIPLES: tuple[tuple[float, ...], ...] = (
    (1,),
    (1, 3),
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 7),
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
)
_FEWEST_TICKS = 4


def log_ticks(low: float, high: float) -> list[float]:
    """Round values within the range: powers of ten, and their multiples if there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for multiples in _MULTIPLES:
        found = [m * 10.0**p for p in powers for m in multiples if low <= m * 10.0**p <= high]
        if len(found) >= _FEWEST_TICKS:
            return found
    return [float(f"{t:.2g}") for t in np.geomspace(low * 1.05, high / 1.05, _FEWEST_TICKS)]


def log_axis(axis: Axis, low: float, high: float, unit: str) -> str:
    """Label round values of a logarithmic axis; return the unit of the labels, with a prefix."""
    factor, name = prefix(math.sqrt(low * high), unit)
    axis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{float(f'{x / factor:.3g}'):g}"))
    return name
