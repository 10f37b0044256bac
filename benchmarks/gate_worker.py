"""Times one installation of adokernels for gate.py, which starts this script.

    python gate_worker.py FOLDER DEVICE PATTERN...

It prints seconds per call by name, as JSON. A time is null if the variant rejects all problems.
"""

from __future__ import annotations

import fnmatch
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 0.02  # sampling time of an item
#: Sizes of problems. On an H200, calls take 20 us to 100 ms.
SCALES = {"cpu": 32, "cuda": 1024}


def lengths_of(n: int) -> dict[str, list[tuple[int, ...]]]:
    """The problems of each routine. A variant is timed on the first one that it accepts."""
    side, many, thin = n << 3, n << 14, n << 12
    gray, rgba = [(side, 2 * side), (thin, 7)], [(side, side, 4), (thin, 7, 3)]
    return {
        "transpose": [(side, side), (thin, 16), (16, thin), (many, 1)],
        **{"grayscale": rgba, "gaussian_blur": gray, "sobel": gray, "edge_detect": rgba},
        "average_matvec": [(n, 256, 256), (n << 5, 16, 64)],
        "max_plus": [(64, n << 9)],
        "gpp": [(200, n >> 3, n << 1, 2)],
        "gather": [(many, many)],
        "component": [(many, 3)],
        **{name: [(many,)] for name in ("strided_copy", "branch", "instruction_parallelism")},
    }


def main() -> None:
    folder, device, *patterns = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not be read as the reply
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
    sys.path[0] = folder
    start = time.perf_counter()
    import adokernels as ado

    imported = time.perf_counter()
    ado.settings.device = "cpu"
    ado.transpose(np.ones((1, 1)))
    found: dict[str, float | None] = {"import": imported - start}
    found["first call"] = time.perf_counter() - imported
    modules = [m for name, m in sys.modules.items() if f"{name}.".startswith("adokernels.")]
    if outside := [m for m in modules if not Path(m.__file__).is_relative_to(folder)]:
        raise ImportError(f"{folder} must contain all modules, got {outside}")

    def on_device(arrays: Any) -> list[Any]:
        return [ado.to_device(a) if device == "cuda" else a for a in arrays]

    def seconds(work: Callable[[], object], cache: str, where: str) -> float:
        return float(ado.measure(work, cache=cache, device=where, seconds=SECONDS).seconds)

    for name, routine in ado.routines.items():
        wanted = [v for v in routine if v.device == device]
        wanted = [
            v for v in wanted if any(fnmatch.fnmatch(f"{name}/{v.name}", p) for p in patterns)
        ]
        shapes = lengths_of(SCALES[device])[name] if wanted else []
        problems = [on_device(routine.task.random_operands(lengths)) for lengths in shapes]
        for variant in wanted:
            found[f"{name}/{variant.name}"] = None
            calls = [(operands, {}) for operands in problems]
            for operands, options in (*calls, (problems[0], {"out": problems[0][0]})):
                try:
                    out = variant(*operands, **options)
                except (ValueError, TypeError, ado.Unavailable):
                    continue
                work = partial(variant, *operands, out=out)
                found[f"{name}/{variant.name}"] = seconds(work, "cold", device)
                break
        if any(fnmatch.fnmatch(f"call/{name}", pattern) for pattern in patterns):
            operands = on_device(routine.task.random_operands([1] * len(routine.task.lengths)))
            found[f"call/{name}"] = seconds(partial(routine, *operands), "warm", "cpu")
    print(json.dumps(found), file=replies, flush=True)


if __name__ == "__main__":
    main()
