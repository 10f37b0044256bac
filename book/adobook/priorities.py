"""Priorities of the kernels of an application: their ranks by possible gain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adobook.published import Published
from adobook.text import Text, table
from adokernels.records.measurement import Measurement
from adokernels.text import percent, quantity


def possible_gain(m: Measurement, roof: float) -> float:
    """Time of a kernel minus the time of its compulsory bytes at `roof` bytes per second."""
    return m.seconds - m.bytes / roof


def ranks(kernels: Iterable[Measurement], roof: float) -> dict[str, float]:
    """Rank the kernels by their possible gain: 100 for the largest, others in proportion."""
    gains = {m.routine: possible_gain(m, roof) for m in kernels}
    return {routine: 100 * gain / max(gains.values()) for routine, gain in gains.items()}


def priorities(
    kernels: Iterable[Measurement],
    roof: float,
    *,
    published: Iterable[Published] = (),
    variant: str = "",
) -> Text:
    """Show the kernels of an application by rank, with the ranks of the documents beside ours.

    `roof` is the bandwidth of the limit in bytes per second. The published ranks are quantities
    such as ``rank_sobel`` of `variant`.
    """
    measured = list(kernels)
    here = ranks(measured, roof)
    total = sum(m.seconds for m in measured)
    theirs = {p.quantity: p for p in published if p.variant == variant}
    sources: Mapping[tuple[str, str], None] = dict.fromkeys(
        (p.document, p.device) for p in theirs.values() if p.quantity.startswith("rank_")
    )
    device = measured[0].machine.name if measured[0].machine else measured[0].device
    header = ["kernel", "time", "share", f"rank, {device}"]
    header += [f"rank, {document}, {name}" for document, name in sources]
    rows: list[list[object]] = []
    for m in sorted(measured, key=lambda m: -here[m.routine]):
        cells = [f"{m.routine}[{m.variant}]", quantity(m.seconds, "s")]
        cells += [percent(m.seconds / total), f"{here[m.routine]:.0f}"]
        rank = theirs.get(f"rank_{m.routine}")
        rows.append([*cells, *([rank.text if rank else None] if sources else [])])
    return table(header, rows)
