"""Prints requirements of pyproject.toml, for pip.

``python .ci/requirements.py build run test`` prints the requirements for building and running the
package and for the extra ``test``, one requirement per line.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: nvcc, the headers and the static runtime library, in ``nvidia/cu13`` of the site-packages. CMake
#: rejects a toolkit without the headers of CCCL.
NVCC = "cuda-toolkit[cccl,cudart,nvcc]==13.0.*"


def nvcc() -> list[str]:
    """Requirements for nvcc: none without CUDA, or if the PATH or ``CUDACXX`` provides it."""
    off = os.environ.get("ADOKERNELS_CUDA", "AUTO").upper() == "OFF"
    return [] if off or shutil.which(os.environ.get("CUDACXX", "nvcc")) else [NVCC]


def requirements(group: str) -> list[str]:
    """Requirements of one group: ``build``, ``run`` or the name of an extra."""
    with (Path(__file__).parent.parent / "pyproject.toml").open("rb") as file:
        pyproject = tomllib.load(file)
    if group == "build":  # ninja and CMake are usually provided by the isolated environment of pip
        return [*pyproject["build-system"]["requires"], "cmake>=3.26", "ninja", *nvcc()]
    project = pyproject["project"]
    if group == "run":
        return list(project["dependencies"])
    return list(project["optional-dependencies"][group])


if __name__ == "__main__":
    print("\n".join(line for group in sys.argv[1:] for line in requirements(group)))
