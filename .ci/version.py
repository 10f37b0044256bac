"""The version of a build, for pyproject.toml. Development versions name the commit."""

from __future__ import annotations

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
        distribution has the version of its PKG-INFO.
    """
    number = str(settings["number"])
    if field != "version" or ".dev" not in number:
        return number
    root = Path(__file__).resolve().parent.parent
    if (information := root / "PKG-INFO").exists():  # a source distribution
        return information.read_text(encoding="utf-8").partition("\nVersion: ")[2].split("\n")[0]
    if not (root / ".git").exists():  # an archive, even if it is inside of another repository
        return number
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=.dirty"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return number
    return f"{number}+g{done.stdout.strip()}"
