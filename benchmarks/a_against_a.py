"""Tests the comparison: repeatedly times one variant as if it were two variants.

    python benchmarks/a_against_a.py [--device cuda] [--routine sobel]

Every verdict must be "same" or "unclear". The script prints the worst ratio.
"""

from __future__ import annotations

import argparse
from collections import Counter

import adokernels as ado
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler, sample_interleaved
from adokernels.measuring.statistics import compare
from adokernels.model.operands import random_operands

PAIRS = 40


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--routine", choices=list(ado.routines), default="transpose")
    parser.add_argument("--shape", help="lengths; default 1024x1024 for transpose, else the task's")
    options = parser.parse_args()
    routine = ado.routines[options.routine]
    shape = options.shape or ("1024x1024" if routine.name == "transpose" else None)
    operands = random_operands(routine, shape and tuple(map(int, shape.split("x"))))
    silent = ProgressDisplay(enabled=False)
    verdicts: Counter[str] = Counter()
    worst = 1.0
    for _ in range(PAIRS):
        problem = routine.problem(*operands, device=options.device)
        call = problem.prepare(problem.best())
        pair = [Sampler.of_call(call, cold=True) for _ in range(2)]
        sample_interleaved(pair, warm=False, precision=0.01, budget=0.5, display=silent)
        verdict, ratio, _ = compare(pair[0].seconds, pair[1].seconds, paired=True)
        verdicts[verdict.value] += 1
        worst = max(worst, ratio, 1 / ratio)
    print(f"{PAIRS} pairs on {options.device}: {dict(verdicts)}, worst ratio {worst:.4f}")


if __name__ == "__main__":
    main()
