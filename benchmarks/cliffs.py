"""Finds performance cliffs: large changes in time when one side of a problem grows by 10 %.

    python benchmarks/cliffs.py                         # on the CPU
    python benchmarks/cliffs.py --device cuda transpose

The script draws random shapes (random_shapes.py) and increases one side of at least 10 by 10 %. It
times the default calls for both problems in the same rounds, and prints the pairs with the largest
and the smallest ratios of times. The exit code is 1 if a ratio is out of bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from beside_peers import parser
from random_shapes import DRAW, LIMITS, Case, cases
from rich.console import Console
from rounds import interleaved
from shape_peers import OURS, Bench

import adokernels as ado
from adokernels.tables.rendering import new_table
from adokernels.tables.rendering import show as show_tables
from adokernels.text import quantity

GROWTH, SHORTEST = 1.1, 10
TOLERANCE = 1.3  # a cliff is a ratio above GROWTH * TOLERANCE or below 1 / TOLERANCE
SHOWN = 5
SECONDS = {"cpu": 0.2, "cuda": 0.1}


@dataclass(frozen=True)
class Step:
    """A problem and a larger one, with the variants and the seconds of both."""

    before: Case
    after: Case
    variants: tuple[str, str]
    seconds: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Seconds of the larger problem over seconds of the smaller one."""
        return self.seconds[1] / self.seconds[0]

    @property
    def is_cliff(self) -> bool:
        """Whether the time increases much more than the operand, or decreases."""
        return self.ratio > GROWTH * TOLERANCE or self.ratio < 1 / TOLERANCE


def grown(case: Case, rng: np.random.Generator) -> Case | None:
    """The problem with one longer side, or None if all sides are short."""
    sides = [axis for axis, length in enumerate(case.shape) if length >= SHORTEST]
    if not sides:
        return None
    axis = rng.choice(sides)
    lengths = list(case.shape)
    lengths[axis] = round(GROWTH * lengths[axis])
    return replace(case, shape=tuple(lengths))


def timed(bench: Bench, before: Case, after: Case, seconds: float) -> Step:
    pair = [bench.alone(case) for case in (before, after)]
    functions = {name: one.functions[OURS] for name, one in zip("ab", pair, strict=True)}
    times = interleaved(functions, "a", "b", bench.device, seconds)
    medians = times["a"].at(0.5), times["b"].at(0.5)
    return Step(before, after, (pair[0].variant, pair[1].variant), medians)


def show(routine: str, steps: list[Step], console: Console) -> None:
    steps = sorted(steps, key=lambda step: step.ratio)
    shown = steps if len(steps) <= 2 * SHOWN else [*steps[:SHOWN], *steps[-SHOWN:]]
    count = sum(step.is_cliff for step in steps)
    headers = ("from", "to", "dtype", "variants", "time from", "time to", "ratio")
    table = new_table(f"{routine}: {count} cliffs in {len(steps)} steps", headers, left=headers)
    for step in shown:
        table.add_row(
            *(str(case.shape) for case in (step.before, step.after)),
            step.before.dtype,
            ", ".join(dict.fromkeys(step.variants)),
            *(quantity(seconds, "s") for seconds in step.seconds),
            f"{step.ratio:.2f}" + " cliff" * step.is_cliff,
        )
    show_tables(console, [table])


def main() -> int:
    options = parser(__doc__, [name for name in DRAW if name != "gpp"])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--count", type=int, default=50, help="shapes per routine")
    found = options.parse_args()
    ado.settings.device = found.device
    bench = Bench(found.device, found.seed, {}, new_results=False)
    console, cliffs = Console(width=150), 0
    for routine in found.routines:
        steps = []
        for before in cases(routine, found.seed, found.count, LIMITS[found.device]):
            after = grown(before, bench.rng)
            if after:
                steps.append(timed(bench, before, after, SECONDS[found.device]))
                bench.release()
        show(routine, steps, console)
        cliffs += sum(step.is_cliff for step in steps)
    return int(cliffs > 0)


if __name__ == "__main__":
    raise SystemExit(main())
