"""Reproducible figure files, which depend only on the data."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as SVG, PDF or PNG, chosen by the suffix; equal data gives equal bytes."""
    target = Path(path)
    if target.suffix.lower() == ".svg":
        target.write_bytes(to_svg(figure))
    else:
        metadata = {"CreationDate": None} if target.suffix.lower() == ".pdf" else None
        figure.savefig(target, metadata=metadata)


def to_svg(figure: Figure) -> bytes:
    """Render a figure as SVG without a date or random identifiers."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "adokernels"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
