"""Reading and writing of files; files whose names end in ``.xz`` are compressed."""

from __future__ import annotations

import csv
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Maximum number of bytes that are read, after decompression: parsing more could need gigabytes.
_MOST_BYTES = 1 << 27
#: Beginnings of texts that spreadsheets evaluate, or that they skip before a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


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


def read_file(path: str | Path) -> bytes:
    """The content of a file, decompressed if its name ends in ``.xz``.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it cannot be decompressed, or has more than 128 MiB.
    """
    if not _is_compressed(path):
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    else:
        import lzma  # a Python may lack it

        try:
            with lzma.open(path) as compressed:
                content = compressed.read(_MOST_BYTES + 1)
        except (lzma.LZMAError, EOFError) as error:
            raise ValueError(f"{path} is not an xz file: {error}") from error
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path} must have at most {_MOST_BYTES} bytes, and is larger")
    return content


def _is_compressed(path: str | Path) -> bool:
    return os.fspath(path).endswith(".xz")


def replace_file(path: str | Path, content: bytes) -> None:
    """Write a file completely, or leave the existing file unchanged.

    The content is compressed if the name of the file ends in ``.xz``. It is written to a temporary
    file in the same folder, which then replaces the file and gets its permissions. Symbolic links
    are followed. Devices and pipes are written directly.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    if _is_compressed(path):
        import lzma

        content = lzma.compress(content)
    existing = os.path.exists(path)  # realpath may find no file for /dev/stdout
    if existing and not os.path.isfile(path):
        Path(path).write_bytes(content)
        return
    if existing and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} must be writable, got a read-only file")
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".adokernels-{os.urandom(8).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if existing:
            temporary.chmod(target.stat().st_mode & 0o777)
        temporary.replace(target)
    except OSError as error:  # with the path that the caller passed
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
