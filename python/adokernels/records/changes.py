"""Comparing two sweeps of the same ladder, for example before and after a change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adokernels.records.loading import load
from adokernels.records.measurement import Measurement, side_by_side
from adokernels.records.record import Entries
from adokernels.records.shown import Plotted, ShownAsTables
from adokernels.records.statistics import Comparison, Verdict
from adokernels.records.sweep import Sweep


@dataclass(frozen=True)
class ComparedVariant:
    """One variant, measured twice.

    Attributes
    ----------
    before, after
        The two measurements.
    comparison
        The verdict on `after`, the ratio of times (above 1 if `after` is faster) and its 99.9 %
        interval.
    """

    before: Measurement
    after: Measurement
    comparison: Comparison

    @property
    def variant(self) -> str:
        """The name of the variant."""
        return self.after.variant


@dataclass(frozen=True, repr=False)
class SweepComparison(ShownAsTables, Plotted, Entries[ComparedVariant]):
    """The variants that two sweeps have in common; a sequence of :class:`ComparedVariant`.

    Attributes
    ----------
    changes
        One per variant that both sweeps measured, in ladder order.
    only_before, only_after
        Names of the variants that only one of the sweeps measured.
    title
        What was compared.
    labels
        How tables and charts name the two sweeps.
    """

    _ENTRIES = ("changes",)

    changes: tuple[ComparedVariant, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    title: str
    labels: tuple[str, str]

    def slower(self, share: float = 0.0) -> tuple[ComparedVariant, ...]:
        """The variants that became slower by more than a share of their time.

        Only variants with the verdict ``"slower"`` are included, so noise is not reported.

        Parameters
        ----------
        share
            The largest increase of the time that is allowed, for example 0.05.
        """
        return tuple(
            c
            for c in self.changes
            if c.comparison.verdict is Verdict.SLOWER and 1 / c.comparison.ratio > 1 + share
        )

    def inconclusive(self, share: float = 0.0) -> tuple[ComparedVariant, ...]:
        """The variants for which it is unknown whether they became slower by more than a share.

        Their verdict is withheld, or it is "unclear" and the interval contains such an increase.
        """
        return tuple(
            c
            for c in self.changes
            if c.comparison.reason
            or (
                c.comparison.verdict is Verdict.UNCLEAR and 1 / c.comparison.interval[0] > 1 + share
            )
        )


def compare(
    before: Sweep | Measurement | str | Path,
    after: Sweep | Measurement | str | Path,
    *,
    across_machines: bool = False,
) -> SweepComparison:
    """Compare two sweeps of the same problem, variant by variant.

    Samples of two runs are never paired, so a difference of less than 5 % is neither "faster" nor
    "slower".

    Parameters
    ----------
    before, after
        Sweeps, single measurements, or the paths of their files.
    across_machines
        Whether the two may come from different machines. The result then names the machines.

    Returns
    -------
    SweepComparison
        One comparison per variant that both contain, ceilings and peers included.

    Raises
    ------
    ValueError
        If the problems differ, if one is cold and the other warm, if the machines differ and
        `across_machines` is false, if they have no variant in common, or if a file does not
        contain a sweep or a measurement.
    OSError
        If a file cannot be read.
    """
    ours, theirs = (_measurements(what) for what in (after, before))
    common = [name for name in ours if name in theirs]
    if not common:
        raise ValueError(
            "before and after must have a variant in common, got "
            f"{', '.join(theirs) or 'none'} and {', '.join(ours) or 'none'}"
        )
    changes = tuple(
        ComparedVariant(
            before=before,
            after=after,
            comparison=after.compare(before, across_machines=across_machines),
        )
        for before, after in (side_by_side((theirs[name], ours[name])) for name in common)
    )
    first = changes[0].after
    machines = [changes[0].before.machine_title, first.machine_title]
    same = machines[0] == machines[1]
    parts = [first.routine, str(first.problem), *(machines[:1] if same else []), first.cache]
    return SweepComparison(
        changes=changes,
        only_before=tuple(name for name in theirs if name not in ours),
        only_after=tuple(name for name in ours if name not in theirs),
        title=", ".join(filter(None, parts)),
        labels=("before", "after") if same else (machines[0], machines[1]),
    )


def _measurements(what: Sweep | Measurement | str | Path) -> dict[str, Measurement]:
    """The measurements of a sweep with its peers, by name."""
    record: Any = load(what) if isinstance(what, (str, Path)) else what
    if isinstance(record, Sweep):
        return {m.variant: m for m in (*record.measurements, *record.peers)}
    if isinstance(record, Measurement):
        return {record.variant: record}
    kind = type(record).__name__
    raise ValueError(f"before and after must be sweeps or measurements, got {kind}")
