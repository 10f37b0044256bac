"""The exercises of the course: kernels that a reader completes in a notebook, and their check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adobook.published import read_toml
from adobook.text import Text
from adokernels import _core
from adokernels.measuring.checking import check
from adokernels.measuring.emulating import all_checks
from adokernels.measuring.heatmap import heatmap
from adokernels.model import registry
from adokernels.model.compiler import CompilationError, why_no_compiler
from adokernels.model.cuda_variant import CudaVariant, cuda_variant
from adokernels.model.ladder import Ladder
from adokernels.model.own_ladder import ladder
from adokernels.records.heatmap import Heatmap
from adokernels.records.statistics import Verdict

#: The folder of the starters, relative to a notebook. The solutions are in a subfolder.
FOLDER = Path("exercises")
_Array = NDArray[Any]
Operands = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """A kernel to complete: its source is a starter with TODOs.

    exercises.toml explains the fields of the settings. `operands` makes the operands on which the
    kernel is checked and timed, and `few_operands` those on which the emulator runs it.
    """

    name: str
    task: str
    starter_is: Literal["wrong", "slow"]
    launch: Mapping[str, Any]
    faster_than: str
    ladder: Ladder
    operands: Operands
    few_operands: Operands
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
    lengths, routine = settings.pop("lengths"), settings.pop("routine", None)
    if routine:
        built_in = getattr(registry, routine)
        operands: Operands = built_in.task.random_operands
        few = partial(operands, lengths)
        return Exercise(ladder=built_in, operands=operands, few_operands=few, **settings)
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
    poles = partial(_poles, np.random.default_rng())
    operands, few = partial(poles, 2**18, 512), partial(poles, *lengths)
    return Exercise(ladder=sums, operands=operands, few_operands=few, **settings)


def _read(folder: Path, name: str) -> str:
    return (folder / f"{name}.cu").read_text(encoding="utf-8")


def pole_sum(pole: _Array, strength: _Array, volume: _Array, x: _Array, weight: _Array) -> _Array:
    """Return the polarisability of poles at N energies, summed with weights."""
    square = pole**2
    total = np.zeros_like(pole)
    for energy, factor in zip(x, weight, strict=True):
        total += factor / (energy**2 - square)
    return np.asarray(strength / volume * square * total)


def _poles(rng: np.random.Generator, poles: int, energies: int) -> tuple[_Array, ...]:
    """Operands with poles from 0.5 to 1.5 and energies from 2 to 3, so all terms are positive."""
    lengths = (poles, poles, poles, energies, energies)
    lowest = (0.5, 0.5, 0.5, 2.0, 0.5)
    return tuple(low + rng.random(n) for low, n in zip(lowest, lengths, strict=True))


def check_exercise(variant: CudaVariant, exercise: Exercise, **options: Any) -> Text:
    """Compare a kernel with the oracle, time it, and report the result in one line.

    Without a GPU, the emulator runs the kernel on small problems. The report then has no times, and
    compares the counts with the counts of the solution. It raises no exceptions. If the kernel is
    wrong or cannot run on this machine, the report gives the reason. `options` are options of
    :func:`adokernels.check`.
    """
    head, goal = f"**{exercise.ladder.name}[{variant.name}]**", exercise.faster_than
    try:
        if why := variant.why_unavailable:
            if missing := why_no_compiler():
                why = f"{why}; for the emulator, {missing}"
                return Text(f"{head} was not checked. It needs a GPU: {why}.")
            return Text(f"{head} {_on_emulator(variant, exercise)}")
        options = {"against": [goal], "progress": False, **options}
        found = check(variant, exercise.ladder, *exercise.operands(), **options)
    except Exception as error:  # the reader's code may fail in any way
        words = {CompilationError: "does not compile", _WrongResultError: "is not correct"}
        what = words.get(type(error), f"failed with {type(error).__name__}")
        return Text(f"{head} {what}: {_one_line(error)}")
    if not found.correct:
        return Text(f"{head} is not correct: {_one_line(found.reason)}")
    if found.refused:
        count = len(found.refused)
        head += f" refuses {count} of the problems on which it is checked ({found.refused[0]}). It"
    comparison = found.comparisons.get(goal)
    if comparison and comparison.verdict is not Verdict.FASTER:
        return Text(f"{head} is correct, but not faster than {goal}. {comparison}")
    return Text(f"{head} is **correct**. {comparison or ''}".rstrip())


def line_counts(variant: CudaVariant, exercise: Exercise) -> Heatmap | Text:
    """Count a kernel per source line on the emulator; the reason, if it cannot be counted."""
    try:
        mine = exercise.ladder.with_variants(variant)[variant.name]
        return heatmap(mine, *exercise.few_operands(), device="emulator")
    except Exception as error:  # the reader's code may fail in any way
        return Text(f"**{variant.name}** was not counted: {_one_line(error)}")


#: The counts of a launch on the emulator.
Counts = Mapping[str, Any]
#: Accesses that a report compares: their name, and what a request transfers.
_ACCESSES = {
    "sectors per load request": ("global_loads", "sectors"),
    "sectors per store request": ("global_stores", "sectors"),
    "wavefronts per shared load": ("shared_loads", "wavefronts"),
    "wavefronts per shared store": ("shared_stores", "wavefronts"),
}
#: A count is reported if it exceeds the count of the solution by this factor.
_NOTABLE = 1.1
#: Problems of other lengths on which the result is also checked.
_EDGE_CASES = 3


def _compared(counts: Counts) -> dict[str, float]:
    """The counts that a report compares, by their names."""
    found = {
        name: counts[accesses][transfers] / max(counts[accesses]["requests"], 1)
        for name, (accesses, transfers) in _ACCESSES.items()
    }
    found["divisions"] = sum(counts["operations"][f"divide{bits}"] for bits in (32, 64))
    return found | {"instructions of warps": counts["instructions"]}


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _on_emulator(variant: CudaVariant, exercise: Exercise) -> str:
    """Check a kernel on the emulator, and compare its counts with the counts of the solution."""
    operands, task = exercise.few_operands(), exercise.ladder.task
    cases = task.edge_cases(operands, np.random.default_rng())
    others = islice((each for each in cases if not variant.refusal(each, {})), _EDGE_CASES)
    mine = [_checked(variant, exercise, *each) for each in (*others, operands)][-1]
    model = cuda_variant("solution", source=exercise.solution, **exercise.launch)
    best = _compared(_checked(model, exercise, *operands))
    worse = [
        f"{_short(own)} {name}, the solution has {_short(best[name])}"
        for name, own in _compared(mine).items()
        if own > _NOTABLE * best[name]
    ]
    counts = "; ".join(worse) or "no count is worse than the solution's"
    return f"is **correct** on the emulator; {counts}. Times need a GPU."


def _checked(variant: CudaVariant, exercise: Exercise, *operands: Any) -> Counts:
    """The counts on the emulator; _WrongResultError if the kernel fails or its result is wrong."""
    extended = exercise.ladder.with_variants(variant)
    problem = extended.problem(*operands, device="emulator", variant=variant.name)
    call = problem.prepare(variant.name)
    try:
        with all_checks():
            launches = _core.emulated_counts(call.timed)
        problem.values.check(problem.results())
    except (_core.KernelError, ValueError) as error:
        raise _WrongResultError(str(error)) from None
    counts: Counts = launches[0][1]
    return counts


class _WrongResultError(ValueError):
    """Error for a kernel that fails on the emulator, or whose result is wrong."""


def _one_line(message: object) -> str:
    return " ".join(str(message).split())
