"""Helpers of the adapters of front ends: replaced attributes, and tested versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


def require_version(front_end: str, found: str, tested: str) -> None:
    """Raise Unavailable for a version of a front end with which its adapter was not tested."""
    if not found.startswith(f"{tested}."):
        raise _core.Unavailable(
            f"kernels of {front_end} {found} cannot be emulated; install {front_end} {tested}, "
            "with which the emulator is tested"
        )
