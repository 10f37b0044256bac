"""The version of a build, for pyproject.toml. Development versions name the commit."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def dynamic_metadata(field: str, settings: Mapping[str, Any]) -> str:
    """The version of this source tree.

    Parameters
    ----------
    field
        The name of the field, "version".
    settings
        ``number`` is the version. If it ends with ".dev0" and git knows the commit, the commit is
        appended: "0.5.0.dev0+g1a2b3c4", with ".dirty" if files have changed since. A source
        distribution has the version of its PKG-INFO. The environment variable
        ADOKERNELS_LOCAL_VERSION is a local version: "0.5.0+cpu".
    """
    number, suffixes = str(settings["number"]), [os.environ.get("ADOKERNELS_LOCAL_VERSION", "")]
    root = Path(__file__).resolve().parent.parent
    if ".dev" in number and (information := root / "PKG-INFO").exists():  # a source distribution
        return information.read_text(encoding="utf-8").partition("\nVersion: ")[2].split("\n")[0]
    if (
        ".dev" in number and (root / ".git").exists()
    ):  # otherwise an archive, perhaps in a repository
        command = ["git", "describe", "--always", "--exclude=*", "--dirty=.dirty"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
            suffixes.insert(0, f"g{done.stdout.strip()}")
    return "+".join(filter(None, [number, ".".join(filter(None, suffixes))]))
