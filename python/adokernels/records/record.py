"""Base classes of records, and the layout of stored ones.

A stored record is one JSON document with a kind and a schema version.
"""

from __future__ import annotations

import dataclasses
import json
import math
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np

from adokernels import _core, later
from adokernels.records.forms import NUMBER, reader, stored_fields
from adokernels.storage import replace_file, write_csv
from adokernels.toolkit import installation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from typing_extensions import Self


#: Version of the JSON layout. A reader rejects files of other versions.
SCHEMA = 2
#: The field of a file with rows that follow from the other fields.
ROWS = "records"
#: Suffixes of files that are not records.
_PICTURES = (".svg", ".png", ".pdf", ".html")

Entry = TypeVar("Entry")


class Fields:
    """Base class of dataclasses that are stored as JSON objects with the same fields.

    Subclasses with arrays are dataclasses with ``eq=False``: they compare the JSON values.
    """

    def __eq__(self, other: object) -> bool:
        """Whether all stored fields have equal JSON values; NaN is equal to NaN."""
        if type(self) is not type(other):
            return NotImplemented
        kind: Any = type(self)
        return self is other or all(
            _encoded(getattr(self, name)) == _encoded(getattr(other, name))
            for name in stored_fields(kind)
        )

    def __hash__(self) -> int:
        """A hash of the text fields: other equal values can have different hashes, or none."""
        kind: Any = type(self)
        values = (getattr(self, name) for name in stored_fields(kind))
        texts = (_encoded(value) for value in values if isinstance(value, str | PurePath))
        return hash((kind, *map(str.__str__, texts)))

    def to_dict(self) -> dict[str, Any]:
        """Convert the record to JSON types."""
        record: dict[str, Any] = _encoded(self)
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`.

        Raises
        ------
        ValueError
            If a field is missing, unknown, or has a wrong value; the message contains its path.
        """
        kind: Any = cls
        found: Self = reader(kind)(record)
        return found

    def _contradiction(self) -> str:
        """A message if fields contradict each other: the field and the rule; otherwise empty."""
        return ""


class StoredRecord(Fields):
    """Base class of records that are stored in files.

    Records are equal if their files would be equal: after ``record.save(path)``,
    ``load(path) == record``.
    Subclasses are dataclasses with ``eq=False``.
    """

    #: The kind of a file with this record.
    KIND: ClassVar[str]

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that :meth:`save` of a record of this kind wrote.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If :func:`adokernels.load` rejects the file, or if it contains a record of another kind.
        """
        record = later.load(path)
        if not isinstance(record, cls):
            found = getattr(record, "KIND", "")
            raise ValueError(
                f"{path} must contain a {cls.KIND}, got a {found}: ado.load reads records of all "
                "kinds"
            )
        return record

    def to_json(self) -> str:
        """The JSON document that :meth:`save` writes.

        The document of a sweep, scan or comparison also contains the result of its method
        ``records``, for other programs: medians, ratios and verdicts. :func:`adokernels.load`
        ignores them, because they follow from the samples.

        Raises
        ------
        ValueError
            If :func:`adokernels.load` would reject the record, for example because a number is not
            finite. The message contains the field.
        """
        try:
            record = self.to_dict()
            self.from_dict(record)
        except RecursionError as error:
            raise ValueError("the record has too many levels of lists and objects") from error
        if isinstance(self, Rows):
            record[ROWS] = [{k: _finite(v) for k, v in row.items()} for row in self.records()]
        return _document(self.KIND, record)

    def save(self, path: str | Path) -> None:
        """Write the record to a JSON file; read it with :func:`adokernels.load`.

        The file is compressed if its name ends in ``.xz``.

        Raises
        ------
        ValueError
            See :meth:`to_json`, or if the suffix is one of a picture or page; an existing file is
            unchanged.
        OSError
            If the file cannot be written; an existing file is unchanged.
        """
        if PurePath(path).suffix.lower() in _PICTURES:
            raise ValueError(
                f"path must end in .json or .json.xz, got {str(path)!r}; charts are saved by "
                "ax.figure.savefig, pages by ado.write_report, and tables by save_svg or save_html "
                "of rich.console.Console(record=True)"
            )
        replace_file(path, self.to_json().encode())


class Entries(Generic[Entry]):
    """Base of records that are sequences, whose entries are also found by name."""

    #: The fields with entries. The first field is the sequence; names are searched in all fields.
    _ENTRIES: ClassVar[tuple[str, ...]]
    #: The attribute with the name of an entry.
    _NAME: ClassVar[str] = "variant"

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, which: int | str) -> Entry: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, which: int | str | slice) -> Entry | tuple[Entry, ...]:
        """An entry by its position or by its name, or several entries by their positions.

        Raises
        ------
        IndexError
            If there is no such position.
        KeyError
            If there is no such name.
        """
        if not isinstance(which, str):
            return self._entries[which]
        entries: Iterator[Entry] = (e for field in self._ENTRIES for e in getattr(self, field))
        named = [(getattr(entry, self._NAME, None), entry) for entry in entries]
        for name, entry in named:
            if name == which:
                return entry
        raise KeyError(self._why_not(which, [name for name, _ in named if name]))

    def _why_not(self, which: str, names: list[str]) -> str:
        """The reason why there is no entry with this name."""
        return f"{which!r} was not measured{_core.suggest(which, names)}"

    @property
    def _entries(self) -> tuple[Entry, ...]:
        entries: tuple[Entry, ...] = getattr(self, self._ENTRIES[0])
        return entries


class Rows:
    """Base of records that are also a table, for other programs."""

    #: The columns that are the index of the data frame.
    _INDEX: ClassVar[tuple[str, ...]] = ("variant",)

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """The table as one dictionary per row, in SI units."""

    def to_csv(self, path: str | Path) -> None:
        """Write the table as a CSV file, in SI units.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file is unchanged.
        """
        write_csv(path, self.records())

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas frame, in SI units.

        Raises
        ------
        ImportError
            If pandas, which is optional, is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            remedy = installation("frames")
            raise ImportError(f"to_frame needs pandas; remedy: {remedy}") from error
        return pd.DataFrame(self.records()).set_index(list(self._INDEX))


def plain_json(kind: str, content: Any) -> str:
    """The JSON document of an object that :func:`adokernels.load` cannot read, like a diagnosis."""
    return _document(kind, _encoded(content))


def _document(kind: str, record: Mapping[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, "kind": kind, **record}, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """A value of a row as a JSON value; None for a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else _encoded(value)


def _encoded(value: Any) -> Any:
    """Convert a value to JSON types; values of other types are returned unchanged."""
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER: repr(float(value))}
    if isinstance(value, str | int | float) or value is None:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _encoded(getattr(value, name)) for name in stored_fields(type(value))}
    if isinstance(value, np.ndarray | np.generic):
        return _encoded(value.tolist())
    if isinstance(value, Mapping):
        return {name: _encoded(item) for name, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        items = sorted(value) if isinstance(value, frozenset) else value
        return [_encoded(item) for item in items]
    return str(value) if isinstance(value, PurePath) else value
