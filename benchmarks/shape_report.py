"""Records of timed problems, with statistics and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from random_shapes import Case
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rounds import Times
from shape_peers import COPY, OURS

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
    quantile: float

    def seconds(self, name: str) -> float:
        """Seconds per call."""
        return self.times[name].at(self.quantile)

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


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def statistics(ratios: Sequence[float]) -> dict[str, float]:
    return {
        "shapes": len(ratios),
        "geometric_mean": geometric_mean(ratios),
        "worst": min(ratios),
        f"share_below_{EQUAL}": sum(ratio < EQUAL for ratio in ratios) / len(ratios),
    }


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Statistics of our speed relative to the fastest peer, each peer, and the copy."""
    against: dict[str, list[float]] = {}
    for record in records:
        if not math.isnan(record.ratio):
            against.setdefault("best peer", []).append(record.ratio)
    for record in records:
        for name in record.times:
            if name != OURS:
                ratio = record.seconds(name) / record.ours
                against.setdefault(name, []).append(ratio)
    return {name: statistics(ratios) for name, ratios in against.items()}


def time_text(seconds: float) -> str:
    return f"{1e6 * seconds:.4g}"


def bytes_text(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def summary_table(routine: str, records: Sequence[Record]) -> Table:
    table = Table(title=f"{routine}: time of each peer / our time, {len(records)} shapes")
    for heading in ("against", "shapes", "geometric mean", "worst", f"below {EQUAL}"):
        table.add_column(heading, justify="left" if heading == "against" else "right")
    extra = {COPY}.union(*(record.extra for record in records))
    for name, found in summary(records).items():
        shapes, mean, worst, below = found.values()
        mark = " (not a peer)" if name in extra else ""
        table.add_row(name + mark, f"{shapes}", f"{mean:.2f}", f"{worst:.3f}", f"{below:.0%}")
    return table


def worst_table(records: Sequence[Record]) -> Table:
    """The problems with the smallest ratios; without peers, the smallest shares of the copy."""
    with_peers = [record for record in records if not math.isnan(record.ratio)]
    worst = sorted(with_peers, key=lambda record: record.ratio)[:WORST]
    if not worst:
        worst = sorted(records, key=lambda record: record.share_of_copy)[:WORST]
    return problem_table(f"the {len(worst)} worst", worst)


def problem_table(title: str, records: Sequence[Record]) -> Table:
    table = Table(title=title)
    headings = (
        *("shape", "dtype", "traffic", "variant", "us", "best peer", "its us", "ratio"),
        "of the copy",
    )
    for heading in headings:
        left = heading in ("shape", "dtype", "variant", "best peer")
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    for record in records:
        peer = record.best_peer
        hidden = all(record.times[name].hidden for name in (OURS, peer) if name)
        table.add_row(
            f"({', '.join(map(str, record.case.shape))})",
            record.case.dtype,
            bytes_text(record.bytes),
            escape(record.variant),
            time_text(record.ours),
            peer or "-",
            time_text(record.seconds(peer)) if peer else "-",
            ("-" if not peer else f"{record.ratio:.3f}") + ("" if hidden else "*"),
            f"{record.share_of_copy:.0%}",
        )
    return table


def phases_line(records: Sequence[Record]) -> str:
    """The total duration of each phase over all problems."""
    phases: dict[str, float] = {}
    for record in records:
        for name, seconds in record.phases.items():
            phases[name] = phases.get(name, 0) + seconds
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in phases.items())


def show(routine: str, records: Sequence[Record], console: Console) -> None:
    if not records:
        console.print(f"{routine}: no shape was timed")
        return
    console.print(summary_table(routine, records))
    console.print(worst_table(records))
    if not all(times.hidden for record in records for times in record.times.values()):
        console.print("* launch overhead included")
    reasons: dict[tuple[str, str], int] = {}
    for record in records:
        for name, reason in record.left_out.items():
            key = name, reason[:SHORT]
            reasons[key] = reasons.get(key, 0) + 1
    for (name, reason), count in reasons.items():
        console.print(escape(f"left out {name} of {count} shapes: {reason}"))
    for record in records:
        for name, reason in record.wrong.items():
            console.print(escape(f"WRONG: {name} of {record.case}: {reason}"), style="bold red")
