"""Records of hot spots: warp samples and stall reasons per source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, TypeVar

from adokernels.records.forms import Context, Count, Grid, Length, Size
from adokernels.records.record import Entries, Fields, StoredRecord
from adokernels.records.shown import ShownAsTables
from adokernels.text import percent, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NOT_ISSUED = "_not_issued"


@dataclass(frozen=True, kw_only=True)
class OfLine(Fields):
    """An entry of a source line in one kernel, or in all kernels if `kernel` is empty."""

    kernel: str  # its name with template arguments
    path: str  # relative to the repository, or as the compiler recorded it; empty if unknown
    line: Count  # 0 if unknown
    text: str  # the code of the line


Located = TypeVar("Located", bound=OfLine)


@dataclass(frozen=True, kw_only=True)
class LineSamples(OfLine):
    """The samples of one source line in one kernel.

    `reasons` has the samples per stall reason, with the names of Nsight Compute. ``"selected"`` is
    not a stall: the warp issued an instruction. `not_issued` counts the samples taken while the
    scheduler issued no instruction of any warp.
    """

    reasons: Annotated[Mapping[str, Size], Length(1)]
    not_issued: Count

    @property
    def samples(self) -> int:
        """All samples of the line."""
        return sum(self.reasons.values())


@dataclass(frozen=True, kw_only=True)
class HotLine(LineSamples):
    """The samples of one source line in all kernels of a variant; ``kernel`` is empty."""

    share: float  # fraction of the samples of all lines

    @property
    def reason(self) -> str:
        """The most frequent stall reason, for example ``"long scoreboard"``."""
        stalls = {name: n for name, n in self.reasons.items() if name != "selected"}
        return max(stalls, key=lambda name: stalls[name]).replace("_", " ") if stalls else ""

    @property
    def place(self) -> str:
        """File and line: ``"steps.cu:24"``."""
        return f"{self.path.rpartition('/')[2]}:{self.line}" if self.path else "no source line"

    def __str__(self) -> str:
        reason = f", {self.reason}" if self.reason else ""
        return visible(f"line {self.line}: {percent(self.share)} of samples{reason}")


@dataclass(frozen=True, kw_only=True)
class Excerpt(Fields):
    """Consecutive lines of a file, from `line` on, that contain a definition with samples.

    `path` is relative to the repository.
    """

    path: str
    line: Count
    text: str

    def __contains__(self, found: OfLine) -> bool:
        end = self.line + self.text.count("\n")
        return found.path == self.path and self.line <= found.line <= end


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Hotspots(StoredRecord, ShownAsTables, Entries[HotLine]):
    """Samples of the program counters of a variant's warps, by source line.

    The hardware samples warps at regular intervals. Warps spend much time at a line with many
    samples. The stall reasons show the cause. Samples of inlined code are attributed to the line on
    which the code is written.

    Attributes
    ----------
    routine, variant, problem
        What was sampled; ``problem`` describes operands and options.
    block
        The requested block shape, or None for the default.
    entries
        Samples per kernel and source line.
    excerpts
        The code around the lines.
    dropped
        Samples that the hardware dropped.
    unattributed
        Samples of kernels without a name; they are not in `entries`.
    context
        Machine, software and settings.
    """

    KIND = "hotspots"
    _ENTRIES = ("lines",)

    routine: str
    variant: str
    problem: str
    block: Grid | None
    entries: tuple[LineSamples, ...]
    excerpts: tuple[Excerpt, ...] = ()
    dropped: Count = 0
    unattributed: Count = 0
    context: Context = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """All samples of the entries."""
        return sum(entry.samples for entry in self.entries)

    @cached_property
    def lines(self) -> tuple[HotLine, ...]:
        """The source lines, those with the most samples first."""
        found = by_place(self.entries)
        lines = [_summed(entries, self.samples) for entries in found.values()]
        return tuple(sorted(lines, key=lambda line: -line.samples))

    @cached_property
    def kernels(self) -> Mapping[str, int]:
        """Samples per kernel, in descending order."""
        return _added({entry.kernel: entry.samples} for entry in self.entries)

    @cached_property
    def reasons(self) -> Mapping[str, int]:
        """Samples per stall reason over all lines, in descending order."""
        return _added(entry.reasons for entry in self.entries)


def by_place(entries: Iterable[Located]) -> dict[tuple[str, int], list[Located]]:
    """The entries of each file and line; entries without line information are omitted."""
    found: dict[tuple[str, int], list[Located]] = {}
    for entry in entries:
        if entry.path:
            found.setdefault((entry.path, entry.line), []).append(entry)
    return found


def split_reasons(names: Sequence[str], samples: Sequence[int]) -> tuple[dict[str, int], int]:
    """Separate the samples per stall reason from those without an issued instruction.

    CUPTI reports ``"long_scoreboard"``, and its subset ``"long_scoreboard_not_issued"``.
    """
    pairs = [(name, n) for name, n in zip(names, samples, strict=True) if n]
    reasons = {name: n for name, n in pairs if not name.endswith(_NOT_ISSUED)}
    return reasons, sum(n for name, n in pairs if name.endswith(_NOT_ISSUED))


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add the samples per key; the largest sum is first."""
    return dict(sum(map(Counter, counts), Counter[str]()).most_common())


def _summed(entries: Sequence[LineSamples], total: int) -> HotLine:
    first, samples = entries[0], sum(entry.samples for entry in entries)
    return HotLine(
        kernel="",
        path=first.path,
        line=first.line,
        text=first.text,
        reasons=_added(entry.reasons for entry in entries),
        not_issued=sum(entry.not_issued for entry in entries),
        share=samples / total if total else 0.0,
    )
