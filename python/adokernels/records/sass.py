"""Machine code of the kernels that a variant launches, as records that can be stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from adokernels.records.forms import Block, Count
from adokernels.records.instructions import Code, Instruction, parsed
from adokernels.records.loops import Loop, loops_in
from adokernels.records.record import Entries, Fields, StoredRecord
from adokernels.records.shown import ShownAsTables
from adokernels.text import visible


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
        The largest number of registers per thread that does not reduce the resident blocks, or None
        if the GPU of the launch is unknown.
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
        """The innermost loop that has bulk copies or loads the most bytes from global memory.

        A kernel usually spends most of its time there. It can also have loops for other problems,
        for example for operands that are not aligned, and loops for the remainder of an unrolled
        loop. It is None if no loop loads or copies from global memory.
        """

        def fed(loop: Loop) -> tuple[int, int, int]:
            return loop.count("copy", "global", bits=0), loop.loaded_bytes, len(loop)

        fed_loops = [loop for loop in self.loops if loop.innermost and any(fed(loop)[:2])]
        return max(fed_loops, key=fed, default=None)

    @property
    def registers_unused(self) -> int | None:
        """Registers per thread that the kernel could use without reducing the resident blocks."""
        return None if self.most_registers is None else self.most_registers - self.registers

    def __repr__(self) -> str:
        return visible(f"<machine code of {self.name}, {len(self.instructions)} instructions>")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Sass(StoredRecord, ShownAsTables, Code, Entries[KernelSass]):
    """The machine code (SASS) of the kernels that a variant launches; a sequence of kernels.

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
    _ENTRIES = ("kernels",)

    routine: str
    variant: str
    arch: str
    kernels: tuple[KernelSass, ...] = field(default=())

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of all kernels."""
        return tuple(loop for kernel in self.kernels for loop in kernel.loops)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:  # type: ignore[override]
        """The instructions of all kernels."""
        return tuple(i for kernel in self.kernels for i in kernel.instructions)

    @property
    def text(self) -> str:
        """The instructions of all kernels, each kernel below its name."""
        return "\n\n".join(f"{kernel.name}\n{kernel.text}" for kernel in self.kernels)
