"""Placement of the labels of a chart, so that they do not overlap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backend_bases import RendererBase
from matplotlib.text import Annotation, Text
from numpy.typing import NDArray

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

        Further groups of positions are used only if the label overlaps something at all positions
        of the groups before. `fit` adapts the label to the current size of the chart.
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
