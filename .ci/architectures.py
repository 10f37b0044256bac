"""Compiles the kernels for many architectures: registers, spills, and launches that would fail.

``make architectures`` runs it. It needs nvcc, but no GPU. A block has at most 64 Ki registers, and
at most the shared memory of its architecture.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from adokernels import _core, routines
from adokernels.machine_code import kernels_in
from adokernels.model.tasks import TASKS

ROOT = Path(__file__).resolve().parent.parent
#: Cubins and messages of ptxas, which later runs use until a file in cuda/ or src/ changes.
BUILD = ROOT / "build" / "architectures"
#: KiB of shared memory per block, by compute capability times ten.
SHARED = {75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}
REGISTERS = 64 << 10  # per block
SPILLS = re.compile(
    r"Function properties for (\S+)\n.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
)


@dataclass(frozen=True)
class Compiled:
    """A kernel of one architecture."""

    source: str
    symbol: str
    compute: int
    registers: int
    spilled: int  # bytes of the stores and loads per thread
    most_threads: int  # per block, from the launch bounds

    @property
    def too_large(self) -> bool:
        """Whether a block of the size of the launch bounds needs too many registers."""
        per_thread = -(-self.registers // 8) * 8
        return per_thread * self.most_threads > REGISTERS


def nvcc() -> str:
    """The path of nvcc: on the PATH, or of the package that the build installs."""
    packages = Path(_core.__file__).parent.parent
    found = shutil.which("nvcc") or shutil.which(packages / "nvidia" / "cu13" / "bin" / "nvcc")
    return found or sys.exit("nvcc must be on the PATH, or be installed by `make dev`")


def compiled(compiler: str, source: Path, compute: int, newest: float) -> list[Compiled]:
    """Compile a file for one architecture, unless it is up to date, and return its kernels."""
    options = ["-O3", "-std=c++20", "-cubin", "-Xptxas=-v", f"-arch=sm_{compute}"]
    cubin = BUILD / f"{'-'.join(source.parts)}.sm_{compute}.cubin"
    log = cubin.with_suffix(".txt")
    if not log.exists() or log.stat().st_mtime < newest:
        command = [compiler, *options, "-Isrc", "-Icuda", source, "-o", cubin]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{source} for sm_{compute}:\n{done.stderr}")
        log.write_text(done.stderr)
    spills = {name: int(a) + int(b) for name, a, b in SPILLS.findall(log.read_text())}
    return [
        Compiled(str(source), k.symbol, compute, k.registers, spills[k.symbol], k.most_threads)
        for k in kernels_in(cubin.read_bytes())
    ]


def shared_memory(routine: _core.Routine, gpu: _core.Hardware) -> Iterator[tuple[str, int]]:
    """The names of CUDA variants, and the bytes of shared memory of a block, for small problems."""
    public = routines[routine.name]
    task, cases = public.task, TASKS[routine.name].sanitizer
    variants = [v for v in public if v.device == "cuda"]
    for dtype, shape, *values in itertools.product(
        cases.dtypes, cases.shapes, *cases.options.values()
    ):
        operands = tuple(task.random_operands(shape, dtype))
        options = dict(zip(cases.options, values, strict=True))
        for variant in variants:
            for block in variant.blocks or (None,):
                with contextlib.suppress(ValueError):  # the variant rejects the problem
                    plan = routine.plan(variant.name, operands, options, gpu=gpu, block=block)
                    yield f"{routine.name}[{variant.name}]", plan.shared_bytes


def too_much_shared_memory(compute: int) -> Iterator[str]:
    """The variants that need more shared memory than a block can have."""
    limit = SHARED[compute] << 10
    gpu = _core.Hardware(compute=compute, shared_bytes=limit)
    for routine in _core.routines():
        if routine.name not in TASKS:
            continue
        most = dict[str, int]()
        for variant, size in shared_memory(routine, gpu):
            most[variant] = max(size, most.get(variant, 0))
        yield from (f"{v}: {n} bytes of shared memory" for v, n in most.items() if n > limit)


def table(kernels: list[Compiled]) -> Iterator[str]:
    """A line per kernel: registers per thread, and bytes of spills, for each architecture."""
    computes = sorted({k.compute for k in kernels})
    yield "source, kernel: " + ", ".join(f"sm_{compute}" for compute in computes)
    by_kernel: dict[tuple[str, str], dict[int, Compiled]] = {}
    for k in kernels:
        by_kernel.setdefault((k.source, k.symbol), {})[k.compute] = k
    for (source, symbol), found in by_kernel.items():
        cells = [
            f"{k.registers}" + f" spills {k.spilled}" * (k.spilled > 0) if k else "-"
            for k in map(found.get, computes)
        ]
        yield f"{source}, {_core.kernel_name(symbol)}: " + ", ".join(cells)


def main() -> None:
    """Write the table to build/architectures.txt, print its summary; fail if a launch would."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", nargs="+", type=int, choices=SHARED, default=list(SHARED))
    parser.add_argument("--source", nargs="+", type=Path, help="default: all files in cuda/")
    arguments = parser.parse_args()
    sources = arguments.source or [p.relative_to(ROOT) for p in ROOT.glob("cuda/**/*.cu")]
    newest = max(p.stat().st_mtime for f in ("cuda", "src") for p in (ROOT / f).rglob("*.?*"))
    jobs = list(itertools.product([nvcc()], sorted(sources), arguments.arch, [newest]))
    BUILD.mkdir(parents=True, exist_ok=True)
    kernels: list[Compiled] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, found in enumerate(pool.map(compiled, *zip(*jobs, strict=True)), 1):
            print(f"\r[{done}/{len(jobs)}]", end="", file=sys.stderr, flush=True)
            kernels += found
    print(file=sys.stderr)
    path = BUILD.with_suffix(".txt")
    path.write_text("\n".join(table(kernels)) + "\n")
    wrong = []
    for compute in arguments.arch:
        own = [k for k in kernels if k.compute == compute]
        spilled = [k for k in own if k.spilled]
        print(
            f"sm_{compute}: {len(own)} kernels, at most {max(k.registers for k in own)} registers, "
            f"{len(spilled)} with spills (at most {max((k.spilled for k in spilled), default=0)} B)"
        )
        wrong += [f"sm_{compute}: {k.symbol}: {k.registers} registers" for k in own if k.too_large]
        wrong += [f"sm_{compute}: {text}" for text in too_much_shared_memory(compute)]
    print(f"{path.relative_to(ROOT)} lists every kernel")
    if wrong:
        sys.exit("\n".join(["cannot be launched:", *wrong]))


if __name__ == "__main__":
    main()
