"""The display of records in terminals, by rich and in Jupyter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adokernels.names import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Group


class ShownAsTables:
    """Base of objects that are shown as tables, and listings of code.

    The package `tables` builds them. It is found by name, because it imports the records.
    """

    def _tables(self) -> Sequence[Any]:
        tables: Sequence[Any] = find("tables_of")(self)
        return tables

    def __repr__(self) -> str:
        return "\n".join(map(find("to_text"), self._tables()))

    def __rich__(self) -> Group:
        from rich.console import Group  # not loaded before a record is shown

        return Group(*self._tables())

    def _repr_html_(self) -> str:
        return "\n".join(map(find("to_html"), self._tables()))
