"""Roofline charts: the performance of ladders below the ceilings of machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args

from matplotlib.axes import Axes

from adokernels.charts.bandwidth import bandwidth_height, draw_bandwidth, level_bandwidths
from adokernels.charts.canvas import Canvas
from adokernels.charts.intensity import OPTIONAL, draw_flops, draw_instructions, has_flops
from adokernels.charts.series import Host, Series, hosts_of, make_series, subject
from adokernels.charts.stated import (
    STATED,
    StatedPoint,
    StatedPoints,
    checked_points,
    stated_machine,
)
from adokernels.measuring.machine import LANES
from adokernels.records.counted import CountedSweep
from adokernels.records.forms import number_in
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.sweep import Sweep
from adokernels.text import printable

Kind = Literal["roofline", "bandwidth", "instructions"]

_NCU = "collect the FLOPs of a report of ncu with --set full, for kind='roofline'"
#: The property that each kind requires of at least one measurement: name, test and remedy.
_NEEDS: dict[Kind, tuple[str, Callable[[Measurement], object], str]] = {
    "roofline": (
        "FLOPs",
        has_flops,
        f"use kind='bandwidth', pass flops= to ado.measure, or {_NCU}",
    ),
    "bandwidth": ("compulsory bytes", lambda m: m.bytes, f"pass bytes= to ado.measure; {_NCU}"),
    "instructions": (
        "hardware counters",
        lambda m: m.profile and m.profile.get("instructions"),
        "measure with ado.sweep(..., counters=True) on an NVIDIA GPU",
    ),
}

#: A point may exceed a ceiling by this factor without a warning, because ceilings are measured.
_TOLERANCE = 1.03
#: A problem this many times larger than the last-level cache is limited by memory bandwidth.
_BEYOND_CACHE = 4
#: Intensities that differ by less than this factor count as equal.
_SAME_INTENSITY = 1.01
#: Maximum number of names in a message, and maximum number of characters per name.
_MOST_NAMES, _LONGEST_NAME = 4, 60


def roofline(
    what: Sweep
    | CountedSweep
    | Measurement
    | Machine
    | Sequence[Sweep | Measurement | Machine]
    | None = None,
    *,
    points: Iterable[tuple[str, float, float]] = (),
    ceilings: Mapping[str, float] | None = None,
    kind: Kind | None = None,
    highlight: Iterable[str] | None = None,
    levels: Iterable[str] | None = None,
    ax: Axes | None = None,
    machine: Machine | None = None,
    annotate: bool = True,
) -> Axes:
    """Draw measurements below the ceilings of their machine.

    ``"roofline"``: FLOPs per second versus arithmetic intensity, with logarithmic axes. With
    counters, a variant has one point per memory level. All points have the height of its
    performance. The intensity is FLOPs per byte transferred at that level. The title names the
    nearest roof and the share of it that the variant reaches; ``m.limiter`` tells whether this roof
    or latency limits the variant. If points of two levels coincide, the upper level has no reuse.
    Without counters, hollow markers show executed FLOPs per requested byte. A dotted roof shows the
    limit of the fastest variant's mix of FMAs and other instructions, if they are counted.

    ``"bandwidth"``: compulsory bytes / time, one bar per variant, with the bandwidth ceilings.
    Columns at the right have the time, the bandwidth, the ratio of times of the step and the share
    of the roof.

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
        A sweep, a measurement, a machine alone, or a sequence of these; None for only `points` and
        `ceilings`. A sweep on the emulator has no times: its variants are drawn at their
        intensities on data-sheet roofs, and only `ax` and `annotate` have an effect.
    points
        Points of your own: a label, FLOPs per second, and FLOPs per byte of DRAM.
    ceilings
        Ceilings of your own instead of those of a machine: bytes per second of ``"DRAM"`` and of
        caches (``"L2"``), and FLOPs per second of a precision or of tensor cores, for example
        ``{"DRAM": 3.3e12, "FP32": 67e12, "FP16 tensor": 990e12}``.
    kind
        By default ``"roofline"`` if the fastest variant has FLOPs, else ``"bandwidth"``; also
        ``"bandwidth"`` if all variants are memory-bound with the same intensity.
    highlight
        Names of the variants with large markers and labels; the others are small. The default is
        the first, the fastest, and the variant with the largest step. With several sweeps, it is
        the fastest variant of each sweep. The bandwidth chart always labels all rows.
    levels
        The memory levels whose points and ceilings a ``"roofline"`` shows, for example ``["DRAM"]``
        for the classic roofline. The axes contain part of each of these ceilings. Default: all
        levels, with the axes around the points; DRAM if there are several machines. Two more kinds
        of ceilings are drawn only if they are listed or in `ceilings`: ``"host link"``, which
        limits code whose operands are in host memory, and tensor cores, for example ``"FP64
        tensor"``. The ceiling of tensor cores is also drawn if a point exceeds the FMA peak of its
        precision.
    ax
        The axes to draw on; by default, new axes of a new figure.
    machine
        The ceilings; by default, each sweep has its own. The title shows if the measurements are
        from another machine.
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
        ceiling of one of the `levels`, if there are more than four machines, if a point has more
        than 1e6 FLOP/B or a stated memory level less than 1e9 B/s, or if there is nothing to draw.
    Unavailable
        If the kind is ``"instructions"`` and the issue rate of a machine is unknown.
    """
    if ceilings is not None:
        machine = stated_machine(ceilings)
        if levels is None:
            levels = [c.level for c in machine if c.kind in ("bandwidth", *OPTIONAL)]
    if what is None:
        if machine is None:
            raise TypeError("roofline needs a sweep, a measurement, a machine, or ceilings=")
        what = machine
    if isinstance(what, CountedSweep):
        return _counted_roofline(what, ax, annotate=annotate)
    series = make_series(what, machine, highlight)
    kind = _checked_kind(kind or ("roofline" if points else None), series)
    hosts = hosts_of(series)
    if points and kind != "roofline":
        raise ValueError("points must be in a chart of kind 'roofline'")
    shown = _known_levels(levels, hosts)
    height = bandwidth_height(series) if kind == "bandwidth" else 6.0
    canvas = Canvas(ax, annotate=annotate, size=(10.0, height))
    canvas.identify([s.everything for s in series])
    wrong = [m for s in series for m in s.everything if s.host and above_roof(m, s.host.machine)]
    if kind == "bandwidth":
        canvas.title(draw_bandwidth(canvas, series, wrong), subject(series))
    elif kind == "instructions":
        draw_instructions(canvas, series, wrong)
    else:
        of = "" if hosts[0].machine.name == STATED else f" of {hosts[0].machine.name}"
        stated = StatedPoints(checked_points(points), f"stated points{of}")
        draw_flops(canvas, series, wrong, levels=shown, stated=stated)
    return canvas.ax


def _known_levels(levels: Iterable[str] | None, hosts: Sequence[Host]) -> frozenset[str] | None:
    if levels is None:
        return frozenset({"DRAM"}) if len(hosts) > 1 else None
    asked = frozenset([levels] if isinstance(levels, str) else levels)
    memory = dict.fromkeys(c.level for host in hosts for c in level_bandwidths(host.machine))
    more = [c.level for host in hosts for kind in OPTIONAL for c in host.machine.of_kind(kind)]
    if not asked & set(memory) or not asked <= {*memory, *more}:
        words = f", and also {', '.join(dict.fromkeys(more))}" if more else ""
        raise ValueError(
            f"levels must be memory levels with a ceiling ({', '.join(memory)}){words}, got"
            f" {', '.join(sorted(asked)) or 'none'}"
        )
    return asked


def above_roof(measurement: Measurement, machine: Machine) -> bool:
    """Whether a measurement exceeds a ceiling of the machine, which indicates a wrong number.

    The compulsory bytes are compared only if the caches were cold and are much smaller than the
    problem. Requested bytes may exceed a ceiling, because caches serve them.
    """
    m = measurement
    cache = number_in(machine.context, "last_level_cache_bytes") or 0
    streams = m.cache == "cold" and m.bytes > _BEYOND_CACHE * cache
    work = max(m.executed_flops, m.counted_flops or 0)
    rates = [(work, machine.peak(m.problem.precision, work / m.seconds))]
    traffic = [*m.counted_bytes.items(), *([("DRAM", m.bytes)] if streams else [])]
    bandwidths = sorted((c.measured, c.level) for c in machine.of_kind("bandwidth"))
    fastest = {level: measured for measured, level in bandwidths}
    rates += [(moved, fastest.get(level)) for level, moved in traffic]
    return any(roof and amount / m.seconds > _TOLERANCE * roof for amount, roof in rates)


def _checked_kind(kind: Kind | None, series: Sequence[Series]) -> Kind:
    """Return the kind or the default kind; ValueError if it is unknown or data is missing."""
    chosen = kind or ("roofline" if any(map(_has_points, series)) else "bandwidth")
    if chosen not in get_args(Kind):
        raise ValueError(f"kind must be 'roofline', 'bandwidth' or 'instructions', got {kind!r}")
    everything = [m for s in series for m in s.everything]
    if chosen != "roofline" and not everything:
        raise ValueError(f"kind={chosen!r} needs measurements, got a machine alone")
    bare = [
        s.sweep.routine or "the machine"
        for s in series
        if not (s.host and s.host.machine.of_kind("compute") and level_bandwidths(s.host.machine))
    ]
    if bare and chosen != "bandwidth":
        raise ValueError(
            f"kind={chosen!r} needs memory and compute ceilings, which {_lacking(bare)}:"
            " pass machine=ado.machine(...) or ceilings={...}, or use kind='bandwidth'"
        )
    name, has, remedy = _NEEDS[chosen]
    if everything and not any(map(has, everything)):  # the chart names points without it
        variants = [f"{m.routine}[{m.variant}]" for m in everything]
        raise ValueError(f"kind={chosen!r} needs {name}, which {_lacking(variants)}: {remedy}")
    return chosen


def _has_points(series: Series) -> bool:
    """Whether a roofline of a sweep has points at several positions."""
    sweep, variants, host = series.sweep, series.sweep.variants, series.host
    # A variant that computes with integers has no points.
    if len(sweep) and not any(map(has_flops, [sweep.fastest] if variants else sweep)):
        return False
    if len(sweep) and host and not host.machine.of_kind("compute"):
        return False
    if len(variants) < 2 or host is None:
        return True
    # Memory-bound points may all have the same intensity.
    intensities = [m.intensity for m in variants]
    highest = [host.machine.peak(m.problem.precision) or 0.0 for m in variants]
    same = max(intensities) <= _SAME_INTENSITY * min(intensities)
    return not (same and max(intensities) * host.machine.roof < min(highest))


def _lacking(names: Sequence[str]) -> str:
    """List the first names and the number of other names, with a verb."""
    shown = ", ".join(printable(name, _LONGEST_NAME) for name in names[:_MOST_NAMES])
    others = len(names) - _MOST_NAMES
    more = f" and {others} more" if others > 0 else ""
    return f"{shown}{more} {'lacks' if len(names) == 1 else 'lack'}"


def _counted_roofline(sweep: CountedSweep, ax: Axes | None, *, annotate: bool) -> Axes:
    """Draw the attainable performance of the variants below the data-sheet roofs of the GPU.

    The emulator measures no time. The intensity is FLOPs per byte of the L1 sectors.
    """
    rows = [v for v in sweep if v.intensity > 0]
    if not rows:
        raise ValueError("sweep must contain variants with FLOPs, got none")
    gpu = sweep.context["cuda"]
    precision = sweep.problem.precision or "FP32"
    lanes = dict(zip(("FP32", "FP64"), LANES[gpu["compute"]], strict=True))[precision]
    peak, bandwidth = (
        2 * lanes * gpu["multiprocessors"] * gpu["core_hertz"],
        gpu["memory_bandwidth"],
    )
    bound = sum(v.intensity < peak / bandwidth for v in rows)
    stated = StatedPoints(
        points=[
            StatedPoint(v.variant, min(peak, v.intensity * bandwidth), v.intensity) for v in rows
        ],
        subject=f"{sweep.title}; emulated, not timed: attainable performance, data-sheet ceilings",
        key="bytes of L1 sectors, emulated",
        finding=f"{bound} of {len(rows)} variants are memory-bound if caches serve no accesses",
    )
    canvas = Canvas(ax, annotate=annotate)
    series = make_series(stated_machine({"DRAM": bandwidth, precision: peak}), None, None)
    draw_flops(canvas, series, (), levels=None, stated=stated)
    return canvas.ax
