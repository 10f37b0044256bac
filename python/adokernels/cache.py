"""Files that later processes of the same user read again: stored ceilings and scans.

Only files that this user owns, in a folder that nobody else can write, are read. Links are never
followed. If the folder cannot be used, nothing is stored or read, and one warning states why.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adokernels.storage import temporary_file
from adokernels.text import printable

_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
#: Maximum number of characters of the reason in the warning.
_LONGEST_REASON = 500
#: Packages that are skipped to find the user's line for the warning.
_NOT_THE_USER = ("adokernels", "contextlib", "functools")
#: The reason in the warning, after it was shown.
_warned: list[str] = []


def cache_folder() -> Path:
    """The folder of all cached files, which need not exist.

    It is ``$ADOKERNELS_CACHE``, else ``$XDG_CACHE_HOME/adokernels``, else ``~/.cache/adokernels``.

    Raises
    ------
    OSError
        If no variable is set, and the user has no home directory.
    """
    if own := os.environ.get("ADOKERNELS_CACHE"):
        return Path(own).expanduser() if own.startswith("~") else Path(own)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification ignores relative paths
        try:
            base = Path("~/.cache").expanduser()
        except RuntimeError as error:
            raise OSError("the user has no home directory") from error
    return base / "adokernels"


def read(name: str, most_bytes: int) -> bytes | None:
    """The content of a cached file; None if this user has stored no such file.

    A file that others can write, or that has more than `most_bytes` bytes, is ignored.
    """
    with _opened_folder(create=False) as folder:
        return None if folder is None else _content(folder, name, most_bytes)


def write(name: str, content: bytes) -> None:
    """Store a file, or do nothing if that is not possible."""
    with _opened_folder(create=True) as folder:
        if folder is None:
            return
        try:
            with temporary_file(Path(), 0o600, folder) as (file, temporary):
                file.write(content)
                file.flush()
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            _warn(str(error))


def remove_oldest(
    pattern: str, keep: int, most_bytes: int, is_own: Callable[[str, bytes], bool]
) -> None:
    """Remove the oldest files whose whole names match a pattern, until `keep` files remain.

    Only files that :func:`read` accepts, and whose name and content `is_own` accepts, are removed.
    """
    with _opened_folder(create=False) as folder, suppress(OSError):
        if folder is None:
            return
        names = [name for name in os.listdir(folder) if re.fullmatch(pattern, name)]
        times = {n: os.stat(n, dir_fd=folder, follow_symlinks=False).st_mtime_ns for n in names}
        for name in sorted(names, key=times.__getitem__)[: max(len(names) - keep, 0)]:
            content = _content(folder, name, most_bytes)
            if content is not None and is_own(name, content):
                os.unlink(name, dir_fd=folder)


@contextmanager
def _opened_folder(*, create: bool) -> Iterator[int | None]:
    """A descriptor of the folder, so that no path is resolved twice; None if it cannot be used."""
    try:
        path = cache_folder()
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise OSError(f"{path} must be a folder, not a link or a file")
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
    except (OSError, RuntimeError) as error:  # RuntimeError: the home directory is unknown
        if create or not isinstance(error, FileNotFoundError):
            _warn(str(error))
        yield None
        return
    try:
        yield descriptor if _is_private(path, os.fstat(descriptor)) else None
    finally:
        os.close(descriptor)


def _is_private(path: Path, found: os.stat_result) -> bool:
    if found.st_uid != os.geteuid():
        _warn(f"{path} must belong to this user, got a folder of user {found.st_uid}")
        return False
    if found.st_mode & _WRITABLE_BY_OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        _warn(f"{path} must not be writable by others, got mode {mode:o} (chmod go-w)")
        return False
    return True


def _content(folder: int, name: str, most_bytes: int) -> bytes | None:
    try:
        # Opening a FIFO would wait for a writer without O_NONBLOCK.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if (
            not stat.S_ISREG(found.st_mode)
            or found.st_uid != os.geteuid()
            or found.st_mode & _WRITABLE_BY_OTHERS
        ):
            return None
        content = file.read(most_bytes + 1)
    return content if len(content) <= most_bytes else None


def _warn(reason: str) -> None:
    """Warn once per process, at the line outside of this package that called it."""
    if _warned:
        return
    _warned.append(reason)
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _NOT_THE_USER:
        frame, level = frame.f_back, level + 1
    text = f"adokernels stores no ceilings and scans: {printable(reason, _LONGEST_REASON)}"
    warnings.warn(f"{text}. Set ADOKERNELS_CACHE to a folder of your own.", stacklevel=level)
