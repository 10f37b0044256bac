"""The published figures of docs/documents.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from adobook import published
from adobook.pages.ours import COMPUTED, GAIN, Figure, named, title_of
from adobook.published import Published
from adokernels.records.metrics import BY_KEY
from adokernels.text import ratio

#: Titles of the figures of published codes, whose own titles are "CODE: QUANTITY".
_PER_ITERATION = {
    "flops": "FLOPs per iteration",
    "fma_share": "FMAs of FP instructions",
    **{f"bytes_{level}": f"{level} per iteration" for level in ("DRAM", "L2", "L1")},
}


def published_of(letter: str) -> tuple[Published, ...]:
    """All published figures with an item of a document."""
    return tuple(p for p in _all_published() if p.item.startswith(letter))


@cache
def _all_published() -> tuple[Published, ...]:
    files = sorted(Path(published.__path__[0]).glob("*.toml"))
    return tuple(p for file in files for p in published.read(file.stem).FIGURES)


def device_of(theirs: Iterable[Published]) -> str:
    """The device of the figures of most items; empty without figures."""
    devices = Counter(device for _, device in {(p.item, p.device) for p in theirs})
    return next((device for device, _ in devices.most_common(1)), "")


def of_document(p: Published, device: str) -> Figure:
    """A published figure; its device is named if it is not `device` or any."""
    other = p.device if p.device not in (device, published.access_patterns.DEVICE) else ""
    code, _, counted = p.title.rpartition(": ")
    if code and counted == p.quantity:
        return Figure(p.variant, named(_PER_ITERATION[counted], p.text), f"{code}; {other}")
    return Figure(p.variant, named(_title(p), p.text), other)


def _title(p: Published) -> str:
    """The title of the same quantity of ours, if there is one."""
    if p.title:
        return p.title
    if p.quantity in BY_KEY:
        return title_of(p.quantity)
    return COMPUTED[p.quantity][0] if p.quantity in COMPUTED else p.shown_as


def published_gains(here: Iterable[str], known: Iterable[Published]) -> Iterator[Figure]:
    """The published ratios of times of the steps ``"a > b"``, if both times are published."""
    seconds = {p.variant: p.value for p in known if p.quantity == "seconds" and p.variant}
    for match in filter(None, map(GAIN.fullmatch, here)):
        before, after = (seconds.get(name) for name in match.groups())
        if isinstance(before, float) and isinstance(after, float):
            yield Figure("", f"`{match[1]}` to `{match[2]}` {ratio(before / after)}")
