"""One object for each routine of the core, under its name; see `_ladders.pyi` for their types."""

from __future__ import annotations

from adokernels._routine import all_routines

routines = all_routines()
globals().update(routines)
__all__ = [*routines, "routines"]  # noqa: PLE0604
