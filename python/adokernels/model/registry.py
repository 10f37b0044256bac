"""One object per routine of the core, under its name; `registry.pyi` declares their types."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

from rich.text import Text

from adokernels import _core
from adokernels.model.documentation import docstring_of, signature_of
from adokernels.model.routine import Routine
from adokernels.model.tasks import TASKS
from adokernels.records.shown import ShownAsTables
from adokernels.tables.rendering import new_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table


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

    def _tables(self) -> list[Table]:
        headers = [("routine", True), ("what it computes", True), ("variants", True)]
        table = new_table("Routines", headers)
        for routine in self.values():
            devices = Counter(v.device for v in routine if not v.ceiling)
            counts = ", ".join(f"{count} {device}" for device, count in devices.items())
            table.add_row(*map(Text, (routine.name, routine.summary, counts)))
        table.columns[1].no_wrap = False
        table.caption = Text(
            "The variants of one routine: ado.routines[name], or `adokernels list NAME` in a shell."
        )
        return [table]


_all: Mapping[str, Routine] = {core.name: routine_object(core) for core in _core.routines()}
routines = Routines({name: _all[name] for name in TASKS})
#: Its variants are the kernels that measure a machine's ceilings; it is not a computation.
ceilings = _all["ceilings"]
#: The sums of ``gpp`` per tile of rows, for :mod:`adokernels.distributed`.
gpp_tiles = _all["gpp_tiles"]
globals().update(routines)
__all__ = [*routines, "routines"]  # noqa: PLE0604
