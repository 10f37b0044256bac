"""The exercises of the course: kernels that a reader completes in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.model import registry
from adokernels.model.cuda_variant import cuda_variant
from adokernels.model.ladder import Ladder
from adokernels.model.operands import random_operands
from adokernels.model.own_ladder import ladder

#: The folder of the starters, relative to a notebook. The solutions are in a subfolder.
FOLDER = Path("exercises")


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """A kernel to complete: its source is a starter with TODOs.

    Attributes
    ----------
    name
        Name of the source files.
    task
        The task in one sentence.
    starter_is
        State of the starter before it is completed: ``"wrong"`` or ``"slow"``.
    launch
        The arguments of :func:`adokernels.cuda_variant` other than name and source.
    faster_than
        The variant of the ladder that the completed kernel is faster than.
    ladder
        The ladder whose result it computes.
    operands
        Makes the operands on which it is checked and timed.
    folder
        The folder of the sources.
    """

    name: str
    task: str
    starter_is: Literal["wrong", "slow"]
    launch: Mapping[str, Any]
    faster_than: str
    ladder: Ladder
    operands: Callable[[], tuple[Any, ...]]
    folder: Path

    @property
    def starter(self) -> str:
        """The source to complete."""
        return _read(self.folder, self.name)

    @property
    def solution(self) -> str:
        """A completed source."""
        return _read(self.folder / "solutions", self.name)

    def _repr_markdown_(self) -> str:
        return f"**{self.name}**: {self.task} {_STATES[self.starter_is]}\n\n" + (
            f"```cpp\n{self.starter}\n```"
        )

    def __repr__(self) -> str:
        return f"<exercise {self.name}: {self.task} {_STATES[self.starter_is]}>"


_STATES = {
    "wrong": "Until it is completed, its result is wrong.",
    "slow": "Its result is correct; until it is completed, it is slow.",
}


def exercise(name: str, *, folder: Path = FOLDER) -> Exercise:
    """Return an exercise.

    Parameters
    ----------
    name
        One of ``course.EXERCISES``.
    folder
        The folder of the sources. The default is relative to the notebooks.

    Raises
    ------
    KeyError
        If there is no exercise with this name.
    """
    if name not in _EXERCISES:
        raise KeyError(f"there is no exercise {name!r}{_core.suggest(name, list(_EXERCISES))}")
    return _EXERCISES[name](name, folder)


def _read(folder: Path, name: str) -> str:
    return (folder / f"{name}.cu").read_text(encoding="utf-8")


def _of_routine(routine: str, **settings: Any) -> Callable[[str, Path], Exercise]:
    def make(name: str, folder: Path) -> Exercise:
        built_in = getattr(registry, routine)
        return Exercise(
            name=name,
            ladder=built_in,
            operands=lambda: random_operands(built_in),
            folder=folder,
            **settings,
        )

    return make


def pole_sum(
    pole: NDArray[Any],
    strength: NDArray[Any],
    volume: NDArray[Any],
    x: NDArray[Any],
    weight: NDArray[Any],
) -> NDArray[Any]:
    """Return the polarisability of poles at N energies, summed with weights."""
    square = pole**2
    total = np.zeros_like(pole)
    for energy, factor in zip(x, weight, strict=True):
        total += factor / (energy**2 - square)
    return np.asarray(strength / volume * square * total)


def _poles(rng: np.random.Generator, poles: int, energies: int) -> tuple[NDArray[Any], ...]:
    """Operands with poles from 0.5 to 1.5 and energies from 2 to 3, so all terms are positive."""
    lengths = (poles, poles, poles, energies, energies)
    lowest = (0.5, 0.5, 0.5, 2.0, 0.5)
    return tuple(low + rng.random(n) for low, n in zip(lowest, lengths, strict=True))


def _hoisting(name: str, folder: Path) -> Exercise:
    launch: dict[str, Any] = {"kernel": "pole_sum", "block": 128}
    sums = ladder(
        "pole_sum",
        reference=pole_sum,
        problems=lambda rng: [_poles(rng, *n) for n in ((1, 1), (33, 7), (1000, 3), (130, 64))],
        signature="(P),(P),(P),(N),(N)->(P)",
        flops=lambda pole, strength, volume, x, weight: 4 * pole.size * x.size,
        tolerance=1e-12,  # sums of up to 512 positive terms
    )
    start = "in_the_loop"
    changes = "Evaluates the whole formula in the loop: the starter."
    sums.add(cuda_variant(start, source=_read(folder, name), changes=changes, **launch))
    return Exercise(
        name=name,
        task="Hoist the loop-invariant factors out of the loop over the terms of a sum.",
        starter_is="slow",
        launch=launch,
        faster_than=start,
        ladder=sums,
        operands=lambda: _poles(np.random.default_rng(), 2**18, 512),
        folder=folder,
    )


#: The largest number of blocks along y, times the rows of a tile.
_MOST_ROWS = 32 * 65535

_EXERCISES: Mapping[str, Callable[[str, Path], Exercise]] = {
    "tiled_transpose": _of_routine(
        "transpose",
        task="Store a tile of the matrix from shared memory, with coalesced stores.",
        starter_is="wrong",
        launch={
            "kernel": "transpose<{T}>",
            "block": (32, 8),
            "tile": (32, 32),
            "refuses": lambda a: (
                f"a must have at most {_MOST_ROWS} rows" if a.shape[0] > _MOST_ROWS else None
            ),
        },
        faster_than="naive",
    ),
    "coalesced_blur": _of_routine(
        "gaussian_blur",
        task="Assign the pixels to threads so that loads and stores are coalesced.",
        starter_is="slow",
        launch={"kernel": "blur", "block": (32, 32)},
        faster_than="naive",
    ),
    "warp_reduction": _of_routine(
        "average_matvec",
        task="Add the values of the lanes of a warp with shuffles.",
        starter_is="wrong",
        launch={
            "kernel": "average_matvec<{T}>",
            "block": (32, 8),
            "grid": lambda vectors, matrix: vectors.shape[0],
            "shared_bytes": lambda vectors, matrix: 8 * vectors.shape[1],
            "refuses": lambda vectors, matrix: (
                "vectors must have at most 6144 elements" if vectors.shape[1] > 6144 else None
            ),
        },
        faster_than="block_per_set",
    ),
    "prefetch": _of_routine(
        "max_plus",
        task="Load the elements of eight terms before the first of them is used.",
        starter_is="slow",
        launch={"kernel": "max_plus<{T}>", "block": 1024, "grid": 1},
        faster_than="one_block",
    ),
    "hoisting": _hoisting,
}

#: The names of the exercises.
EXERCISES = tuple(_EXERCISES)
