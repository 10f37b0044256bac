"""Charts as files, which depend only on the data."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adokernels.storage import replace_file

#: Metadata of each format, without the date.
_METADATA: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
#: The rule by which an SVG file follows a dark page or window: dark paper, and the same hues.
_DARK = b"@media (prefers-color-scheme: dark){svg{filter:invert(1) hue-rotate(180deg)}}"


@contextmanager
def closing(draw: Callable[..., Axes], what: Any) -> Iterator[Figure]:
    """Draw a chart of `what` on a new figure in matplotlib's default style, and close it later.

    The figure is not shown, not even in an interactive session.
    """
    with plt.style.context("default"), plt.ioff():
        figure = draw(what).get_figure()
        assert isinstance(figure, Figure)  # charts use no subfigures
        try:
            yield figure
        finally:
            plt.close(figure)


def save(figure: Figure, path: str | Path, **options: Any) -> None:
    """Write a figure as SVG, PDF or PNG, chosen by the suffix; equal data gives equal bytes.

    It accepts the options of matplotlib's ``savefig``. Raises ValueError for another suffix, and
    OSError if the file cannot be written; an existing file is then unchanged.
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
    return buffer.getvalue().replace(b"</style>", _DARK + b"</style>", 1)
