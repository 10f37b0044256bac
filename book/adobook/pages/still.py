"""docs/results/still.md: the gain of each step on each GPU model, published and measured here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import adokernels as ado
from adobook.pages.stored import fill_template
from adobook.published import Published, average_matvec, gpp, image_filters, max_plus
from adobook.text import write_table
from adokernels.model.tasks import TASKS
from adokernels.records.statistics import Verdict
from adokernels.text import ratio

#: A published step helps if its gain is above this value.
_HELPS = 1.01
#: The published figures of each routine.
_FIGURES: Mapping[str, Sequence[Published]] = {
    "gaussian_blur": image_filters.FIGURES,
    "average_matvec": average_matvec.FIGURES,
    "max_plus": max_plus.FIGURES,
    "gpp": gpp.FIGURES,
}

#: The time of each variant, relative to one of them.
Times = dict[str, float]


def text(sweeps: Mapping[str, ado.records.Sweep]) -> str:
    """Return the page as Markdown; `sweeps` may come from several GPU models."""
    parts = []
    for routine in ado.routines:
        for problem in TASKS[routine].benchmark_problems:
            ladder = f"{routine}-{problem}"  # also the end of "gpus/MODEL/LADDER"
            found = [s for name, s in sweeps.items() if name.rpartition("/")[2] == ladder]
            if table := _table(routine, {s.machine.name: s for s in found if s.machine}):
                parts += [f"## {ladder}", table]
    return fill_template("still.md", ladders="\n\n".join(parts))


def _table(routine: str, stored: Mapping[str, ado.records.Sweep]) -> str:
    """One row per step; empty without records or steps."""
    documents = _published_times(routine)
    pairs = list(_pairs(routine, [*documents.values()], [*stored.values()]))
    if not stored or not pairs:
        return ""
    rows = []
    for before, after in pairs:
        gains = [
            times[before] / times[after] if {before, after} <= times.keys() else None
            for times in documents.values()
        ]
        found = [_comparison(sweep, before, after) for sweep in stored.values()]
        helped = any(gain and gain > _HELPS for gain in gains)
        cells = [*gains, *(c.ratio if c else None for c in found)]
        shown = ["" if gain is None else ratio(gain) for gain in cells]
        rows.append((f"`{before}` to `{after}`", *shown, _still(helped, bool(any(gains)), found)))
    return write_table(["step", *documents, *stored, "still helps"], rows)


def _still(helped: bool, known: bool, found: Sequence[ado.records.Comparison | None]) -> str:
    """Whether a step still helps, from the newest model that measured it."""
    last = next((c for c in reversed(found) if c), None)
    if last is None:
        return "not measured"
    if last.verdict is Verdict.UNCLEAR:
        return "unclear"
    helps = last.verdict is Verdict.FASTER
    return ("yes" if helps else "no") + (", as published" if known and helped == helps else "")


def _pairs(
    routine: str, documents: Sequence[Times], sweeps: Sequence[ado.records.Sweep]
) -> Iterator[tuple[str, str]]:
    """The steps that a sweep or a document has, in ladder order."""
    named = [[m.variant for m in sweep.variants] for sweep in sweeps]
    # Stored ladders can have variants that the package no longer has.
    known = [variant.name for variant in ado.routines[routine]]
    order = list(dict.fromkeys([*known, *itertools.chain(*named)]))
    named += [sorted(times, key=order.index) for times in documents]
    found = {pair for names in named for pair in itertools.pairwise(names)}
    yield from sorted(found, key=lambda pair: (order.index(pair[1]), order.index(pair[0])))


def _comparison(sweep: ado.records.Sweep, before: str, after: str) -> ado.records.Comparison | None:
    measured = {m.variant: m for m in sweep.variants}
    if before not in measured or after not in measured:
        return None
    return measured[after].compare(measured[before])


def _published_times(routine: str) -> dict[str, Times]:
    """The published times by document and device."""
    found: dict[str, Times] = {}
    known = {variant.name for variant in ado.routines[routine]}
    for p in _FIGURES.get(routine, ()):
        if p.variant not in known or not isinstance(p.value, float | int):
            continue
        times = found.setdefault(f"{p.document}: {p.device}", {})
        if p.quantity == "seconds":
            times.setdefault(p.variant, p.value)
        elif p.quantity == "speedup":  # over the first variant
            first = next(v.name for v in ado.routines[routine] if v.device == "cuda")
            times |= {first: 1.0, p.variant: times.get(p.variant, 1 / p.value)}
    return {title: times for title, times in found.items() if len(times) > 1}
