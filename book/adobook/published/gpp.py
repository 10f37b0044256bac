"""Figures that are published for GPP: a post, a paper, counted codes, and ceilings of a V100."""

from __future__ import annotations

from collections import defaultdict

from adobook.published import read
from adokernels.charts.published import PublishedPoint, PublishedPoints
from adokernels.records.machine import Ceiling, Machine

#: The documents, as tables name them.
POST, PAPER, CODES = "Post", "Paper", "Codes"
_READ = read("gpp")
V100, FIGURES = _READ.DEVICE, _READ.FIGURES

#: A V100 with the ceilings that were measured with a simpler kernel of the same family.
V100_MACHINE = Machine(
    device="cuda",
    name=V100,
    threads=0,
    ceilings=tuple(Ceiling(**ceiling) for ceiling in _READ.MACHINE["ceilings"]),
    context={"source": _READ.MACHINE["source"]},
)
#: Bytes of L2, and of L1 with shared memory per multiprocessor, from the data sheets.
V100_L2, V100_L1, HOPPER_L1 = 6 << 20, 128 << 10, 256 << 10


def figure(quantity: str, variant: str = "", document: str = POST) -> float:
    """One number, by its quantity and variant."""
    for p in FIGURES:
        if (p.quantity, p.variant, p.document) == (quantity, variant, document):
            return float(p.value)
    raise KeyError(
        f"no published {quantity!r} of {variant or 'the machine'} in the {document.lower()}"
    )


def counted_codes() -> dict[str, dict[str, float]]:
    """FLOPs and bytes of the published codes per iteration, by code and quantity."""
    codes: dict[str, dict[str, float]] = defaultdict(dict)
    for p in _READ.CODES:
        codes[p.title.rpartition(": ")[0]][p.quantity] = p.value
    return dict(codes)


def _step(label: str, intensity: str = "", rate: str = "", document: str = POST) -> PublishedPoint:
    levels = {"DRAM": figure("intensity_DRAM", intensity, document)} if intensity else {}
    flops = figure("flops_per_second", rate, document) if rate else None
    return PublishedPoint(label=label, flops_per_second=flops, intensities=levels)


#: The points of the post and of the paper.
STEPS = PublishedPoints(machine=V100_MACHINE, points=tuple(_step(**step) for step in _READ.STEPS))
#: The simpler kernel with 1 and with 6 frequencies.
SIMPLER = PublishedPoints(
    machine=V100_MACHINE, points=tuple(PublishedPoint(**point) for point in _READ.SIMPLER)
)
