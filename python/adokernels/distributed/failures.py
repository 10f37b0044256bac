"""Errors of single ranks, raised on all ranks so that no rank waits forever for a failed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from adokernels.distributed.communicators import Communicator

_Result = TypeVar("_Result")

#: Size in bytes of the message with the text of an error.
_TEXT_BYTES = 512


def raise_on_all_ranks(communicator: Communicator, error: Exception | None) -> NoReturn:
    """Raise the error of this rank, or an error with the text of the first failed rank.

    All ranks must call this function, at least one of them with an error.

    Raises
    ------
    Exception
        The error of this rank.
    RuntimeError
        On ranks without an error.
    """
    text = "" if error is None else f"{type(error).__name__}: {error}"
    own = np.zeros(_TEXT_BYTES, np.uint8)
    encoded = text.encode()[:_TEXT_BYTES]
    own[: len(encoded)] = np.frombuffer(encoded, np.uint8)
    texts = communicator.all_gather(own)
    if error is not None:
        raise error
    rank = int(np.flatnonzero(texts.any(axis=1))[0])
    first = texts[rank].tobytes().rstrip(b"\0").decode(errors="replace")
    raise RuntimeError(f"rank {rank} failed with {first}")


def on_all_ranks(communicator: Communicator, function: Callable[[], _Result]) -> _Result:
    """Call a function that does not communicate; raise on all ranks if it raises on any rank.

    See :func:`raise_on_all_ranks`.
    """
    error: Exception | None = None
    try:
        result = function()
    except Exception as failure:
        error = failure
    if communicator.all_gather(np.array([error is not None], np.uint8)).any():
        raise_on_all_ranks(communicator, error)
    return result
