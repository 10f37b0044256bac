"""The process in which ``ado.hotspots`` samples a kernel: ``python -m ... FOLDER``.

The folder contains ``call.json``, and either ``operands.npz`` for the call of a variant or the
files of a ``SourceLaunch``. The result is ``samples.json``. No kernel may be launched before the
sampler exists.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels import _core
from adokernels.ladders.registry import routines
from adokernels.measuring.source_launch import SourceLaunch

if TYPE_CHECKING:
    from collections.abc import Mapping


def sample(call: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Sample a call or a launch, and return the samples as JSON types."""
    sampler = _core.Sampler()
    if "variant" in call:
        samples = sampler.collect(_prepared(call, folder), call["seconds"])
    else:
        launch, _arrays = SourceLaunch.load(folder).prepare()
        samples = sampler.collect(launch, call["seconds"])
    return {
        "reasons": list(samples.reasons),
        "lines": [[s.kernel, s.path, s.line, list(s.samples)] for s in samples.lines],
        "dropped": samples.dropped,
        "unattributed": samples.unattributed,
    }


def _prepared(call: Mapping[str, Any], folder: Path) -> _core.Call:
    with np.load(folder / "operands.npz") as stored:
        arrays = [stored[f"arr_{i}"] for i in range(len(stored.files))]
    options: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in call["options"].items()
    }
    problem = routines[call["routine"]].problem(*arrays, variant=call["variant"], **options)
    block = call["block"]
    return problem.prepare(call["variant"], None if block is None else tuple(block))


def main(folder: Path) -> None:
    """Read the call from a folder, and write the samples or the error to it."""
    call = json.loads((folder / "call.json").read_text(encoding="utf-8"))
    try:
        result = sample(call, folder)
    except Exception as error:
        result = {"error": {"type": type(error).__name__, "message": str(error)}}
    (folder / "samples.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
