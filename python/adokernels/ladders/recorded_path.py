"""Source files as the compiler recorded them, and as they are shipped."""

from __future__ import annotations

import os
from pathlib import Path


def shipped_path(recorded: str, root: Path) -> str:
    """The shipped file with this recorded path; `recorded` if that file is not shipped.

    Parameters
    ----------
    recorded
        The path on the machine that compiled it, for example
        ``"/home/me/adokernels/cuda/transpose/element_steps.cuh"``.
    root
        The folder of the shipped sources.
    """
    parts = Path(os.path.normpath(recorded)).parts if recorded else ()
    for first in range(len(parts)):
        if parts[first] in ("cuda", "src") and (root / Path(*parts[first:])).is_file():
            return Path(*parts[first:]).as_posix()
    return recorded
