"""Methods of records whose functions are in packages that import the records.

Records are data: they do not import the code that draws them. This module is the only place where
they reach it, by the public name of the function, which is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adokernels.names import find

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Plotted:
    """Base of records that have a chart of their own."""

    def plot(self, *arguments: Any, **options: Any) -> Axes:
        """Draw the chart of this record: ``ado.plot`` with the same arguments."""
        drawn: Axes = find("plot")(self, *arguments, **options)
        return drawn
