"""The default chart of each kind of record."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes

from adokernels import _core
from adokernels.charts.patterns import draw_banks, draw_divergence, draw_sectors
from adokernels.charts.roofline import roofline
from adokernels.charts.scans import draw_scan
from adokernels.charts.steps import draw_changes, steps
from adokernels.patterns.banks import BankConflicts
from adokernels.patterns.divergence import Divergence
from adokernels.patterns.sectors import Sectors
from adokernels.records.changes import SweepComparison
from adokernels.records.counted import CountedSweep
from adokernels.records.measurement import Measurement
from adokernels.records.scan import Scan
from adokernels.records.sweep import Sweep, as_sweep

#: Ratio of the slowest to the fastest time above which linear bars are too short to compare.
_WIDEST_SPAN = 20


def plot(
    what: Measurement
    | Sweep
    | CountedSweep
    | Scan
    | SweepComparison
    | Sectors
    | BankConflicts
    | Divergence,
    *arguments: Any,
    **options: Any,
) -> Axes:
    """Draw the default chart of a record; ``record.plot()`` is the same function as a method.

    Parameters
    ----------
    what
        A sweep: its steps if the times span more than a factor of 20, else its roofline, or its
        bandwidths if the ceilings of a machine are missing. A measurement: a sweep of one variant.
        A sweep on the emulator: its steps, in sectors of global memory. A scan: bandwidth and time
        against the compulsory bytes, with the sizes of the caches; of functions, time and the ratio
        of times with its interval against n; with copies, the times on the CPU and on the GPU, and
        the break-even size. Compared sweeps: one line per variant from
        its time before to its time after. Sectors and bank conflicts: the lanes of a request over
        the sectors that they touch, or over the 32 banks. Divergence: the active and the masked
        lanes of each pass of the first warps.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; by default, new axes of a new figure, whose size suits the record.
    kind : str, optional
        For a scan, ``"bandwidth"``: compulsory bytes / time. ``"time"``: seconds per call.
        ``"ratio"``: of functions, instead of the bandwidth. ``"both"``: two of them in a new
        figure. Default: ``"both"``; if `ax` is given, ``"bandwidth"``, or ``"time"`` of functions.
        A scan with copies has ``"time"`` only.
    request : int, optional
        For sectors and bank conflicts, the number of the request, from 0.
    annotate : bool, optional
        For sectors, bank conflicts and divergence, whether to add words and a legend.

    Returns
    -------
    Axes
        The axes drawn on; for ``kind="both"``, the upper ones.

    Raises
    ------
    ValueError
        If there is nothing to draw, if the kind or the request does not exist, or if `ax` is given
        for ``kind="both"``.
    TypeError
        If `what` has no default chart, or `request` is not an integer.
    """
    what = as_sweep(what)
    draw = _CHARTS.get(type(what))
    if draw is None:
        known = ", ".join(record.__name__ for record in _CHARTS)
        raise TypeError(f"what must be one of {known}, got {type(what).__name__}")
    valid = list(inspect.signature(draw).parameters)[1:]
    for name in options.keys() - valid:
        raise TypeError(f"plot has no option {name!r}{_core.suggest(name, valid)}")
    return draw(what, *arguments, **options)


def picture(sweep: Sweep, *, ax: Axes | None = None) -> Axes:
    """Draw the default chart of a ladder; see :func:`plot`."""
    times = [m.seconds for m in sweep.variants]
    has_rates = any(m.bytes or (m.flops and sweep.machine) for m in sweep)
    if times and (max(times) > _WIDEST_SPAN * min(times) or not has_rates):
        return steps(sweep, ax=ax)
    return roofline(sweep, kind=None if sweep.machine else "bandwidth", ax=ax)


_CHARTS: dict[type, Callable[..., Axes]] = {
    Sweep: picture,
    CountedSweep: steps,
    Scan: draw_scan,
    SweepComparison: draw_changes,
    Sectors: draw_sectors,
    BankConflicts: draw_banks,
    Divergence: draw_divergence,
}
