"""The pages that are generated from the stored measurements and the ladders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    still,
)
from adobook.pages.stored import ROOT, cpu_sweeps, gpu_sweeps, scans, sweeps
from adobook.text import write_table


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every page with its current content. ValueError: a page cannot be written."""
    stored, docs = sweeps(), ROOT / "docs"
    yield _filled(ROOT / "README.md", results=results.best_results(stored))
    yield _filled(docs / "guide" / "ladders.md", ladders=_ladders())
    yield _filled(docs / "guide" / "emulator.md", agreement=agreement.tables())
    yield docs / "shapes.md", shapes.text(ROOT / "benchmarks" / "results")
    yield docs / "diagnosis.md", diagnosis.text(stored)
    yield docs / "diagnosis.json", diagnosis.record(stored)
    yield docs / "cards.md", cards.text(stored)
    yield docs / "glossary.md", glossary.text()
    yield docs / "gallery.md", gallery.text()
    yield docs / "gallery" / "heatmap.svg", gallery.heat_maps()
    yield docs / "documents.md", documents.text(stored)
    yield docs / "results" / "still.md", still.text(gpu_sweeps())
    for name, text in results.pages(gpu_sweeps(), scans(), cpu_sweeps()).items():
        yield docs / "results" / name, text


def _filled(page: Path, **blocks: str) -> tuple[Path, str]:
    """A page with up-to-date content between its markers."""
    try:
        return page, fill_markers(page.read_text(encoding="utf-8"), blocks)
    except ValueError as error:
        raise ValueError(f"{page.relative_to(ROOT)}: {error}") from None


def fill_markers(text: str, blocks: Mapping[str, str]) -> str:
    """Replace the text between ``<!-- generated: NAME -->`` and ``<!-- end -->`` by a block.

    A marker without a block or an end, and a block without a marker, raise ValueError.
    """
    names = re.findall(r"<!-- generated: (.*?) -->", text)
    pattern = r"<!-- generated: ([^>]*?) -->\n(?:(?!<!-- ).)*?<!-- end -->"
    closed = [match[1] for match in re.finditer(pattern, text, re.S)]
    known = ", ".join(blocks)
    errors = [f"{name!r} must be one of {known}" for name in names if name not in blocks]
    errors += [f"{name!r} must be closed by <!-- end -->" for name in names if name not in closed]
    errors += [f"<!-- generated: {name} --> must exist" for name in blocks if name not in names]
    if errors:
        raise ValueError("; ".join(errors))

    def block(match: re.Match[str]) -> str:
        return f"<!-- generated: {match[1]} -->\n{blocks[match[1]].strip()}\n<!-- end -->"

    return re.sub(pattern, block, text, flags=re.S)


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
