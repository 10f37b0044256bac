"""docs/diagnosis.md and docs/diagnosis.json: the score of the diagnoses of the stored sweeps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import adokernels as ado
from adobook.pages.stored import contexts_of, fill_template, origin, unseen
from adobook.score import Reason, Row, Score, score
from adobook.text import write_table
from adokernels.records.record import to_json
from adokernels.text import percent, ratio

#: Target share of correctly named steps, from the issue that requested the diagnosis.
GOAL = 0.7


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
        goals=_goals(everything),
        summary=write_table(
            ("quantity", "all ladders", "ladders with default metrics"),
            [(name.strip(), value, other) for (name, value), (_, other) in pairs],
        ),
        origin=origin(contexts_of(sweeps[name] for name in scores)),
        unseen=_unseen(),
        ladders=_ladders(scores, light),
        reasons=write_table(
            ("reason", "steps"), [(reason, counts[reason]) for reason in Reason if counts[reason]]
        ),
        misses="\n\n".join(_misses(name, found) for name, found in scores.items() if found.wrong),
    )


def record(sweeps: Mapping[str, ado.records.Sweep]) -> str:
    """Return the score of all ladders as a JSON document."""
    return to_json("score", score(sweeps.values()).to_dict())


def _is_light(sweep: ado.records.Sweep) -> bool:
    names = [name for m in sweep for k in (m.profile or ()) for name in k.values]
    return bool(names) and not any("sass" in name for name in names)


def _together(scores: Mapping[str, Score]) -> Score:
    return Score(rows=tuple(row for found in scores.values() for row in found))


def _goals(found: Score) -> str:
    """Compare the figures with the goals, in sentences."""
    gained = sum(row.named for row in found.gained)
    verdict = "reaches" if found.hit_rate >= GOAL else "does not reach"
    goal = f"the goal of {math.ceil(GOAL * len(found))} steps"
    return f"""\
The goals: no violated bound, and {percent(GOAL)} of the steps named correctly.

- **Violated bounds:** {len(found.violated)} of {len(found.tested)} tested.
- **Named correctly, all steps:** {_share(len(found.named), len(found))}. This {verdict} {goal}.
- **Named, of the steps that gained more than 5 %:** {_share(gained, len(found.gained))}.
- **Agrees with the measured gain:** {_share(len(found.agreed), len(found))}.

Only the count of all steps is compared with the goal. The others are less strict."""


def _unseen() -> str:
    """The score of the ladders of textbooks, with the present rules."""
    rows = []
    for name, sweeps in unseen().items():
        for ladder, sweep in sweeps.items():
            rows.append((_title(name), ladder, *_counts(score([sweep]))))
        rows.append((_title(name), "all", *_counts(score(sweeps.values()))))
    headers = ("set", "ladder", "steps", "named correctly", "gained, named")
    return write_table((*headers, "agrees with the gain", "violated bounds"), rows)


def _title(folder: str) -> str:
    return f"set {folder.removeprefix('set')}"


def _counts(found: Score) -> tuple[object, ...]:
    return (
        *(len(found), _share(len(found.named), len(found))),
        f"{sum(row.named for row in found.gained)} of {len(found.gained)}",
        f"{len(found.agreed)} of {len(found)}",
        len(found.violated),
    )


def _ladders(scores: Mapping[str, Score], light: set[str]) -> str:
    headers = ("ladder", "metrics", "steps", "named correctly", "gained, named")
    return write_table(
        (*headers, "agrees with the gain", "violated bounds"),
        [
            (name, "light" if name in light else "default", *_counts(found))
            for name, found in scores.items()
        ],
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
