"""The published figures of docs/documents.md."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from adokernels.course import published
from adokernels.course.published import access_patterns
from adokernels.course.published.figure import Published
from adokernels.records.metrics import BY_KEY
from adokernels.text import ratio
from documents.figure import Figure, named, title_of
from documents.our_figures import COUNTED, GAIN, MEASURED
from documents.row import Document

#: Titles of the figures of published codes, whose own titles are "CODE: QUANTITY".
_PER_ITERATION = {
    "flops": "FLOPs per iteration",
    "fma_share": "FMAs of FP instructions",
    **{f"bytes_{level}": f"{level} per iteration" for level in ("DRAM", "L2", "L1")},
}


def published_of(document: Document) -> tuple[Published, ...]:
    """All published figures with an item of a document, from all modules that type figures."""
    return tuple(p for p in _all_published() if p.item.startswith(document.letter))


@cache
def _all_published() -> tuple[Published, ...]:
    found: dict[int, Published] = {}
    for module in pkgutil.iter_modules(published.__path__, f"{published.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            found |= {id(p): p for p in _figures_in(value)}
    return tuple(found.values())


def _figures_in(value: object) -> Iterator[Published]:
    if isinstance(value, Published):
        yield value
    elif isinstance(value, Mapping):
        yield from (p for part in value.values() for p in _figures_in(part))
    elif isinstance(value, tuple | list):
        yield from (p for part in value for p in _figures_in(part))


def device_of(theirs: Iterable[Published]) -> str:
    """The device of the figures of most items; empty without figures."""
    devices = Counter(device for _, device in {(p.item, p.device) for p in theirs})
    return next((device for device, _ in devices.most_common(1)), "")


def of_document(p: Published, device: str) -> Figure:
    """A published figure; its device is named if it is not `device` or any."""
    other = p.device if p.device not in (device, access_patterns.DEVICE) else ""
    code, _, counted = p.title.rpartition(": ")
    if code and counted == p.quantity:
        return Figure(p.variant, named(_PER_ITERATION[counted], p.text), f"{code}; {other}")
    return Figure(p.variant, named(_title(p), p.text), other)


def _title(p: Published) -> str:
    """The title of the same quantity of ours, if there is one."""
    computed = {**COUNTED, **MEASURED}.get(p.quantity)
    if p.quantity in BY_KEY and not p.title:
        return title_of(p.quantity)
    return computed[0] if computed and not p.title else p.shown_as


def published_gains(here: Iterable[str], known: Iterable[Published]) -> Iterator[Figure]:
    """The published ratios of times of the steps ``"a > b"``, if both times are published."""
    seconds = {p.variant: p.value for p in known if p.quantity == "seconds" and p.variant}
    for match in filter(None, map(GAIN.fullmatch, here)):
        before, after = (seconds.get(name) for name in match.groups())
        if isinstance(before, float) and isinstance(after, float):
            yield Figure("", f"`{match[1]}` to `{match[2]}` {ratio(before / after)}")
