"""Standard output and standard error of the program, which may fail at any time."""

from __future__ import annotations

import ctypes
import fcntl
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from adokernels.process import is_terminal


class Output(io.TextIOBase):
    """A stream of the process whose failure does not end a command.

    Characters that its encoding lacks are replaced. After an error, for example because the reader
    of a pipe has closed it, text is discarded. The stream may be None, closed, or lack methods.

    Attributes
    ----------
    failure
        Why text was lost; empty after a closed pipe, because ``| head`` closes it on purpose.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failure = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return is_terminal(self._stream)

    def write(self, text: str) -> int:
        """Write a text, or discard it. In a file or a pipe, lines do not end in blanks."""
        lines = text if self.isatty() else re.sub(r" +(?=\n)", "", text)
        shown = lines.encode(self.encoding, "replace").decode(self.encoding)
        self._call("write", shown)
        return len(text)

    def flush(self) -> None:
        """Write buffered text."""
        self._call("flush")

    def is_complete(self) -> bool:
        """Write buffered text, and report a failure; return whether all text was written."""
        self.flush()
        if self.failure:
            complain(f"standard output: {self.failure}")
        return not self.failure

    def _call(self, method: str, *arguments: str) -> None:
        try:
            if action := getattr(self._stream, method, None):
                action(*arguments)
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                self.failure = str(error.strerror or error)
            self._discard()

    def _discard(self) -> None:
        """Discard the text in the buffers, too: Python would write it again at exit."""
        stream, self._stream = self._stream, None
        with suppress(AttributeError, OSError, ValueError):  # the stream may have no descriptor
            descriptor = stream.fileno()
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, descriptor)
            os.close(null)


@contextmanager
def printed_to_standard_error() -> Iterator[None]:
    """Redirect what other code prints, including C code and subprocesses, to standard error.

    Code prints to ``sys.stdout`` or to the file descriptor of the process. These can differ.
    """
    before, used = sys.stdout, _descriptor(sys.__stdout__)
    _flush()
    saved = None
    if used is not None:
        # Above 2: if standard error is closed, C code would write to a file with its number.
        saved = fcntl.fcntl(used, fcntl.F_DUPFD_CLOEXEC, 3)
        target = _descriptor(sys.__stderr__)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null if target is None else target, used)
        os.close(null)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = before
        _flush()
        if used is not None and saved is not None:
            os.dup2(saved, used)
            os.close(saved)


def _flush() -> None:
    """Flush the buffers of Python and C."""
    Output(sys.__stdout__).flush()
    ctypes.CDLL(None).fflush(None)


def _descriptor(stream: Any) -> int | None:
    """The file descriptor of a stream; None if the stream has none."""
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def complain(text: object) -> None:
    """Write one line to standard error."""
    print(f"adokernels: {text}", file=Output(sys.stderr), flush=True)
