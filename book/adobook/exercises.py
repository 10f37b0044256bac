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
Operands = Callable[[], tuple[Any, ...]]


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
    if routine := settings.pop("routine", None):
        built_in = getattr(registry, routine)
        few = partial(built_in.task.random_operands, settings.pop("lengths"))
        operands: Operands = built_in.task.random_operands
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
    many, few = ((2**18, 512), settings.pop("lengths"))
    makes = [partial(_poles, np.random.default_rng(), *lengths) for lengths in (many, few)]
    return Exercise(ladder=sums, operands=makes[0], few_operands=makes[1], **settings)


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


def check_exercise(
    variant: Any, of: Exercise | Ladder, *args: Any, faster_than: str = "", **options: Any
) -> Text:
    """Compare a variant with the oracle, time it, and report the result in one line.

    Without a GPU, the emulator runs the kernel of an exercise, on small problems. The report then
    has no times, and compares the counts with the counts of the solution. It raises no exceptions.
    If the variant is wrong or cannot run on this machine, the report gives the reason.

    Parameters
    ----------
    variant
        A variant made by :func:`adokernels.cuda_variant`, or a function.
    of
        The exercise, or the routine or ladder whose result it must compute.
    *args, **options
        Operands and options, as for :func:`adokernels.check`. Default: from the exercise.
    faster_than
        A variant of the ladder that it must be faster than. Default: from the exercise; without
        an exercise, only the result matters.
    """
    ladder = of.ladder if isinstance(of, Exercise) else of
    name = getattr(variant, "name", getattr(variant, "__name__", "variant"))
    head = f"**{ladder.name}[{name}]**"
    try:
        if why := ladder.with_variants(variant).variants[-1].why_unavailable:
            if isinstance(of, Exercise) and isinstance(variant, CudaVariant) and not args:
                if not (missing := why_no_compiler()):
                    return Text(f"{head} {_on_emulator(variant, of)}")
                why = f"{why}; for the emulator, {missing}"
            return Text(f"{head} was not checked. It needs a GPU: {why}.")
        if isinstance(of, Exercise):
            args, faster_than = args or of.operands(), faster_than or of.faster_than
        against = [faster_than] if faster_than else None
        found = check(variant, ladder, *args, against=against, progress=False, **options)
    except _core.Unavailable as error:
        why = _one_line(error).removeprefix(f"{ladder.name}[{name}]: ")
        return Text(f"{head} was not checked. It needs a GPU: {why}.")
    except CompilationError as error:
        return Text(f"{head} does not compile: {_one_line(error)}")
    except _WrongResultError as error:
        return Text(f"{head} is not correct: {_one_line(error)}")
    except Exception as error:  # the reader's code may fail in any way
        return Text(f"{head} failed with {type(error).__name__}: {_one_line(error)}")
    if not found.correct:
        return Text(f"{head} is not correct: {_one_line(found.reason)}")
    compared = " ".join(map(repr, found.comparisons.values()))
    if found.refused:
        count = len(found.refused)
        head += f" refuses {count} of the problems on which it is checked ({found.refused[0]}). It"
    goal = found.comparisons.get(faster_than)
    if goal and goal.verdict is not Verdict.FASTER:
        return Text(f"{head} is correct, but not faster than {faster_than}. {compared}")
    return Text(f"{head} is **correct**. {compared}".rstrip())


def line_counts(variant: CudaVariant, exercise: Exercise) -> Heatmap | Text:
    """Count a kernel per source line on the emulator; the reason, if it cannot be counted."""
    try:
        mine = exercise.ladder.with_variants(variant)[variant.name]
        return heatmap(mine, *exercise.few_operands(), device="emulator")
    except Exception as error:  # the reader's code may fail in any way
        return Text(f"**{variant.name}** was not counted: {_one_line(error)}")


#: The counts of a launch on the emulator.
Counts = Mapping[str, Any]
#: Counts that a report compares, by their names.
_COUNTS: Mapping[str, Callable[[Counts], float]] = {
    "sectors per load request": lambda counts: _per_request(counts["global_loads"], "sectors"),
    "sectors per store request": lambda counts: _per_request(counts["global_stores"], "sectors"),
    "wavefronts per shared load": lambda counts: _per_request(counts["shared_loads"], "wavefronts"),
    "wavefronts per shared store": lambda counts: _per_request(
        counts["shared_stores"], "wavefronts"
    ),
    "divisions": lambda counts: sum(counts["operations"][f"divide{bits}"] for bits in (32, 64)),
    "instructions of warps": lambda counts: counts["instructions"],
}
#: A count is reported if it exceeds the count of the solution by this factor.
_NOTABLE = 1.1
#: Problems of other lengths on which the result is also checked.
_EDGE_CASES = 3


def _per_request(accesses: Counts, transfers: str) -> float:
    return accesses[transfers] / accesses["requests"] if accesses["requests"] else 0.0


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _on_emulator(variant: CudaVariant, exercise: Exercise) -> str:
    """Check a kernel on the emulator, and compare its counts with the counts of the solution."""
    operands, task = exercise.few_operands(), exercise.ladder.task
    cases = task.edge_cases(operands, np.random.default_rng())
    others = islice((each for each in cases if not variant.refusal(each, {})), _EDGE_CASES)
    mine = [_checked(variant, exercise, *each) for each in (*others, operands)][-1]
    model = cuda_variant("solution", source=exercise.solution, **exercise.launch)
    theirs = _checked(model, exercise, *operands)
    found = {name: (counted(mine), counted(theirs)) for name, counted in _COUNTS.items()}
    worse = [
        f"{_short(own)} {name}, the solution has {_short(best)}"
        for name, (own, best) in found.items()
        if own > _NOTABLE * best
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
