"""The pages that are generated from the stored measurements and the ladders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import adokernels as ado
from adobook.pages import (
    agreement,
    cards,
    diagnosis,
    documents,
    gallery,
    glossary,
    results,
    shapes,
)
from adobook.pages.stored import ROOT, cpu_sweeps, scans, sweeps
from adobook.text import write_table


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every page with its current content. ValueError: a page cannot be written."""
    stored, docs = sweeps(), ROOT / "docs"
    yield _filled(docs / "guide" / "ladders.md", "ladders", _ladders())
    yield _filled(docs / "guide" / "emulator.md", "agreement", agreement.tables())
    yield docs / "shapes.md", shapes.text(ROOT / "benchmarks" / "results")
    yield docs / "diagnosis.md", diagnosis.text(stored)
    yield docs / "cards.md", cards.text(stored)
    yield docs / "glossary.md", glossary.text()
    yield docs / "gallery.md", gallery.text()
    yield docs / "gallery" / "heatmap.svg", gallery.heat_maps()
    yield docs / "gallery" / "triton.svg", gallery.triton_heat_map()
    for name, text in documents.pages(stored).items():
        yield docs / name, text
    for name, text in results.pages(stored, scans(), cpu_sweeps()).items():
        yield docs / "results" / name, text


def _filled(page: Path, name: str, block: str) -> tuple[Path, str]:
    """A page with up-to-date content after a marker."""
    try:
        return page, fill_marker(page.read_text(encoding="utf-8"), name, block)
    except ValueError as error:
        raise ValueError(f"{page.relative_to(ROOT)}: {error}") from None


def fill_marker(text: str, name: str, block: str) -> str:
    """Replace the text between ``<!-- generated: NAME -->`` and ``<!-- end -->`` by a block.

    ValueError: one of the markers is missing.
    """
    before, marker, rest = text.partition(f"<!-- generated: {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not end:
        raise ValueError(f"<!-- generated: {name} --> and <!-- end --> must exist")
    return f"{before}{marker}{block.strip()}\n{end}{after}"


def _ladders() -> str:
    """A section with the variants of each routine."""
    header = ("variant", "device", "what it changes")
    parts = []
    for routine in ado.routines.values():
        rows = [
            (f"`{v.name}`" + (" (ceiling)" if v.ceiling else ""), v.device, v.changes)
            for v in routine
        ]
        parts += [f"### {routine.name}", write_table(header, rows)]
    return "\n\n".join(parts)
