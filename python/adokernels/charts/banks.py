"""The chart of bank conflicts: lanes over the 32 banks of shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Normalize, to_hex
from matplotlib.patches import Patch, Rectangle

from adokernels.charts.canvas import FADED, LOST, Canvas, ink_on
from adokernels.charts.counted import new_axes
from adokernels.charts.lanes import lanes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from adokernels.patterns.banks import BankConflicts

_WORD, _BANKS = 4, 32
#: Maximum number of wavefronts in the legend. If there are more, it has the first and the last.
_MOST_ENTRIES = 6
#: Perceptually uniform, and legible with any colour vision.
_MAP = "cividis"
_GRID = "0.9"


def draw_banks(of: BankConflicts, request: int, *, ax: Axes | None, annotate: bool) -> Axes:
    """Draw the lanes of one request over the banks; see ``BankConflicts.plot``."""
    first, active = lanes_of(of.accesses, request)
    cells = _cells(first, active, of.accesses.itemsize, of.phases)
    rows = sorted({row for row, _ in cells})
    served = _wavefronts(cells, of.words[request])
    ax = ax or new_axes(10.0, 2.2 + 0.2 * min(len(rows), 8) + 0.13 * max(len(rows) - 8, 0))
    canvas = Canvas(ax, annotate=annotate)
    _frame(canvas, rows)
    count = int(of.words[request].max(axis=1).sum())
    for (row, bank), lanes in cells.items():
        _cell(canvas, (rows.index(row), bank), lanes, _colour(served[row, bank], count), len(rows))
    _words_per_bank(canvas, of.words[request].max(axis=0), len(rows))
    if annotate:
        shown = range(count) if count <= _MOST_ENTRIES else (0, count - 1)
        canvas.legend_below(
            [Patch(fc=_colour(n, count), label=f"served by wavefront {n + 1}") for n in shown]
        )
    _title(canvas, of, request, count)
    return ax


def _cells(first: Any, active: Any, size: int, phases: int) -> dict[tuple[int, int], list[int]]:
    """The lanes that access each word, by row of 32 words and bank."""
    cells: dict[tuple[int, int], list[int]] = {}
    for lane in np.flatnonzero(active):
        for part in range(phases):
            row, bank = divmod(int(first[lane]) // _WORD + part, _BANKS)
            cells.setdefault((row, bank), []).append(int(lane))
    return cells


def _wavefronts(
    cells: Mapping[tuple[int, int], list[int]], words: Any
) -> dict[tuple[int, int], int]:
    """The wavefront that serves each word: by phase, then by row of its bank."""
    lanes_per_phase = _BANKS // len(words)
    starts = np.concatenate([[0], np.cumsum(words.max(axis=1))])
    served: dict[tuple[int, int], int] = {}
    before: dict[tuple[int, int], int] = {}
    for (row, bank), lanes in sorted(cells.items()):
        phase = lanes[0] // lanes_per_phase
        turn = before.get((phase, bank), 0)
        before[phase, bank] = turn + 1
        served[row, bank] = int(starts[phase]) + turn
    return served


def _colour(wavefront: int, count: int) -> str:
    scale = Normalize(0, max(count - 1, 1))
    return to_hex(mpl.colormaps[_MAP](0.15 + 0.85 * scale(wavefront)))


def _frame(canvas: Canvas, rows: list[int]) -> None:
    ax, count = canvas.ax, len(rows)
    ax.set_xlim(-0.5, _BANKS - 0.5)
    ax.set_ylim(count + 0.9, -0.5)
    ax.set_xticks(range(_BANKS), [str(bank) for bank in range(_BANKS)], fontsize=canvas.font)
    ax.set_xlabel("Bank", fontsize=canvas.font)
    step = max(1, -(-count // 16))
    shown = range(0, count, step)
    names = [f"byte {4 * _BANKS * rows[place]}" for place in shown]
    ax.set_yticks([*shown, count + 0.3], [*names, "words in bank"], fontsize=canvas.font)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    style: dict[str, Any] = {"color": _GRID, "lw": 0.5, "zorder": 1}
    ax.hlines(np.arange(count + 1) - 0.5, -0.5, _BANKS - 0.5, **style)
    ax.vlines(np.arange(_BANKS + 1) - 0.5, -0.5, count - 0.5, **style)


def _cell(canvas: Canvas, place: tuple[int, int], lanes: list[int], colour: str, rows: int) -> None:
    row, bank = place
    style: dict[str, Any] = {"fc": colour, "ec": canvas.paper, "lw": 0.7, "zorder": 2}
    canvas.ax.add_patch(Rectangle((bank - 0.5, row - 0.5), 1, 1, **style))
    if canvas.annotate:
        unit = 0.75 * canvas.height / (rows + 2)
        canvas.label(
            _numbers(lanes),
            position=(bank, row),
            ha="center",
            va="center",
            color=ink_on(colour),
            fontsize=min((0.9 if len(lanes) == 1 else 0.68) * canvas.font, unit),
            bbox=None,
            zorder=3,
        )


def _numbers(lanes: list[int]) -> str:
    """Format the lanes that share a word: a number, a range, or their count."""
    if len(lanes) == 1:
        return str(lanes[0])
    contiguous = lanes[-1] - lanes[0] == len(lanes) - 1
    return f"{lanes[0]}-{lanes[-1]}" if contiguous else f"{len(lanes)}x"


def _words_per_bank(canvas: Canvas, words: Any, rows: int) -> None:
    if not canvas.annotate:
        return
    for bank, count in enumerate(words):
        canvas.label(
            str(count) if count else "-",
            position=(bank, rows + 0.3),
            ha="center",
            va="center",
            color=LOST if count > 1 else FADED,
            fontweight="bold" if count > 1 else "normal",
            bbox=None,
        )


def _title(canvas: Canvas, of: BankConflicts, request: int, count: int) -> None:
    ways = int(of.words[request].max())
    conflict = f"{ways}-way bank conflict" if ways > 1 else "No bank conflict"
    wavefronts = f"{count} wavefront{'s' if count != 1 else ''}"
    which = f", request {request} of {of.requests}" if of.requests > 1 else ""
    subject = f"{of.accesses} in shared memory{which}; numbers in cells: lanes"
    canvas.title(f"{conflict}: {wavefronts}", subject)
