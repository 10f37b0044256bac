"""Tables of the quick-reference cards."""

from __future__ import annotations

from rich.table import Table

from adokernels.diagnosis.cards import Card, CardEvidence, Cards
from adokernels.tables.rendering import new_table
from adokernels.text import quantity, ratio

#: Maximum widths in characters of the columns of all cards, and of the text of one card.
_WIDTHS = dict(enumerate((24, 26, 32, 32, 26)))
_TEXT = 90


def cards_table(cards: Cards) -> Table:
    """Build the table of all cards."""
    headers = ("card", "problem", "indicators", "strategy", "advice on an H200")
    table = new_table("Quick-reference cards", headers, left=headers, widths=_WIDTHS)
    for card in cards.values():
        table.add_row(
            card.key,
            f"{card.category}: {card.problem}",
            "; ".join(map(str, card.indicators)),
            "; ".join(card.strategy),
            f"{card.validity}; see {card.examples[-1]}",
        )
    table.caption = (
        'ado.cards["occupancy"] shows one card. ado.cards["occupancy"].evidence(sweep) shows its'
        " counters before and after the step."
    )
    return table


def card_table(card: Card) -> Table:
    """Build the table of one card."""
    headers = ["", card.category]
    table = new_table(f"{card.title} ({card.key})", headers, left=headers, widths={0: 12, 1: _TEXT})
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
    table.caption = (
        f"{before.problem}, {before.cache}. Ratio of times {ratio(gain)} ({verdict}). "
        f"{_APPLIED[evidence.applied]} before the step."
    )
    return table


_APPLIED = {
    True: "All indicators hold",
    False: "Not all indicators hold",
    None: "Some indicators are unknown",
}
