"""Measures the custom kernels of notebook 07 on a GPU.

The source of the notebook defines the ladder in its cells with the tag "ladder". This script
executes them, so it measures exactly the code that the notebook shows. It writes the records that
the notebook loads, then reports everything that is missing or unexpected and exits with status 1.
It needs the extras ``kernels`` and ``notebook``, torch and CuPy, and 90 seconds on an H200.

    python benchmarks/course/own_kernels.py FOLDER
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jupytext
import numpy as np
from recording import Records, complete, require, run

import adokernels as ado

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOK = NOTEBOOKS / "text" / "07_your_own_kernel.md"
LONG_ROWS, SHORT_ROWS = (1024, 32768), (65536, 128)
CHECKED = (256, 4096)  # the problem on which the planted bugs are checked
MATRIX = (4096, 4096)  # the problem of the transpose
SHORT_VARIANTS = ("thread_per_row", "block_per_row", "warp_shuffle", "online", "vectorised")


def definitions(notebook: Path = NOTEBOOK) -> dict[str, Any]:
    """Execute the cells with the tag "ladder" of a notebook; return the variables they define."""
    defined: dict[str, Any] = {"__name__": "notebook"}
    with contextlib.chdir(NOTEBOOKS):  # the cells read files relative to the notebook
        for cell in jupytext.read(notebook).cells:
            if "ladder" in cell.metadata.get("tags", ()):
                exec(cell.source, defined)
    return defined


def matrix(shape: tuple[int, int]) -> Any:
    """Random logits."""
    return 2 * np.random.default_rng(7).standard_normal(shape, np.float32)


def peers(x: Any) -> dict[str, Callable[[], object]]:
    """The softmax of other libraries, on copies of the operand."""
    import cupy
    import torch
    from cupyx.scipy.special import softmax

    tensor, array = torch.from_numpy(x).cuda(), cupy.asarray(x)

    def expressions() -> object:
        e = cupy.exp(array - array.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return {
        "torch.softmax": partial(torch.softmax, tensor, dim=1),
        "CuPy expressions": expressions,
        "cupyx softmax": partial(softmax, array, axis=1),
    }


def sweep(
    names: list[str], ladder: ado.Ladder, x: Any, others: dict[str, Any], **options: Any
) -> ado.records.Sweep:
    """The variants of a ladder and functions of other libraries, which must all be measured."""
    settings = {"device": "cuda", "seconds": 8, "progress": False}
    found = ado.sweep(ladder, x, peers=others, **settings, **options)
    return complete(found, [*names, *others])


def checked(variant: ado.Variant, softmax: ado.Ladder) -> ado.records.CheckResult:
    """Check the kernel with the planted bug; the check must find it."""
    result = ado.check(variant, softmax, matrix(CHECKED), timed=False)
    require(not result.correct, f"the bug {variant.name} is not detected")
    return result


def records() -> Records:
    defined = definitions()
    softmax = defined["softmax"]
    x, names = matrix(LONG_ROWS), [v.name for v in softmax if v.device == "cuda"]
    yield "softmax-long", partial(sweep, names, softmax, x, peers(x), counters="light")
    tuned = softmax["vectorised"]
    yield "softmax-tuned", lambda: ado.tune(tuned, x, seconds=8, progress=False).sweep
    # To compare with the counters of the default block.
    profile = partial(ado.profile, tuned, x, block=(1024,), metrics="light")
    yield "softmax-block_1024", profile
    short, x_short = softmax.with_variants(defined["warp_per_row"]), matrix(SHORT_ROWS)
    names = [*SHORT_VARIANTS, "warp_per_row"]
    others = peers(x_short)
    yield "softmax-short", partial(sweep, names, short, x_short, others, variants=names)
    bug = defined["bug"]
    yield f"softmax-{bug.name}", partial(checked, bug, softmax)
    transpose = ado.transpose.with_variants(defined["swizzled"])
    names = ["naive", "padded", "wide", "swizzled"]
    yield "transpose-extended", partial(sweep, names, transpose, matrix(MATRIX), {})


if __name__ == "__main__":
    run(__doc__, records)
