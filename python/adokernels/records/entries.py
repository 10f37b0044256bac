"""Records that are sequences of one of their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, overload

from adokernels import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

Entry = TypeVar("Entry")


class Entries(Generic[Entry]):
    """Base of records that are sequences; entries that have a variant are found by its name."""

    #: The fields with the entries. Those of the first form the sequence; all are found by name.
    _ENTRIES: ClassVar[tuple[str, ...]]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, which: int | str) -> Entry: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, which: int | str | slice) -> Entry | tuple[Entry, ...]:
        """An entry by its position or by the name of its variant, or several by their positions.

        Raises
        ------
        IndexError
            If there is no such position.
        KeyError
            If there is no such variant.
        """
        if not isinstance(which, str):
            return self._entries[which]
        named: list[tuple[Entry, str]] = [
            (entry, entry.variant)
            for field in self._ENTRIES
            for entry in getattr(self, field)
            if hasattr(entry, "variant")
        ]
        for entry, name in named:
            if name == which:
                return entry
        names = [name for _, name in named]
        raise KeyError(f"{which!r} was not measured{_core.suggest(which, names)}")

    @property
    def _entries(self) -> tuple[Entry, ...]:
        entries: tuple[Entry, ...] = getattr(self, self._ENTRIES[0])
        return entries
