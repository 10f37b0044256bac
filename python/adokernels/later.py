"""Functions of later packages that methods of earlier ones call.

Records show and explain themselves, and ladders accept Dask arrays, with code that imports records
and ladders. :mod:`adokernels.wiring` sets these functions when the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

#: The record in a file, of any kind.
load: Callable[[Any], Any]
#: The tables of a record, which `rich` shows.
tables_of: Callable[[object], Sequence[Any]]
#: Tables in one form.
rendered: Callable[[Sequence[Any], Literal["text", "html", "markdown"]], str]
#: The chart of a record, with the arguments of ``ado.plot``.
plot: Callable[..., Any]
#: The limiter of a measurement on a machine.
limiter: Callable[[Any, Any], Any]
#: The routines by name.
routines: Callable[[], Mapping[str, Any]]
#: Whether a GPU pays off for a choice, in a sentence.
pays_off: Callable[[Any], str]
#: The call of a routine with Dask arrays.
lazy_call: Callable[..., Any]
