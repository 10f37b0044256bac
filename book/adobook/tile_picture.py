"""Picture of a transpose through a tile in shared memory."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

#: Tiles per side of the matrix, and elements per side of a tile, in the pictures.
_TILES, _ELEMENTS = 6, 4
#: Row and column of the tile in the matrix.
_ROW, _COL = 1, 4
#: Left edge of the tile in shared memory, and its size, relative to a matrix of size 1.
_SHARED, _SIZE = 1.35, 0.6
_LINE, _TILE, _WARP = "#808080", "#56B4E9", "#D55E00"


def draw_tile_transpose() -> Figure:
    """Draw the three parts of a transpose through a tile in shared memory.

    The elements that one warp accesses are red. A warp copies a row of the matrix tile to a row of
    the shared-memory tile. After a barrier, it copies a column of the shared-memory tile to a row
    of the result. Both global accesses are coalesced.
    """
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    titles = (
        "1. Load along the rows of a: coalesced",
        "2. The block is mirrored at the diagonal",
        "3. Store along the rows of out: coalesced",
    )
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, fontsize=10)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set_ylim(1.16, -0.05)  # rows count downwards, as in a matrix
    _load(axes[0])
    _mirror(axes[1])
    _store(axes[2])
    return figure


def _load(ax: Axes) -> None:
    _matrix(ax, "a (global memory)", _ROW, _COL)
    _element(ax, _COL / _TILES, _ROW / _TILES, 1 / _TILES, row=1)
    _tile(ax)
    _element(ax, _SHARED, 0.2, _SIZE, row=1)
    _arrow(ax, (1.02, (_ROW + 0.5) / _TILES), (_SHARED - 0.03, 0.45))
    ax.set_xlim(-0.05, _SHARED + _SIZE + 0.05)


def _mirror(ax: Axes) -> None:
    _matrix(ax, "out (global memory)", _COL, _ROW)
    ax.plot([0, 1], [0, 1], color=_LINE, ls="--")
    corner = (_COL / _TILES, _ROW / _TILES)
    ax.add_patch(Rectangle(corner, 1 / _TILES, 1 / _TILES, fill=False, ec=_TILE, ls="--", lw=1.5))
    _arrow(ax, ((_COL + 0.4) / _TILES, (_ROW + 1.1) / _TILES), ((_ROW + 1.1) / _TILES, 0.73))
    ax.set_xlim(-0.5, 1.5)


def _store(ax: Axes) -> None:
    _tile(ax, left=0.0)
    _element(ax, 0.0, 0.2, _SIZE, col=1)
    shift = _SIZE + 0.35
    _matrix(ax, "out (global memory)", _COL, _ROW, left=shift)
    _element(ax, shift + _ROW / _TILES, _COL / _TILES, 1 / _TILES, row=1)
    _arrow(ax, (_SIZE + 0.03, 0.55), (shift + _ROW / _TILES - 0.03, (_COL + 0.5) / _TILES))
    ax.set_xlim(-0.05, shift + 1.05)


def _matrix(ax: Axes, name: str, row: int, col: int, left: float = 0.0) -> None:
    """A matrix of tiles, one of which is coloured."""
    tile = 1 / _TILES
    ax.add_patch(Rectangle((left + col * tile, row * tile), tile, tile, fc=_TILE, ec="none"))
    _grid(ax, left, 0.0, 1.0, _TILES)
    ax.text(left + 0.5, 1.1, name, ha="center", va="center", fontsize=9)


def _tile(ax: Axes, left: float = _SHARED) -> None:
    """The tile in shared memory."""
    ax.add_patch(Rectangle((left, 0.2), _SIZE, _SIZE, fc=_TILE, ec="none", alpha=0.5))
    _grid(ax, left, 0.2, _SIZE, _ELEMENTS)
    ax.text(left + _SIZE / 2, 0.9, "tile (shared memory)", ha="center", va="center", fontsize=9)


def _grid(ax: Axes, left: float, top: float, size: float, cells: int) -> None:
    for i in range(cells + 1):
        at = i * size / cells
        ax.plot([left, left + size], [top + at, top + at], color=_LINE, lw=0.7)
        ax.plot([left + at, left + at], [top, top + size], color=_LINE, lw=0.7)


def _element(
    ax: Axes, left: float, top: float, size: float, *, row: int | None = None, col: int = 0
) -> None:
    """The elements that a warp accesses together: a row or a column of a tile."""
    part = size / _ELEMENTS
    if row is None:
        patch = Rectangle((left + col * part, top), part, size, fc=_WARP, ec="none")
    else:
        patch = Rectangle((left, top + row * part), size, part, fc=_WARP, ec="none")
    ax.add_patch(patch)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=14, color="#404040"))
