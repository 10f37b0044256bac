"""Tasks of the routines: reference result, allowed error, problem sizes and sanitizer cases.

Each file of this folder defines the tasks of similar routines in ``TASKS``, and ``tasks.TASKS`` has
all of them. ``ado.sweep`` checks every variant against the reference result before timing it, and
the tests do the same.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from adokernels.model.values import SAME_VALUES, as_tuple, difference, worst_elements
from adokernels.names import computing_routines

if TYPE_CHECKING:
    from collections.abc import Collection

    from adokernels.model.task import Task

__all__ = ["SAME_VALUES", "TASKS", "as_tuple", "difference", "worst_elements"]


def discover(routines: Collection[str]) -> dict[str, Task]:
    """Import every file of this folder and return the tasks by name, in the order of `routines`.

    Raises
    ------
    ImportError
        If a routine has no task, or a task has no routine.
    """
    found: dict[str, Task] = {}
    for file in (module.name for module in pkgutil.iter_modules(__path__)):
        tasks: dict[str, Task] = importlib.import_module(f"{__name__}.{file}").TASKS
        for name in tasks.keys() - {*routines}:
            raise ImportError(f"tasks/{file}.py describes a routine that does not exist: {name}")
        found |= tasks
    for name in routines:
        if name not in found:
            raise ImportError(f"routine {name} has no task: no file in tasks/ describes it")
    return {name: found[name] for name in routines}


TASKS = discover(computing_routines())
