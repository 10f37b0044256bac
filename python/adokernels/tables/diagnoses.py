"""Tables of diagnoses."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from adokernels.diagnosis.cards import Validity, cards
from adokernels.diagnosis.diagnosis import Diagnosis, Finding
from adokernels.diagnosis.steps import Step
from adokernels.tables.rendering import new_table
from adokernels.text import number, percent, ratio

#: Widths in characters of the columns with sentences.
_SENTENCE, _EVIDENCE = 38, 44


def diagnosis_tables(diagnosis: Diagnosis) -> list[Table]:
    """Build the tables of a diagnosis: limiters and next steps, then the outcomes."""
    tables = [_advice_table(diagnosis)]
    if any(finding.outcome for finding in diagnosis):
        tables.append(_outcome_table(diagnosis))
    return tables


def _advice_table(diagnosis: Diagnosis) -> Table:
    headers = [("variant", True), ("limiter", True), ("evidence", True), ("next step", True)]
    table = new_table(f"Diagnosis: {diagnosis.title}", [*headers, ("gains\nat most", False)])
    table.columns[2].max_width, table.columns[3].max_width = _EVIDENCE, _SENTENCE
    table.columns[1].max_width = 16
    for column in table.columns[1:4]:
        column.no_wrap, column.overflow = False, "fold"
    for finding in diagnosis:
        advice, found = finding.advice, finding.limiter
        evidence = [str(e) for e in found.evidence]
        if found.share_of_time < 1:
            evidence.append(f"{found.kernel} takes {percent(found.share_of_time)} of the time")
        evidence += [found.unknown] if found.unknown else []
        table.add_row(
            finding.variant,
            found.name if finding.counted else f"{found.name}, without counters",
            "; ".join(evidence),
            _next_step(finding),
            bound_cell(advice.bound) if advice else "",
        )
    bases = [
        f"{finding.variant} {bound_cell(finding.advice.bound)}: {finding.advice.basis}"
        f" ({', '.join(finding.advice.provenance)})"
        for finding in diagnosis
        if finding.advice and finding.advice.bound is not None
    ]
    table.caption = Text("\n".join(["Bounds:", *bases])) if bases else None
    return table


def _next_step(finding: Finding) -> str:
    """Format the first proposal and the cards that support it."""
    advice = finding.advice
    parts = [f"{advice.step}: {advice.sentence}"] if advice else []
    if finding.cards:
        named = (
            f"{key} ({Validity.OBSOLETE})" if cards[key].validity is Validity.OBSOLETE else key
            for key in finding.cards
        )
        parts.append(f"cards: {', '.join(named)}")
    return "; ".join(parts)


def _outcome_table(diagnosis: Diagnosis) -> Table:
    headers = [("step", True), ("proposed", True), ("changed", True), ("at\nmost", False)]
    headers += [("realised", False), ("99.9 % interval", False), ("bound", True)]
    headers += [("target metric", True), ("named", True)]
    table = new_table("Proposed, and what the next variant did", headers)
    for place in (1, 2, 7):
        table.columns[place].no_wrap, table.columns[place].overflow = False, "fold"
        table.columns[place].max_width = 24
    for finding in diagnosis:
        if outcome := finding.outcome:
            advice, metric = finding.advice, outcome.metric
            moved = (
                f"{metric.text}, {'improved' if metric.moved else 'not improved'}" if metric else ""
            )
            low, high = outcome.interval
            table.add_row(
                f"{finding.variant} to {outcome.variant}",
                str(advice.step) if advice else "",
                listed(outcome.changes),
                bound_cell(advice.bound) if advice else "",
                ratio(outcome.ratio),
                f"{number(low)} to {number(high)}",
                verdict_on(finding),
                moved,
                yes(finding.named),
            )
    return table


def listed(changes: Iterable[Step] | None) -> str:
    """Format categories in a fixed order."""
    if changes is None:
        return "not recorded"
    return ", ".join(sorted(changes)) or "none of the categories"


def verdict_on(finding: Finding) -> str:
    """Format the state of the bound of a finding."""
    if finding.held is None:
        return "exceeded by another change" if finding.exceeded else "not tested"
    return "held" if finding.held else "violated"


def bound_cell(bound: float | None) -> str:
    """Format a bound."""
    return "" if bound is None else ratio(bound)


def yes(named: bool | None) -> str:
    """Format whether a step was named."""
    return "" if named is None else "yes" if named else "no"
