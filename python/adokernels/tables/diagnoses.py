"""Tables of diagnoses."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from adokernels.diagnosis.cards import Validity, cards
from adokernels.diagnosis.diagnosis import Diagnosis, Finding
from adokernels.diagnosis.steps import Step
from adokernels.tables.rendering import new_table
from adokernels.text import number, percent, ratio


def diagnosis_tables(diagnosis: Diagnosis) -> list[Table]:
    """Build the tables of a diagnosis: limiters and next steps, then the outcomes."""
    tables = [_advice_table(diagnosis)]
    if any(finding.outcome for finding in diagnosis):
        tables.append(_outcome_table(diagnosis))
    return tables


def _advice_table(diagnosis: Diagnosis) -> Table:
    sentences = ["limiter", "evidence", "next step"]
    headers = ["variant", *sentences, "gains\nat most"]
    widths = {1: 16, 2: 44, 3: 38}
    table = new_table(f"Diagnosis: {diagnosis.title}", headers, left=sentences, widths=widths)
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
    table.caption = "\n".join(["Bounds:", *bases]) if bases else None
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
    numbers = ["at\nmost", "realised", "99.9 % interval"]
    words = ["bound", "target metric", "named"]
    headers = ["step", "proposed", "changed", *numbers, *words]
    left = ["proposed", "changed", *words]
    title = "Proposed, and what the next variant did"
    table = new_table(title, headers, left=left, widths=dict.fromkeys((1, 2, 7), 24))
    for finding in diagnosis:
        if outcome := finding.outcome:
            advice, metric = finding.advice, outcome.metric
            moved = f"{metric.text}, {'' if metric.moved else 'not '}improved" if metric else ""
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
