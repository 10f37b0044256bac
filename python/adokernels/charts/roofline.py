"""Roofline charts: the performance of a ladder below the ceilings of the machine."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from matplotlib import pyplot as plt

from adokernels.charts.bandwidth import draw_bandwidth, level_bandwidths
from adokernels.charts.canvas import Canvas
from adokernels.charts.flops import FlopsOptions, draw_flops
from adokernels.charts.instructions import draw_instructions
from adokernels.charts.roofs import to_highlight
from adokernels.fields import number_in
from adokernels.measuring.records import Machine, Measurement, Sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from adokernels.charts.published import PublishedPoints

Kind = Literal["roofline", "bandwidth", "instructions"]

#: A point may exceed a ceiling by this factor without a warning, because ceilings are measured.
_TOLERANCE = 1.03
#: A problem this many times larger than the last-level cache is limited by memory bandwidth.
_BEYOND_CACHE = 4
#: Intensities that differ by less than this factor count as equal.
_SAME_INTENSITY = 1.01


def roofline(
    what: Sweep | Measurement | Sequence[Measurement] | Machine,
    *,
    kind: Kind | None = None,
    highlight: Iterable[str] | None = None,
    levels: Iterable[str] | None = None,
    by_precision: bool = False,
    published: PublishedPoints | None = None,
    full: bool = False,
    ax: Axes | None = None,
    machine: Machine | None = None,
    annotate: bool = True,
) -> Axes:
    """Draw measurements below the ceilings of their machine.

    ``"roofline"``: FLOPs per second versus arithmetic intensity, with logarithmic axes. With
    counters, a variant has one point per memory level. All points have the height of its
    performance. The intensity is FLOPs per byte transferred at that level. The level whose point is
    closest to its own roof limits the variant. If points of two levels coincide, the upper level
    has no reuse. Without counters, hollow markers show executed FLOPs per requested byte. A dotted
    roof shows the limit of the fastest variant's mix of FMAs and other instructions, if they are
    counted.

    ``"bandwidth"``: compulsory bytes / time, one bar per variant, with the bandwidth ceilings.

    ``"instructions"``: warp instructions per second versus warp instructions per 32-byte sector at
    each memory level, for kernels without FLOPs (Ding & Williams 2019). Hollow triangles show only
    the loads and stores of global memory. Vertical lines show access patterns: 1 sector per request
    if all lanes access one address, 4 for consecutive 4-byte elements, 32 for scattered accesses.

    Peers of a sweep have a different marker. Without counters, their points are computed from the
    useful FLOPs and compulsory bytes, because executed FLOPs and requested bytes are unknown.

    Parameters
    ----------
    what
        A sweep, one or several measurements, or a machine alone.
    kind
        By default ``"roofline"`` if the routine has useful FLOPs, else ``"bandwidth"``; also
        ``"bandwidth"`` if all variants are memory-bound with the same intensity.
    highlight
        Names of the variants in colour and with labels; the others are small and grey. The default
        is the first, the fastest, and the variant with the largest step. The bandwidth chart always
        labels all rows.
    levels
        The memory levels whose points and ceilings a ``"roofline"`` shows, for example ``["DRAM"]``
        for the classic roofline. The axes contain part of each of these ceilings. Default: all
        levels, with the axes around the points.
    by_precision
        Whether a ``"roofline"`` has separate points for FP32 and FP64 FLOPs, each with the ceiling
        of its FMAs, as in the section "GPU Speed Of Light Roofline Chart" of Nsight Compute.
        Requires counters.
    published : adokernels.charts.published.PublishedPoints, optional
        Points that were published for another machine, which a ``"roofline"`` shows below the
        ceilings of that machine.
    full
        Whether the axes are whole decades that depend only on the machine, for comparing charts.
        By default, the axes have the range of the data.
    ax
        The axes to draw on; by default those of a new figure.
    machine
        The ceilings; by default those of the sweep.
    annotate
        Whether to label points and steps, and to add a legend.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If the kind needs ceilings of a machine or counters and there are none, if `highlight`
        contains a variant that was not measured, if the machine has no ceiling of one of the
        `levels`, or if there is nothing to draw.
    Unavailable
        If the kind is ``"instructions"`` and the issue rate of the machine is unknown.
    """
    sweep = _as_sweep(what, machine)
    machine, everything = sweep.machine, (*sweep.measurements, *sweep.peers)
    kind = kind or _default_kind(sweep)
    if kind not in ("roofline", "bandwidth", "instructions"):
        raise ValueError(f"kind must be 'roofline', 'bandwidth' or 'instructions', got {kind!r}")
    chosen = to_highlight(sweep, highlight)
    under_roofs = kind != "bandwidth"
    if under_roofs and not (machine and machine.of_kind("compute") and level_bandwidths(machine)):
        raise ValueError("a roofline needs the ceilings of a machine: pass machine=")
    options = FlopsOptions(
        full=full,
        levels=_known_levels(levels, machine),
        by_precision=by_precision,
        published=published,
    )
    if ax is None:
        ax = plt.figure(figsize=(10.0, 6.0), layout="constrained").add_subplot()
    canvas = Canvas(ax, annotate=annotate)
    canvas.identify([everything])
    wrong = [m for m in everything if machine and above_roof(m, machine)]
    layers = ""
    if machine and kind == "roofline":
        finding, layers = draw_flops(canvas, sweep, machine, chosen, wrong, options)
    elif machine and kind == "instructions":
        finding = draw_instructions(canvas, sweep, machine, chosen, wrong, full=full)
    else:
        finding = draw_bandwidth(canvas, sweep, wrong)
    parts = list(dict.fromkeys(f"{m.routine}, {m.problem}, {m.cache}" for m in sweep))
    parts += [machine.title] if machine else []
    canvas.title(finding, ", ".join([*parts, *([layers] if layers else [])]))
    return ax


def _known_levels(levels: Iterable[str] | None, machine: Machine | None) -> frozenset[str] | None:
    if levels is None:
        return None
    asked = frozenset([levels] if isinstance(levels, str) else levels)
    known = [c.level for c in level_bandwidths(machine)] if machine else []
    if not asked or not asked <= set(known):
        raise ValueError(
            f"levels must be memory levels with a ceiling ({', '.join(known)}), got"
            f" {', '.join(sorted(asked)) or 'none'}"
        )
    return asked


def _default_kind(sweep: Sweep) -> Kind:
    computes = not len(sweep) or any(m.flops for m in sweep)
    if sweep.machine and _same_intensity(sweep.variants, sweep.machine):
        computes = False
    return "roofline" if computes else "bandwidth"


def above_roof(measurement: Measurement, machine: Machine) -> bool:
    """Whether a measurement exceeds a ceiling of the machine, which indicates a wrong number.

    The comparison covers executed and measured FLOPs, bytes counted at a level, and compulsory
    bytes if the caches were cold and are much smaller than the problem. Requested bytes may exceed
    a ceiling, because caches serve them.
    """
    m = measurement
    cache = number_in(machine.context, "last_level_cache_bytes") or 0
    streams = m.cache == "cold" and m.bytes > _BEYOND_CACHE * cache
    rates = [(max(m.executed_flops, m.counted_flops or 0), machine.peak(m.problem.precision))]
    traffic = [*m.counted_bytes.items(), *([("DRAM", m.bytes)] if streams else [])]
    rates += [(moved, _fastest(machine, level)) for level, moved in traffic]
    return any(roof and amount / m.seconds > _TOLERANCE * roof for amount, roof in rates)


def _same_intensity(variants: Sequence[Measurement], machine: Machine) -> bool:
    """Whether all points would have the same intensity, in the memory-bound region."""
    intensities = [m.intensity for m in variants]
    if len(variants) < 2:
        return False
    highest = [machine.peak(m.problem.precision) or 0.0 for m in variants]
    same = max(intensities) <= _SAME_INTENSITY * min(intensities)
    return same and max(intensities) * machine.roof < min(highest)


def _as_sweep(
    what: Sweep | Measurement | Sequence[Measurement] | Machine, machine: Machine | None
) -> Sweep:
    if isinstance(what, Machine):
        return Sweep(routine="", measurements=(), machine=what)
    if isinstance(what, Measurement):
        what = (what,)
    if not len(what):
        raise ValueError("what must contain at least one measurement, got none")
    if isinstance(what, Sweep):
        return dataclasses.replace(what, machine=machine or what.machine)
    return Sweep(routine="", measurements=tuple(what), machine=machine)


def _fastest(machine: Machine, level: str) -> float:
    ours = (c.measured for c in machine.of_kind("bandwidth") if c.level == level)
    return max(ours, default=0.0)
