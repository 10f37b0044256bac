"""Does the comparison fool? Times one rung twice as if it were two, many times over.

    python benchmarks/a_against_a.py [--device cuda] [--routine sobel]

Every verdict must be "same" or "unclear". The ratio printed is the worst of all.
"""

from __future__ import annotations

import argparse
from collections import Counter

import adokernels as ado
from adokernels import _core
from adokernels._measure import _sample_interleaved, _Subject, _take_call
from adokernels._operands import random_operands
from adokernels._stats import compare

PAIRS = 40


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--routine", choices=list(ado.routines), default="transpose")
    parser.add_argument("--shape", help="its lengths; default 1024x1024, or one worth measuring")
    options = parser.parse_args()
    routine = ado.routines[options.routine]
    shape = options.shape or ("1024x1024" if routine.name == "transpose" else None)
    operands = random_operands(routine, shape and tuple(map(int, shape.split("x"))))
    verdicts: Counter[str] = Counter()
    worst = 1.0
    for _ in range(PAIRS):
        problem = routine._core.problem(operands, {}, options.device)
        call: _core.Call = problem.prepare(problem.best())
        pair = [
            _Subject(lambda repeats, call=call: _take_call(call, True, repeats), options.device)
            for _ in range(2)
        ]
        _sample_interleaved(
            pair, warm=False, precision=0.01, budget=0.5, progress=False, title="A against A"
        )
        verdict, ratio, _ = compare(pair[0].seconds, pair[1].seconds, paired=True)
        verdicts[verdict.value] += 1
        worst = max(worst, ratio, 1 / ratio)
    print(f"{PAIRS} pairs on {options.device}: {dict(verdicts)}, worst ratio {worst:.4f}")


if __name__ == "__main__":
    main()
