"""The roofs of a roofline chart, and its vertical lines."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from matplotlib.text import Text
from matplotlib.transforms import Transform

from adokernels.charts.canvas import CHARACTER, FADED, Canvas, level_style
from adokernels.charts.series import Host
from adokernels.records.machine import Ceiling
from adokernels.text import number, prefix

#: Ceilings of L1 and shared memory that differ by less than this factor share one line.
_SAME_LINE = 1.03
#: Minimum visible length of a roof, relative to its label; shorter roofs are in the legend.
_ROOM = 0.9
#: Positions of the label of a roof, the preferred one first: fractions of its visible length if it
#: is a diagonal, fractions of the width from the right if it is horizontal.
_ALONG_DIAGONAL = (*np.linspace(0.5, 0.12, 6), *np.linspace(0.58, 0.88, 5))
_FROM_RIGHT = (0.01, *np.arange(0.08, 0.95, 0.04))


@dataclass(frozen=True, kw_only=True)
class Roof:
    """A roof with `value` at intensity 1, proportional to it (slope 1) or constant (slope 0)."""

    name: str
    value: float
    slope: int
    unit: str
    colour: str
    theoretical: float | None = None
    levels: tuple[str, ...] = ()  # the memory levels that it limits; none if it is constant
    host: str = ""  # the name of its machine, if the chart has several
    tensor: bool = False  # the limit of tensor cores, not of ordinary instructions
    style: Mapping[str, Any] = field(default_factory=lambda: {"lw": 1.5})

    @property
    def words(self) -> str:
        """The label: name, measured and theoretical value."""
        factor, unit = prefix(self.value, self.unit)
        theory = f" (theory {number(self.theoretical / factor)})" if self.theoretical else ""
        name = f"{self.host} {self.name}" if self.host else self.name
        return f"{name} {number(self.value / factor)} {unit}{theory}"

    @property
    def values(self) -> list[float]:
        """The measured and the theoretical value, if known."""
        return [v for v in (self.value, self.theoretical) if v]

    def beside_others(self, host: Host, colour: str) -> Roof:
        """The roof in a chart of several sweeps: line style of its machine, measured value only."""
        own: dict[str, Any] = {
            "colour": colour,
            "host": host.name,
            "style": {**self.style, "ls": host.line},
        }
        return dataclasses.replace(self, theoretical=None, **own)


def flat_roof(ceiling: Ceiling, name: str, unit: str, colour: str, width: float = 1.5) -> Roof:
    """Make the roof of a ceiling that does not depend on the intensity."""
    value, theory = ceiling.measured, ceiling.theoretical
    own: dict[str, Any] = {"unit": unit, "colour": colour, "style": {"lw": width}}
    return Roof(name=name, value=value, theoretical=theory, slope=0, **own)


def bandwidth_roofs(ceilings: Sequence[Ceiling], per: float, unit: str) -> list[Roof]:
    """Make the roofs of the memory levels, for traffic in units of `per` bytes.

    L1 and shared memory have the same data path. If their ceilings agree, they share one roof.
    """
    ours = {c.level: c for c in ceilings}
    levels: dict[str, tuple[str, ...]] = {level: (level,) for level in ours}
    both = sorted((ours[n] for n in ("L1", "shared") if n in ours), key=lambda c: c.measured)
    if len(both) == 2 and both[1].measured < _SAME_LINE * both[0].measured:
        # Use the higher ceiling, so that no point is above its roof.
        ours["L1"], levels["L1"] = both[1], ("L1", "shared")
        del ours["shared"]
    found = []
    for level, c in ours.items():
        style: dict[str, Any] = {"unit": unit, "colour": level_style(level)[0]}
        name, theory = f"{'/'.join(levels[level])} {c.operation}", (c.theoretical or 0.0) / per
        limit: dict[str, Any] = {"value": c.measured / per, "theoretical": theory or None}
        found.append(Roof(name=name, slope=1, levels=levels[level], **limit, **style))
    return found


def draw_roofs(canvas: Canvas, roofs: Sequence[Roof]) -> list[Roof]:
    """Draw the roofs and their ridge points; return the roofs with space for a label."""
    left, right = canvas.ax.get_xlim()
    bottom, top = canvas.ax.get_ylim()
    peak = max(v for r in roofs if not r.slope for v in r.values)
    fastest = max(v for r in roofs if r.slope for v in r.values)
    visible = []
    for roof in roofs:
        seen = False
        for value, dashed in zip(roof.values, (False, True), strict=False):
            style = {**roof.style, **({"lw": 0.9, "ls": "--"} if dashed else {})}
            if roof.slope:
                start, end = max(left, bottom / value), min(right, top / value, peak / value)
            else:
                start, end = max(left, value / fastest), right
            if start < end and (roof.slope or bottom < value < top):
                ys = [value * x**roof.slope for x in (start, end)]
                canvas.line([start, end], ys, color=roof.colour, **style)
                seen = seen or (not dashed and _length(canvas, start, end, roof) > _ROOM)
        if seen:
            visible.append(roof)
    flat = max(r.value for r in roofs if not r.slope)
    for roof in roofs:
        # Labels avoid the lines, so they need not avoid these markers.
        x = flat / roof.value
        if roof.slope and left < x < right and bottom < flat < top:
            style = {"marker": "o", "ms": 3.5, "color": roof.colour, "mec": canvas.ink, "mew": 0.5}
            canvas.ax.plot([x], [flat], zorder=4, **style)
    return visible


def _length(canvas: Canvas, start: float, end: float, roof: Roof) -> float:
    """Length of a roof on the chart, relative to the length of its label."""
    limits = np.log10([canvas.ax.get_xlim(), canvas.ax.get_ylim()])
    run = math.log10(end / start) / np.diff(limits)[:, 0] * (1, roof.slope)
    length = float(np.hypot(*(run * (canvas.width, canvas.height))))
    return length / (CHARACTER * canvas.font * len(roof.words))


def label_roofs(canvas: Canvas, roofs: Sequence[Roof]) -> None:
    """Label the roofs above or below their lines: diagonal ones first, rotated to their slope."""
    left, right = np.log10(canvas.ax.get_xlim())
    bottom, top = np.log10(canvas.ax.get_ylim())
    peak = math.log10(max((r.value for r in roofs if not r.slope), default=10.0**top))
    # Roofs are straight lines in these coordinates, whose units are decades.
    decades = canvas.ax.transLimits + canvas.ax.transAxes
    for roof in sorted(roofs, key=lambda r: -r.slope):
        values = np.log10(roof.values)
        v = values[0]
        if roof.slope:
            start, end = np.array([max(left, bottom - v), min(right, top - v, peak - v)])
            xs = [start + share * (end - start) for share in _ALONG_DIAGONAL]
        else:
            xs = [right - share * (right - left) for share in _FROM_RIGHT]
        sides = (("bottom", values.max(), 1.5), ("top", values.min(), -1.5))
        places = [
            {
                "position": (x, roof.slope * x + value),
                "va": va,
                "transform": decades + canvas.shift(0, rise),
            }
            for x in xs
            for va, value, rise in sides
        ]
        style = {"ha": "center" if roof.slope else "right", "color": roof.colour}
        text = canvas.text(roof.words, rotation_mode="anchor", **style)
        canvas.labels.add(text, places, fit=partial(_follow, text, decades, roof.slope))


def _follow(text: Text, decades: Transform, slope: int) -> None:
    """Rotate a text to a slope; the angle depends on the current size of the chart."""
    start, end = decades.transform([(0, 0), (1, slope)])
    text.set_rotation(math.degrees(math.atan2(end[1] - start[1], end[0] - start[0])))


@dataclass(frozen=True)
class Wall:
    """A vertical line with its label."""

    x: float
    words: str


def draw_walls(canvas: Canvas, walls: Sequence[Wall]) -> list[Wall]:
    """Draw vertical lines with labels at their lower ends; return those outside the frame."""
    bottom, top = canvas.ax.get_ylim()
    left, right = canvas.ax.get_xlim()
    for wall in walls:
        if left < wall.x < right:
            canvas.line([wall.x, wall.x], [bottom, top], ls=":", color=FADED)
            shares = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5)
            canvas.label_wall(wall.words, wall.x, bottom, top, shares)
    return [wall for wall in walls if not left < wall.x < right]
