"""Writing of files."""

from __future__ import annotations

import csv
import io
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

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
    try:
        with temporary_file(target.parent, _MODE) as (file, temporary):
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, target)
    except OSError as error:
        if error.filename is not None:
            error.filename, error.filename2 = str(path), None  # the name that the caller passed
        raise


@contextmanager
def temporary_file(
    folder: Path, mode: int, descriptor: int | None = None
) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a new file in a folder; remove it if the body, which should rename it, raises.

    With a `descriptor` of a folder, `folder` and the yielded path are relative to it.
    """
    path = folder / f".adokernels-{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, mode, dir_fd=descriptor), "wb") as file:
            yield file, path
    except BaseException:
        with suppress(OSError):
            os.unlink(path, dir_fd=descriptor)
        raise
