"""Results of the package's functions, as plain data: ``ado.records.Sweep`` and others.

Users need these classes for annotations and ``isinstance``. Like the names of the package, they are
imported at their first use.
"""

from __future__ import annotations

from adokernels.names import RECORDS, find

__all__ = list(RECORDS)


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Import a class at its first use."""
    if name not in RECORDS:
        raise AttributeError(f"adokernels.records has no {name!r}")
    globals()[name] = find(name)
    return globals()[name]
