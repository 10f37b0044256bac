"""One object per routine of the core, under its name; `registry.pyi` declares their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from adokernels import _core
from adokernels.model.documentation import docstring_of, signature_of
from adokernels.model.routine import Routine
from adokernels.model.tasks import TASKS
from adokernels.records.shown import ShownAsTables

if TYPE_CHECKING:
    from collections.abc import Mapping


def routine_object(core: _core.Routine) -> Routine:
    """Make a routine with its own class, so that ``help`` shows its documentation."""
    namespace = {
        "__doc__": docstring_of(core),
        "__signature__": signature_of(core),
        "__module__": "adokernels",  # the module in which pickle looks up the object
    }
    kind = type(core.name.title().replace("_", ""), (Routine,), namespace)
    return cast("Routine", kind(core))


class Routines(ShownAsTables, dict[str, Routine]):
    """All routines by name, shown as a table with one line per routine."""

    def __missing__(self, name: object) -> Routine:
        raise KeyError(f"no routine {name!r}{_core.suggest(str(name), list(self))}")


_all: Mapping[str, Routine] = {core.name: routine_object(core) for core in _core.routines()}
routines = Routines({name: _all[name] for name in TASKS})
#: Its variants are the kernels that measure a machine's ceilings; it is not a computation.
ceilings = _all["ceilings"]
#: The sums of ``gpp`` per tile of rows, for :mod:`adokernels.distributed`.
gpp_tiles = _all["gpp_tiles"]
globals().update(routines)
__all__ = [*routines, "routines"]  # noqa: PLE0604
