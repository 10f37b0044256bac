"""Writing of files."""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

#: Beginnings of texts that spreadsheets evaluate, or that they skip before a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: The name of a temporary file: where and by which process it was made.
_TEMPORARY = re.compile(r"\.adokernels-(?P<namespace>\w+)-(?P<process>\d+)-[0-9a-f]{16}\.tmp")
_MODE = 0o666  # the system applies the user's umask
#: The mode bits that a written file keeps: without set-user-ID, set-group-ID and sticky.
_PERMISSIONS = 0o777
#: Errors of file systems that cannot reserve space.
_NOT_SUPPORTED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
#: Errors of mount points, write-protected folders, and files or folders of another user.
_NOT_REPLACEABLE = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)


def write_csv(path: str | Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write records with the same keys as a CSV file; raises the errors of :func:`replace_file`.

    Spreadsheets evaluate texts that begin with one of ``= + - @``, so these get an apostrophe.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]) if records else [])
    writer.writeheader()
    writer.writerows({n: _without_formula(v) for n, v in record.items()} for record in records)
    replace_file(path, text.getvalue().encode())


def _without_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def replace_file(path: str | Path, content: bytes) -> None:
    """Write a file completely, or leave the existing file unchanged.

    The content is written to a temporary file in the same folder, which then replaces the file.
    An existing file keeps its owner, group and permissions, but no set-user-ID bit; a new file gets
    its permissions from the umask. Symbolic links are followed. Devices and pipes are written
    directly. A file that cannot be replaced, because it is a mount point or belongs to another
    user, is overwritten in place; only then, a crash can leave a part of the content.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    existing: os.stat_result | None = None
    with suppress(FileNotFoundError):
        existing = os.stat(path)  # realpath may find no file for /dev/stdout
    if existing is not None:
        if stat.S_ISDIR(existing.st_mode):
            raise IsADirectoryError(f"{path} must be a file, got a folder")
        if not stat.S_ISREG(existing.st_mode):
            Path(path).write_bytes(content)
            return
        if not os.access(target, os.W_OK):
            raise PermissionError(f"{path} must be writable, got a read-only file")
    try:
        try:
            _replace(target, content, existing)
        except OSError as error:
            if existing is None or error.errno not in _NOT_REPLACEABLE:
                raise
            _overwrite(target, content, existing)
    except OSError as error:
        if error.filename is not None:
            # The error contains the path that the caller passed, not the temporary file.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _replace(target: Path, content: bytes, existing: os.stat_result | None) -> None:
    with temporary_file(target.parent, _MODE) as (file, temporary):
        if existing is not None:
            own = os.fstat(file.fileno())
            if (own.st_uid, own.st_gid) != (existing.st_uid, existing.st_gid):
                os.fchown(file.fileno(), existing.st_uid, existing.st_gid)
            os.fchmod(file.fileno(), existing.st_mode & _PERMISSIONS)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.replace(temporary, target)


def _overwrite(target: Path, content: bytes, existing: os.stat_result) -> None:
    """Write into a file. Its space is reserved first, so that a full disk leaves it unchanged."""
    descriptor = os.open(target, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        if content:
            try:
                os.posix_fallocate(descriptor, 0, len(content))
            except OSError as error:
                if error.errno not in _NOT_SUPPORTED:
                    os.ftruncate(descriptor, existing.st_size)
                    raise
        if existing.st_mode & ~_PERMISSIONS & 0o7777:
            with suppress(PermissionError):  # the system removes the bits if another user writes
                os.fchmod(descriptor, existing.st_mode & _PERMISSIONS)
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(descriptor)


def _namespace() -> str:
    """An identifier of this system start and container; empty if unknown."""
    with suppress(OSError):
        start = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
        return f"{start}{os.stat('/proc/self/ns/pid').st_ino:x}"
    return ""


def _remove_abandoned(folder: Path, descriptor: int | None) -> None:
    """Remove the temporary files in a folder whose writers have been killed.

    A process number is valid only in the container that assigned it. In a folder that several
    machines share, the files of the other machines stay.
    """
    own = _namespace()
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(folder if descriptor is None else descriptor)
    for name in names:
        found = _TEMPORARY.fullmatch(name)
        if found and own and found["namespace"] == own and not _runs(int(found["process"])):
            with suppress(OSError):
                os.unlink(folder / name, dir_fd=descriptor)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


@contextmanager
def temporary_file(
    folder: Path, mode: int, descriptor: int | None = None
) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a new file in a folder; remove it if the body, which should rename it, raises.

    With a `descriptor` of a folder, `folder` and the yielded path are relative to it. Files of
    processes that were killed are removed.
    """
    _remove_abandoned(folder, descriptor)
    path = folder / f".adokernels-{_namespace()}-{os.getpid()}-{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, mode, dir_fd=descriptor), "wb") as file:
            yield file, path
    except BaseException:
        with suppress(OSError):
            os.unlink(path, dir_fd=descriptor)
        raise
