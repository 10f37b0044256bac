"""The chart of memory-bound ladders: one bar per variant, with the bandwidth ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from adokernels.charts.canvas import Canvas, entry, level_entries, level_size, level_style
from adokernels.charts.series import hosts_of
from adokernels.charts.verdicts import line_of, text_of
from adokernels.records.statistics import Verdict
from adokernels.text import NO_LIMIT, percent, quantity, ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.artist import Artist

    from adokernels.charts.labels import Point
    from adokernels.charts.series import Host, Series
    from adokernels.records.machine import Ceiling, Machine
    from adokernels.records.measurement import Measurement

    _Line = tuple[float, str, dict[str, Any]]

_VARIANT: dict[str, Any] = {"facecolor": "#56B4E9", "edgecolor": "none"}
_CEILING: dict[str, Any] = {"facecolor": "0.85", "edgecolor": "0.7", "hatch": "////", "lw": 0.5}
_PEER: dict[str, Any] = {"facecolor": "#E3F2FB", "edgecolor": "#0072B2", "lw": 0.8}
_STEP_COLUMN = 0.89  # position of the steps as a fraction of the width
_NAME, _BAR = -0.27, 0.2  # vertical position of a row's name and bar
_FONT = 0.39  # largest font relative to the height of a row
_MARKS = 0.7  # size of the markers relative to those of a roofline
#: Height of a group's heading, in lines of its header.
_HEADING = 1.3
#: Ratio of the roofs of two machines above which the axis is logarithmic.
_WIDEST_SPAN = 20
#: Requested bytes are shown if they differ from the compulsory ones by more than this fraction.
_DIFFERS = 0.02


@dataclass(frozen=True, kw_only=True)
class _Group:
    """The rows of a sweep.

    `top` is the position above the header, `first` the position of the first row. The header has
    the labels of the `ceilings`, whose lines continue through the next groups of the same machine.
    """

    series: Series
    top: float
    first: float
    ceilings: Sequence[_Line]

    @property
    def rows(self) -> dict[Measurement, float]:
        """The position of each row."""
        return {m: self.first + i for i, m in enumerate(self.series.everything)}


def draw_bandwidth(canvas: Canvas, series: Sequence[Series], wrong: Sequence[Measurement]) -> str:
    """Draw one row per variant, then one per peer, from top to bottom; return the finding.

    A header above the rows contains the labels of the ceilings. A column at the right shows the
    steps. With several sweeps, each sweep is a group of rows.
    """
    axis = _Axis.of(series)
    if canvas.annotate:
        canvas.legend_below(_key(canvas, series, axis))
    groups = _frame(canvas, series, axis)
    ends = {g.series.host: max(g.rows.values()) + 0.5 for g in groups}
    places: list[tuple[Measurement, Point]] = []
    for group in groups:
        _draw_ceilings(canvas, group, ends[group.series.host])
        if canvas.annotate and group.series.name:
            _heading(canvas, group)
        sweep = group.series.sweep
        for m, row in group.rows.items():
            style = _PEER if m in sweep.peers else _CEILING if m.ceiling else _VARIANT
            _bar(canvas, m, row + _BAR, axis, style)
        if canvas.annotate:
            _steps(canvas, group)
            for m, row in group.rows.items():
                _name(canvas, m, row + _NAME, axis)
                if sweep.roof:
                    _share(canvas, m, row + _BAR, sweep.roof, axis)
        places += [
            (m, (m.bytes_per_second, group.rows[m] + _BAR)) for m in wrong if m in group.rows
        ]
    canvas.badge(places)
    return "; ".join(_finding(s) for s in series)


def _finding(series: Series) -> str:
    """Format the bandwidths of the first and fastest variants; of several sweeps, the fastest."""
    sweep = series.sweep
    fastest = [sweep.fastest] if sweep.variants else []
    parts = []
    for m in dict.fromkeys(fastest if series.name else [*sweep.variants[:1], *fastest]):
        share = f" ({_share_words(m.bytes_per_second / sweep.roof)})" if sweep.roof else ""
        parts.append(f"{series.name or m.variant}: {quantity(m.bytes_per_second, 'B/s')}{share}")
    return "; ".join(parts)


def _share_words(share: float) -> str:
    """Format a share of the roof. Above 105 %, caches serve the data: the roof is no limit."""
    return f"{percent(share)} of the roof" if share <= NO_LIMIT else "caches: no limit"


def level_bandwidths(machine: Machine, *, reading: bool = False) -> list[Ceiling]:
    """One bandwidth ceiling per level: copy for DRAM, read for the caches.

    With `reading`, for a ladder that hardly writes, the DRAM ceiling is also read.
    """
    of_memory = "read" if reading else "copy"
    return [
        c
        for c in machine.of_kind("bandwidth")
        if c.operation == (of_memory if c.level == "DRAM" else "read")
    ]


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """The range of the horizontal axis; `low` is 0 if it is linear.

    `of_host` is the range within which the ceilings of a machine are drawn.
    """

    low: float
    reach: float
    of_host: Mapping[Host | None, float]

    @classmethod
    def of(cls, series: Sequence[Series]) -> _Axis:
        """The range up to the DRAM ceilings and all bars."""
        limits: dict[Host | None, float] = {}
        for s in series:
            rates = [m.bytes_per_second for m in s.everything]
            bandwidths = s.host.machine.of_kind("bandwidth") if s.host else ()
            dram = [max(c.measured, c.theoretical or 0) for c in bandwidths if c.level == "DRAM"]
            limits[s.host] = max(*rates, *dram, limits.get(s.host, 0.0))
        reach = 1.2 * max(limits.values())
        if max(limits.values()) <= _WIDEST_SPAN * min(limits.values()):
            return cls(low=0.0, reach=reach, of_host=dict.fromkeys(limits, reach))
        slowest = min(m.bytes_per_second for s in series for m in s.everything)
        of_host = {host: 1.2 * limit for host, limit in limits.items()}
        return cls(low=slowest / 2, reach=1.25 * reach, of_host=of_host)

    @property
    def right(self) -> float:
        """The limit of the axis beyond the column of the steps."""
        plot = _STEP_COLUMN - 0.04
        if self.low:
            return float(self.low * (self.reach / self.low) ** (1 / plot))
        return self.reach / plot


def _ceilings(host: Host, axis: _Axis) -> list[_Line]:
    """List the ceilings within the axis, slowest first, with value, name and line style."""
    lines: list[_Line] = []
    main = level_bandwidths(host.machine)
    for c in host.machine.of_kind("bandwidth"):
        style: dict[str, Any] = {"color": level_style(c.level)[0], "ls": host.line}
        name = f"{host.name} {c.name}".lstrip()
        if c in main or c.name == "DRAM read":
            lines.append((c.measured, name, {**style, "lw": 1.5 if c in main else 0.7}))
        if c in main and c.theoretical and host.alone:
            words = f"{c.level} theoretical"
            lines.append((c.theoretical, words, {**style, "lw": 0.8, "ls": "--"}))
    reach = axis.of_host[host]
    return sorted((line for line in lines if line[0] <= reach), key=lambda line: line[0])


def _draw_ceilings(canvas: Canvas, group: _Group, end: float) -> None:
    """Draw the ceilings from their labels in the header of a group down to the last row."""
    lines = group.ceilings
    header = group.first - 0.5 - group.top
    own = header * len(lines) / (len(lines) + (_HEADING if group.series.name else 0) or 1)
    for depth, (value, name, style) in enumerate(lines):
        # The leftmost line has the lowest label, so that no line crosses another's label.
        y = group.first - 0.5 - own * (depth + 0.7) / len(lines)
        canvas.line([value, value], [end, y], **style)
        if canvas.annotate:
            canvas.label(
                f"{name} {quantity(value, 'B/s')}",
                position=(value, y),
                ha="right",
                va="center",
                transform=canvas.ax.transData + canvas.shift(-2),
                fontsize=canvas.font - 0.5,
                color=style["color"],
            )


def _heading(canvas: Canvas, group: _Group) -> None:
    """Write the subject of a sweep above its rows."""
    canvas.label(
        f"{group.series.name}: {group.series.subject.partition(', ')[2]}",
        position=(0, group.top),
        va="top",
        fontweight="bold",
        transform=canvas.ax.get_yaxis_transform() + canvas.shift(3, -3),
    )


def _key(canvas: Canvas, series: Sequence[Series], axis: _Axis) -> list[Artist]:
    everything = [m for s in series for m in s.everything]
    key: list[Artist] = []
    if any(map(_requests_more, everything)):
        style = {"marker": "D", "ms": 4.5, "mfc": canvas.paper, "mec": canvas.ink}
        key.append(entry("requested bytes / time", **style))
    levels = {level for m in everything for level in m.counted_bytes}
    key += level_entries(levels, "{} bytes, counted / time", _MARKS)
    if any(m.ceiling for m in everything):
        key.append(_bar_entry("ceiling: does not compute the result", _CEILING, axis))
    if any(s.sweep.peers for s in series):
        key.append(_bar_entry("peer: code of another library", _PEER, axis))
    hosts = hosts_of(series)
    key += [
        entry(f"ceilings of {h.machine.title}", color=canvas.ink, ls=h.line)
        for h in hosts
        if not h.alone
    ]
    beyond = [
        f"{host.name} {c.name} {quantity(c.measured, 'B/s')}".lstrip()
        for host in hosts
        for c in level_bandwidths(host.machine)
        if c.measured > axis.of_host[host]
    ]
    roofs = [s.sweep.roof for s in series if s.sweep.roof]
    if len(series) == 1 and roofs:
        key.append(entry(f"percentages are of the roof, {quantity(roofs[0], 'B/s')}"))
    elif roofs:
        key.append(entry("percentages are of the roof of each ladder"))
    if beyond:
        key.append(entry(f"{'not shown' if axis.low else 'off scale'}: {', '.join(beyond)}"))
    return key


def _bar_entry(words: str, style: dict[str, Any], axis: _Axis) -> Artist:
    """Make the legend entry of a bar, which is a marker on a logarithmic axis."""
    if axis.low:
        return entry(words, marker="o", mfc=style["facecolor"], mec="0.3", mew=0.5, ms=7)
    return Patch(**style, label=words)


def _frame(canvas: Canvas, series: Sequence[Series], axis: _Axis) -> list[_Group]:
    """Set up the axes; return the groups of rows below their headers."""
    ax = canvas.ax
    found: list[tuple[Series, list[_Line], float]] = []
    for s in series:
        labelled = any(s.host is other.host for other, *_ in found)
        ceilings = _ceilings(s.host, axis) if s.host and not labelled else []
        lines = len(ceilings) + (_HEADING if s.name else 0)
        found.append((s, ceilings, 1.45 * canvas.font * (lines + 0.5) if canvas.annotate else 0.0))
    rows = sum(len(s.everything) for s in series)
    headers = sum(points for *_, points in found)
    shrunk = min(1.0, canvas.height / 2 / headers) if headers else 1.0
    unit = (canvas.height - shrunk * headers) / rows  # points per row
    groups: list[_Group] = []
    y = 0.0
    for s, ceilings, points in found:
        header = shrunk * points / unit
        y = y if groups else -header  # the first row is at 0
        groups.append(_Group(series=s, top=y - 0.5, first=y + header, ceilings=ceilings))
        y += header + len(s.everything)
    ax.set_xscale("log" if axis.low else "linear")
    ax.set_xlim(axis.low, axis.right)
    ax.set_ylim(y - 0.5, groups[0].top)
    ax.set_yticks([])
    if not axis.low:
        ax.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1e9:g}"))
    scale = ", logarithmic" if axis.low else ""
    label = f"Effective bandwidth [GB/s] (compulsory bytes / time{scale})"
    ax.set_xlabel(label, fontsize=canvas.font + 1)
    ax.tick_params(labelsize=canvas.font)
    ax.spines[["top", "right"]].set_visible(False)
    return groups


def _bar(canvas: Canvas, m: Measurement, y: float, axis: _Axis, style: dict[str, Any]) -> None:
    """Draw a bar. A logarithmic axis has no zero, so only the end of the bar is drawn there."""
    rate, requested = m.bytes_per_second, m.requested_bytes / m.seconds
    low, high = (m.bytes / t for t in reversed(m.interval))
    if axis.low:
        face, edge = style["facecolor"], canvas.ink
        canvas.mark(rate, y, gid=canvas.gid(m), marker="o", mfc=face, mec=edge, mew=0.5, ms=9)
    else:
        canvas.ax.barh([y], [rate], height=0.42, zorder=1, gid=canvas.gid(m), **style)
    canvas.error_bar(rate, y, xerr=[[rate - low], [high - rate]])
    for level, moved in sorted(m.counted_bytes.items(), key=lambda item: -level_size(item[0])):
        colour, marker = level_style(level)
        if moved / m.seconds < axis.reach:
            shape: dict[str, Any] = {"marker": marker, "ms": _MARKS * level_size(level)}
            shape |= {"color": colour, "mec": canvas.paper, "mew": 0.5, "gid": canvas.gid(m)}
            canvas.mark(moved / m.seconds, y, **shape)
    if _requests_more(m):
        marker = ">" if requested > axis.reach else "D"
        hollow = {"mfc": canvas.paper, "mec": canvas.ink, "gid": canvas.gid(m)}
        canvas.mark(min(requested, axis.reach), y, marker=marker, **hollow)


def _name(canvas: Canvas, m: Measurement, y: float, axis: _Axis) -> None:
    words = f"{m.shown_as}: {quantity(m.seconds, 's')}, {quantity(m.bytes_per_second, 'B/s')}"
    requested = m.requested_bytes / m.seconds
    if requested > axis.reach and _requests_more(m):
        words += f", requests {quantity(requested, 'B/s')}"
    transform = canvas.ax.get_yaxis_transform() + canvas.shift(3)
    canvas.label(
        words, position=(0, y), va="center", transform=transform, rows=_FONT, gid=canvas.gid(m)
    )


def _share(canvas: Canvas, m: Measurement, y: float, roof: float, axis: _Axis) -> None:
    """Label the end of the bar with its share of the roof, without covering markers."""
    rate = m.bytes_per_second
    ink, label_box = (canvas.ink, canvas.label_box) if m.ceiling else ("black", None)
    inside: dict[str, Any] = {"ha": "right", "color": ink, "bbox": label_box}
    beyond = {"ha": "left", "color": canvas.ink, "bbox": canvas.label_box}
    marks = sorted(moved / m.seconds for moved in (m.requested_bytes, *m.counted_bytes.values()))
    high, low = (m.bytes / t for t in m.interval)  # the ends of the error bar
    spots = [(high, 9 if axis.low else 5, beyond)]
    spots += [] if axis.low else [(low, -5, inside), (low, -15, inside)]
    spots += [(x, shift, beyond) for x in marks for shift in (7, 15)]
    data = canvas.ax.transData
    places = [{"x": x, "transform": data + canvas.shift(dx), **style} for x, dx, style in spots]
    words = percent(rate / roof) if rate <= NO_LIMIT * roof else "no limit"
    canvas.label(words, places, y=y, va="center", rows=_FONT, gid=canvas.gid(m))


def _steps(canvas: Canvas, group: _Group) -> None:
    """Draw the speed-up of each step in a column at the right.

    The verdict replaces a ratio that is within the noise.
    """
    column = canvas.ax.get_yaxis_transform()
    rows = {m: row + _BAR for m, row in group.rows.items()}
    for m, before in group.series.sweep.steps().items():
        verdict, gain, _ = m.compare(before)
        clear = verdict in (Verdict.FASTER, Verdict.SLOWER)
        start, end = (_STEP_COLUMN, rows[before]), (_STEP_COLUMN, rows[m])
        canvas.arrow(start, end, 2, column, **line_of(verdict, canvas.ink))
        canvas.label(
            ratio(gain) if clear else verdict.value,
            position=(_STEP_COLUMN, (rows[m] + rows[before]) / 2),
            va="center",
            transform=column + canvas.shift(4),
            fontweight="bold" if clear else "normal",
            **text_of(verdict, canvas.ink),
        )


def _requests_more(m: Measurement) -> bool:
    return abs(m.requested_bytes - m.bytes) > _DIFFERS * m.bytes
