"""Charts in figures of their own size, for files."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.axes import Axes


@contextmanager
def closing(draw: Callable[..., Axes], what: Any) -> Iterator[Figure]:
    """Draw a chart in matplotlib's default style, and close its figure at the end.

    The figure is not shown, not even in an interactive session.

    Parameters
    ----------
    draw, what
        A function that draws `what` on axes of a new figure, and returns the axes.
    """
    with plt.style.context("default"), plt.ioff():
        figure = draw(what).get_figure()
        assert isinstance(figure, Figure)  # charts use no subfigures
        try:
            yield figure
        finally:
            plt.close(figure)
