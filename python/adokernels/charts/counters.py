"""Charts of hardware counters with one row per variant: speed of light and warp states.

Sources: the sections "GPU Speed Of Light Throughput", with its thresholds, and "Warp State
Statistics" of Nsight Compute 2025.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from adokernels.charts.canvas import CHARACTER, COMPUTE, FADED, MEMORY, Canvas, entry, ink_on
from adokernels.charts.series import problem_of
from adokernels.records.definitions import BOUND, LIMITING, STALLS
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import MEMORY_BREAKDOWN
from adokernels.records.profile import KernelProfile, Profile
from adokernels.records.sweep import Sweep, steps
from adokernels.text import number, percent, require

_BAR = 0.38
#: The side, the colour, and the vertical position in the row of the two bars.
_BARS = (("compute", COMPUTE, -_BAR / 2), ("memory", MEMORY, _BAR / 2))
#: Minimum row height in points for two lines of text per row.
_SMALLEST = 6.0
_SHARES_REACH = 1.18  # end of the axis: 100 % plus space for text
_SELECTED, _OTHER = "selected", "other"
#: Colour of each reason in all charts. Reasons with small shares have the remaining colours.
_COLOURS = {
    _SELECTED: "#3A3A3A",
    "long_scoreboard": "#0072B2",
    "lg_throttle": "#56B4E9",
    "short_scoreboard": "#CC79A7",
    "mio_throttle": "#E69F00",
    "math_pipe_throttle": "#D55E00",
    "wait": "#F0E442",
    "not_selected": "#009E73",
    "barrier": "#7B3294",
    "no_instruction": "#4D9221",
    "branch_resolving": "#D8B365",
    "tex_throttle": "#80CDC1",
    "drain": "#8C510A",
    "dispatch_stall": "#B8E186",
    "imc_miss": "#F1B6DA",
    "membar": "#C51B7D",
    "sleeping": "#9E9AC8",
    "misc": "#A6761D",
    "gmma": "#E7298A",
    _OTHER: "#C8C8C8",
}
_NAMED = 6
#: States in which a warp is not stalled.
_READY = (_SELECTED, "not_selected")
_CYCLES, _ISSUED = 1.03, 1.34  # left edge of the columns at the right
_CYCLES_WIDTH, _STATES_REACH = 0.16, 1.42

Counted = list[tuple[Measurement, Profile]]


def counted(what: Sweep | Measurement | Sequence[Measurement]) -> Counted:
    """Select the measurements with counters, with their profiles; ValueError if there are none."""
    words = "a sweep, a measurement, or several measurements"
    require(Iterable, words, what=(what,) if isinstance(what, Measurement) else what)
    measurements = (what,) if isinstance(what, Measurement) else tuple(what)
    for m in measurements:
        require(Measurement, words, what=m)
    found = [(m, m.profile) for m in measurements if m.profile]
    if not found:
        raise ValueError(
            "what must contain measurements with hardware counters, got none: "
            "repeat the measurement with ado.sweep(..., counters=True)"
        )
    return found


def limit_of(m: Measurement) -> str:
    """Format the limiter of a measurement, with the utilisation of its unit if it is a unit."""
    found = m.limiter
    return found.name if found.share is None else f"{found.name} {percent(found.share)}"


def draw_title(canvas: Canvas, rows: Counted, words: Callable[[Measurement, Profile], str]) -> None:
    """Write `words` of the first and of the fastest variant, and what was measured."""
    variants = [(m, p) for m, p in rows if not m.ceiling] or rows
    shown = dict([variants[0], min(variants, key=lambda row: row[0].seconds)])
    finding = "; ".join(f"{m.variant}: {words(m, profile)}" for m, profile in shown.items())
    canvas.title(finding, subject([m for m, _ in rows]))


def draw_rows(
    rows: Counted, header: int, words: str, *, reach: float, ax: Axes | None, annotate: bool
) -> tuple[Canvas, float]:
    """Set up one row per measurement, from top to bottom, below a header of `header` text lines.

    The horizontal axis is a share from 0 to 100 %, with the name `words`. Columns at the right have
    space up to `reach`. The results are the canvas and the height of a row in points.
    """
    canvas = Canvas(ax, annotate=annotate, size=(10.0, 1.8 + 0.36 * len(rows)))
    ax = canvas.ax
    points = 1.3 * canvas.font * (header + 0.5) if annotate else 0.0
    height = max(canvas.height - points, canvas.height / 2) / len(rows)
    ax.set(xlim=(0, reach), ylim=(len(rows) - 0.5, -0.5 - points / height))
    ax.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    canvas.row_names([f"{m.variant} (ceiling)" if m.ceiling else m.variant for m, _ in rows])
    canvas.frame(words, spines="bottom", fontsize=canvas.font)
    ax.tick_params(axis="y", length=0)
    ax.spines["bottom"].set_bounds(0, 1)
    return canvas, height


def subject(measurements: Sequence[Measurement]) -> str:
    """Describe the measurements: routine, problem, device, cold or warm caches."""
    parts = [", ".join(filter(None, (m.routine, problem_of(m)))) for m in measurements]
    parts += [str(m.context.get("device_name", m.device)) for m in measurements]
    parts += [f"counters {m.profile.cache}" for m in measurements if m.profile]
    if any(len(m.profile) > 1 for m in measurements if m.profile):
        parts.append("shares of peak: of the longest kernel")
    return ", ".join(dict.fromkeys(parts))


def speed_of_light(
    what: Sweep | Measurement | Sequence[Measurement],
    *,
    ax: Axes | None = None,
    annotate: bool = True,
) -> Axes:
    """Draw the utilisation of compute and memory as a pair of bars per variant.

    A bar shows the throughput of the busiest unit as a share of the sustainable maximum. Its label
    names that unit: a pipe of the multiprocessors, or the memory level. The longer bar is the
    limiter if it reaches 60 %. From 80 %, only less work for this unit makes the kernel faster. If
    both bars are below 60 %, the kernel is latency-bound or has too little work. If a variant has
    several kernels, the bars show the longest one. A tick at each bar shows the previous variant,
    the baseline.

    Parameters
    ----------
    what
        A sweep or measurements with hardware counters; others are omitted.
    ax
        The axes to draw on; by default, new axes of a new figure.
    annotate
        Whether to write values and units at the bars, and to add a legend.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If no measurement has hardware counters.
    """
    rows = counted(what)
    before = steps([m for m, _ in rows])
    axis, reach = "Throughput, share of the hardware's maximum", _SHARES_REACH if annotate else 1.0
    canvas, height = draw_rows(rows, 1, axis, reach=reach, ax=ax, annotate=annotate)
    # The thresholds, and the meaning of the shares between them.
    canvas.ax.axvspan(BOUND, 1.0, color=canvas.ink, alpha=0.06, lw=0, zorder=0)
    for limit in (LIMITING, BOUND, 1.0):
        line = "-" if limit == 1.0 else "--"
        canvas.ax.axvline(limit, color=FADED, lw=0.9, ls=line, zorder=1)
    top = canvas.ax.get_xaxis_transform() + canvas.shift(0, -0.9 * canvas.font)
    for start, end, words in (
        (0.0, LIMITING, f"both below {percent(LIMITING)}: latency"),
        (LIMITING, BOUND, "limiter"),
        (BOUND, 1.0, "near peak"),
    ):
        canvas.write(words, (start + end) / 2, 1.0, color=FADED, transform=top)
    for row, (m, profile) in enumerate(rows):
        baseline = before[m].profile if m in before else None
        sides, old = _sides(profile.longest), _sides(baseline.longest) if baseline else {}
        for side, colour, shift in _BARS:
            y, share = row + shift, sides[side][1] if side in sides else 0.0
            alpha = 0.5 if m.ceiling else 1.0
            canvas.ax.barh([y], [share], height=_BAR, color=colour, alpha=alpha, lw=0, zorder=2)
            if side in old:
                tick: dict[str, Any] = {"color": canvas.ink, "lw": 2, "solid_capstyle": "butt"}
                ends = [y - _BAR / 2, y + _BAR / 2]
                canvas.ax.plot([old[side][1]] * 2, ends, zorder=3, **tick)
        _name_units(canvas, row, height, sides, old)
    key: list[Artist] = [
        Patch(color=COMPUTE, label="compute: busiest pipe"),
        Patch(color=MEMORY, label="memory: busiest level"),
    ]
    if before:
        key.append(entry("previous variant", marker="|", color=canvas.ink, mew=2, ms=8))
    canvas.legend_below(key)
    draw_title(canvas, rows, lambda m, _: limit_of(m))
    return canvas.ax


#: Name and share of the busiest unit, by side. A side without collected units is missing.
_Sides = dict[str, tuple[str, float]]


def _sides(kernel: KernelProfile) -> _Sides:
    """The busiest unit of compute and the busiest memory level."""
    found: _Sides = {}
    for unit in kernel.units:  # the busiest first
        if unit.level == "compute":
            found.setdefault("compute", (unit.name, unit.share))
        elif unit.level in MEMORY_BREAKDOWN:
            found.setdefault("memory", (unit.level, unit.share))
    return found


def _name_units(canvas: Canvas, row: int, height: float, sides: _Sides, old: _Sides) -> None:
    """Write share and unit at the ends of the bars; in low rows, only at the longer bar."""
    places = [(side, row + shift) for side, _, shift in _BARS if side in sides]
    font = min(canvas.font, 0.4 * height)
    if font < _SMALLEST and sides:
        font = min(canvas.font, 0.6 * height)
        places = [(max(sides, key=lambda side: sides[side][1]), row)]
    for side, y in places:
        unit, share = sides[side]
        words = f"{percent(share)} {unit}"
        # Width of the text as a share. If the tick of the previous variant is where the text would
        # be, the text is inside the bar, so that it does not seem to belong to the tick.
        width = (0.55 * font * len(words) + 6) * canvas.ax.get_xlim()[1] / canvas.width
        tick = old[side][1] if side in old else 0.0
        covered = share < tick < share + width
        inside = covered and share > width
        start = tick if covered and not inside else share
        box = {**canvas.label_box, "alpha": 0.8, "boxstyle": "square,pad=0"}
        style: dict[str, Any] = {"va": "center", "fontsize": font, "bbox": box, "zorder": 4}
        style["transform"] = canvas.ax.transData + canvas.shift(-3 if inside else 3)
        if inside:
            style |= {"ha": "right", "color": "white", "bbox": None, "fontweight": "bold"}
        canvas.label(words, position=(start, y), **style)


def warp_states(
    what: Sweep | Measurement | Sequence[Measurement],
    *,
    ax: Axes | None = None,
    annotate: bool = True,
) -> Axes:
    """Draw the stall reasons of a warp between two of its instructions, one bar per variant.

    A bar is divided into the stall reasons of Nsight Compute, with their cycles. "selected" is the
    cycle in which the warp issues its instruction; it is always 1. The columns at the right show
    the total number of cycles and the share of used issue slots. If most issue slots are used,
    stalls do not limit the kernel.

    Parameters
    ----------
    what
        A sweep or measurements with hardware counters; others are omitted.
    ax
        The axes to draw on; by default, new axes of a new figure.
    annotate
        Whether to write reasons and cycles into the bars, and to add a legend.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If no measurement has hardware counters.

    Notes
    -----
    Reasons: `long scoreboard` is a wait for the result of an access through L1TEX (global, local,
    surface or texture memory), hits in L1 included. `short scoreboard` is a wait for another MIO
    operation: shared memory, special functions (MUFU), special registers or dynamic branches.
    `wait` is the fixed latency of the previous instruction. The `throttle` reasons are waits for a
    full queue. With `not selected`, the warp is eligible but another warp issues. docs/glossary.md
    has all reasons.
    """
    rows = counted(what)
    states = [_states(profile) for _, profile in rows]
    shares = {  # the largest in any variant
        name: max((of.get(name, 0.0) / sum(of.values()) for of in states if of), default=0.0)
        for name in STALLS
        if name != _SELECTED
    }
    ranked = sorted(shares, key=lambda name: -shares[name])[:_NAMED]
    named = [_SELECTED, *(name for name in ranked if shares[name])]  # in the legend
    words = "Share of the time between two instructions of a warp (numbers: cycles)"
    canvas, height = draw_rows(rows, 2, words, reach=_STATES_REACH, ax=ax, annotate=annotate)
    canvas.ax.xaxis.label.set_x(0.5 / _STATES_REACH)
    font = min(canvas.font, 0.65 * height)
    for x, head in ((_CYCLES, "cycles between\ninstructions"), (_ISSUED, "issue\nslots")):
        style: dict[str, Any] = {"va": "bottom", "color": FADED, "linespacing": 1.0}
        canvas.label(head, position=(x, -0.5), **style)
    latencies = [_latency(profile) for _, profile in rows]
    used = set()
    for row, ((_, profile), of, cycles) in enumerate(zip(rows, states, latencies, strict=True)):
        parts = {name: of.get(name, 0.0) for name in named}
        parts[_OTHER] = sum(of.values()) - sum(parts.values())
        used |= {name for name, part in parts.items() if part}
        total, left = sum(parts.values()) or 1.0, 0.0
        for name, part in parts.items():
            width, colour = part / total, _COLOURS[name]
            style = {"color": colour, "ec": canvas.paper, "lw": 0.5}
            canvas.ax.barh([row], [width], left=left, height=0.74, zorder=2, **style)
            room = width * canvas.width / _STATES_REACH - 4
            spellings = (f"{_words(name)} {_cycles(part)}", _cycles(part))
            inside = next((w for w in spellings if CHARACTER * font * len(w) < room), "")
            if inside:
                at = left + width / 2
                canvas.write(inside, at, row, color=ink_on(colour), fontsize=font)
            left += width
        # The total as a bar with its number, and the share of used issue slots.
        length = _CYCLES_WIDTH * cycles / (max(latencies) or 1.0)  # 0 without collected stalls
        canvas.ax.barh([row], [length], left=_CYCLES, height=0.4, color=FADED, lw=0, zorder=2)
        style = {"va": "center", "fontsize": font}
        shift = canvas.ax.transData + canvas.shift(2)
        words = _cycles(cycles) if cycles else "n/a"
        canvas.label(words, position=(_CYCLES + length, row), transform=shift, **style)
        issued = profile.get("issue_active")
        if issued is not None:
            canvas.label(percent(issued), position=(_ISSUED, row), **style)
    key = [name for name in (*named, _OTHER) if name in used]
    canvas.legend_below([Patch(color=_COLOURS[name], label=_words(name)) for name in key])
    draw_title(canvas, rows, lambda _, profile: _largest_stall(profile))
    return canvas.ax


def _states(profile: Profile) -> dict[str, float]:
    """Cycles per collected reason."""
    known = ((name, profile.get(f"stall_{name}")) for name in STALLS)
    return {name: value for name, value in known if value}


def _latency(profile: Profile) -> float:
    """Cycles between two instructions of a warp."""
    return profile.get("warp_latency") or sum(_states(profile).values())


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cycles(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else number(value, 2)


def _largest_stall(profile: Profile) -> str:
    """Format the largest stall, or the share of used issue slots if most are used."""
    of = _states(profile)
    issued = profile.get("issue_active") or 0.0
    if issued >= BOUND:
        return f"{percent(issued)} of issue slots used"
    stalls = {name: cycles for name, cycles in of.items() if name not in _READY}
    if not stalls:
        return "stalls not collected"
    name = max(stalls, key=lambda n: stalls[n])
    return f"{_words(name)} {_cycles(stalls[name])} of {_cycles(_latency(profile))} cycles"
