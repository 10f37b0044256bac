"""The record of a scan: sweeps of one routine over a range of sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from adokernels.records.forms import Length
from adokernels.records.record import Entries, StoredRecord
from adokernels.records.shown import Plotted, ShownAsTables
from adokernels.records.sweep import Sweep
from adokernels.storage import write_csv

if TYPE_CHECKING:
    from pathlib import Path

    from adokernels.records.measurement import Measurement


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scan(StoredRecord, ShownAsTables, Plotted, Entries[Sweep]):
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
    _ENTRIES = ("sweeps",)

    routine: str
    sweeps: Annotated[tuple[Sweep, ...], Length(1)]
    interrupted: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all variants in the order of measurement, then the names of all peers."""
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
