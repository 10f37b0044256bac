"""Figures of the course slides (B) and of the GTC 2015 talk (C) on accesses of one warp.

The variant of a figure is the access pattern, as ``ado.sectors`` names it.
"""

from __future__ import annotations

from adokernels.course.published.figure import Published
from adokernels.course.published.transpose import DOCUMENT

DEVICE = "any GPU"
_SLIDE = (
    "GPU Programming with CUDA (JSC), slides on performance optimisation, slide "
    "'Accessing Global Memory: {}'"
)
_TALK = (
    'GTC 2015, "CUDA Optimization with NVIDIA Nsight Eclipse Edition", slide "Global memory '
    'transactions: review"'
)


def _slide(
    item: str, pattern: str, sectors: int, utilisation: float, slide: str
) -> list[Published]:
    common = {
        "document": DOCUMENT,
        "item": item,
        "device": DEVICE,
        "variant": pattern,
        "source": _SLIDE.format(slide),
    }
    return [
        Published(quantity="sectors", value=sectors, unit="", **common),
        Published(quantity="utilisation", value=utilisation, unit="%", **common),
    ]


def _transactions(pattern: str, uncached: int, cached: int) -> list[Published]:
    common = {
        "document": "GTC 2015 talk",
        "item": "C15",
        "device": "compute capability 2.0 and later",
        "variant": pattern,
        "source": _TALK,
        "unit": "",
    }
    return [
        Published(quantity="sectors", value=uncached, title="32-byte transactions", **common),
        Published(quantity="lines", value=cached, title="128-byte transactions", **common),
    ]


#: Sectors and bus utilisation of 4-byte elements, by pattern.
SLIDES: tuple[Published, ...] = (
    *_slide("B12", "aligned", 4, 1.0, "optimal access pattern"),
    *_slide("B14", "shifted 1", 5, 0.80, "shifted access"),
    *_slide("B15", "stride 3", 12, 0.33, "stride 3"),
    *_slide("B13", "stride 32", 32, 0.125, "worst case access pattern"),
    *_slide("B13", "random", 32, 0.125, "worst case access pattern"),
    *_slide("B17", "same word", 1, 0.125, "another worst case"),
)

#: Transactions of a request without and with the L1 cache of that time.
TALK: tuple[Published, ...] = (
    *_transactions("aligned", 4, 1),
    *_transactions("shifted 1", 5, 2),
)

FIGURES = (*SLIDES, *TALK)
