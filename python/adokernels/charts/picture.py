"""The default picture of a ladder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adokernels.charts.roofline import roofline
from adokernels.charts.steps import steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from adokernels.records.sweep import Sweep

#: Ratio of the slowest to the fastest time above which linear bars are too short to compare.
_WIDEST_SPAN = 20


def picture(sweep: Sweep, *, ax: Axes | None = None) -> Axes:
    """Draw the steps of a ladder whose times span more than 20x, and the roofline of any other.

    Without the ceilings of a machine, the bandwidth chart replaces the roofline.

    Parameters
    ----------
    sweep
        The measured ladder.
    ax
        The axes to draw on; by default those of a new figure, whose size suits the ladder.

    Returns
    -------
    Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If the sweep has no measurements.
    """
    times = [m.seconds for m in sweep.variants]
    if times and max(times) > _WIDEST_SPAN * min(times):
        return steps(sweep, ax=ax)
    return roofline(sweep, kind=None if sweep.machine else "bandwidth", ax=ax)
