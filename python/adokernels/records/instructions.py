"""Instructions of a listing of machine code, and the memory that they access."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

from adokernels.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_INSTRUCTION = re.compile(
    r"\s*/\*([0-9a-f]{4,16})\*/\s+(?:@(!?U?P[T\d]+)\s+)?([A-Z][A-Z0-9]*(?:\.\w+)*)(.*?)\s*;"
)
_LABEL = re.compile(r"(\.L_\w+):")
_NAMED = re.compile(r"\.L_\w+")
_REFERENCE = re.compile(r"`\((\.L_\w+)\)")
#: The position in the source of the next instructions: as nvdisasm writes it, and as it is stored.
_RECORDED = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_PLACE = re.compile(r"// (.+):(\d+)")
#: A remark of nvdisasm after the operands, for example the labels of an indirect branch.
_NOTE = re.compile(r'\(\*".*?"\*\)')
_REGISTER = re.compile(r"\bR(\d+)\b")

Kind = Literal["load", "store", "copy", "atomic"]
Space = Literal["global", "shared", "local", "constant", "generic"]
#: The instructions per kind of access. A copy moves data between global and shared memory.
_OPCODES: Mapping[tuple[Kind, Space], str] = {
    ("load", "global"): "LDG",
    ("store", "global"): "STG",
    ("copy", "global"): "LDGSTS UBLKCP UTMALDG UTMASTG",
    ("atomic", "global"): "ATOMG RED REDG",
    ("load", "shared"): "LDS LDSM",
    ("store", "shared"): "STS STSM",
    ("atomic", "shared"): "ATOMS",
    ("load", "local"): "LDL",
    ("store", "local"): "STL",
    ("load", "constant"): "LDC LDCU ULDC",
    ("load", "generic"): "LD",
    ("store", "generic"): "ST",
    ("atomic", "generic"): "ATOM",
}
_ACCESSES = {opcode: access for access, names in _OPCODES.items() for opcode in names.split()}
_BULK = ("UBLKCP", "UTMALDG", "UTMASTG")
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
_REGISTER_BITS = 32


class Access(NamedTuple):
    """A kind of memory access: a :data:`Kind` in a :data:`Space`, with the bits per thread.

    A copy is between global and shared memory. The space is ``"generic"`` if the address determines
    it. `bits` is 0 for a bulk copy, because its size is in a register.
    """

    kind: Kind
    space: Space
    bits: int


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    `address` is in bytes from the start of the kernel. `predicate`, for example ``"!P0"``, is empty
    if the instruction is always executed. `opcode` has all modifiers: ``"LDG.E.64"``. `targets` are
    the addresses of the labels in `operands`. `path` and `line` are the source line; empty and 0
    without line information.
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
        text = f"{self.address:04x}  {predicate + self.opcode:<24} {self.operands}"
        return visible(text.rstrip())


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
        lines = []
        for (path, line), group in groupby(self.instructions, lambda i: (i.path, i.line)):
            lines += [f"      // {path}:{line}"] if path else []
            lines += map(str, group)
        return "\n".join(lines)


def parsed(listing: str) -> tuple[Instruction, ...]:
    """The instructions of a listing of nvdisasm or of :func:`cleaned`, without padding at the end.

    Lines that contain no instruction are ignored.
    """
    rows, addresses, labels = list[tuple[re.Match[str], str, int]](), dict[str, int](), list[str]()
    path, line = "", 0
    for row in map(_row, listing.splitlines()):
        if isinstance(row, str):
            labels.append(row)
        elif isinstance(row, tuple):
            path, line = row
        elif row:
            addresses |= dict.fromkeys(labels, int(row[1], 16))
            labels.clear()
            rows.append((row, path, line))

    def resolved(label: re.Match[str]) -> str:
        return f"{addresses[label[1]]:#x}" if label[1] in addresses else label[0]

    found = []
    for row, path, line in rows:
        targets = tuple(addresses[label] for label in _NAMED.findall(row[4]) if label in addresses)
        operands = _REFERENCE.sub(resolved, _NOTE.sub("", row[4])).strip()
        address, predicate, opcode = int(row[1], 16), row[2] or "", row[3]
        found.append(Instruction(address, predicate, opcode, operands, targets, path, line))
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

    `path_of` returns the name of a source file for the recorded path.
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
