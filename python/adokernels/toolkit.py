"""Programs of the CUDA toolkit: where they are installed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def installation(extra: str) -> str:
    """The command that adds an extra to the installed package.

    It names the requirements, so that it works in a clone and does not build the package again.
    """
    end = re.compile(rf"""; *extra *== *["']{extra}["']$""")
    from importlib.metadata import requires  # slow to import

    lines = requires("adokernels") or ()
    return " ".join(
        ["pip install", *(f"'{end.sub('', line)}'" for line in lines if end.search(line))]
    )


def program(name: str) -> str:
    """The path of a program; empty if it is not installed.

    The search covers the PATH, ``$CUDA_HOME``, the wheels of the toolkit, and
    ``/usr/local/cuda``, in this order.
    """
    return next((found for f in folders() if (found := shutil.which(name, path=f))), "")


def headers() -> list[Path]:
    """The include folders of installed toolkits."""
    found = (Path(folder).parent / "include" for folder in [*folders()][1:])
    return [path for path in found if path.is_dir()]


def folders() -> Iterator[str]:
    """The folders to search for programs; the first item is the PATH, a list of folders."""
    yield os.environ.get("PATH", "")
    if home := os.environ.get("CUDA_HOME"):
        yield str(Path(home) / "bin")
    package = importlib.util.find_spec("nvidia")
    for root in (package and package.submodule_search_locations) or ():
        yield from sorted(map(str, Path(root).glob("cu*/bin")), reverse=True)
    yield "/usr/local/cuda/bin"
