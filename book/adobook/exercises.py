"""The exercises of the course: kernels that a reader completes in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adobook.published import read_toml
from adokernels import _core
from adokernels.arrays.operands import random_operands
from adokernels.custom.cuda_source import cuda_variant
from adokernels.custom.ladder import ladder
from adokernels.ladders import registry
from adokernels.ladders.base import AnyLadder

#: The folder of the starters, relative to a notebook. The solutions are in a subfolder.
FOLDER = Path("exercises")
Operands = Callable[[], tuple[Any, ...]]


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
    ladder: AnyLadder[Any]
    operands: Operands
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


_SETTINGS = read_toml(Path(__file__).with_suffix(".toml"))
#: The names of the exercises.
EXERCISES = tuple(_SETTINGS)
#: The largest number of blocks along y, times the rows of a tile.
_MOST_ROWS = 32 * 65535
#: Arguments of :func:`adokernels.cuda_variant` that are functions of the operands.
_FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "tiled_transpose": {
        "refuses": lambda a: (
            f"a must have at most {_MOST_ROWS} rows" if a.shape[0] > _MOST_ROWS else None
        ),
    },
    "warp_reduction": {
        "grid": lambda vectors, matrix: vectors.shape[0],
        "shared_bytes": lambda vectors, matrix: 8 * vectors.shape[1],
        "refuses": lambda vectors, matrix: (
            "vectors must have at most 6144 elements" if vectors.shape[1] > 6144 else None
        ),
    },
}


def exercise(name: str, *, folder: Path = FOLDER) -> Exercise:
    """Return one of ``course.EXERCISES``; the default folder is relative to the notebooks.

    Raises
    ------
    KeyError
        If there is no exercise with this name.
    """
    if name not in _SETTINGS:
        raise KeyError(f"there is no exercise {name!r}{_core.suggest(name, list(EXERCISES))}")
    settings = {"name": name, "folder": folder, **_SETTINGS[name]}
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in settings["launch"].items()}
    settings["launch"] = given | dict(_FUNCTIONS.get(name, {}))
    if routine := settings.pop("routine", None):
        built_in = getattr(registry, routine)
        operands: Operands = partial(random_operands, built_in)
        return Exercise(ladder=built_in, operands=operands, **settings)
    sums = ladder(
        "pole_sum",
        reference=pole_sum,
        problems=lambda rng: [_poles(rng, *n) for n in ((1, 1), (33, 7), (1000, 3), (130, 64))],
        signature="(P),(P),(P),(N),(N)->(P)",
        flops=lambda pole, strength, volume, x, weight: 4 * pole.size * x.size,
        tolerance=1e-12,  # sums of up to 512 positive terms
    )
    changes = "Evaluates the whole formula in the loop: the starter."
    source, start = _read(folder, name), settings["faster_than"]
    sums.add(cuda_variant(start, source=source, changes=changes, **settings["launch"]))
    operands = partial(_poles, np.random.default_rng(), 2**18, 512)
    return Exercise(ladder=sums, operands=operands, **settings)


def _read(folder: Path, name: str) -> str:
    return (folder / f"{name}.cu").read_text(encoding="utf-8")


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
