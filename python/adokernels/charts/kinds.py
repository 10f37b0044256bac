"""The kinds of roofline charts, and the data that each requires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from adokernels.charts.bandwidth import level_bandwidths
from adokernels.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adokernels.charts.series import Series
    from adokernels.records.measurement import Measurement

Kind = Literal["roofline", "bandwidth", "instructions"]

#: Intensities that differ by less than this factor count as equal.
_SAME_INTENSITY = 1.01
#: Maximum number of names in a message, and maximum number of characters per name.
_MOST_NAMES, _LONGEST_NAME = 4, 60


def checked_kind(kind: Kind | None, series: Sequence[Series]) -> Kind:
    """Return the kind, or the default kind; check that the required data is available.

    Raises
    ------
    ValueError
        If the kind is unknown, or if required data is missing. The message states the remedy.
    """
    chosen = kind or _default(series)
    if chosen not in get_args(Kind):
        raise ValueError(f"kind must be 'roofline', 'bandwidth' or 'instructions', got {kind!r}")
    if chosen != "roofline" and not any(s.everything for s in series):
        raise ValueError(f"kind={chosen!r} needs measurements, got a machine alone")
    if chosen == "bandwidth":
        remedy = "pass bytes= to ado.measure"
        _need(chosen, series, lambda m: m.bytes, "compulsory bytes", remedy)
        return chosen
    bare = [s for s in series if not _has_ceilings(s)]
    if bare:
        lacking = [s.sweep.routine or "the machine" for s in bare]
        raise ValueError(
            f"kind={chosen!r} needs memory and compute ceilings, which {_listed(lacking)} "
            f"{'lacks' if len(lacking) == 1 else 'lack'}: pass machine=ado.machine(...), or use "
            "kind='bandwidth'"
        )
    if chosen == "roofline":
        remedy = "use kind='bandwidth', or pass flops= to ado.measure"
        _need(chosen, series, lambda m: m.flops, "FLOPs", remedy)
    else:
        remedy = "measure with ado.sweep(..., counters=True) on an NVIDIA GPU"
        _need(chosen, series, _instructions, "hardware counters", remedy)
    return chosen


def _default(series: Sequence[Series]) -> Kind:
    return "roofline" if any(map(_has_points, series)) else "bandwidth"


def _has_points(series: Series) -> bool:
    """Whether a roofline of a sweep has points at several positions."""
    sweep = series.sweep
    computes = not len(sweep) or any(m.flops for m in sweep)
    return computes and not _same_intensity(series)


def _same_intensity(series: Series) -> bool:
    """Whether all points would have the same intensity, in the memory-bound region."""
    variants, host = series.sweep.variants, series.host
    if len(variants) < 2 or host is None:
        return False
    intensities = [m.intensity for m in variants]
    highest = [host.machine.peak(m.problem.precision) or 0.0 for m in variants]
    same = max(intensities) <= _SAME_INTENSITY * min(intensities)
    return same and max(intensities) * host.machine.roof < min(highest)


def _has_ceilings(series: Series) -> bool:
    machine = series.host.machine if series.host else None
    return bool(machine and machine.of_kind("compute") and level_bandwidths(machine))


def _instructions(m: Measurement) -> float | None:
    return m.profile.get("instructions") if m.profile else None


def _need(
    kind: Kind,
    series: Sequence[Series],
    quantity: Callable[[Measurement], float | None],
    name: str,
    remedy: str,
) -> None:
    """Check that at least one measurement has a quantity. The chart names those without it."""
    everything = [m for s in series for m in s.everything]
    if everything and not any(map(quantity, everything)):
        lacking = [f"{m.routine}[{m.variant}]" for m in everything]
        raise ValueError(
            f"kind={kind!r} needs {name}, which {_listed(lacking)} "
            f"{'lacks' if len(lacking) == 1 else 'lack'}: {remedy}"
        )


def _listed(names: Sequence[str]) -> str:
    """List the first names, and the number of other names."""
    shown = ", ".join(printable(name, _LONGEST_NAME) for name in names[:_MOST_NAMES])
    others = len(names) - _MOST_NAMES
    return f"{shown} and {others} more" if others > 0 else shown
