"""Writing of files, and the layout of stored records.

A record is one JSON document with a kind and a schema version.
"""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from adokernels.names import find
from adokernels.records.forms import Fields, equal, text_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

#: Version of the JSON layout. A reader rejects files of later versions.
SCHEMA = 2
_MODE = 0o666  # the system applies the user's umask


class StoredRecord(Fields):
    """Base class of records that are stored in files.

    Records are equal if their files would be equal: after ``record.save(path)``,
    ``load(path) == record``.
    Subclasses are dataclasses with ``eq=False``.
    """

    KIND: ClassVar[str]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self is other or equal(self, other)

    def __hash__(self) -> int:
        return text_hash(self)

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
        record = find("load")(path)
        if not isinstance(record, cls):
            found = getattr(record, "KIND", "")
            raise ValueError(f"{path} must contain a {cls.KIND}, got a {found}")
        return record

    def save(self, path: str | Path) -> None:
        """Write the record to a JSON file; read it with :func:`adokernels.load`.

        Raises
        ------
        ValueError
            If :func:`adokernels.load` would reject the record, for example because a number is not
            finite. The message contains the field; an existing file is unchanged.
        OSError
            If the file cannot be written; an existing file is unchanged.
        """
        record = self.to_dict()
        type(self).from_dict(record)
        replace_file(path, to_json(self.KIND, record).encode())


def to_json(kind: str, record: Mapping[str, Any]) -> str:
    """Return one record as a JSON document."""
    return json.dumps({"schema": SCHEMA, "kind": kind, **record}, allow_nan=False) + "\n"


def write_csv(path: str | Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write records with the same keys as a CSV file; raises the errors of :func:`replace_file`."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]) if records else [])
    writer.writeheader()
    writer.writerows(records)
    replace_file(path, text.getvalue().encode())


def replace_file(path: str | Path, content: bytes) -> None:
    """Write a file completely, or leave the existing file unchanged.

    The content is written to a temporary file in the same folder, which then replaces the file.
    An existing file keeps its permissions; the umask determines those of a new file. Symbolic links
    are followed. Devices and pipes are written directly.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        existing = target.stat()
    except FileNotFoundError:
        mode = None
    else:
        if stat.S_ISDIR(existing.st_mode):
            raise IsADirectoryError(f"{path} must be a file, got a folder")
        if not stat.S_ISREG(existing.st_mode):
            Path(path).write_bytes(content)
            return
        if not os.access(target, os.W_OK):
            raise PermissionError(f"{path} must be writable, got a read-only file")
        mode = stat.S_IMODE(existing.st_mode)
    temporary = target.parent / f".adokernels-{os.urandom(8).hex()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except OSError as error:
        error.filename = str(path)  # the name that the caller passed
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
