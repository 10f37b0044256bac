"""Styles for the verdict on a step or a peer in charts: colour, line style, font and words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.lines import Line2D

from adokernels.charts.canvas import FADED, LOST, entry
from adokernels.records.measurement import Measurement
from adokernels.records.statistics import Verdict
from adokernels.text import number

#: Dashes and spaces of the line of an unclear step, in units of the line width.
_DASHES = (0, (2.2, 1.6))


def _ink_of(verdict: Verdict, faster: str) -> str:
    """Choose `faster` for a faster step, a warning colour for a slower one, and grey for others."""
    return {Verdict.FASTER: faster, Verdict.SLOWER: LOST}.get(verdict, FADED)


def line_of(verdict: Verdict, faster: str) -> dict[str, Any]:
    """Colour and style of the line of a step. Only the line of an unclear step is dashed."""
    dashed = verdict is Verdict.UNCLEAR
    return {"color": _ink_of(verdict, faster), "ls": _DASHES if dashed else "-"}


def text_of(verdict: Verdict, faster: str) -> dict[str, Any]:
    """Colour and font of a text about a step. Only the text of an unclear step is italic."""
    style = "italic" if verdict is Verdict.UNCLEAR else "normal"
    return {"color": _ink_of(verdict, faster), "fontstyle": style}


def verdict_entries(verdicts: Iterable[Verdict], faster: str, prefix: str = "") -> list[Line2D]:
    """Make one legend entry per verdict that occurs; `prefix` precedes its word."""
    found = set(verdicts)
    return [
        entry(f"{prefix}{v.value}", lw=1.4, **line_of(v, faster)) for v in Verdict if v in found
    ]


def beside_peers(ours: Measurement, peers: Sequence[Measurement]) -> list[str]:
    """Compare a variant with the fastest peer, in words; empty if the verdict is unclear."""
    if not peers:
        return []
    peer = min(peers, key=lambda m: m.seconds)
    verdict, gain, _ = ours.compare(peer)
    if verdict is Verdict.UNCLEAR:
        return []
    words = "as fast as" if verdict is Verdict.SAME else f"{number(gain)} times as fast as"
    return [f"{words} {peer.shown_as}"]
