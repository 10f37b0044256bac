"""Tasks of the routines: reference result, allowed error, problem sizes and sanitizer cases.

Each file of this folder defines the tasks of similar routines in ``TASKS``, and ``tasks.TASKS`` has
all of them. ``ado.sweep`` checks every variant against the reference result before timing it, and
the tests do the same.
"""

from __future__ import annotations

import importlib
import pkgutil

from adokernels.model.task import Task
from adokernels.model.values import SAME_VALUES, as_tuple, difference, worst_elements
from adokernels.names import computing_routines

__all__ = ["SAME_VALUES", "TASKS", "as_tuple", "difference", "worst_elements"]

_modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
_tasks = {name: task for module in _modules for name, task in module.TASKS.items()}
#: The tasks in the order of the core's routines.
TASKS: dict[str, Task] = {name: _tasks[name] for name in computing_routines()}
