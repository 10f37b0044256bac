"""Helpers of the adapters of front ends: replaced attributes, and tested versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from adokernels import _core


@contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Give attributes of a module, a class or an object other values."""
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def untested(front_end: str, found: str, tested: str) -> str:
    """Why a version of a front end is refused; empty if its adapter was tested with the version."""
    if found.startswith(f"{tested}."):
        return ""
    return (
        f"kernels of {front_end} {found} cannot be emulated; install {front_end} {tested}, "
        "with which the emulator is tested"
    )


class Refusing:
    """An object that raises Unavailable at each use."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise _core.Unavailable(self._reason)
