"""Tables of machine code."""

from __future__ import annotations

from rich.table import Table

from adokernels.records.instructions import Code
from adokernels.records.sass import Sass
from adokernels.tables.rendering import new_table

#: Maximum number of source lines per loop in the table.
_LINES = 4


def sass_tables(sass: Sass) -> list[Table]:
    """Build the tables of machine code: kernels, and loops if there are any."""
    tables = [_kernel_table(sass)]
    return [*tables, _loop_table(sass)] if sass.loops else tables


def _widths(code: Code, kind: str, space: str) -> str:
    """For example ``"2 x 64, 1 x 128"``."""
    found = code.widths(kind, space)  # type: ignore[arg-type]
    return ", ".join(f"{count} x {bits}" if bits else f"{count}" for bits, count in found.items())


#: Columns of accesses: the heading, the kind and the space.
_COLUMNS = (
    ("global\nloads", "load", "global"),
    ("global\nstores", "store", "global"),
    ("copies to\nshared", "copy", "global"),
    ("shared\nloads", "load", "shared"),
    ("shared\nstores", "store", "shared"),
    ("local\nloads", "load", "local"),
)


def _accesses(codes: list[Code]) -> list[tuple[str, list[str]]]:
    """The columns of accesses that are not empty: heading and cells."""
    columns = [(head, [_widths(c, kind, space) for c in codes]) for head, kind, space in _COLUMNS]
    return [(head, cells) for head, cells in columns if any(cells)]


def _kernel_table(sass: Sass) -> Table:
    columns = _accesses(list(sass.kernels))
    accesses = [head for head, _ in columns]
    headers = ["kernel", "block", "instructions", "registers", "compiler's\nlimit"]
    headers += ["registers\nleft unused", *accesses]
    title = f"{sass.routine}[{sass.variant}]: machine code for {sass.arch}"
    table = new_table(title, headers, left=["block", *accesses])
    for row, kernel in enumerate(sass.kernels):
        unused = kernel.registers_unused
        table.add_row(
            kernel.name.partition("<")[0],
            " x ".join(map(str, kernel.block)),
            str(len(kernel.instructions)),
            str(kernel.registers),
            str(kernel.register_limit),
            "unknown" if unused is None else str(unused),
            *(values[row] for _, values in columns),
        )
    table.caption = (
        "Registers per thread. Left unused: available without reducing the resident blocks. "
        "Accesses: instructions x bits per thread."
    )
    return table


def _loop_table(sass: Sass) -> Table:
    loops = [(kernel, loop) for kernel in sass.kernels for loop in kernel.loops]
    columns = _accesses([loop for _, loop in loops])
    named = len(sass) > 1
    accesses = [head for head, _ in columns]
    headers = [*(["kernel"] if named else []), "first", "last", "depth", "instructions"]
    headers += [*accesses, "waits for\nglobal loads", "source lines"]
    left = ["first", "last", *accesses, "source lines"]
    table = new_table("Loops, per iteration", headers, left=left)
    for row, (kernel, loop) in enumerate(loops):
        more = len(loop.lines) - _LINES
        table.add_row(
            *([kernel.name.partition("<")[0]] if named else []),
            f"{loop.first:#06x}{' (main)' if loop is kernel.main_loop else ''}",
            f"{loop.last:#06x}",
            str(loop.depth),
            str(len(loop)),
            *(values[row] for _, values in columns),
            str(loop.load_waits) if loop.innermost else "",
            ", ".join(loop.lines[:_LINES]) + (f" and {more} more" if more > 0 else ""),
        )
    table.caption = (
        "Main: the innermost loop that loads the most bytes. Waits: how often an iteration waits "
        "for loads; loads that overlap count once (innermost loops only)."
    )
    return table
