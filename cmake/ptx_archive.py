"""Writes an archive with the PTX of the kernels and their registers; CMake runs it.

Arguments: cuobjdump, the archive, and the object files of nvcc. ``adokernels.kernel_ptx`` reads the
archive.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo


def registers_in(listing: str) -> dict[tuple[int, str], int]:
    """Registers per thread by architecture and kernel, from ``cuobjdump -res-usage``."""
    return {
        (int(compute), symbol): int(registers)
        for compute, kernels in re.findall(
            r"Fatbin elf code:\n=+\narch = sm_(\d+)(.*?)(?=\nFatbin|\Z)", listing, re.DOTALL
        )
        for symbol, registers in re.findall(r"Function (\S+):\s+REG:(\d+)", kernels)
    }


def main() -> None:
    """Write the archive: a file per object and architecture, and a list of their kernels."""
    cuobjdump, target, *objects = sys.argv[1:]
    files = []
    with ZipFile(target, "w") as archive:

        def add(name: str, content: bytes) -> None:
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)  # always with the same date

        for path in (Path(name).resolve() for name in objects):
            command = [cuobjdump, "-res-usage", path]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            registers = registers_in(done.stdout)
            with tempfile.TemporaryDirectory() as folder:
                command = [cuobjdump, "-xptx", "all", path]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
                for extracted in sorted(Path(folder).iterdir()):
                    compute = int(re.findall(r"sm_(\d+)", extracted.name)[-1])
                    if compute > 90:  # the emulator and newer GPUs can use the PTX for 9.0
                        continue
                    name, ptx = f"{path.name.split('.')[0]}.{compute}.ptx", extracted.read_bytes()
                    add(name, ptx)
                    kernels = map(bytes.decode, re.findall(rb"\.entry (\w+)", ptx))
                    known = {k: registers.get((compute, k)) for k in kernels}
                    files.append({"name": name, "compute": compute, "kernels": known})
        add("files.json", json.dumps(files).encode())


if __name__ == "__main__":
    main()
