"""A cache of measured ceilings, which later processes of the same user read.

The folder must belong to this user, and others must not be able to write to it. Without such a
folder, nothing is stored or read, and a warning states why.
"""

from __future__ import annotations

import os
import stat
import warnings
from functools import cache
from pathlib import Path

from adokernels.records import loading
from adokernels.records.loading import Record
from adokernels.text import printable

#: Maximum number of characters of the reason in the warning.
_LONGEST_REASON = 500


def cache_folder() -> Path:
    """The folder of all cached files, which need not exist.

    It is ``$ADOKERNELS_CACHE``, else ``$XDG_CACHE_HOME/adokernels``, else ``~/.cache/adokernels``.

    Raises
    ------
    RuntimeError
        If no variable is set, and the user has no home directory.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("ADOKERNELS_CACHE") or f"{base}/adokernels").expanduser()


def load(name: str) -> Record | None:
    """The record in a cached file; None if there is no such file, or if it is damaged."""
    try:
        return loading.load(_private_folder() / name)
    except (FileNotFoundError, ValueError):
        return None
    except (OSError, RuntimeError) as error:
        _warn(str(error))
        return None


def store(name: str, record: Record) -> None:
    """Write a record to a cached file, or warn if that is not possible."""
    try:
        if not os.path.lexists(folder := cache_folder()):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        record.save(_private_folder() / name)
    except (OSError, RuntimeError) as error:
        _warn(str(error))


def _private_folder() -> Path:
    """The folder; an OSError states why it cannot be used."""
    path = cache_folder()
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{path} must be a folder, not a link or a file")
    if found.st_uid != os.geteuid():
        raise PermissionError(
            f"{path} must belong to this user, got a folder of user {found.st_uid}"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        raise PermissionError(
            f"{path} must not be writable by others, got mode {mode:o} (chmod go-w)"
        )
    return path


@cache
def _warn(reason: str) -> None:
    """Warn once per reason."""
    text = f"adokernels stores no ceilings ({printable(reason, _LONGEST_REASON)})"
    warnings.warn(f"{text}. Set ADOKERNELS_CACHE to a folder of your own.", stacklevel=1)
