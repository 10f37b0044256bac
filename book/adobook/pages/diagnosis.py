"""docs/diagnosis.md: the score of the diagnoses of the stored sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import adokernels as ado
from adobook.pages.stored import contexts_of, fill_template, origin, unseen
from adobook.score import Reason, Row, Score, score
from adobook.text import write_table
from adokernels.text import percent, ratio

_COUNTS = ("steps", "named correctly", "gained, named", "agrees with the gain", "violated bounds")


def text(sweeps: Mapping[str, ado.records.Sweep]) -> str:
    """Return the page in Markdown."""
    scores = {name: found for name, sweep in sweeps.items() if len(found := score([sweep]))}
    light = {name for name in scores if _is_light(sweeps[name])}
    everything = _together(scores)
    default = _together({name: found for name, found in scores.items() if name not in light})
    pairs = zip(everything.summary(), default.summary(), strict=True)
    counts = Counter(everything.reason(row) for row in everything if not row.named)
    return fill_template(
        "diagnosis.md",
        summary=write_table(
            ("quantity", "all ladders", "ladders with default metrics"),
            [(name.strip(), value, other) for (name, value), (_, other) in pairs],
        ),
        origin=origin(contexts_of(sweeps[name] for name in scores)),
        unseen=write_table(("set", "ladder", *_COUNTS), _unseen()),
        ladders=write_table(
            ("ladder", "metrics", *_COUNTS),
            [
                (name, "light" if name in light else "default", *_counts(found))
                for name, found in scores.items()
            ],
        ),
        reasons=write_table(
            ("reason", "steps"), [(reason, counts[reason]) for reason in Reason if counts[reason]]
        ),
        misses="\n\n".join(_misses(name, found) for name, found in scores.items() if found.wrong),
    )


def _is_light(sweep: ado.records.Sweep) -> bool:
    names = [name for m in sweep for k in (m.profile or ()) for name in k.values]
    return bool(names) and not any("sass" in name for name in names)


def _together(scores: Mapping[str, Score]) -> Score:
    return Score(rows=tuple(row for found in scores.values() for row in found))


def _unseen() -> Iterator[tuple[object, ...]]:
    """The rows of the ladders of textbooks, with the present rules."""
    for folder, sweeps in unseen().items():
        title = f"set {folder.removeprefix('set')}"
        for ladder, sweep in sweeps.items():
            yield title, ladder, *_counts(score([sweep]))
        yield title, "all", *_counts(score(sweeps.values()))


def _counts(found: Score) -> tuple[object, ...]:
    return (
        *(len(found), _share(len(found.named), len(found))),
        f"{sum(row.named for row in found.gained)} of {len(found.gained)}",
        f"{len(found.agreed)} of {len(found)}",
        len(found.violated),
    )


def _misses(name: str, found: Score) -> str:
    return f"**{name}**\n\n" + "\n".join(_miss(found, row) for row in found.wrong)


def _miss(found: Score, row: Row) -> str:
    step = f"`{row.variant}` to `{row.next_variant}` ({ratio(row.realised)})"
    changed = " and ".join(row.changes) or "none of the categories"
    reason: object = found.reason(row)
    if row in found.violated:
        reason = f"the bound of {ratio(row.bound or 1.0)} is violated"
    return f"- {step}: proposed {row.proposed or 'nothing'}, changed {changed}: {reason}."


def _share(some: int, everything: int) -> str:
    return f"{some} of {everything}, {percent(some / everything)}"
