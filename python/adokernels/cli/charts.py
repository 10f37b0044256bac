"""Charts that commands write to files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console

_DOTS_PER_INCH = 150


def save_chart(draw: Callable[..., Any], what: object, path: Path | None, console: Console) -> None:
    """Draw `what` on axes of a new figure and save it, unless `path` is None."""
    if path is None:
        return
    from adokernels.charts.drawing import closing  # loads matplotlib
    from adokernels.charts.files import save

    with closing(draw, what) as figure:
        save(figure, path, dpi=_DOTS_PER_INCH)
    console.print(f"wrote {path}")
