"""Writing of files."""

from __future__ import annotations

import csv
import io
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MODE = 0o666  # the system applies the user's umask


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
    An existing file keeps its permissions; a new file gets them from the umask. Symbolic links
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
