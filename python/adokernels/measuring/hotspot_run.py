"""The process in which ``ado.hotspots`` samples a kernel: ``python -m ... FOLDER``.

The folder contains settings, and the files of a ``StoredCall`` or of a ``SourceLaunch``. The
result is ``samples.json``. The sampler must exist before the first kernel launch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.measuring.stored_call import prepared_call, saved_settings
from adokernels.model.source_launch import SourceLaunch

if TYPE_CHECKING:
    from collections.abc import Mapping


def sample(call: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Sample a call or a launch, and return the samples as JSON types."""
    sampler = _core.Sampler()
    if "variant" in call:
        samples = sampler.collect(prepared_call(call, folder).timed, call["seconds"])
    else:
        launch, _arrays = SourceLaunch.load(folder).prepare()
        samples = sampler.collect(launch, call["seconds"])
    return {
        "reasons": list(samples.reasons),
        "lines": [[s.kernel, s.path, s.line, list(s.samples)] for s in samples.lines],
        "dropped": samples.dropped,
        "unattributed": samples.unattributed,
    }


def main(folder: Path) -> None:
    """Read the call from a folder, and write the samples or the error to it."""
    call = saved_settings(folder)
    try:
        result = sample(call, folder)
    except Exception as error:
        result = {"error": {"type": type(error).__name__, "message": str(error)}}
    (folder / "samples.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
