"""Records of counts per source line: executed instructions, and accesses to memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from adokernels.records.forms import Amount, Context, Count, Grid
from adokernels.records.hotspots import Excerpt, OfLine, by_place
from adokernels.records.record import Entries, Fields, StoredRecord
from adokernels.records.shown import ShownAsTables
from adokernels.records.what_if import WhatIf

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

#: Kinds of accesses: the names of the fields of :class:`LineCounts`, and their titles.
ACCESSES: Mapping[str, str] = {
    "loads": "loads",
    "stores": "stores",
    "shared_loads": "shared loads",
    "shared_stores": "shared stores",
    "atomics": "global atomics",
    "shared_atomics": "shared atomics",
    "local_loads": "local loads",
    "local_stores": "local stores",
    "constant_loads": "constant loads",
}
#: Lanes of a warp.
WARP = 32


@dataclass(frozen=True, kw_only=True)
class Accesses(Fields):
    """Accesses of one kind.

    Transfers are sectors of 32 bytes of global or local memory, wavefronts of shared memory, or
    different addresses of constant memory. Lanes that update the same address with an atomic
    operation do so one after another: each repetition is a further sector or wavefront.
    """

    requests: Count = 0  # instructions of warps
    transfers: Count = 0
    ideal: Count = 0  # the fewest transfers for the same bytes; for atomics, without repetitions

    def __add__(self, other: Accesses) -> Accesses:
        pairs = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Accesses(**pairs)

    @property
    def per_request(self) -> float:
        """Transfers per request; 0 without requests."""
        return self.transfers / self.requests if self.requests else 0.0

    @property
    def ideal_per_request(self) -> float:
        """Ideal transfers per request; 0 without requests."""
        return self.ideal / self.requests if self.requests else 0.0

    @property
    def excess(self) -> float:
        """Share of the transfers that exceeds the ideal."""
        return max(0.0, 1 - self.ideal / self.transfers) if self.transfers else 0.0


@dataclass(frozen=True, kw_only=True)
class LineCounts(OfLine):
    """The counts of a source line, or of one machine instruction of it."""

    address: Count = 0  # address of the machine instruction in its kernel; 0 for a whole line
    instruction: str = ""  # its text; empty for a whole line
    instructions: Count  # executed by warps
    lanes: Count  # active in all executed instructions, without predicated lanes
    loads: Accesses = field(default_factory=Accesses)
    stores: Accesses = field(default_factory=Accesses)
    shared_loads: Accesses = field(default_factory=Accesses)
    shared_stores: Accesses = field(default_factory=Accesses)
    fp64: Count = 0  # FP64 instructions of threads
    atomics: Accesses = field(default_factory=Accesses)
    shared_atomics: Accesses = field(default_factory=Accesses)
    # Local memory: spilled registers (only on a GPU), and arrays indexed at run time.
    local_loads: Accesses = field(default_factory=Accesses)
    local_stores: Accesses = field(default_factory=Accesses)
    constant_loads: Accesses = field(default_factory=Accesses)  # counted only by the emulator

    @property
    def mean_lanes(self) -> float:
        """Active lanes per executed instruction, of 32."""
        return self.lanes / self.instructions if self.instructions else 0.0

    def accesses(self) -> dict[str, Accesses]:
        """The accesses of each kind that the line has, by the names of the fields."""
        found = {name: getattr(self, name) for name in ACCESSES}
        return {name: of_kind for name, of_kind in found.items() if of_kind.requests}

    @classmethod
    def summed(cls, entries: Iterable[LineCounts]) -> Self:
        """The sum of the counts of one line."""
        first, *others = entries
        counts = {
            name: sum((getattr(e, name) for e in others), getattr(first, name))
            for name in ("instructions", "lanes", "fp64", *ACCESSES)
        }
        return cls(kernel="", path=first.path, line=first.line, text=first.text, **counts)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Heatmap(StoredRecord, ShownAsTables, Entries[LineCounts]):
    """Counts of a variant per source line; a sequence of lines in the order of the source.

    Attributes
    ----------
    routine, variant, problem, block
        What was counted, as in :class:`Hotspots`.
    source
        What counted: ``"emulator"``, or the name of the GPU.
    code
        What the instructions are: ``"PTX"`` on the emulator, ``"SASS"`` on a GPU.
    entries
        The counts per line and kernel; on a GPU, per machine instruction.
    excerpts
        The code around the lines.
    gains
        The gain of an experiment on one line at a time, by file and line, for example
        ``"steps.cu:67"``; see :meth:`with_gains`.
    context
        Machine, software and settings.
    """

    KIND = "heatmap"
    _ENTRIES = ("lines",)

    routine: str
    variant: str
    problem: str
    block: Grid | None
    source: str
    code: Literal["PTX", "SASS"]
    entries: tuple[LineCounts, ...]
    excerpts: tuple[Excerpt, ...] = ()
    gains: Mapping[str, Amount] = field(default_factory=dict)
    context: Context = field(default_factory=dict)

    @cached_property
    def lines(self) -> tuple[LineCounts, ...]:
        """The counts per source line, in the order of files and lines."""
        found = by_place(self.entries)
        return tuple(LineCounts.summed(found[place]) for place in sorted(found))

    @property
    def instructions(self) -> int:
        """Executed instructions of warps of all entries."""
        return sum(entry.instructions for entry in self.entries)

    def total(self, kind: str) -> Accesses:
        """The accesses of a kind of all entries, for example ``"loads"``."""
        return sum((getattr(entry, kind) for entry in self.entries), Accesses())

    def with_gains(self, record: WhatIf) -> Heatmap:
        """Add a column with the gains of ``ado.what_if(..., per_line=True)`` on the same variant.

        Raises
        ------
        ValueError
            If the experiments are on another variant, or no sound experiment is on one line.
        """
        names = [f"{each.routine}[{each.variant}]" for each in (self, record)]
        gains = {line.place: line.gain for line in record.lines if line.verdict == "sound"}
        if names[0] != names[1] or not gains:
            raise ValueError(
                f"record must have gains of lines of {names[0]} (per_line=True), got "
                f"{len(gains)} gains of lines of {names[1]}"
            )
        return replace(self, gains=gains)

    def line_of(self, code: str) -> LineCounts:
        """The line with the most executed instructions that contains some code.

        Raises
        ------
        KeyError
            If no counted line contains it.
        """
        found = [line for line in self.lines if code in line.text]
        if not found:
            raise KeyError(f"no counted line contains {code!r}")
        return max(found, key=lambda line: line.instructions)
