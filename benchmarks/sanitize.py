"""Runs every CUDA rung on small problems, for compute-sanitizer.

for tool in memcheck racecheck initcheck synccheck; do
  compute-sanitizer --tool $tool --error-exitcode 1 python benchmarks/sanitize.py
done
"""

from __future__ import annotations

import numpy as np

import adokernels as ado

SHAPES = [(1, 1), (31, 33), (64, 64), (65, 130), (129, 70), (256, 128), (1, 300), (300, 1)]


def main() -> None:
    runs = 0
    for dtype in ("u1", "u2", "f4", "f8", "c16"):
        for shape in SHAPES:
            a = ado.to_device(np.ones(shape, dtype))
            problem = ado.transpose._core.problem((a,), {}, "cuda")
            for v in (v for v in ado.transpose if v.device == "cuda"):
                if problem.why_refused(v.name):
                    continue
                for block in v.blocks or (None,):
                    ado.transpose(a, variant=v.name, block=block)
                    runs += 1
            if shape[0] == shape[1]:
                ado.transpose(a, out=a)
    ado.synchronize()
    print(f"{runs} launches")


if __name__ == "__main__":
    main()
