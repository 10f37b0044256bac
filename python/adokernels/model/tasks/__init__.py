"""One file per routine: reference result, allowed error, problem sizes and sanitizer cases.

``TASKS`` maps the name of each routine to its :class:`Task`. It is filled from the files of this
folder: ``tasks/<routine>.py`` defines ``TASK``. Files whose names begin with an underscore contain
shared code. ``ado.sweep`` checks every variant against the reference result before timing it, and
the tests do the same.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from adokernels.model.comparison import (
    SAME_VALUES,
    as_tuple,
    difference,
    first_difference,
    same_bytes,
)
from adokernels.model.task import SanitizerCases, Task
from adokernels.names import computing_routines

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "SAME_VALUES",
    "TASKS",
    "SanitizerCases",
    "Task",
    "as_tuple",
    "difference",
    "first_difference",
    "same_bytes",
]


def discover(routines: Collection[str]) -> dict[str, Task]:
    """Import every file of this folder and return the tasks by name, in the order of `routines`.

    Raises
    ------
    ImportError
        If a routine has no file, or a file has no routine.
    """
    names = {m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")}
    for name in routines:
        if name not in names:
            raise ImportError(f"routine {name} has no task: tasks/{name}.py is missing")
    for name in sorted(names):
        if name not in routines:
            raise ImportError(f"tasks/{name}.py describes a routine that does not exist: {name}")
    return {name: importlib.import_module(f"{__name__}.{name}").TASK for name in routines}


TASKS = discover(computing_routines())
