"""The process in which ``ado.hotspots`` samples a variant: ``python -m ... FOLDER``.

The folder contains ``call.json`` and ``operands.npz``; the result is ``samples.json``. No kernel
may be launched before the sampler exists.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.ladders.registry import routines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def sample(call: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> dict[str, Any]:
    """Sample a call, and return the samples as JSON types."""
    sampler = _core.Sampler()
    options: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in call["options"].items()
    }
    problem = routines[call["routine"]].problem(*arrays, variant=call["variant"], **options)
    block = call["block"]
    prepared = problem.prepare(call["variant"], None if block is None else tuple(block))
    samples = sampler.collect(prepared, call["seconds"])
    return {
        "reasons": list(samples.reasons),
        "lines": [[s.kernel, s.path, s.line, list(s.samples)] for s in samples.lines],
        "dropped": samples.dropped,
        "unattributed": samples.unattributed,
    }


def main(folder: Path) -> None:
    """Read the call from a folder, and write the samples or the error to it."""
    call = json.loads((folder / "call.json").read_text(encoding="utf-8"))
    with np.load(folder / "operands.npz") as stored:
        arrays = [stored[f"arr_{i}"] for i in range(len(stored.files))]
    try:
        result = sample(call, arrays)
    except Exception as error:
        result = {"error": {"type": type(error).__name__, "message": str(error)}}
    (folder / "samples.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
