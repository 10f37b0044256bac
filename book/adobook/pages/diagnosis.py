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
    everything = Score(rows=tuple(row for found in scores.values() for row in found))
    counts = Counter(everything.reason(row) for row in everything if not row.named)
    return fill_template(
        "diagnosis.md",
        summary=write_table(
            ("quantity", "all ladders"), [(name.strip(), n) for name, n in everything.summary()]
        ),
        origin=origin(contexts_of(sweeps[name] for name in scores)),
        unseen=write_table(("set", "ladder", *_COUNTS), _unseen()),
        ladders=write_table(
            ("ladder", *_COUNTS), [(name, *_counts(found)) for name, found in scores.items()]
        ),
        reasons=write_table(
            ("reason", "steps"), [(reason, counts[reason]) for reason in Reason if counts[reason]]
        ),
        misses="\n\n".join(
            f"**{name}**\n\n" + "\n".join(_miss(found, row) for row in found.wrong)
            for name, found in scores.items()
            if found.wrong
        ),
    )


def _unseen() -> Iterator[tuple[object, ...]]:
    """The rows of the ladders of textbooks, with the present rules."""
    for folder, sweeps in unseen().items():
        title = f"set {folder.removeprefix('set')}"
        for ladder, sweep in sweeps.items():
            yield title, ladder, *_counts(score([sweep]))
        yield title, "all", *_counts(score(sweeps.values()))


def _counts(found: Score) -> tuple[object, ...]:
    named = f"{len(found.named)} of {len(found)}, {percent(len(found.named) / len(found))}"
    gained = f"{sum(row.named for row in found.gained)} of {len(found.gained)}"
    agreed = f"{len(found.agreed)} of {len(found)}"
    return len(found), named, gained, agreed, len(found.violated)


def _miss(found: Score, row: Row) -> str:
    step = f"`{row.variant}` to `{row.next_variant}` ({ratio(row.realised)})"
    changed = " and ".join(row.changes) or "none of the categories"
    reason: object = found.reason(row)
    if row in found.violated:
        reason = f"the bound of {ratio(row.bound or 1.0)} is violated"
    return f"- {step}: proposed {row.proposed or 'nothing'}, changed {changed}: {reason}."
