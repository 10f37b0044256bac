"""Tables of the quick-reference cards."""

from __future__ import annotations

from rich.table import Table

from adokernels.diagnosis.cards import Card, CardEvidence, Cards
from adokernels.tables.rendering import new_table
from adokernels.text import quantity, ratio

#: Maximum widths in characters of the columns of all cards, and of the text of one card.
_WIDTHS = (24, 26, 32, 32, 26)
_TEXT = 90


def cards_table(cards: Cards) -> Table:
    """Build the table of all cards."""
    headers = ("card", "problem", "indicators", "strategy", "advice on an H200")
    table = new_table("Quick-reference cards", [(name, True) for name in headers])
    _fold(table, _WIDTHS)
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
    table = new_table(f"{card.title} ({card.key})", [("", True), (card.category, True)])
    _fold(table, (12, _TEXT))
    rows = [("problem", card.problem), ("goal", card.goal)]
    rows += [
        ("indicators" if not place else "", f"{indicator}  ({indicator.source})")
        for place, indicator in enumerate(card.indicators)
    ]
    rows += [("strategy" if not place else "", text) for place, text in enumerate(card.strategy)]
    rows += [
        (
            "applied by" if not place else "",
            f"{e} ({'the talk, ' if e.published else ''}{e.stored})",
        )
        for place, e in enumerate(card.examples)
    ]
    rows.append(("on an H200", f"{card.validity}. {card.why}"))
    for cells in rows:
        table.add_row(*cells)
    return table


def evidence_table(evidence: CardEvidence) -> Table:
    """Build the table of the indicators before and after a step."""
    before, after = evidence.before, evidence.after
    headers = [("quantity", True), ("indicator", True), (before.variant, False)]
    headers += [(after.variant, False), ("holds before", True)]
    title = f"{evidence.card.title}: {before.routine}, {before.variant} to {after.variant}"
    table = new_table(title, headers)
    for indicator, old, new in evidence.values:
        cells = ["n/a" if v is None else indicator.shown(v) for v in (old, new)]
        held = indicator.holds(before)
        known = "unknown" if held is None else "yes" if held else "no"
        table.add_row(indicator.title, indicator.condition, *cells, known)
    times = [quantity(m.seconds, "s") for m in (before, after)]
    table.add_row("time", "", *times, "")
    table.columns[0].max_width = None
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


def _fold(table: Table, widths: tuple[int, ...]) -> None:
    for column, width in zip(table.columns, widths, strict=True):
        column.no_wrap, column.overflow, column.max_width = False, "fold", width
