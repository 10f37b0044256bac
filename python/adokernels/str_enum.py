"""Enumerations whose members are strings."""

from __future__ import annotations

import enum


class StrEnum(str, enum.Enum):
    """Like :class:`enum.StrEnum` of Python 3.11: ``str(member)`` is the value of the member."""

    __str__ = str.__str__
