"""Tables of machine code."""

from __future__ import annotations

from rich.table import Table

from adokernels.records.instructions import Code
from adokernels.records.sass import Sass
from adokernels.tables.rendering import table_of

#: Columns of accesses: the heading, the kind and the space.
_ACCESSES = {
    "global\nloads": ("load", "global"),
    "global\nstores": ("store", "global"),
    "copies to\nshared": ("copy", "global"),
    "shared\nloads": ("load", "shared"),
    "shared\nstores": ("store", "shared"),
    "local\nloads": ("load", "local"),
}
#: Maximum number of source lines per loop in the table.
_LINES = 4


def sass_tables(sass: Sass) -> list[Table]:
    """Build the tables of machine code: kernels, and loops if there are any."""
    kernels = [
        {
            "kernel": k.name.partition("<")[0],
            "block": " x ".join(map(str, k.block)),
            "instructions": str(len(k.instructions)),
            "registers": str(k.registers),
            "compiler's\nlimit": str(k.register_limit),
            "registers\nleft unused": str(
                "unknown" if k.registers_unused is None else k.registers_unused
            ),
            **_accesses(k),
        }
        for k in sass.kernels
    ]
    loops = []
    for kernel in sass.kernels:
        for loop in kernel.loops:
            more = len(loop.lines) - _LINES
            loops.append(
                {
                    **({"kernel": kernel.name.partition("<")[0]} if len(sass) > 1 else {}),
                    "first": f"{loop.first:#06x}{' (main)' if loop is kernel.main_loop else ''}",
                    "last": f"{loop.last:#06x}",
                    "depth": str(loop.depth),
                    "instructions": str(len(loop)),
                    **_accesses(loop),
                    "waits for\nglobal loads": str(loop.load_waits) if loop.innermost else "",
                    "source lines": ", ".join(loop.lines[:_LINES])
                    + (f" and {more} more" if more > 0 else ""),
                }
            )
    title = f"{sass.routine}[{sass.variant}]: machine code for {sass.arch}"
    note = (
        "Registers per thread. Left unused: available without reducing the resident blocks. "
        "Accesses: instructions x bits per thread."
    )
    tables = [table_of(title, kernels, ("block", *_ACCESSES), notes=[note], sparse=True)]
    if loops:
        text = ("first", "last", *_ACCESSES, "source lines")
        note = (
            "Main: the innermost loop that loads the most bytes. Waits: how often an iteration "
            "waits for loads; loads that overlap count once (innermost loops only)."
        )
        tables.append(table_of("Loops, per iteration", loops, text, notes=[note], sparse=True))
    return tables


def _accesses(code: Code) -> dict[str, str]:
    """The cells of accesses, for example ``"2 x 64, 1 x 128"``."""
    cells = {}
    for header, (kind, space) in _ACCESSES.items():
        widths = code.widths(kind, space)  # type: ignore[arg-type]
        cells[header] = ", ".join(f"{n} x {b}" if b else f"{n}" for b, n in widths.items())
    return cells
