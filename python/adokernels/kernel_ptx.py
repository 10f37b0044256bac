"""PTX of the built-in kernels, from the archive that the build writes next to the core."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

from adokernels import _core


def ptx_of(symbol: str, compute: int = 90) -> tuple[bytes, dict[str, int]]:
    """The PTX of the source file of a kernel, and the registers per thread of its kernels.

    Parameters
    ----------
    symbol
        The mangled name of the kernel.
    compute
        The compute capability of a GPU, times ten. The PTX is the newest that this GPU can run. The
        registers are those of the machine code for the architecture of the PTX, which a build may
        lack.

    Raises
    ------
    Unavailable
        If the build has no such PTX.
    """
    with ZipFile(Path(_core.__file__).resolve().with_name("ptx.zip")) as archive:
        files = json.loads(archive.read("files.json"))
        usable = [f for f in files if f["compute"] <= compute and symbol in f["kernels"]]
        if not usable:
            raise _core.Unavailable(f"this build has no PTX for {compute / 10} of {symbol}")
        file = max(usable, key=lambda f: f["compute"])
        registers = {name: n for name, n in file["kernels"].items() if n is not None}
        return archive.read(file["name"]), registers
