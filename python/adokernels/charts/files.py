"""Reproducible figure files, which depend only on the data."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from adokernels.storage import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Metadata of each format, without the date.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


def save(figure: Figure, path: str | Path, **options: Any) -> None:
    """Write a figure as SVG, PDF or PNG, chosen by the suffix; equal data gives equal bytes.

    Parameters
    ----------
    figure, path
        What to write, and where.
    **options
        Options of matplotlib's ``savefig``, for example ``dpi``.

    Raises
    ------
    ValueError
        If the suffix is not that of a format.
    OSError
        If the file cannot be written; an existing file is unchanged.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in _METADATA:
        known = ", ".join(f".{name}" for name in _METADATA)
        raise ValueError(f"path must end in {known}, got {str(path)!r}")
    replace_file(path, _rendered(figure, kind, **options))


def to_svg(figure: Figure) -> bytes:
    """Render a figure as SVG without a date or random identifiers."""
    return _rendered(figure, "svg")


def _rendered(figure: Figure, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "adokernels"}):
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind], **options)
    return buffer.getvalue()
