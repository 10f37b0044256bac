"""The record of a scan: sweeps of one routine over a range of sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from adokernels.conveniences import Plotted
from adokernels.fields import Length
from adokernels.measuring.records import Sweep
from adokernels.storage import StoredRecord, write_csv
from adokernels.tables.numbers import quantity, share_of_limit
from adokernels.tables.rendering import ShownAsTables, new_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.table import Table

    from adokernels.measuring.records import Measurement


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scan(StoredRecord, ShownAsTables, Plotted):
    """Measurements of one routine over a range of sizes; a sequence of sweeps.

    Attributes
    ----------
    routine
        The name of the routine.
    sweeps
        One sweep per problem, from the fewest compulsory bytes to the most.
    interrupted
        Whether Ctrl-C ended the scan. Problems may then be missing.
    """

    KIND = "scan"

    routine: str
    sweeps: Annotated[tuple[Sweep, ...], Length(1)]
    interrupted: bool = False

    def __iter__(self) -> Iterator[Sweep]:
        return iter(self.sweeps)

    def __len__(self) -> int:
        return len(self.sweeps)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all variants in the order of measurement, then those of all peers."""
        measured = [m for s in self for m in s.measurements] + [m for s in self for m in s.peers]
        return tuple(dict.fromkeys(m.variant for m in measured))

    def of(self, name: str) -> tuple[Measurement, ...]:
        """The measurements of one variant or peer; empty if there are none."""
        return tuple(m for s in self for m in (*s.measurements, *s.peers) if m.variant == name)

    def records(self) -> list[dict[str, Any]]:
        """The records of all sweeps, each with its problem and its compulsory bytes.

        See :meth:`Sweep.records`.
        """
        return [
            {"problem": str(m.problem), "bytes": m.bytes, **record}
            for s in self
            for m, record in zip((*s.measurements, *s.peers), s.records(), strict=True)
        ]

    def to_csv(self, path: str | Path) -> None:
        """Write the records as a CSV file, in SI units, with one line per measurement.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file is unchanged.
        """
        write_csv(path, self.records())

    @property
    def caches(self) -> dict[str, float]:
        """The sizes of the caches of the device in bytes, nearest first; empty if unknown."""
        first = next((m for s in self for m in s), None)
        stored = first.context.get("cache_bytes") if first else None
        return {str(k): float(v) for k, v in stored.items()} if isinstance(stored, dict) else {}

    @property
    def title(self) -> str:
        """What was measured: routine, machine, cold or warm, interrupted."""
        first = self.sweeps[0]
        machine = first.machine.title if first.machine else ""
        caches = dict.fromkeys(m.cache for m in first)
        ending = "interrupted" if self.interrupted else ""
        return ", ".join(filter(None, [self.routine, machine, *caches, ending]))

    def _tables(self) -> list[Table]:
        headers = [("problem", True), ("compulsory\nbytes", False)]
        headers += [(name, False) for name in self.names]
        table = new_table(f"{self.title}: time and share of the roof", headers)
        for found in self:
            by_name = {m.variant: m for m in (*found.measurements, *found.peers)}
            first = next(iter(by_name.values()))
            shapes = "; ".join(" x ".join(map(str, o.shape)) for o in first.problem.operands)
            cells = [shapes, quantity(first.bytes, "B")]
            cells += [_cell(found, by_name[n]) if n in by_name else "" for n in self.names]
            table.add_row(*map(Text, cells))
        return [table]


def _cell(found: Sweep, m: Measurement) -> str:
    share = found.share_of_roof(m)
    words = quantity(m.seconds, "s")
    return words if share is None else f"{words}, {share_of_limit(share)}"
