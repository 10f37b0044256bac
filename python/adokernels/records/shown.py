"""The display of records as tables and as charts.

Records are data: they do not import the code that shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adokernels import later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from rich.console import Group


class ShownAsTables:
    """Base of objects that are shown as tables and listings of code, which `tables` builds."""

    def _tables(self) -> Sequence[Any]:
        return later.tables_of(self)

    def __repr__(self) -> str:
        return later.rendered(self._tables(), "text")

    def __rich__(self) -> Group:
        from rich.console import Group  # not loaded before a record is shown

        return Group(*self._tables())

    def _repr_html_(self) -> str:
        return later.rendered(self._tables(), "html")

    def to_markdown(self) -> str:
        """The tables in Markdown, for a comment on a pull request."""
        return later.rendered(self._tables(), "markdown")


class Plotted:
    """Base of records that have a chart of their own."""

    def plot(self, *arguments: Any, **options: Any) -> Axes:
        """Draw the chart of this record: ``ado.plot`` with the same arguments."""
        drawn: Axes = later.plot(self, *arguments, **options)
        return drawn
