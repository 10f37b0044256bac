"""The chart of warp states: stall reasons of the warps of each variant.

Source: the section "Warp State Statistics" of Nsight Compute 2025.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from adokernels.charts.canvas import CHARACTER, FADED, Canvas, ink_on
from adokernels.charts.counted import counted, draw_rows, draw_title
from adokernels.records.definitions import BOUND, STALLS
from adokernels.records.measurement import Measurement
from adokernels.records.profile import Profile
from adokernels.records.sweep import Sweep
from adokernels.text import number, percent

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
_CYCLES_WIDTH, _REACH = 0.16, 1.42


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
    named = _largest(states)
    words = "Share of the time between two instructions of a warp (numbers: cycles)"
    canvas, height = draw_rows(rows, 2, words, reach=_REACH, ax=ax, annotate=annotate)
    canvas.ax.xaxis.label.set_x(0.5 / _REACH)
    font = min(canvas.font, 0.65 * height)
    for x, head in ((_CYCLES, "cycles between\ninstructions"), (_ISSUED, "issue\nslots")):
        style: dict[str, Any] = {"va": "bottom", "color": FADED, "linespacing": 1.0}
        canvas.label(head, position=(x, -0.5), **style)
    latencies = [_latency(profile) for _, profile in rows]
    parts = [{name: of.get(name, 0.0) for name in named} for of in states]
    parts = [
        {**part, _OTHER: sum(of.values()) - sum(part.values())}
        for of, part in zip(states, parts, strict=True)
    ]
    for row, (_, profile) in enumerate(rows):
        _bar(canvas, row, parts[row], font)
        # The total as a bar with its number, and the share of used issue slots.
        cycles = latencies[row]
        length = _CYCLES_WIDTH * cycles / (max(latencies) or 1.0)  # 0 without collected stalls
        canvas.ax.barh([row], [length], left=_CYCLES, height=0.4, color=FADED, lw=0, zorder=2)
        style = {"va": "center", "fontsize": font}
        shift = canvas.ax.transData + canvas.shift(2)
        canvas.label(_cycles(cycles), position=(_CYCLES + length, row), transform=shift, **style)
        issued = profile.get("issue_active")
        if issued is not None:
            canvas.label(percent(issued), position=(_ISSUED, row), **style)
    used = [name for name in (*named, _OTHER) if any(of[name] for of in parts)]
    canvas.legend_below([Patch(color=_COLOURS[n], label=_words(n)) for n in used])
    draw_title(canvas, rows, lambda _, profile: _largest_stall(profile))
    return canvas.ax


def _states(profile: Profile) -> dict[str, float]:
    """Cycles per collected reason."""
    known = ((name, profile.get(f"stall_{name}")) for name in STALLS)
    return {name: value for name, value in known if value}


def _latency(profile: Profile) -> float:
    """Cycles between two instructions of a warp."""
    return profile.get("warp_latency") or sum(_states(profile).values())


def _largest(states: Sequence[dict[str, float]]) -> list[str]:
    """The reasons in the legend: "selected", then those with the largest share in any variant."""
    shares = {
        name: max((of.get(name, 0.0) / sum(of.values()) for of in states if of), default=0.0)
        for name in STALLS
        if name != _SELECTED
    }
    ranked = sorted(shares, key=lambda name: -shares[name])
    return [_SELECTED, *(name for name in ranked[:_NAMED] if shares[name])]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _bar(canvas: Canvas, row: int, parts: dict[str, float], font: float) -> None:
    total, left = sum(parts.values()) or 1.0, 0.0
    for name, cycles in parts.items():
        share, colour = cycles / total, _COLOURS[name]
        style: dict[str, Any] = {"color": colour, "ec": canvas.paper, "lw": 0.5}
        canvas.ax.barh([row], [share], left=left, height=0.74, zorder=2, **style)
        room = share * canvas.width / _REACH - 4
        spellings = (f"{_words(name)} {_cycles(cycles)}", _cycles(cycles))
        words = next((w for w in spellings if CHARACTER * font * len(w) < room), "")
        if words:
            canvas.write(words, left + share / 2, row, color=ink_on(colour), fontsize=font)
        left += share


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
        return "no stalls counted"
    name = max(stalls, key=lambda n: stalls[n])
    return f"{_words(name)} {_cycles(stalls[name])} of {_cycles(_latency(profile))} cycles"
