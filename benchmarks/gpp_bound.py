"""An estimate of the time of ``ado.gpp``'s last variant, from the SASS of its loops over bands.

    python benchmarks/gpp_bound.py [--arch sm_90]

It needs a build for the GPU of the stored records, cuobjdump and nvdisasm, but no GPU. FP64
instructions are classified by the number of registers that they must read. A register in the
operand reuse cache (`.reuse` on the same operand of the previous instruction) is not read again.
The time per instruction of each class is from the record gpp-operands, which fp64_operands.cu
has measured. The time per instruction of other pipes is the time that a SEL instruction adds to a
DMUL instruction. The number of iterations of each loop is computed from the energies and poles of
``gpp_operands``. The estimate excludes instructions outside these loops, latencies and barriers.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import adokernels as ado
from adokernels.model.tasks.gpp import GppOperands
from adokernels.records.instructions import Instruction
from adokernels.records.loops import Loop

DATA = Path(__file__).parents[1] / "notebooks" / "data"
VARIANT = "moments"
CHUNK, LANES, ROWS, WARPS = 16, 32, 2, 4
FP64 = {"DADD", "DMUL", "DFMA", "DSETP"}
#: The loops of each kernel in code order, with the number of bands per iteration.
LOOPS = {
    "gpp_occupied_tile<2>": (("full, moments", 1), ("full, selection", 2), ("weighted", 1)),
    "gpp_empty_tile<2>": (("empty, coefficients", 2), ("empty, moments", 4)),
}
#: For each class of instructions: the ceiling with its throughput.
CLASSES = {
    "two": "DADD",
    "reused": "DFMA, three registers, one shared by all",
    "three": "DFMA, three registers",
}


def loops_over_bands(kernel: ado.records.KernelSass) -> list[Loop]:
    """Return the loops with more than 32 DFMA instructions and no inner branches or calls."""
    found = []
    for loop in kernel.loops:
        names = Counter(i.name for i in loop.instructions)
        if names["BRA"] == 1 and names["DFMA"] > 32 and names["CALL"] == 0:
            found.append(loop)
    return found


def classes(loop: Iterable[Instruction]) -> Counter[str]:
    """Count the FP64 instructions by the number of registers that they read, and all others."""
    counts: Counter[str] = Counter()
    cached: list[str | None] = []
    for i in loop:
        sources = i.operands.split(",")[2 if i.name == "DSETP" else 1 :]
        registers = [re.search(r"\bR(\d+)", source) for source in sources]
        if i.name in FP64:
            all_read = {r[1] for r in registers if r}
            held = {r[1] for r, old in zip(registers, cached, strict=False) if r and r[1] == old}
            counts["two" if len(all_read) < 3 else "reused" if held else "three"] += 1
        else:
            counts["other"] += 1
        cached = [
            r[1] if r and ".reuse" in source else None
            for r, source in zip(registers, sources, strict=True)
        ]
    return counts


def seconds_of_classes() -> dict[str, float]:
    """Return the seconds per thread-level instruction."""
    machine = ado.load(DATA / "course" / "gpp-operands.json")

    def seconds(operation: str) -> float:
        return 1 / (LANES * machine[f"FP64 {operation}"].measured)

    other = seconds("DMUL and SEL") - seconds("DMUL")
    return {**{kind: seconds(name) for kind, name in CLASSES.items()}, "other": other}


def bands_of_loops(problem: GppOperands, warps: int = 256) -> dict[str, float]:
    """Return the mean number of bands that each of some random warps processes in each loop."""
    wx, occ = problem.wx, problem.occ
    full = (occ == 1) & (wx >= 0).all(1)
    empty = occ == 0
    rng = np.random.default_rng(0)
    rows, columns = problem.wtilde.shape
    bands: Counter[str] = Counter()
    for _ in range(warps):
        row, column = rng.integers(0, rows - ROWS + 1), rng.integers(0, columns - LANES + 1)
        w = problem.wtilde[row : row + ROWS, column : column + LANES]
        distance = np.sqrt(np.maximum(np.maximum(0.25, np.abs(w) ** 2 * 4e-6) - w.imag**2, 0))
        square = 1.25 * w.real**2 - 0.75 * w.imag**2
        lowest = np.maximum(np.sqrt(np.maximum(square, 0)), w.real + distance).max()
        for energies in chunks(wx[full][np.argsort(-wx[full, 0])]):
            name = "full, moments" if energies.min() >= lowest else "full, selection"
            bands[name] += len(energies)
        step = abs(wx[0, 1] - wx[0, 0]) / 2
        for energies in chunks(wx[empty][np.argsort(wx[empty, 0])]):
            gap = w.real.min() - energies.max()
            far = gap >= max(5 * step, distance.max(), np.abs(energies).max() / 2)
            bands["empty, moments" if far else "empty, coefficients"] += len(energies)
    bands["weighted"] = warps * int((~full & ~empty).sum())
    return {name: count / warps for name, count in bands.items()}


def chunks(energies: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Split the energies of sorted bands into chunks of CHUNK bands."""
    return [energies[i : i + CHUNK] for i in range(0, len(energies), CHUNK)]


def bounds(arch: str) -> list[tuple[str, float, dict[str, float], float]]:
    """For each loop: its name, bands, instructions per band, and seconds for all pairs."""
    kernels = ado.load(DATA / "gpp-si214.json")[VARIANT].kernels
    sass = ado.gpp[VARIANT].sass(kernels=kernels, arch=arch)
    problem = ado.gpp_operands("si214", seed=0)
    executions, seconds = bands_of_loops(problem), seconds_of_classes()
    rows, columns = problem.wtilde.shape
    # Tiles are padded to 8 igp by 32 ig. A warp has LANES threads.
    threads = -(-rows // (ROWS * WARPS)) * -(-columns // LANES) * WARPS * LANES
    result = []
    for name, loops in LOOPS.items():
        found = loops_over_bands(next(k for k in sass if k.name.endswith(name)))
        if len(found) != len(loops):
            raise SystemExit(f"{name} must have {len(loops)} loops, got {len(found)}")
        for (loop, per_iteration), body in zip(loops, found, strict=True):
            counts = {k: n / per_iteration for k, n in classes(body.instructions).items()}
            time = sum(n * seconds[k] for k, n in counts.items()) * executions[loop] * threads
            result.append((loop, executions[loop], counts, time))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_90", help="the architecture of the measured GPU")
    options = parser.parse_args()
    measured = ado.load(DATA / "gpp-si214.json")[VARIANT]
    found = bounds(options.arch)
    print(f"{'loop':<20} {'bands':>6}   FP64 instructions per band reading        others      ms")
    print(f"{'':<20} {'':>6}   two   three, one cached   three registers")
    for loop, bands, counts, time in found:
        two, reused, three, other = (counts.get(k, 0.0) for k in (*CLASSES, "other"))
        print(
            f"{loop:<20} {bands:6.1f} {two:5.1f} {reused:19.1f} {three:17.1f} "
            f"{other:10.1f} {1e3 * time:7.2f}"
        )
    total = sum(time for *_, time in found)
    print(f"estimate: {1e3 * total:.1f} ms, measured: {1e3 * measured.seconds:.1f} ms")


if __name__ == "__main__":
    main()
