"""Measures the ladders of a set on a GPU, with counters, and stores one record per ladder.

python tests/kernels/sweep.py set1 FOLDER
"""

import importlib
import sys
from pathlib import Path

import numpy as np

import adokernels as ado

if __name__ == "__main__":
    name, out = sys.argv[1:]
    Path(out).mkdir(parents=True, exist_ok=True)
    for path in sorted((Path(__file__).parent / name).glob("*.py")):
        module = importlib.import_module(f"{name}.{path.stem}")
        operands = module.operands(np.random.default_rng(0))
        options = {"device": "cuda", "counters": True, "seconds": 4.0, "progress": False}
        found = ado.sweep(module.ladder, *operands, **options)
        found.save(Path(out) / f"{path.stem}.json")
        print(found, file=sys.stderr)
