"""Roofline charts: the performance of ladders below the ceilings of machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adokernels.charts.bandwidth import draw_bandwidth, level_bandwidths
from adokernels.charts.canvas import Canvas
from adokernels.charts.counted import height_of, new_axes
from adokernels.charts.flops import FlopsOptions, draw_flops
from adokernels.charts.instructions import draw_instructions
from adokernels.charts.kinds import Kind, checked_kind
from adokernels.charts.series import hosts_of, make_series, subject
from adokernels.records.forms import number_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from adokernels.charts.published import PublishedPoints
    from adokernels.charts.series import Host
    from adokernels.records.machine import Machine
    from adokernels.records.measurement import Measurement
    from adokernels.records.sweep import Sweep

#: A point may exceed a ceiling by this factor without a warning, because ceilings are measured.
_TOLERANCE = 1.03
#: A problem this many times larger than the last-level cache is limited by memory bandwidth.
_BEYOND_CACHE = 4


def roofline(
    what: Sweep | Measurement | Machine | Sequence[Sweep | Measurement | Machine],
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

    Several sweeps share one chart: each has its own colour, and the shape of a marker shows the
    memory level. Each machine has its own ceilings, in its own line style; the title names the
    machines. The bandwidth chart has one group of rows per sweep. Its axis is logarithmic if the
    bandwidths of the machines differ by more than a factor of 20.

    Parameters
    ----------
    what
        A sweep, a measurement, a machine alone, or a sequence of these.
    kind
        By default ``"roofline"`` if a routine has useful FLOPs, else ``"bandwidth"``; also
        ``"bandwidth"`` if all variants are memory-bound with the same intensity.
    highlight
        Names of the variants with large markers and labels; the others are small. The default is
        the first, the fastest, and the variant with the largest step. With several sweeps, it is
        the fastest variant of each sweep. The bandwidth chart always labels all rows.
    levels
        The memory levels whose points and ceilings a ``"roofline"`` shows, for example ``["DRAM"]``
        for the classic roofline. The axes contain part of each of these ceilings. Default: all
        levels, with the axes around the points; DRAM if there are several machines.
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
        The ceilings; by default those of each sweep. The title shows if the measurements are from
        another machine.
    annotate
        Whether to label points and steps, and to add a legend.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If the kind requires ceilings of a machine, FLOPs, compulsory bytes or counters that are
        missing, if `highlight` contains a variant that was not measured, if a machine has no
        ceiling of one of the `levels`, if there are more than four machines, or if there is nothing
        to draw.
    Unavailable
        If the kind is ``"instructions"`` and the issue rate of a machine is unknown.
    """
    series = make_series(what, machine, highlight)
    kind = checked_kind(kind, series)
    hosts = hosts_of(series)
    options = FlopsOptions(
        full=full,
        levels=_known_levels(levels, hosts),
        by_precision=by_precision,
        published=published,
    )
    if ax is None:
        rows = sum(len(s.everything) for s in series)
        grown = kind == "bandwidth" and len(series) > 1
        ax = new_axes(10.0, max(6.0, height_of(rows + 2 * len(series))) if grown else 6.0)
    canvas = Canvas(ax, annotate=annotate)
    canvas.identify([s.everything for s in series])
    wrong = [m for s in series for m in s.everything if s.host and above_roof(m, s.host.machine)]
    layers = ""
    if kind == "roofline":
        finding, layers = draw_flops(canvas, series, wrong, options)
    elif kind == "instructions":
        finding = draw_instructions(canvas, series, wrong, full=full)
    else:
        finding = draw_bandwidth(canvas, series, wrong)
    canvas.title(finding, ", ".join(filter(None, [subject(series), layers])))
    return ax


def _known_levels(levels: Iterable[str] | None, hosts: Sequence[Host]) -> frozenset[str] | None:
    if levels is None:
        return frozenset({"DRAM"}) if len(hosts) > 1 else None
    asked = frozenset([levels] if isinstance(levels, str) else levels)
    ours = [[c.level for c in level_bandwidths(host.machine)] for host in hosts]
    known = dict.fromkeys(level for found in ours for level in found)
    if not asked or not asked <= set(known):
        raise ValueError(
            f"levels must be memory levels with a ceiling ({', '.join(known)}), got"
            f" {', '.join(sorted(asked)) or 'none'}"
        )
    return asked


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


def _fastest(machine: Machine, level: str) -> float:
    ours = (c.measured for c in machine.of_kind("bandwidth") if c.level == level)
    return max(ours, default=0.0)
