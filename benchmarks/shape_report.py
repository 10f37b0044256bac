"""Records of timed problems, with statistics and tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from random_shapes import Case
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rounds import Times
from shape_peers import COPY, OURS

from adokernels.tables.rendering import new_table
from adokernels.tables.rendering import show as show_tables
from adokernels.text import quantity

EQUAL = 0.97  # minimum ratio at which two times count as equal
WORST = 10  # rows of the table
SHORT = 64  # maximum number of characters of a reason


@dataclass(frozen=True)
class Record:
    """One problem, the variant that ran, and the times of all functions."""

    case: Case
    variant: str
    bytes: float
    times: Mapping[str, Times]
    wrong: Mapping[str, str]
    left_out: Mapping[str, str]
    phases: Mapping[str, float]
    extra: frozenset[str]  # functions that do not count as peers

    def seconds(self, name: str) -> float:
        """Seconds per call."""
        return self.times[name].at(0.5)

    @property
    def ours(self) -> float:
        """Our seconds per call."""
        return self.seconds(OURS)

    @property
    def peers(self) -> dict[str, float]:
        """Seconds of the peers that count."""
        without = {OURS, COPY, *self.extra}
        return {name: self.seconds(name) for name in self.times if name not in without}

    @property
    def best_peer(self) -> str:
        """The name of the fastest peer; empty without peers."""
        peers = self.peers
        return min(peers, key=peers.__getitem__) if peers else ""

    @property
    def ratio(self) -> float:
        """Time of the fastest peer divided by our time; NaN without peers."""
        peers = self.peers
        return min(peers.values()) / self.ours if peers else math.nan

    @property
    def share_of_copy(self) -> float:
        """Time of the copy divided by our time."""
        return self.seconds(COPY) / self.ours

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON types."""
        return {
            "shape": self.case.shape,
            "dtype": self.case.dtype,
            "variant": self.variant,
            "bytes": self.bytes,
            "times": {name: times.to_dict() for name, times in self.times.items()},
            "ratio": None if math.isnan(self.ratio) else self.ratio,
            "best_peer": self.best_peer,
            "share_of_copy": self.share_of_copy,
            "wrong": dict(self.wrong),
            "left_out": dict(self.left_out),
            "phases": dict(self.phases),
        }


def statistics_of(ratios: Sequence[float]) -> dict[str, float]:
    return {
        "shapes": len(ratios),
        "geometric_mean": geometric_mean(ratios),
        "worst": min(ratios),
        f"share_below_{EQUAL}": sum(ratio < EQUAL for ratio in ratios) / len(ratios),
    }


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Statistics of our speed relative to the fastest peer, each peer, and the copy."""
    against: dict[str, list[float]] = {
        "best peer": [record.ratio for record in records if record.best_peer]
    }
    for record in records:
        for name in record.times:
            if name != OURS:
                against.setdefault(name, []).append(record.seconds(name) / record.ours)
    return {name: statistics_of(ratios) for name, ratios in against.items() if ratios}


def summary_table(routine: str, records: Sequence[Record]) -> Table:
    table = new_table(
        f"{routine}: time of each peer / our time, {len(records)} shapes",
        ["against", "shapes", "geometric mean", "worst", f"below {EQUAL}"],
    )
    extra = {COPY}.union(*(record.extra for record in records))
    for name, found in summary(records).items():
        shapes, mean, worst, below = found.values()
        mark = " (not a peer)" if name in extra else ""
        table.add_row(name + mark, f"{shapes}", f"{mean:.2f}", f"{worst:.3f}", f"{below:.0%}")
    return table


def worst_table(records: Sequence[Record]) -> Table:
    """The problems with the smallest ratios; without peers, the smallest shares of the copy."""
    worst = sorted((r for r in records if r.best_peer), key=lambda record: record.ratio)
    worst = (worst or sorted(records, key=lambda record: record.share_of_copy))[:WORST]
    headers = ("shape", "dtype", "variant", "best peer", "traffic", "time", "its time", "ratio")
    table = new_table(f"the {len(worst)} worst", [*headers, "of the copy"], left=headers[:4])
    for record in worst:
        peer = record.best_peer
        hidden = all(record.times[name].hidden for name in (OURS, peer) if name)
        table.add_row(
            f"({', '.join(map(str, record.case.shape))})",
            record.case.dtype,
            record.variant,
            peer or "-",
            quantity(record.bytes, "B"),
            quantity(record.ours, "s"),
            quantity(record.seconds(peer), "s") if peer else "-",
            (f"{record.ratio:.3f}" if peer else "-") + ("" if hidden else "*"),
            f"{record.share_of_copy:.0%}",
        )
    return table


def phases_line(records: Sequence[Record]) -> str:
    """The total duration of each phase over all problems."""
    phases: Counter[str] = Counter()
    for record in records:
        phases.update(record.phases)
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in phases.items())


def show(routine: str, records: Sequence[Record], console: Console) -> None:
    if not records:
        console.print(f"{routine}: no shape was timed")
        return
    show_tables(console, [summary_table(routine, records), worst_table(records)])
    if not all(times.hidden for record in records for times in record.times.values()):
        console.print("* launch overhead included")
    reasons = Counter(
        (name, reason[:SHORT]) for record in records for name, reason in record.left_out.items()
    )
    for (name, reason), count in reasons.items():
        console.print(escape(f"left out {name} of {count} shapes: {reason}"))
    for record in records:
        for name, reason in record.wrong.items():
            console.print(escape(f"WRONG: {name} of {record.case}: {reason}"), style="bold red")
