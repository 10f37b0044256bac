"""Comparisons: of two sweeps, for example before and after a change, or of functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from adokernels.records.forms import Length
from adokernels.records.measurement import Measurement
from adokernels.records.record import Entries, Fields, Rows, StoredRecord
from adokernels.records.shown import Plotted, ShownAsTables
from adokernels.records.statistics import Comparison, Verdict
from adokernels.records.sweep import Sweep
from adokernels.text import kind_of, percent


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedVariant(Fields):
    """One variant, measured twice; or a function, compared with the first one.

    Attributes
    ----------
    before, after
        The two measurements.
    """

    before: Measurement
    after: Measurement

    def _contradiction(self) -> str:
        try:
            self.comparison  # noqa: B018
        except ValueError as error:
            return f"after must be comparable with before: {error}"
        return ""

    def __repr__(self) -> str:
        """The comparison in a sentence."""
        return repr(self.comparison)

    @cached_property
    def comparison(self) -> Comparison:
        """The verdict on `after`, the ratio of times, and its 99.9 % interval.

        The ratio is above 1 if `after` is faster.
        """
        return self.after.compare(self.before, across_machines=True)

    @property
    def doubt(self) -> str:
        """Why the comparison is inconclusive: the reason, or the largest possible increase."""
        found = self.comparison
        if found.reason or found.verdict is Verdict.UNCLEAR:
            return found.doubt
        return f"the time may have increased by up to {percent(1 / found.interval[0] - 1)}"

    @property
    def variant(self) -> str:
        """The name of the variant."""
        return self.after.variant


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SweepComparison(StoredRecord, Rows, ShownAsTables, Plotted, Entries[ComparedVariant]):
    """The variants that two sweeps have in common, or functions compared with the first one.

    It is a sequence of :class:`ComparedVariant`.

    Attributes
    ----------
    changes
        One per variant that both sweeps measured, in ladder order; or one per function after the
        first one.
    only_before, only_after
        Names of the variants that only one of the sweeps measured.
    title
        What was compared.
    labels
        How tables and charts name the two sweeps, or the two functions; with more functions, the
        second label is "the other".
    """

    KIND = "comparison"
    _ENTRIES = ("changes",)

    changes: Annotated[tuple[ComparedVariant, ...], Length(1)]
    title: str
    labels: tuple[str, str]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per variant, in SI units.

        ``before`` and ``after`` are medians in seconds, ``ratio`` is above 1 if `after` is faster,
        and its interval of 99.9 % is from ``ci_low`` to ``ci_high``. ``withheld`` states why there
        is no verdict. ``resolution`` is the smallest difference that the run could have found. A
        value that does not apply is None.
        """
        return [
            {
                "variant": change.variant,
                "before": change.before.seconds,
                "after": change.after.seconds,
                "ratio": found.ratio,
                "ci_low": found.interval[0],
                "ci_high": found.interval[1],
                "verdict": found.verdict.value,
                "withheld": found.reason or None,
                "resolution": found.resolution if math.isfinite(found.resolution) else None,
            }
            for change in self.changes
            for found in [change.comparison]
        ]

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

        Their verdict is withheld, or the interval contains such an increase. Without a share, an
        increase that the verdict "same" permits does not count.
        """
        known = self.slower(share)
        return tuple(
            c
            for c in self.changes
            if c.comparison.reason
            or (
                c not in known
                and 1 / c.comparison.interval[0] > 1 + share
                and (share > 0 or c.comparison.verdict is Verdict.UNCLEAR)
            )
        )


def of_sweeps(
    before: Sweep | Measurement,
    after: Sweep | Measurement,
    *,
    across_machines: bool = False,
) -> SweepComparison:
    """Compare two sweeps of the same problem; see :func:`adokernels.compare`."""
    ours, theirs = (_measurements(what) for what in (after, before))
    common = [name for name in ours if name in theirs]
    if not common:
        raise ValueError(
            "before and after must have a variant in common, got "
            f"{', '.join(theirs) or 'none'} and {', '.join(ours) or 'none'}: "
            "after.compare(before) compares measurements of different variants"
        )
    for name in common:
        ours[name].compare(theirs[name], across_machines=across_machines)
    changes = tuple(ComparedVariant(before=theirs[name], after=ours[name]) for name in common)
    first = changes[0].after
    machines = [changes[0].before.machine_title, first.machine_title]
    same = machines[0] == machines[1]
    return SweepComparison(
        changes=changes,
        only_before=tuple(name for name in theirs if name not in ours),
        only_after=tuple(name for name in ours if name not in theirs),
        title=_title(first.routine, first, with_machine=same),
        labels=("before", "after") if same else (machines[0], machines[1]),
    )


def of_functions(measured: Sequence[Measurement]) -> SweepComparison:
    """Compare functions that were measured in the same rounds with the first one."""
    first, *others = measured
    return SweepComparison(
        changes=tuple(ComparedVariant(before=first, after=other) for other in others),
        title=_title("", first, with_machine=True),
        labels=(first.variant, others[0].variant if len(others) == 1 else "the other"),
    )


def _title(routine: str, m: Measurement, *, with_machine: bool) -> str:
    parts = (routine, str(m.problem), m.machine_title if with_machine else "", m.cache)
    return ", ".join(filter(None, parts))


def _measurements(record: Any) -> dict[str, Measurement]:
    """The measurements of a sweep with its peers, by name."""
    if isinstance(record, Sweep):
        return {m.variant: m for m in (*record.measurements, *record.peers)}
    if isinstance(record, Measurement):
        return {record.variant: record}
    raise ValueError(
        f"before and after must both be sweeps or measurements, or both be functions, "
        f"got {kind_of(record)}"
    )
