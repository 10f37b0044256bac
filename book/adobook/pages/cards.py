"""docs/cards.md: the quick-reference cards, applied to the stored sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import adokernels as ado
from adobook.pages.stored import contexts_of, fill_template, origin
from adobook.published import image_filters
from adobook.text import slug, write_rich_table, write_table
from adokernels.diagnosis.cards import CardEvidence, Example
from adokernels.tables.diagnoses import evidence_table
from adokernels.text import ratio


def text(stored: Mapping[str, ado.records.Sweep]) -> str:
    """Return the page in Markdown."""
    used = {e.stored for card in ado.cards.values() for e in card.examples}
    return fill_template(
        "cards.md",
        summary=_summary(stored),
        origin=origin(contexts_of(stored[name] for name in used)),
        cards="\n\n".join(part for card in ado.cards.values() for part in _card(card, stored)),
    )


def anchor(card: ado.records.Card) -> str:
    """The anchor of the section of a card."""
    return slug(f"{card.key}: {card.title}, {card.category}")


def _summary(stored: Mapping[str, ado.records.Sweep]) -> str:
    seconds = {p.variant: p.value for p in image_filters.TIMES}
    rows = []
    for card in ado.cards.values():
        names = f"[`{card.key}`](#{anchor(card)})", str(card.validity)
        for example in card.examples:
            evidence = _evidence(card, example, stored)
            verdict, gain, _ = evidence.comparison
            words = theirs = ""
            if example.published:
                words = ", step of the talk"
                theirs = ratio(seconds[example.before] / seconds[example.after])
            applied = "yes" if evidence.applied else "no"
            rows.append(
                (*names, f"{example}{words}", applied, theirs, f"{ratio(gain)} ({verdict})")
            )
            names = "", ""
    headers = ["card", "advice on an H200", "step", "indicators hold"]
    headers += [f"ratio of times, {device}" for device in (image_filters.DEVICE, "H200")]
    return write_table(headers, rows)


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
