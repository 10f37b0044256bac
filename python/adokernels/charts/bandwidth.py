"""The chart of memory-bound ladders: a bar per variant with the ceilings, and columns beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from adokernels.charts.canvas import (
    Canvas,
    entry,
    largest_first,
    level_entries,
    level_style,
    log_ticks,
)
from adokernels.charts.series import Host, Series, hosts_of
from adokernels.charts.steps import Columns, text_of
from adokernels.records.machine import Ceiling, Machine
from adokernels.records.measurement import Measurement
from adokernels.records.statistics import Verdict
from adokernels.text import NO_LIMIT, percent, quantity, ratio, share_of_limit

_VARIANT: dict[str, Any] = {"facecolor": "#56B4E9", "edgecolor": "none"}
_CEILING: dict[str, Any] = {"facecolor": "0.85", "edgecolor": "0.7", "hatch": "////", "lw": 0.5}
_PEER: dict[str, Any] = {"facecolor": "#E3F2FB", "edgecolor": "#0072B2", "lw": 0.8}
#: Columns that a narrow chart omits, in this order.
_OPTIONAL = ("time", "step")
_BAR = 0.62  # height of a bar, relative to its row
_FONT = 0.8  # largest font relative to the height of a row
_MARKS = 0.7  # size of the markers relative to the markers of a roofline
#: Heights of a row, and of title, axis and legend together, in inches.
_ROW, _REST = 0.24, 2.4
#: Heights of the margin of a header and of its heading, in lines.
_MARGIN, _HEADING = 0.5, 1.3
#: Ratio of the roofs of two machines above which the axis is logarithmic.
_WIDEST_SPAN = 20
#: Requested bytes are shown if they differ from the compulsory ones by more than this fraction.
_DIFFERS = 0.02

#: A ceiling: value, name and line style.
_Line = tuple[float, str, dict[str, Any]]


@dataclass(frozen=True)
class _Group:
    """The rows of a sweep, below a header with the labels of the ceilings."""

    series: Series
    ceilings: Sequence[_Line]  # their lines continue through the next groups of the same machine
    top: float  # the position above the header
    first: float  # the position of the first row
    line: float  # the height of a line of text in the header

    @property
    def names(self) -> float:
        """The upper end of the last line of the header, which has the names of the columns."""
        return self.first - 0.5 - self.line

    @property
    def rows(self) -> dict[Measurement, float]:
        """The position of each row."""
        return {m: self.first + i for i, m in enumerate(self.series.everything)}


class _Axis(NamedTuple):
    """The range of the horizontal axis."""

    low: float  # 0 if it is linear
    reach: float
    of_host: Mapping[Host | None, float]  # the range of the ceilings of a machine


def bandwidth_height(series: Sequence[Series]) -> float:
    """Height in inches of the chart: its rows always have the same height."""
    return _REST + _ROW * (sum(len(s.everything) for s in series) + 2 * (len(series) - 1))


def draw_bandwidth(canvas: Canvas, series: Sequence[Series], wrong: Sequence[Measurement]) -> str:
    """Draw a row per variant, then per peer, with columns at the right; return the finding."""
    canvas.row_names([m.shown_as for s in series for m in s.everything])
    canvas.settle()
    axis = _axis_of(series)
    canvas.legend_below(_key(canvas, series, axis))
    groups = _groups(canvas, series, axis)
    headings = [group.first - 0.5 - group.line / 2 for group in groups]
    cells = _cells(canvas, groups) if canvas.annotate else ()
    columns = Columns(canvas, cells, headings, _OPTIONAL)
    _frame(canvas, groups, axis, columns.share_of_plot)
    ends = {g.series.host: max(g.rows.values()) + 0.5 for g in groups}
    for group in groups:
        _draw_header(canvas, group, ends[group.series.host])
        for m, row in group.rows.items():
            peer = m in group.series.sweep.peers
            _bar(canvas, m, row, axis, _PEER if peer else _CEILING if m.ceiling else _VARIANT)
    columns.draw()
    rows = [row for group in groups for row in group.rows.items()]
    canvas.badge([(m, (m.bytes_per_second, row)) for m, row in rows if m in wrong])
    parts = []
    for s in series:
        for m in s.summarised:
            rate = m.bytes_per_second
            share = rate / s.sweep.roof if s.sweep.roof else 0.0
            # Above 105 %, the roof does not apply, because caches serve the data.
            words = f"{percent(share)} of the roof" if share <= NO_LIMIT else "caches: no limit"
            of_roof = f" ({words})" if s.sweep.roof else ""
            parts.append(f"{s.name or m.variant}: {quantity(rate, 'B/s')}{of_roof}")
    return "; ".join(parts)


def level_bandwidths(machine: Machine, *, reading: bool = False) -> list[Ceiling]:
    """The read ceilings of the caches, and the copy ceiling of DRAM.

    With `reading`, the ceiling of DRAM is its read ceiling if it is known.
    """
    ceilings = machine.of_kind("bandwidth")
    of_memory = "read" if reading and "DRAM read" in [c.name for c in ceilings] else "copy"
    return [c for c in ceilings if c.operation == (of_memory if c.level == "DRAM" else "read")]


def _axis_of(series: Sequence[Series]) -> _Axis:
    """The range up to the DRAM ceilings and all bars."""
    limits: dict[Host | None, float] = {}
    for s in series:
        rates = [m.bytes_per_second for m in s.everything]
        bandwidths = s.host.machine.of_kind("bandwidth") if s.host else ()
        dram = [max(c.measured, c.theoretical or 0) for c in bandwidths if c.level == "DRAM"]
        limits[s.host] = max(*rates, *dram, limits.get(s.host, 0.0))
    reach = 1.2 * max(limits.values())
    if max(limits.values()) <= _WIDEST_SPAN * min(limits.values()):
        return _Axis(0.0, reach, dict.fromkeys(limits, reach))
    slowest = min(m.bytes_per_second for s in series for m in s.everything)
    return _Axis(slowest / 2, 1.25 * reach, {host: 1.2 * limit for host, limit in limits.items()})


def _ceilings(host: Host, axis: _Axis) -> list[_Line]:
    """List the ceilings within the axis, slowest first."""
    lines: list[_Line] = []
    main = level_bandwidths(host.machine)
    for c in host.machine.of_kind("bandwidth"):
        style: dict[str, Any] = {"color": level_style(c.level)[0], "ls": host.line}
        if c in main or c.name == "DRAM read":
            style["lw"] = 1.5 if c in main else 0.7
            lines.append((c.measured, f"{host.name} {c.name}".lstrip(), style))
        if c in main and c.theoretical and host.alone:
            style = {**style, "lw": 0.8, "ls": "--"}
            lines.append((c.theoretical, f"{c.level} theoretical", style))
    reach = axis.of_host[host]
    return sorted((line for line in lines if line[0] <= reach), key=lambda line: line[0])


def _draw_header(canvas: Canvas, group: _Group, end: float) -> None:
    """Write the subject of a sweep, and draw the ceilings from their labels to the last row."""
    series = group.series
    for depth, (value, name, style) in enumerate(group.ceilings):
        # The leftmost line has the lowest label, so that no line crosses another's label. The names
        # of the columns are below them.
        y = group.names - group.line * (depth + 0.9)
        canvas.line([value, value], [end, y], **style)
        place = {"position": (value, y), "transform": canvas.ax.transData + canvas.shift(-2)}
        font = {"fontsize": canvas.font - 0.5, "color": style["color"]}
        canvas.label(f"{name} {quantity(value, 'B/s')}", [place], ha="right", va="center", **font)
    if series.name:
        corner = canvas.ax.get_yaxis_transform() + canvas.shift(3, -3)
        place = {"position": (0, group.top), "transform": corner}
        words = f"{series.name}: {series.details}"
        canvas.label(words, [place], va="top", fontweight="bold")


def _key(canvas: Canvas, series: Sequence[Series], axis: _Axis) -> list[Artist | str]:
    everything = [m for s in series for m in s.everything]
    key: list[Artist | str] = []
    if any(map(_requests_more, everything)):
        key.append(entry("requested bytes / time", marker="D", ms=4.5, **canvas.hollow))
    levels = {level for m in everything for level in m.counted_bytes}
    key += level_entries(levels, "{} bytes, counted / time", _MARKS)
    for shown, words, style in (
        (any(m.ceiling for m in everything), "ceiling: does not compute the result", _CEILING),
        (any(s.sweep.peers for s in series), "peer: code of another library", _PEER),
    ):
        if shown and axis.low:  # bars are markers on a logarithmic axis
            face = style["facecolor"]
            key.append(entry(words, marker="o", mfc=face, mec="0.3", mew=0.5, ms=7))
        elif shown:
            key.append(Patch(**style, label=words))
    beyond = []
    for host in hosts_of(series):
        if not host.alone:
            words = f"ceilings of {host.machine.title}"
            key.append(entry(words, color=canvas.ink, ls=host.line))
        far = [c for c in level_bandwidths(host.machine) if c.measured > axis.of_host[host]]
        beyond += [f"{host.name} {c.name} {quantity(c.measured, 'B/s')}".lstrip() for c in far]
    roofs = [s.sweep.roof for s in series if s.sweep.roof]
    if roofs:
        roof = f"roof, {quantity(roofs[0], 'B/s')}" if len(series) == 1 else "roof of each ladder"
        key.append(f"percentages are of the {roof}")
    if beyond:
        key.append(f"{'not shown' if axis.low else 'off scale'}: {', '.join(beyond)}")
    return key


def _groups(canvas: Canvas, series: Sequence[Series], axis: _Axis) -> list[_Group]:
    """The groups of rows below their headers, from top to bottom; the first row is at 0."""
    headers: list[tuple[Series, list[_Line], float]] = []  # the number is lines of text
    for s in series:
        labelled = any(s.host is other.host for other, *_ in headers)
        ceilings = _ceilings(s.host, axis) if s.host and not labelled else []
        # A margin, the heading, the labels of the ceilings, and the names of the columns.
        lines = _MARGIN + (_HEADING if s.name else 0) + len(ceilings) + 1
        headers.append((s, ceilings, lines))
    points = 1.45 * canvas.font if canvas.annotate else 0.0  # the height of a line of text
    rows, text = sum(len(s.everything) for s in series), sum(lines for *_, lines in headers)
    points = min(points, canvas.height / 2 / text)
    line = points * rows / (canvas.height - points * text)
    groups: list[_Group] = []
    y = -line * headers[0][2]
    for s, ceilings, lines in headers:
        first = y + line * lines
        groups.append(_Group(s, ceilings, top=y - 0.5, first=first, line=line))
        y = first + len(s.everything)
    return groups


def _frame(canvas: Canvas, groups: Sequence[_Group], axis: _Axis, plot: float) -> None:
    """Set up the axes: the bars in the left part `plot`, rows with their names."""
    ax = canvas.ax
    rows = [(m.shown_as, row) for group in groups for m, row in group.rows.items()]
    canvas.row_names([name for name, _ in rows], [row for _, row in rows])
    ax.tick_params(axis="y", length=0)
    ax.set_xscale("log" if axis.low else "linear")
    right = axis.low * (axis.reach / axis.low) ** (1 / plot) if axis.low else axis.reach / plot
    ax.set(xlim=(axis.low, right), ylim=(rows[-1][1] + 0.5, groups[0].top))
    linear = MaxNLocator(6, steps=[1, 2, 2.5, 5, 10])
    ticks = log_ticks(axis.low, axis.reach) if axis.low else linear.tick_values(0, axis.reach)
    ax.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick <= axis.reach]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1e9:g}"))
    scale = ", logarithmic" if axis.low else ""
    canvas.frame(f"Effective bandwidth [GB/s] (compulsory bytes / time{scale})", x=plot / 2)
    canvas.ax.spines["bottom"].set_bounds(axis.low, axis.reach)


def _bar(canvas: Canvas, m: Measurement, y: float, axis: _Axis, style: dict[str, Any]) -> None:
    """Draw a bar. A logarithmic axis has no zero, so only the end of the bar is drawn there."""
    rate, requested = m.bytes_per_second, m.requested_bytes / m.seconds
    if axis.low:
        face, edge = style["facecolor"], canvas.ink
        canvas.mark(rate, y, gid=canvas.gid(m), marker="o", mfc=face, mec=edge, mew=0.5, ms=9)
    else:
        canvas.ax.barh([y], [rate], height=_BAR, zorder=1, gid=canvas.gid(m), **style)
    canvas.error_bar(rate, y, ends=(m.bytes / t for t in reversed(m.interval)))
    for level, moved in largest_first(m.counted_bytes):
        if moved / m.seconds < axis.reach:
            canvas.mark_level(moved / m.seconds, y, level, _MARKS, gid=canvas.gid(m))
    if not _requests_more(m):
        return
    beyond, end = requested > axis.reach, min(requested, axis.reach)
    canvas.mark(end, y, marker=">" if beyond else "D", gid=canvas.gid(m), **canvas.hollow)
    if beyond:
        words = f"requests {quantity(requested, 'B/s')}"
        place = {"position": (end, y), "transform": canvas.ax.transData + canvas.shift(-8)}
        canvas.label(words, [place], ha="right", va="center", rows=_FONT, gid=canvas.gid(m))


def _cells(canvas: Canvas, groups: Sequence[_Group]) -> Iterator[Any]:
    """Time, bandwidth, ratio of times of the step, and share of the roof of each row."""
    for group in groups:
        sweep = group.series.sweep
        before = sweep.step_pairs()
        for m, row in group.rows.items():
            step, style = "", {}
            if m in before:
                verdict = m.compare(before[m]).verdict
                clear = verdict in (Verdict.FASTER, Verdict.SLOWER)
                step = ratio(m.speedup_over(before[m])) if clear else verdict.value
                style = text_of(verdict, canvas.ink)
            cells: dict[str, tuple[str, dict[str, Any]]] = {
                "time": (quantity(m.seconds, "s"), {}),
                "bandwidth": (quantity(m.bytes_per_second, "B/s"), {}),
                "step": (step, style),
                "of roof": ("", {}),
            }
            if sweep.roof:
                cells["of roof"] = (share_of_limit(m.bytes_per_second / sweep.roof), {})
            yield row, m, cells


def _requests_more(m: Measurement) -> bool:
    return abs(m.requested_bytes - m.bytes) > _DIFFERS * m.bytes
