"""The chart of a ladder without FLOPs: one bar a rung against the bandwidth ceilings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from adokernels._sheet import Sheet, entry, level_entries, look
from adokernels._tables import percent, quantity, ratio, step_of, steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.artist import Artist

    from adokernels._records import Ceiling, Machine, Measurement, Sweep

_RUNG: dict[str, Any] = {"facecolor": "#56B4E9", "edgecolor": "none"}
_CEILING: dict[str, Any] = {"facecolor": "0.85", "edgecolor": "0.7", "hatch": "////", "lw": 0.5}
_PEER: dict[str, Any] = {"facecolor": "#E3F2FB", "edgecolor": "#0072B2", "lw": 0.8}
_STEP_COLUMN = 0.89  # where the steps stand, as a share of the width
_NAME, _BAR = -0.24, 0.16  # where a row has its name and its bar
#: Requested bytes are shown where they differ from the compulsory ones by more than this.
_DIFFERS = 0.02


def draw_bandwidth(sheet: Sheet, sweep: Sweep, wrong: Sequence[Measurement]) -> None:
    """Draw a row for each rung and then each peer, from top to bottom.

    Above them is a header with the labels of the ceilings and the key; at the right are the steps.
    """
    rows = {m: row for row, m in enumerate((*sweep.measurements, *sweep.peers))}
    reach = _reach(sweep.machine, rows)
    ceilings = _ceilings(sweep.machine, reach) if sweep.machine else []
    key = _key(sheet, sweep, reach)
    if sheet.annotate and key:
        sheet.legend(key, ("upper left",))
    header = _frame(sheet, len(rows), reach, max(len(ceilings), len(key)))
    for depth, (value, name, style) in enumerate(ceilings):
        # The leftmost line has the lowest label, so that no line runs through another's label.
        y = header * (depth + 0.7) / len(ceilings) - 0.5
        sheet.line([value, value], [len(rows) - 0.5, y], **style)
        if sheet.annotate:
            sheet.label(
                f"{name} {quantity(value, 'B/s')}",
                position=(value, y),
                ha="right",
                va="center",
                transform=sheet.ax.transData + sheet.shift(-2),
                fontsize=sheet.font - 0.5,
                color=style["color"],
            )
    for m, row in rows.items():
        style = _PEER if m in sweep.peers else _CEILING if m.ceiling else _RUNG
        _bar(sheet, m, row + _BAR, reach, style)
    if sheet.annotate:
        _steps(sheet, sweep)
        for m, row in rows.items():
            _name(sheet, m, row + _NAME, reach)
            if sweep.roof:
                _share(sheet, m, row + _BAR, sweep.roof)
    sheet.badge([(m.variant, (m.bytes_per_second, rows[m] + _BAR)) for m in wrong])


def main_bandwidths(machine: Machine, *, reading: bool = False) -> list[Ceiling]:
    """One ceiling a level: what streams through memory both ways, and reading from the caches.

    Of memory it is reading too for a ladder that hardly writes.
    """
    of_memory = "read" if reading else "copy"
    return [
        c
        for c in machine.of_kind("bandwidth")
        if c.operation == (of_memory if c.level == "DRAM" else "read")
    ]


def _reach(machine: Machine | None, measurements: Iterable[Measurement]) -> float:
    """How far the axis goes: past memory's ceilings, and past the bars if they go further."""
    values = [m.bytes_per_second for m in measurements]
    bandwidths = machine.of_kind("bandwidth") if machine else ()
    values += [max(c.measured, c.theoretical or 0) for c in bandwidths if c.level == "DRAM"]
    return 1.2 * max(values)


def _ceilings(machine: Machine, reach: float) -> list[tuple[float, str, dict[str, Any]]]:
    """List the ceilings that fit, the slowest first, with name and pen."""
    lines: list[tuple[float, str, dict[str, Any]]] = []
    main = main_bandwidths(machine)
    for c in machine.of_kind("bandwidth"):
        colour, _ = look(c.level)
        if c in main or c.name == "DRAM read":
            lines.append((c.measured, c.name, {"color": colour, "lw": 1.5 if c in main else 0.7}))
        if c in main and c.theoretical:
            style = {"color": colour, "lw": 0.8, "ls": "--"}
            lines.append((c.theoretical, f"{c.level} theoretical", style))
    return sorted((line for line in lines if line[0] <= reach), key=lambda line: line[0])


def _key(sheet: Sheet, sweep: Sweep, reach: float) -> list[Artist]:
    key: list[Artist] = []
    if any(map(_requests_more, sweep)):
        style = {"marker": "D", "ms": 4.5, "mfc": sheet.paper, "mec": sheet.ink}
        key.append(entry("requested bytes / time", **style))
    key += level_entries(level for m in sweep for level in m.measured_bytes)
    if any(m.ceiling for m in sweep):
        key.append(Patch(**_CEILING, label="ceiling, not an answer"))
    if sweep.peers:
        key.append(Patch(**_PEER, label="peer, other people's code"))
    for c in main_bandwidths(sweep.machine) if sweep.machine else []:
        if c.measured > reach:
            key.append(entry(f"off scale: {c.name} {quantity(c.measured, 'B/s')}"))
    if sweep.roof:
        key.append(entry(f"% of the roof, {quantity(sweep.roof, 'B/s')}"))
    return key


def _frame(sheet: Sheet, rows: int, reach: float, lines: int) -> float:
    """Set up the axes, and return how many rows a header with so many lines takes."""
    ax = sheet.ax
    points = min(1.45 * sheet.font * (lines + 0.5), sheet.height / 2) if sheet.annotate else 0.0
    header = -rows * points / (sheet.height - points)
    ax.set_xlim(0, reach / (_STEP_COLUMN - 0.04))
    ax.set_ylim(rows - 0.5, header - 0.5)
    ax.set_yticks([])
    ax.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1e9:g}"))
    ax.set_xlabel("Effective bandwidth [GB/s] (compulsory bytes / time)", fontsize=sheet.font + 1)
    ax.tick_params(labelsize=sheet.font)
    ax.spines[["top", "right"]].set_visible(False)
    return header


def _bar(sheet: Sheet, m: Measurement, y: float, reach: float, style: dict[str, Any]) -> None:
    rate, requested = m.bytes_per_second, m.requested_bytes / m.seconds
    low, high = (m.bytes / t for t in reversed(m.interval))
    sheet.ax.barh([y], [rate], height=0.42, zorder=1, **style)
    sheet.whisker(rate, y, xerr=[[rate - low], [high - rate]])
    for level, moved in m.measured_bytes.items():
        colour, marker = look(level)
        if moved / m.seconds < reach:
            sheet.mark(moved / m.seconds, y, marker=marker, color=colour, mec=sheet.paper)
    if _requests_more(m):
        marker = ">" if requested > reach else "D"
        sheet.mark(min(requested, reach), y, marker=marker, mfc=sheet.paper, mec=sheet.ink)


def _name(sheet: Sheet, m: Measurement, y: float, reach: float) -> None:
    words = f"{m.variant}: {quantity(m.seconds, 's')}, {quantity(m.bytes_per_second, 'B/s')}"
    requested = m.requested_bytes / m.seconds
    if requested > reach and _requests_more(m):
        words += f", requests {quantity(requested, 'B/s')}"
    transform = sheet.ax.transData + sheet.shift(3)
    sheet.label(words, position=(0, y), va="center", transform=transform)


def _share(sheet: Sheet, m: Measurement, y: float, roof: float) -> None:
    """Write the share of the roof at the end of the bar, or beyond a marker that is in the way."""
    rate = m.bytes_per_second
    ink, mat = (sheet.ink, sheet.mat) if m.ceiling else ("black", None)
    inside: dict[str, Any] = {"ha": "right", "color": ink, "bbox": mat}
    beyond = {"ha": "left", "color": sheet.ink, "bbox": sheet.mat}
    marks = sorted(moved / m.seconds for moved in (m.requested_bytes, *m.measured_bytes.values()))
    high, low = (m.bytes / t for t in m.interval)  # the ends of the whisker
    spots = [(high, 5, beyond), (low, -5, inside), (low, -15, inside)]
    spots += [(x, shift, beyond) for x in marks for shift in (7, 15)]
    data = sheet.ax.transData
    places = [{"x": x, "transform": data + sheet.shift(dx), **style} for x, dx, style in spots]
    sheet.label(percent(rate / roof), places, y=y, va="center")


def _steps(sheet: Sheet, sweep: Sweep) -> None:
    """Draw the steps from bar to bar in a column at the right."""
    column = sheet.ax.get_yaxis_transform()
    rows = {m: row + _BAR for row, m in enumerate(sweep)}
    for m, below in steps(sweep.measurements).items():
        verdict, gain = step_of(m, below)
        colour = sheet.step_ink(verdict)
        start, end = (_STEP_COLUMN, rows[below]), (_STEP_COLUMN, rows[m])
        sheet.arrow(start, end, 2, colour, column)
        sheet.label(
            ratio(gain),
            position=(_STEP_COLUMN, (rows[m] + rows[below]) / 2),
            va="center",
            color=colour,
            transform=column + sheet.shift(4),
            fontweight="bold",
        )


def _requests_more(m: Measurement) -> bool:
    return abs(m.requested_bytes - m.bytes) > _DIFFERS * m.bytes
