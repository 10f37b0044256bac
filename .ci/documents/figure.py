"""A figure of docs/documents.md, published or ours."""

from __future__ import annotations

from typing import NamedTuple

from adokernels.records.metrics import BY_KEY


class Figure(NamedTuple):
    """A figure of a document or of ours.

    Attributes
    ----------
    variant
        The variant that it belongs to, or an empty text.
    text
        The figure with its name.
    place
        The device of a published figure, the stored record of one of ours; empty for the usual
        device, and for what is from no record.
    """

    variant: str
    text: str
    place: str = ""


def named(title: str, text: str) -> str:
    """A figure after its title; a colon separates words, as in ``"dominant stall: wait"``."""
    if text.startswith(title):
        return text
    return f"{title}: {text}" if text[0].isalpha() else f"{title} {text}"


def title_of(key: str) -> str:
    """The title of a counted quantity, unambiguous without its section."""
    q = BY_KEY[key]
    if q.section == "speed of light":
        return f"{q.title} throughput"
    return f"stall {q.title}" if key.startswith("stall_") else q.title
