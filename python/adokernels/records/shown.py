"""The display of records as tables and as charts.

Records are data. They import the code that shows them when they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from rich.console import Group


class ShownAsTables:
    """Base of objects that are shown as tables and listings of code, which `tables` builds."""

    def _tables(self) -> Sequence[Any]:
        from adokernels.tables import tables_of

        return tables_of(self)

    def __repr__(self) -> str:
        from adokernels.tables.rendering import to_text

        return "\n".join(map(to_text, self._tables()))

    def __rich__(self) -> Group:
        from rich.console import Group  # not loaded before a record is shown

        return Group(*self._tables())

    def _repr_html_(self) -> str:
        from adokernels.tables.rendering import to_html

        return "\n".join(map(to_html, self._tables()))

    def to_markdown(self) -> str:
        """The tables in Markdown, for a comment on a pull request."""
        from adokernels.tables.rendering import to_markdown

        return "\n".join(map(to_markdown, self._tables()))


class Plotted:
    """Base of records that have a chart of their own."""

    def plot(self, *arguments: Any, **options: Any) -> Axes:
        """Draw the chart of this record: ``ado.plot`` with the same arguments."""
        from adokernels.charts.picture import plot

        what: Any = self  # one of the records that plot() draws
        return plot(what, *arguments, **options)
