"""Machine code of the kernels that a variant launches, as records that can be stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from rich.text import Text

from adokernels.records.forms import Block, Count, Fields
from adokernels.records.instructions import Code, Instruction, parsed
from adokernels.records.loops import Loop, loops_in
from adokernels.storage import StoredRecord
from adokernels.tables.rendering import ShownAsTables, new_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.table import Table

#: Maximum number of source lines per loop in the table.
_LINES = 4


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelSass(Fields, Code):
    """The machine code of one kernel.

    Attributes
    ----------
    name
        The kernel's name with its template arguments.
    block
        The block shape of the launch.
    registers
        Registers per thread.
    register_limit
        The compiler's limit on registers per thread, from launch bounds or compiler options; 255
        without them.
    most_registers
        The largest number of registers per thread that does not reduce the resident blocks; None if
        the GPU of the launch is unknown.
    listing
        The disassembly: instructions, labels and source lines.
    """

    name: str
    block: Block
    registers: Count
    register_limit: Count
    most_registers: Count | None
    listing: str

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:  # type: ignore[override]
        """The instructions, in order of their addresses."""
        return parsed(self.listing)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops, in order of their first addresses."""
        return loops_in(self.instructions)

    @property
    def main_loop(self) -> Loop | None:
        """The innermost loop that loads the most bytes from global memory per iteration.

        A kernel usually spends most of its time there. It can also have loops for other problems,
        for example for operands that are not aligned, and loops for the remainder of an unrolled
        one. None if no loop loads from global memory.
        """
        loading = [loop for loop in self.loops if loop.innermost and loop.loaded_bytes]
        return max(loading, key=lambda loop: (loop.loaded_bytes, len(loop)), default=None)

    @property
    def registers_unused(self) -> int | None:
        """Registers per thread that the kernel could use without reducing the resident blocks."""
        return None if self.most_registers is None else self.most_registers - self.registers

    def __repr__(self) -> str:
        return f"<machine code of {self.name}, {len(self.instructions)} instructions>"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Sass(StoredRecord, ShownAsTables):
    """The machine code (SASS) of the kernels that a variant launches; a sequence of them.

    Attributes
    ----------
    routine, variant
        What was disassembled.
    arch
        The architecture of the machine code: ``"sm_90"``.
    kernels
        The kernels, in order of their launches; a kernel that is launched several times with one
        block shape appears once.
    """

    KIND = "sass"

    routine: str
    variant: str
    arch: str
    kernels: tuple[KernelSass, ...] = field(default=())

    def __iter__(self) -> Iterator[KernelSass]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __getitem__(self, index: int) -> KernelSass:
        return self.kernels[index]

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of all kernels."""
        return tuple(loop for kernel in self.kernels for loop in kernel.loops)

    @property
    def loads(self) -> Mapping[int, int]:
        """The number of loads from global memory per width in bits, in all kernels."""
        return self._all.loads

    @property
    def stores(self) -> Mapping[int, int]:
        """The number of stores to global memory per width in bits, in all kernels."""
        return self._all.stores

    @property
    def opcodes(self) -> Mapping[str, int]:
        """The number of instructions per opcode with modifiers, in all kernels."""
        return self._all.opcodes

    @property
    def text(self) -> str:
        """The instructions of all kernels, each kernel below its name."""
        return "\n\n".join(f"{kernel.name}\n{kernel.text}" for kernel in self.kernels)

    @property
    def _all(self) -> Code:
        found = Code()
        found.instructions = tuple(i for kernel in self.kernels for i in kernel.instructions)
        return found

    def _tables(self) -> list[Table]:
        tables = [_kernel_table(self)]
        return [*tables, _loop_table(self)] if self.loops else tables


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
    headers = [("kernel", True), ("block", True), ("instructions", False)]
    headers += [
        ("registers", False),
        ("compiler's\nlimit", False),
        ("registers\nleft unused", False),
    ]
    headers += [(head, True) for head, _ in columns]
    title = f"{sass.routine}[{sass.variant}]: machine code for {sass.arch}"
    table = new_table(title, headers)
    for row, kernel in enumerate(sass.kernels):
        unused = kernel.registers_unused
        cells = (
            kernel.name.partition("<")[0],
            " x ".join(map(str, kernel.block)),
            str(len(kernel.instructions)),
            str(kernel.registers),
            str(kernel.register_limit),
            "unknown" if unused is None else str(unused),
            *(values[row] for _, values in columns),
        )
        table.add_row(*map(Text, cells))
    table.caption = Text(
        "Registers per thread. Left unused: available without reducing the resident blocks. "
        "Accesses: instructions x bits per thread."
    )
    return table


def _loop_table(sass: Sass) -> Table:
    loops = [(kernel, loop) for kernel in sass.kernels for loop in kernel.loops]
    columns = _accesses([loop for _, loop in loops])
    named = len(sass) > 1
    headers = [("kernel", True)] if named else []
    headers += [("first", True), ("last", True), ("depth", False), ("instructions", False)]
    headers += [(head, True) for head, _ in columns]
    headers += [("waits for\nglobal loads", False), ("source lines", True)]
    table = new_table("Loops, per iteration", headers)
    for row, (kernel, loop) in enumerate(loops):
        more = len(loop.lines) - _LINES
        cells = (
            *([kernel.name.partition("<")[0]] if named else []),
            f"{loop.first:#06x}{' (main)' if loop is kernel.main_loop else ''}",
            f"{loop.last:#06x}",
            str(loop.depth),
            str(len(loop)),
            *(values[row] for _, values in columns),
            str(loop.load_waits) if loop.innermost else "",
            ", ".join(loop.lines[:_LINES]) + (f" and {more} more" if more > 0 else ""),
        )
        table.add_row(*map(Text, cells))
    table.caption = Text(
        "Main: the innermost loop that loads the most bytes. Waits: how often an iteration waits "
        "for loads; loads that overlap count once (innermost loops only)."
    )
    return table
