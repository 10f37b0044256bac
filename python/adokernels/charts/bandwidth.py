"""The chart of a memory-bound ladder: one bar per variant, with the bandwidth ceilings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from adokernels.charts.canvas import Canvas, entry, level_entries, level_size, level_style
from adokernels.charts.verdicts import line_of, text_of
from adokernels.tables.numbers import NO_LIMIT, percent, quantity, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.artist import Artist

    from adokernels.measuring.records import Ceiling, Machine, Measurement, Sweep

_VARIANT: dict[str, Any] = {"facecolor": "#56B4E9", "edgecolor": "none"}
_CEILING: dict[str, Any] = {"facecolor": "0.85", "edgecolor": "0.7", "hatch": "////", "lw": 0.5}
_PEER: dict[str, Any] = {"facecolor": "#E3F2FB", "edgecolor": "#0072B2", "lw": 0.8}
_STEP_COLUMN = 0.89  # position of the steps as a fraction of the width
_NAME, _BAR = -0.27, 0.2  # vertical position of a row's name and bar
_FONT = 0.39  # largest font relative to the height of a row
_MARKS = 0.7  # size of the markers relative to those of a roofline
#: Requested bytes are shown if they differ from the compulsory ones by more than this fraction.
_DIFFERS = 0.02


def draw_bandwidth(canvas: Canvas, sweep: Sweep, wrong: Sequence[Measurement]) -> str:
    """Draw one row per variant, then one per peer, from top to bottom; return the finding.

    A header above the rows contains the labels of the ceilings. A column at the right shows the
    steps.
    """
    rows = {m: row for row, m in enumerate((*sweep.measurements, *sweep.peers))}
    reach = _reach(sweep.machine, rows)
    ceilings = _ceilings(sweep.machine, reach) if sweep.machine else []
    key = _key(canvas, sweep, reach)
    if canvas.annotate and key:
        canvas.legend_below(key)
    header = _frame(canvas, len(rows), reach, len(ceilings))
    for depth, (value, name, style) in enumerate(ceilings):
        # The leftmost line has the lowest label, so that no line crosses another's label.
        y = header * (depth + 0.7) / len(ceilings) - 0.5
        canvas.line([value, value], [len(rows) - 0.5, y], **style)
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
    for m, row in rows.items():
        style = _PEER if m in sweep.peers else _CEILING if m.ceiling else _VARIANT
        _bar(canvas, m, row + _BAR, reach, style)
    if canvas.annotate:
        _steps(canvas, sweep)
        for m, row in rows.items():
            _name(canvas, m, row + _NAME, reach)
            if sweep.roof:
                _share(canvas, m, row + _BAR, sweep.roof)
    canvas.badge([(m, (m.bytes_per_second, rows[m] + _BAR)) for m in wrong])
    return _finding(sweep)


def _finding(sweep: Sweep) -> str:
    """Format the bandwidths of the first and of the fastest variant."""
    shown = dict.fromkeys([*sweep.variants[:1], *([sweep.fastest] if sweep.variants else [])])
    parts = []
    for m in shown:
        share = f" ({_share_words(m.bytes_per_second / sweep.roof)})" if sweep.roof else ""
        parts.append(f"{m.variant}: {quantity(m.bytes_per_second, 'B/s')}{share}")
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


def _reach(machine: Machine | None, measurements: Iterable[Measurement]) -> float:
    """The upper limit of the axis, beyond the DRAM ceilings and all bars."""
    values = [m.bytes_per_second for m in measurements]
    bandwidths = machine.of_kind("bandwidth") if machine else ()
    values += [max(c.measured, c.theoretical or 0) for c in bandwidths if c.level == "DRAM"]
    return 1.2 * max(values)


def _ceilings(machine: Machine, reach: float) -> list[tuple[float, str, dict[str, Any]]]:
    """List the ceilings within the axis, slowest first, with value, name and line style."""
    lines: list[tuple[float, str, dict[str, Any]]] = []
    main = level_bandwidths(machine)
    for c in machine.of_kind("bandwidth"):
        colour, _ = level_style(c.level)
        if c in main or c.name == "DRAM read":
            lines.append((c.measured, c.name, {"color": colour, "lw": 1.5 if c in main else 0.7}))
        if c in main and c.theoretical:
            style = {"color": colour, "lw": 0.8, "ls": "--"}
            lines.append((c.theoretical, f"{c.level} theoretical", style))
    return sorted((line for line in lines if line[0] <= reach), key=lambda line: line[0])


def _key(canvas: Canvas, sweep: Sweep, reach: float) -> list[Artist]:
    key: list[Artist] = []
    if any(map(_requests_more, sweep)):
        style = {"marker": "D", "ms": 4.5, "mfc": canvas.paper, "mec": canvas.ink}
        key.append(entry("requested bytes / time", **style))
    levels = {level for m in sweep for level in m.counted_bytes}
    key += level_entries(levels, "{} bytes, counted / time", _MARKS)
    if any(m.ceiling for m in sweep):
        key.append(Patch(**_CEILING, label="ceiling: does not compute the result"))
    if sweep.peers:
        key.append(Patch(**_PEER, label="peer: code of another library"))
    ceilings = level_bandwidths(sweep.machine) if sweep.machine else []
    beyond = [f"{c.name} {quantity(c.measured, 'B/s')}" for c in ceilings if c.measured > reach]
    if sweep.roof:
        key.append(entry(f"percentages are of the roof, {quantity(sweep.roof, 'B/s')}"))
    if beyond:
        key.append(entry(f"off scale: {', '.join(beyond)}"))
    return key


def _frame(canvas: Canvas, rows: int, reach: float, lines: int) -> float:
    """Set up the axes; return the height of a header of `lines` lines, in units of rows."""
    ax = canvas.ax
    points = min(1.45 * canvas.font * (lines + 0.5), canvas.height / 2) if canvas.annotate else 0.0
    header = -rows * points / (canvas.height - points)
    ax.set_xlim(0, reach / (_STEP_COLUMN - 0.04))
    ax.set_ylim(rows - 0.5, header - 0.5)
    ax.set_yticks([])
    ax.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1e9:g}"))
    ax.set_xlabel("Effective bandwidth [GB/s] (compulsory bytes / time)", fontsize=canvas.font + 1)
    ax.tick_params(labelsize=canvas.font)
    ax.spines[["top", "right"]].set_visible(False)
    return header


def _bar(canvas: Canvas, m: Measurement, y: float, reach: float, style: dict[str, Any]) -> None:
    rate, requested = m.bytes_per_second, m.requested_bytes / m.seconds
    low, high = (m.bytes / t for t in reversed(m.interval))
    canvas.ax.barh([y], [rate], height=0.42, zorder=1, gid=canvas.gid(m), **style)
    canvas.error_bar(rate, y, xerr=[[rate - low], [high - rate]])
    for level, moved in sorted(m.counted_bytes.items(), key=lambda item: -level_size(item[0])):
        colour, marker = level_style(level)
        if moved / m.seconds < reach:
            shape: dict[str, Any] = {"marker": marker, "ms": _MARKS * level_size(level)}
            place = (moved / m.seconds, y)
            canvas.mark(*place, gid=canvas.gid(m), color=colour, mec=canvas.paper, mew=0.5, **shape)
    if _requests_more(m):
        marker = ">" if requested > reach else "D"
        style = {"mfc": canvas.paper, "mec": canvas.ink, "gid": canvas.gid(m)}
        canvas.mark(min(requested, reach), y, marker=marker, **style)


def _name(canvas: Canvas, m: Measurement, y: float, reach: float) -> None:
    words = f"{m.shown_as}: {quantity(m.seconds, 's')}, {quantity(m.bytes_per_second, 'B/s')}"
    requested = m.requested_bytes / m.seconds
    if requested > reach and _requests_more(m):
        words += f", requests {quantity(requested, 'B/s')}"
    transform = canvas.ax.transData + canvas.shift(3)
    canvas.label(
        words, position=(0, y), va="center", transform=transform, rows=_FONT, gid=canvas.gid(m)
    )


def _share(canvas: Canvas, m: Measurement, y: float, roof: float) -> None:
    """Label the end of the bar with its share of the roof, without covering markers."""
    rate = m.bytes_per_second
    ink, label_box = (canvas.ink, canvas.label_box) if m.ceiling else ("black", None)
    inside: dict[str, Any] = {"ha": "right", "color": ink, "bbox": label_box}
    beyond = {"ha": "left", "color": canvas.ink, "bbox": canvas.label_box}
    marks = sorted(moved / m.seconds for moved in (m.requested_bytes, *m.counted_bytes.values()))
    high, low = (m.bytes / t for t in m.interval)  # the ends of the error bar
    spots = [(high, 5, beyond), (low, -5, inside), (low, -15, inside)]
    spots += [(x, shift, beyond) for x in marks for shift in (7, 15)]
    data = canvas.ax.transData
    places = [{"x": x, "transform": data + canvas.shift(dx), **style} for x, dx, style in spots]
    words = percent(rate / roof) if rate <= NO_LIMIT * roof else "no limit"
    canvas.label(words, places, y=y, va="center", rows=_FONT, gid=canvas.gid(m))


def _steps(canvas: Canvas, sweep: Sweep) -> None:
    """Draw the speed-up of each step in a column at the right."""
    column = canvas.ax.get_yaxis_transform()
    rows = {m: row + _BAR for row, m in enumerate(sweep)}
    for m, before in sweep.steps().items():
        verdict, gain, _ = m.compare(before)
        start, end = (_STEP_COLUMN, rows[before]), (_STEP_COLUMN, rows[m])
        canvas.arrow(start, end, 2, column, **line_of(verdict, canvas.ink))
        canvas.label(
            ratio(gain),
            position=(_STEP_COLUMN, (rows[m] + rows[before]) / 2),
            va="center",
            transform=column + canvas.shift(4),
            fontweight="bold",
            **text_of(verdict, canvas.ink),
        )


def _requests_more(m: Measurement) -> bool:
    return abs(m.requested_bytes - m.bytes) > _DIFFERS * m.bytes
