"""Loops in machine code: natural loops of the control flow graph, and their loads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adokernels.records.instructions import Code, Instruction

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Instructions after which the next one is not executed, unless they have a predicate.
_ENDS = ("EXIT", "RET", "BRX", "BRXU", "JMX", "JMXU", "KILL", "BPT")
_JUMPS = ("BRA", "JMP", "BRX", "BRXU", "JMX", "JMXU")
#: A predicate as operand: the branch is conditional.
_PREDICATE = re.compile(r"!?U?P\d\b")


@dataclass(frozen=True)
class Loop(Code):
    """A loop of a kernel, including instructions that the compiler moved out of line.

    `first` and `last` are the addresses of its first instruction and of the branch back to it.
    `depth` is 1 for an outermost loop, 2 for a loop in it, and so on. A loop is `innermost` if it
    contains no other loop; each of its `instructions` is then executed at most once per iteration.
    """

    first: int
    last: int
    depth: int
    innermost: bool
    instructions: tuple[Instruction, ...]

    def __len__(self) -> int:
        return len(self.instructions)

    def __repr__(self) -> str:
        return f"<loop {self.first:#x} to {self.last:#x}, {len(self)} instructions>"

    @property
    def lines(self) -> tuple[str, ...]:
        """The source lines, as ``"one_block.cuh:85"``, in order of first appearance."""
        return tuple(dict.fromkeys(i.place for i in self.instructions if i.place))

    @property
    def loaded_bytes(self) -> int:
        """Bytes per thread and iteration that its instructions load from global memory.

        Asynchronous copies to shared memory count. The size of a bulk copy is unknown: it adds 0.
        """
        widths = (self.loads, self.widths("copy", "global"))
        return sum(bits // 8 * count for found in widths for bits, count in found.items())

    @property
    def load_waits(self) -> int:
        """The number of times that an iteration waits for loads from global memory.

        Loads that are issued before the first use of any of their results overlap: they count as
        one wait. A use is an instruction that names the register of a pending load. The number is
        meaningful only for an innermost loop.
        """
        pending, waits = set[int](), 0
        for count in (False, True):  # the second iteration uses what the first one has loaded
            for instruction in self.instructions:
                if pending & instruction.registers:
                    pending.clear()
                    waits += count
                access = instruction.access
                if access and (access.kind, access.space) == ("load", "global"):
                    pending |= instruction.loaded
        return waits


def loops_in(instructions: Sequence[Instruction]) -> tuple[Loop, ...]:
    """The loops of a kernel, in order of their first addresses."""
    blocks = _blocks(instructions)
    next_of = _successors(blocks)
    before = [list[int]() for _ in blocks]
    for block, targets in enumerate(next_of):
        for target in targets:
            before[target].append(block)
    # The kernel begins with the first block. Functions in its section have no predecessors.
    starts = [block for block, others in enumerate(before) if not (block and others)]
    bodies, latches = dict[int, set[int]](), dict[int, int]()
    for header, others in enumerate(before):
        # A block that is reached only through the header branches back to it.
        elsewhere = _reached(starts, next_of, without=header)
        if back := [block for block in others if block not in elsewhere]:
            bodies[header] = {header} | _reached(back, before, without=header)
            latches[header] = max(back)
    found = []
    for header, body in bodies.items():
        inside = tuple(i for block in sorted(body) for i in blocks[block])
        if len(inside) == 1:
            continue  # the endless branch after the end of a kernel
        found.append(
            Loop(
                first=blocks[header][0].address,
                last=blocks[latches[header]][-1].address,
                depth=sum(header in other for other in bodies.values()),
                innermost=not any(other in body for other in bodies if other != header),
                instructions=inside,
            )
        )
    return tuple(found)


def _reached(starts: Sequence[int], next_of: Sequence[Sequence[int]], without: int) -> set[int]:
    """The blocks that are reached from `starts` without passing through the block `without`."""
    found, waiting = set[int](), list(starts)
    while waiting:
        block = waiting.pop()
        if block != without and block not in found:
            found.add(block)
            waiting += next_of[block]
    return found


def _blocks(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """The basic blocks, in order of their addresses."""
    starts = {target for i in instructions for target in i.targets}
    blocks = list[list[Instruction]]()
    begins = True
    for instruction in instructions:
        if begins or instruction.address in starts:
            blocks.append([])
        blocks[-1].append(instruction)
        begins = instruction.name in (*_ENDS, *_JUMPS)
    return blocks


def _successors(blocks: Sequence[Sequence[Instruction]]) -> list[list[int]]:
    at = {block[0].address: index for index, block in enumerate(blocks)}
    found = []
    for index, block in enumerate(blocks):
        last = block[-1]
        jumps = last.name in _JUMPS
        targets = [at[t] for t in last.targets if jumps and t in at]
        divergent = not {"DIV", "CONV"}.isdisjoint(last.opcode.split("."))
        decided = divergent or _PREDICATE.match(last.operands)
        conditional = last.predicate or (jumps and decided)
        if (conditional or (not jumps and last.name not in _ENDS)) and index + 1 < len(blocks):
            targets.append(index + 1)
        found.append(targets)
    return found
