"""A lower bound of the time of ``ado.gpp``'s last variant, from the SASS of its loops over bands.

    nvcc -O3 -std=c++20 -arch=native -o fp64_operands benchmarks/fp64_operands.cu
    ./fp64_operands > rates.txt
    cuobjdump -sass -arch sm_90 .../adokernels/_core*.so > sass.txt
    python benchmarks/gpp_bound.py rates.txt sass.txt [--measured 34.8]

FP64 instructions are classified by the number of registers that they must read. A register in the
operand reuse cache (`.reuse` on the same operand of the previous instruction) is not read again.
fp64_operands measures the time per instruction of each class. The time per instruction of other
pipes is the time that a SEL instruction adds to a DMUL instruction. The number of iterations of
each loop is computed from the energies and poles of ``gpp_operands``. The bound excludes
instructions outside these loops, latencies and barriers.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import adokernels as ado
from adokernels.model.tasks.gpp import GPP_SIZES, GppOperands

CHUNK, LANES, ROWS, WARPS = 16, 32, 2, 4
FP64 = {"DADD", "DMUL", "DFMA", "DSETP"}
#: The loops of each kernel in code order, with the number of bands per iteration.
LOOPS = {
    "gpp_occupied_tileILi2E": (("full, moments", 1), ("full, selection", 2), ("weighted", 1)),
    "gpp_empty_tileILi2E": (("empty, coefficients", 2), ("empty, moments", 4)),
}
#: For each class of instructions: the line in the output of fp64_operands with its throughput.
CLASSES = {
    "two": "DADD",
    "reused": "DFMA, three registers, one shared by all",
    "three": "DFMA, three registers",
}
WITH_SELECTION, WITHOUT = "DMUL and SEL", "DMUL"


class Instruction(NamedTuple):
    """One SASS instruction."""

    address: int
    name: str  # without modifiers
    operands: list[str]
    target: int | None  # of a branch


def kernels(sass: str) -> dict[str, list[Instruction]]:
    """Parse the output of ``cuobjdump -sass``."""
    found: dict[str, list[Instruction]] = {}
    code: list[Instruction] = []
    for line in sass.splitlines():
        if match := re.search(r"Function : (\S+)", line):
            code = found.setdefault(match[1], [])
        elif match := re.match(r"\s+/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+ )?([\w.]+) ?(.*?) *;", line):
            address, name, rest = int(match[1], 16), match[2].split(".")[0], match[3]
            target = re.search(r"0x([0-9a-f]+)", rest) if name == "BRA" else None
            operands = [part.strip() for part in rest.split(",")]
            code.append(
                Instruction(address, name, operands, int(target[1], 16) if target else None)
            )
    return found


def innermost_loops(code: Sequence[Instruction]) -> list[list[Instruction]]:
    """Return the loops with more than 32 DFMA instructions and no inner branches or calls."""
    loops = []
    for branch in code:
        if branch.target is None or branch.target >= branch.address:
            continue
        body = [i for i in code if branch.target <= i.address <= branch.address]
        names = Counter(i.name for i in body)
        if names["BRA"] == 1 and names["DFMA"] > 32 and names["CALL"] == 0:
            loops.append(body)
    return loops


def classes(loop: Iterable[Instruction]) -> Counter[str]:
    """Count the FP64 instructions by the number of registers that they read, and all others."""
    counts: Counter[str] = Counter()
    cached: list[str | None] = []
    for i in loop:
        sources = i.operands[2:] if i.name == "DSETP" else i.operands[1:]
        registers = [re.search(r"\bR(\d+)", source) for source in sources]
        if i.name in FP64:
            all_read = {r[1] for r in registers if r}
            held = {r[1] for r, old in zip(registers, cached, strict=False) if r and r[1] == old}
            kind = "two" if len(all_read) < 3 else "reused" if held else "three"
            counts[kind] += 1
        else:
            counts["other"] += 1
        cached = [
            r[1] if r and ".reuse" in source else None
            for r, source in zip(registers, sources, strict=True)
        ]
    return counts


def seconds_of_classes(text: str) -> dict[str, float]:
    """Return the seconds per thread-level instruction, from the output of fp64_operands."""
    lines = (re.match(r"(.*?) +([\d.]+) T FP64", line) for line in text.splitlines())
    rates = {match[1]: float(match[2]) * 1e12 for match in lines if match}
    seconds = {kind: 1 / rates[name] for kind, name in CLASSES.items()}
    return seconds | {"other": 1 / rates[WITH_SELECTION] - 1 / rates[WITHOUT]}


def bands_of_loops(problem: GppOperands, warps: int = 256) -> dict[str, float]:
    """Return the mean number of bands that a warp processes in each loop."""
    wx, occ = problem.wx, problem.occ
    full = (occ == 1) & (wx >= 0).all(1)
    empty = occ == 0
    rng = np.random.default_rng(0)
    rows, columns = problem.wtilde.shape
    bands = dict.fromkeys([name for loops in LOOPS.values() for name, _ in loops], 0.0)
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
    bands["weighted"] = warps * float((~full & ~empty).sum())
    return {name: count / warps for name, count in bands.items()}


def chunks(energies: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Split the energies of sorted bands into chunks of CHUNK bands."""
    return [energies[i : i + CHUNK] for i in range(0, len(energies), CHUNK)]


def report(
    rates: str, sass: str, size: Sequence[int], measured: float | None
) -> tuple[float, Mapping[str, Counter[str]]]:
    """Print the table, and return the bound in seconds and the counts."""
    problem = ado.gpp_operands(size, seed=0)
    executions, seconds = bands_of_loops(problem), seconds_of_classes(rates)
    rows, columns = problem.wtilde.shape
    # Tiles are padded to 8 igp by 32 ig. A warp has LANES threads.
    threads = -(-rows // (ROWS * WARPS)) * -(-columns // LANES) * WARPS * LANES
    total, all_counts = 0.0, {}
    print(f"{'loop':<20} {'bands':>6}   FP64 instructions per band reading        others      ms")
    print(f"{'':<20} {'':>6}   two   three, one cached   three registers")
    for kernel, loops in LOOPS.items():
        name, code = next((n, c) for n, c in kernels(sass).items() if kernel in n)
        found = innermost_loops(code)
        if len(found) != len(loops):
            raise ValueError(f"{name} must have {len(loops)} loops, got {len(found)}")
        for (loop, per_iteration), body in zip(loops, found, strict=True):
            counts = classes(body)
            all_counts[loop] = counts
            time = sum(counts[kind] * seconds[kind] for kind in counts)
            time *= executions[loop] / per_iteration * threads
            total += time
            two, reused, three, other = (
                counts[kind] / per_iteration for kind in ("two", "reused", "three", "other")
            )
            print(
                f"{loop:<20} {executions[loop]:6.1f} {two:5.1f} {reused:19.1f} {three:17.1f} "
                f"{other:10.1f} {1e3 * time:7.2f}"
            )
    print(f"bound: {1e3 * total:.1f} ms" + (f", measured: {measured} ms" if measured else ""))
    return total, all_counts


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("rates", type=Path, help="the output of fp64_operands")
    arguments.add_argument("sass", type=Path, help="the output of cuobjdump -sass")
    arguments.add_argument("--measured", type=float, help="milliseconds, to print beside the bound")
    options = arguments.parse_args()
    report(
        options.rates.read_text(), options.sass.read_text(), GPP_SIZES["si214"], options.measured
    )


if __name__ == "__main__":
    main()
