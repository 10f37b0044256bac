"""Functions of later packages that methods of earlier ones call.

A package can import only earlier packages. Methods of records and ladders call these functions of
later packages, for example to show a record. :mod:`adokernels.wiring` sets the functions when
adokernels is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

#: Read a record of any kind from a file.
load: Callable[[Any], Any]
#: The tables of a record, which `rich` shows.
tables_of: Callable[[object], Sequence[Any]]
#: Tables as text in one format.
rendered: Callable[[Sequence[Any], Literal["text", "html", "markdown"]], str]
#: The chart of a record, with the arguments of ``ado.plot``.
plot: Callable[..., Any]
#: The limiter of a measurement on a machine.
limiter: Callable[[Any, Any], Any]
#: The routines by name.
routines: Callable[[], Mapping[str, Any]]
#: The call of a routine with Dask arrays.
lazy_call: Callable[..., Any]
