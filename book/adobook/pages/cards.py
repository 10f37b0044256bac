"""docs/cards.md: the quick-reference cards, applied to the stored sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import adokernels as ado
from adobook.pages.stored import contexts_of, fill_template, origin
from adobook.text import slug, write_rich_table, write_table
from adokernels.diagnosis.cards import CardEvidence, Example
from adokernels.diagnosis.evidence import QUEUED
from adokernels.tables.diagnoses import evidence_table
from adokernels.text import quantity, ratio


def text(stored: Mapping[str, ado.records.Sweep]) -> str:
    """Return the page in Markdown."""
    examples = [e for card in ado.cards.values() for e in card.examples]
    used = {e.stored for e in examples}
    return fill_template(
        "cards.md",
        summary=_summary(stored),
        origin=origin(contexts_of(stored[name] for name in used)),
        queued=quantity(QUEUED, "s"),
        cards="\n\n".join(part for card in ado.cards.values() for part in _card(card, stored)),
    )


def anchor(card: ado.records.Card) -> str:
    """The anchor of the section of a card."""
    return slug(f"{card.key}: {card.title}, {card.category}")


def _summary(stored: Mapping[str, ado.records.Sweep]) -> str:
    rows = []
    for card in ado.cards.values():
        names = f"[`{card.key}`](#{anchor(card)})", str(card.validity)
        for example in card.examples:
            evidence = _evidence(card, example, stored)
            applied = "yes" if evidence.applied else "no"
            words = f"{example}, step of the talk" if example.published else str(example)
            rows.append((*names, words, example.stored, applied, _gain(evidence)))
            names = "", ""
    headers = ("card", "advice on an H200", "step", "stored ladder", "indicators hold")
    return write_table((*headers, "ratio of times"), rows)


def _gain(evidence: CardEvidence) -> str:
    verdict, gain, _ = evidence.comparison
    return f"{ratio(gain)} ({verdict})"


def _card(card: ado.records.Card, stored: Mapping[str, ado.records.Sweep]) -> Iterator[str]:
    """The paragraphs of the section of a card."""
    yield f"## `{card.key}`: {card.title}, {card.category}"
    yield f"**Problem.** {card.problem}"
    yield f"**Goal.** {card.goal}"
    indicators = [(i.title, i.condition, i.source) for i in card.indicators]
    yield write_table(("indicator", "threshold", "threshold of"), indicators)
    yield "**Strategy.**"
    yield "\n".join(f"- {way}" for way in card.strategy)
    yield f"**The advice {card.validity} on an H200.** {card.why}"
    for example in card.examples:
        yield write_rich_table(evidence_table(_evidence(card, example, stored)))
    yield "**Stored variants for which all indicators hold:**"
    applied = {
        n: [f"`{m.variant}`" for m in s.variants if card.holds(m)] for n, s in stored.items()
    }
    yield "\n".join(f"- {n}: {', '.join(v)}" for n, v in applied.items() if v) or "- none"


def _evidence(
    card: ado.records.Card, example: Example, stored: Mapping[str, ado.records.Sweep]
) -> CardEvidence:
    sweep = stored[example.stored]
    return card.evidence(sweep, before=example.before, after=example.after)
