"""Instructions of a listing of machine code, and the memory that they access."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_INSTRUCTION = re.compile(
    r"\s*/\*([0-9a-f]{4,16})\*/\s+(?:@(!?U?P[T\d]+)\s+)?([A-Z][A-Z0-9]*(?:\.\w+)*)(.*?)\s*;"
)
_LABEL = re.compile(r"(\.L_\w+):")
_NAMED = re.compile(r"\.L_\w+")
#: The position in the source of the next instructions: as nvdisasm writes it, and as it is stored.
_RECORDED = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_PLACE = re.compile(r"// (.+):(\d+)")
#: A remark of nvdisasm after the operands, for example the labels of an indirect branch.
_NOTE = re.compile(r'\(\*".*?"\*\)')
_REGISTER = re.compile(r"\bR(\d+)\b")

Kind = Literal["load", "store", "copy", "atomic"]
Space = Literal["global", "shared", "local", "constant", "generic"]
#: What the memory instructions do. A copy moves data between global and shared memory.
_ACCESSES: Mapping[str, tuple[Kind, Space]] = {
    "LDG": ("load", "global"),
    "STG": ("store", "global"),
    "ATOMG": ("atomic", "global"),
    "RED": ("atomic", "global"),
    "REDG": ("atomic", "global"),
    "LDGSTS": ("copy", "global"),
    "UBLKCP": ("copy", "global"),
    "UTMALDG": ("copy", "global"),
    "UTMASTG": ("copy", "global"),
    "LDS": ("load", "shared"),
    "LDSM": ("load", "shared"),
    "STS": ("store", "shared"),
    "STSM": ("store", "shared"),
    "ATOMS": ("atomic", "shared"),
    "LDL": ("load", "local"),
    "STL": ("store", "local"),
    "LDC": ("load", "constant"),
    "LDCU": ("load", "constant"),
    "ULDC": ("load", "constant"),
    "LD": ("load", "generic"),
    "ST": ("store", "generic"),
    "ATOM": ("atomic", "generic"),
}
_BULK = ("UBLKCP", "UTMALDG", "UTMASTG")
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
_REGISTER_BITS = 32


class Access(NamedTuple):
    """A kind of memory access.

    Attributes
    ----------
    kind
        ``"load"``, ``"store"``, ``"atomic"``, or ``"copy"`` between global and shared memory.
    space
        ``"global"``, ``"shared"``, ``"local"``, ``"constant"``, or ``"generic"`` if the address
        determines it.
    bits
        Bits per thread; 0 for a bulk copy, because its size is in a register.
    """

    kind: Kind
    space: Space
    bits: int


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    Attributes
    ----------
    address
        Its address in bytes from the start of the kernel.
    predicate
        The predicate, for example ``"!P0"``; empty if the instruction is always executed.
    opcode
        With all modifiers: ``"LDG.E.64"``.
    operands
        The operands as text.
    targets
        The addresses of the labels in the operands.
    path, line
        The source line; empty and 0 without line information.
    """

    address: int
    predicate: str
    opcode: str
    operands: str
    targets: tuple[int, ...] = ()
    path: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        """The opcode without modifiers: ``"LDG"``."""
        return self.opcode.partition(".")[0]

    @property
    def access(self) -> Access | None:
        """The memory access; None for an instruction that accesses no memory."""
        if self.name not in _ACCESSES:
            return None
        kind, space = _ACCESSES[self.name]
        return Access(kind, space, self._bits())

    def _bits(self) -> int:
        if self.name in _BULK:
            return 0
        modifiers = self.opcode.split(".")[1:]
        if self.name in ("LDSM", "STSM"):  # 8x8 matrices: one register per thread and matrix
            count = modifiers[-1]
            return _REGISTER_BITS * (int(count) if count.isdecimal() and len(count) == 1 else 1)
        return next((_WIDTHS[m] for m in modifiers if m in _WIDTHS), _REGISTER_BITS)

    @property
    def registers(self) -> frozenset[int]:
        """The numbers of the general registers that the operands name."""
        return frozenset(int(number) for number in _REGISTER.findall(self.operands))

    @property
    def loaded(self) -> frozenset[int]:
        """The registers that a load writes; empty for other instructions."""
        access = self.access
        first = _REGISTER.match(self.operands)
        if access is None or access.kind != "load" or first is None:
            return frozenset()
        count = max(access.bits // _REGISTER_BITS, 1)
        return frozenset(range(int(first[1]), int(first[1]) + count))

    @property
    def place(self) -> str:
        """File and line: ``"one_block.cuh:85"``; empty without line information."""
        return f"{self.path.rpartition('/')[2]}:{self.line}" if self.path else ""

    def __str__(self) -> str:
        predicate = f"@{self.predicate} " if self.predicate else ""
        return f"{self.address:04x}  {predicate + self.opcode:<24} {self.operands}".rstrip()


class Code:
    """Instructions, and counts of them.

    Attributes
    ----------
    instructions : tuple of Instruction
        The instructions, in order of their addresses.
    """

    instructions: tuple[Instruction, ...]

    @property
    def opcodes(self) -> Mapping[str, int]:
        """The number of instructions per opcode with modifiers, most frequent first."""
        return dict(Counter(i.opcode for i in self.instructions).most_common())

    @property
    def accesses(self) -> Mapping[Access, int]:
        """The number of instructions per kind of memory access, in a fixed order."""
        found = Counter(access for i in self.instructions if (access := i.access))
        return dict(sorted(found.items()))

    def count(
        self, kind: Kind | None = None, space: Space | None = None, bits: int | None = None
    ) -> int:
        """The number of memory instructions of a kind, in a space, of a width."""
        return sum(
            n
            for a, n in self.accesses.items()
            if kind in (None, a.kind) and space in (None, a.space) and bits in (None, a.bits)
        )

    @property
    def loads(self) -> Mapping[int, int]:
        """The number of loads from global memory per width in bits."""
        return self.widths("load", "global")

    @property
    def stores(self) -> Mapping[int, int]:
        """The number of stores to global memory per width in bits."""
        return self.widths("store", "global")

    def widths(self, kind: Kind, space: Space) -> Mapping[int, int]:
        """The number of accesses per width in bits."""
        found = {a.bits: n for a, n in self.accesses.items() if (a.kind, a.space) == (kind, space)}
        return dict(sorted(found.items()))

    @property
    def text(self) -> str:
        """The instructions, one per line, with the source line above each group."""
        return "\n".join(_lines(self.instructions))


def parsed(listing: str) -> tuple[Instruction, ...]:
    """The instructions of a listing of nvdisasm or of :func:`cleaned`, without padding at the end.

    Lines that contain no instruction are ignored.
    """
    rows = [_row(line) for line in listing.splitlines()]
    addresses, waiting = dict[str, int](), list[str]()
    for row in rows:
        if isinstance(row, str):
            waiting.append(row)
        elif isinstance(row, re.Match):
            addresses.update((label, int(row[1], 16)) for label in waiting)
            waiting.clear()
    found, path, line = list[Instruction](), "", 0
    for row in rows:
        if isinstance(row, tuple):
            path, line = row
        elif isinstance(row, re.Match):
            labels = _NAMED.findall(row[4])
            operands = _NOTE.sub("", row[4]).strip()
            targets = tuple(addresses[label] for label in labels if label in addresses)
            for label in labels:
                if label in addresses:
                    operands = operands.replace(f"`({label})", f"{addresses[label]:#x}")
            found.append(
                Instruction(int(row[1], 16), row[2] or "", row[3], operands, targets, path, line)
            )
    while found and found[-1].opcode == "NOP":
        found.pop()
    return tuple(found)


def _row(line: str) -> str | tuple[str, int] | re.Match[str] | None:
    """A label, a source line, an instruction, or nothing."""
    if match := _INSTRUCTION.match(line):
        return match
    if match := _LABEL.match(line):
        return match[1]
    if match := _PLACE.fullmatch(line.strip()) or _RECORDED.match(line):
        return match[1], int(match[2])
    return None


def cleaned(listing: str, path_of: Callable[[str], str]) -> str:
    """A listing of nvdisasm with instructions, labels and source lines only.

    Parameters
    ----------
    listing
        What nvdisasm printed.
    path_of
        Returns the name of a source file for the recorded path.
    """

    def lines() -> Iterator[str]:
        for line in listing.splitlines():
            row = _row(line)
            if isinstance(row, str):
                yield f"{row}:"
            elif isinstance(row, tuple):
                yield f"// {path_of(row[0])}:{row[1]}"
            elif row is not None:
                yield " ".join(line.split())

    return "\n".join(lines())


def _lines(instructions: tuple[Instruction, ...]) -> Iterator[str]:
    place = ("", 0)
    for instruction in instructions:
        if (instruction.path, instruction.line) != place:
            place = (instruction.path, instruction.line)
            yield f"      // {instruction.path}:{instruction.line}"
        yield str(instruction)
