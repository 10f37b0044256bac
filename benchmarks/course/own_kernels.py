"""Measures the custom kernels of notebooks/07_your_own_kernel.ipynb on a GPU.

The notebook defines the ladder in its cells with the tag "ladder". This script executes them,
so it measures exactly the code that the notebook shows. It writes the records that the notebook
loads, then reports everything that is missing or unexpected and exits with status 1. It needs the
extra ``kernels``, torch and CuPy, and 90 seconds on an H200.

    python benchmarks/course/own_kernels.py FOLDER
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from recording import Recorder, run

import adokernels as ado
from adokernels import _core

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "07_your_own_kernel.ipynb"
LONG_ROWS = (1024, 32768)
SHORT_ROWS = (65536, 128)
CHECKED = (256, 4096)  # the problem on which the planted bugs are checked
MATRIX = (4096, 4096)  # the problem of the transpose
SHORT_VARIANTS = ("thread_per_row", "block_per_row", "warp_shuffle", "online", "vectorised")


def definitions(notebook: Path = NOTEBOOK) -> dict[str, Any]:
    """The variables that the notebook's cells with the tag "ladder" define."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    defined: dict[str, Any] = {"__name__": "notebook"}
    with contextlib.chdir(notebook.parent):  # the cells read files relative to the notebook
        for cell in cells:
            if "ladder" in cell["metadata"].get("tags", ()):
                exec("".join(cell["source"]), defined)
    return defined


def matrix(shape: tuple[int, int]) -> Any:
    """Random logits."""
    return 2 * np.random.default_rng(7).standard_normal(shape, np.float32)


def peers(x: Any) -> dict[str, Callable[[], object]]:
    """The softmax of the installed libraries, on copies of the operand."""
    found: dict[str, Callable[[], object]] = {}
    try:
        import torch

        tensor = torch.from_numpy(x).cuda()
        found["torch.softmax"] = lambda: torch.softmax(tensor, dim=1)
    except ImportError as error:
        print(error, file=sys.stderr)
    try:
        import cupy
        from cupyx.scipy.special import softmax as cupyx_softmax

        array = cupy.asarray(x)

        def expressions() -> object:
            e = cupy.exp(array - array.max(axis=1, keepdims=True))
            return e / e.sum(axis=1, keepdims=True)

        found["CuPy expressions"] = expressions
        found["cupyx softmax"] = lambda: cupyx_softmax(array, axis=1)
    except ImportError as error:
        print(error, file=sys.stderr)
    return found


def record(recorder: Recorder) -> None:
    """Measure everything that the notebook shows."""
    defined = definitions()
    softmax = defined["softmax"]
    quick = {"seconds": recorder.seconds, "progress": False}
    no_counters = _core.why_no_counters()
    recorder.require(not no_counters, f"no counters: {no_counters}")

    x = matrix(LONG_ROWS)
    others = peers(x)
    names = [v.name for v in softmax if v.device == "cuda"]
    ladder = ado.sweep(
        softmax, x, device="cuda", peers=others, counters=not no_counters and "light", **quick
    )
    recorder.sweep("softmax-long", ladder, [*names, "torch.softmax", "CuPy expressions"])

    tuned = ado.tune(softmax["vectorised"], x, **quick)
    print(tuned, flush=True)
    recorder.sweep("softmax-tuned", tuned.sweep, list(tuned.settings))
    if not no_counters:  # to compare with the counters of the default block
        profile = ado.profile(softmax["vectorised"], x, block=(1024,), metrics="light")
        recorder.save("softmax-block_1024", profile)

    x = matrix(SHORT_ROWS)
    short = softmax.with_variants(defined["warp_per_row"])
    names = [*SHORT_VARIANTS, "warp_per_row"]
    sweep = ado.sweep(short, x, variants=names, peers=peers(x), **quick)
    recorder.sweep("softmax-short", sweep, [*names, "torch.softmax"])

    x = matrix(CHECKED)
    for variant in defined["planted"]:
        result = ado.check(variant, softmax, x, timed=False)
        recorder.save(f"softmax-{variant.name}", result)
        recorder.require(not result.correct, f"the bug {variant.name} is not detected")

    transpose = ado.transpose.with_variants(defined["swizzled"])
    sweep = ado.sweep(transpose, matrix(MATRIX), device="cuda", **quick)
    recorder.sweep("transpose-extended", sweep, ["naive", "padded", "wide", "swizzled"])


if __name__ == "__main__":
    run(record, __doc__, seconds=8.0)
