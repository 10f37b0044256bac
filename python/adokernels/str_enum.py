"""Enumerations whose members are strings."""

from __future__ import annotations

import enum


class StrEnum(str, enum.Enum):
    """Like :class:`enum.StrEnum`, which needs Python 3.11: ``str(member)`` is its value."""

    __str__ = str.__str__
