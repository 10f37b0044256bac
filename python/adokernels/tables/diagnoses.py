"""Tables of diagnoses, and of the quick-reference cards."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from adokernels.diagnosis.cards import Card, CardEvidence, Cards, Validity, cards
from adokernels.diagnosis.diagnosis import Diagnosis, Finding
from adokernels.records.limiter import Step
from adokernels.tables.rendering import new_table, table_of
from adokernels.text import number, percent, quantity, ratio

#: Maximum number of steps in the table of a sweep on the emulator.
_FURTHER = 3


def diagnosis_tables(diagnosis: Diagnosis) -> list[Table]:
    """Build the tables of a diagnosis: limiters and next steps, then the outcomes."""
    advised, realised, bounds, withheld = [], [], [], []
    for finding in diagnosis:
        advice, found, outcome = finding.advice, finding.limiter, finding.outcome
        evidence = [str(e) for e in found.evidence]
        if found.share_of_time < 1:
            evidence.append(f"{found.kernel} takes {percent(found.share_of_time)} of the time")
        evidence += [found.unknown] if found.unknown else []
        steps = [f"{advice.step}: {advice.sentence}"] if advice else []
        if finding.counted and found.unknown:  # without times, further steps may be as important
            steps += [f"{each.step}: {each.sentence}" for each in finding.advices[1:_FURTHER]]
        if finding.cards:
            obsolete = [k for k in finding.cards if cards[k].validity is Validity.OBSOLETE]
            named = (f"{k} ({Validity.OBSOLETE})" if k in obsolete else k for k in finding.cards)
            steps.append(f"cards: {', '.join(named)}")
        by = "" if finding.counted else ", by experiment" if found.tried else ", without counters"
        bound = ratio(advice.bound) if advice and advice.bound is not None else ""
        tried = finding.experiment
        advised.append(
            {
                "variant": finding.variant,
                "limiter": found.name + by,
                "evidence": "; ".join(evidence),
                "next step": "; ".join(steps),
                "gains\nat most": bound,
                "what if": f"{tried.experiment}: {ratio(tried.gain)}" if tried else "",
            }
        )
        if finding.contradiction:
            bounds.append(f"{finding.variant}: {finding.contradiction}")
        if advice and bound:
            origin = ", ".join(advice.provenance)
            bounds.append(f"{finding.variant} {bound}: {advice.basis} ({origin})")
        if not outcome:
            continue
        metric, (low, high) = outcome.metric, outcome.interval
        moved = f"{metric.text}, {'' if metric.moved else 'not '}improved" if metric else ""
        realised.append(
            {
                "step": f"{finding.variant} to {outcome.variant}",
                "proposed": str(advice.step) if advice else "",
                "changed": listed(outcome.changes),
                "gains\nat most": bound,
                "realised gain,\n99.9 % interval": (
                    f"{ratio(outcome.ratio)}\n({number(low)} to {number(high)})"
                ),
                "bound": verdict_on(finding),
                "target metric": moved,
                "named": {True: "yes", False: "no", None: ""}[finding.named],
            }
        )
        if outcome.reason:
            withheld.append(f"no verdict on the step after {finding.variant}: {outcome.reason}")
    text: dict[str, int | None] = {"limiter": 16, "evidence": 44, "next step": 38, "what if": 18}
    notes = [diagnosis.remark] if diagnosis.remark else []
    notes += ["Bounds:", *bounds] if bounds else []
    title = f"Diagnosis: {diagnosis.title}"
    tables = [table_of(title, advised, text, notes=notes, sparse=True)]
    if realised:
        text = {"proposed": 24, "changed": 24, "bound": 0, "target metric": 24, "named": 0}
        title = "Proposed, and what the next variant did"
        tables.append(table_of(title, realised, text, notes=withheld))
    return tables


def listed(changes: Iterable[Step] | None) -> str:
    """Format categories in a fixed order."""
    if changes is None:
        return "not stated"
    return ", ".join(sorted(changes)) or "none of the categories"


def verdict_on(finding: Finding) -> str:
    """Format the state of the bound of a finding."""
    if finding.outcome and finding.outcome.reason:
        return "no verdict"
    if finding.held is None:
        return "exceeded by another change" if finding.exceeded else "not tested"
    return "held" if finding.held else "violated"


def cards_table(cards: Cards) -> Table:
    """Build the table of all cards."""
    rows = [
        {
            "card": card.key,
            "problem": f"{card.category}: {card.problem}",
            "indicators": "; ".join(map(str, card.indicators)),
            "strategy": "; ".join(card.strategy),
            "advice on an H200": f"{card.validity}; see {card.examples[-1]}",
        }
        for card in cards.values()
    ]
    note = (
        'ado.cards["occupancy"] shows one card. ado.cards["occupancy"].evidence(sweep) shows its'
        " counters before and after the step."
    )
    text = dict(zip(rows[0], (24, 26, 32, 32, 26), strict=True))
    return table_of("Quick-reference cards", rows, text, notes=[note])


def card_table(card: Card) -> Table:
    """Build the table of one card."""
    headers = ["", card.category]
    table = new_table(f"{card.title} ({card.key})", headers, left=headers, widths={0: 12, 1: 90})
    rows = {
        "problem": [card.problem],
        "goal": [card.goal],
        "indicators": [f"{indicator}  ({indicator.source})" for indicator in card.indicators],
        "strategy": card.strategy,
        "applied by": [
            f"{e} ({'the talk, ' if e.published else ''}{e.stored})" for e in card.examples
        ],
        "on an H200": [f"{card.validity}. {card.why}"],
    }
    for name, texts in rows.items():
        for place, text in enumerate(texts):
            table.add_row("" if place else name, text)
    return table


def evidence_table(evidence: CardEvidence) -> Table:
    """Build the table of the indicators before and after a step."""
    before, after = evidence.before, evidence.after
    headers = ["quantity", "indicator", before.variant, after.variant, "holds before"]
    title = f"{evidence.card.title}: {before.routine}, {before.variant} to {after.variant}"
    table = new_table(title, headers, left=("indicator", "holds before"), widths={0: None})
    for indicator, old, new in evidence.values:
        cells = ["n/a" if v is None else indicator.shown(v) for v in (old, new)]
        held = {True: "yes", False: "no", None: "unknown"}[indicator.holds(before)]
        table.add_row(indicator.title, indicator.condition, *cells, held)
    times = [quantity(m.seconds, "s") for m in (before, after)]
    table.add_row("time", "", *times, "")
    verdict, gain, _ = evidence.comparison
    applied = {
        True: "All indicators hold",
        False: "Not all indicators hold",
        None: "Some indicators are unknown",
    }[evidence.applied]
    table.caption = (
        f"{before.problem}, {before.cache}. Ratio of times {ratio(gain)} ({verdict}). "
        f"{applied} before the step."
    )
    return table
