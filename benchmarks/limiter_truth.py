"""Scores the limiters that experiments find on kernels whose limiter is known by construction.

    python benchmarks/limiter_truth.py FOLDER --repeat 3

The sweeps of the folder are scored, too. The kernels are in tests/data/limiter_truth.cpp, which g++
compiles for this machine. All of them run on one thread. The process may use one processor, except
for the kernels whose limiter is the single thread. Each kernel is checked against NumPy first, like
any own variant.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import itertools
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.diagnosis import cpu_rules as rules
from adokernels.records.limiter import Kind

SOURCE = Path(__file__).resolve().parent.parent / "tests" / "data" / "limiter_truth.cpp"
FLAGS = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]


@dataclass(frozen=True)
class Kernel:
    """A C++ function. Its arguments are the result, the operands, the length, and the passes."""

    #: What it computes, in NumPy.
    reference: Callable[..., Any]
    #: Makes operands with the given number of elements.
    operands: Callable[[np.random.Generator, int], tuple[Any, ...]]
    #: Per element and pass: bytes of operands and result, bytes that it requests, and FLOPs, or
    #: integer operations of kernels without FLOPs.
    bytes: float
    requested: float
    flops: float = 0.0
    tolerance: float | None = 1e-9


def _arrays(count: int) -> Callable[[np.random.Generator, int], tuple[Any, ...]]:
    return lambda rng, length: tuple(rng.random(length) / 2 for _ in range(count))


def _integers(dtype: Any) -> Callable[[np.random.Generator, int], tuple[Any, ...]]:
    return lambda rng, length: (rng.integers(0, np.iinfo(dtype).max, length, dtype, endpoint=True),)


def _ring(rng: np.random.Generator, length: int) -> tuple[Any, ...]:
    """A random cycle of all elements: the index of each successor."""
    order = np.concatenate([[0], 1 + rng.permutation(length - 1)])
    following = np.empty(length, np.int64)
    following[order] = np.roll(order, -1)
    return (following,)


def _recurrence(b: Any, c: Any, *_: int) -> Any:
    pairs = zip(b.tolist(), c.tolist(), strict=True)
    steps = itertools.accumulate(pairs, lambda value, pair: value * pair[0] + pair[1], initial=0.0)
    return np.array(list(steps)[1:])


def _polynomial(b: Any, degree: int) -> Any:
    return np.polyval([0.5, *(1 / k for k in range(1, degree + 1))], b)


def _rounds(b: Any, *_: int) -> Any:
    value = b.copy()
    for _round in range(4):
        value ^= value << np.uint32(13)
        value ^= value >> np.uint32(17)
        value ^= value << np.uint32(5)
    return value


def _chase(following: Any, length: int, passes: int) -> Any:
    successors, place = following.tolist(), 0
    for _ in range(passes):
        place = successors[place]
    return np.array([place])


def _continued_fraction(b: Any, *_: int) -> Any:
    fraction = functools.reduce(lambda value, element: element / (1.0 + value), b.tolist(), 0.0)
    return np.array([fraction])


def _checksum(b: Any, *_: int) -> Any:
    return np.array([zlib.crc32(b.tobytes())], np.uint32)


_SUM = Kernel(lambda b, *_: np.array([b.sum()]), _arrays(1), 8, 8, 1)
_TRIAD = Kernel(lambda b, c, *_: b + 3.0 * c, _arrays(2), 24, 24, 2)
_ROUNDS = Kernel(_rounds, _integers(np.uint32), 8, 8, 24, tolerance=None)
KERNELS = {
    "recurrence": Kernel(_recurrence, _arrays(2), 24, 24, 2),
    "ordered_sum": _SUM,
    "total": _SUM,
    "scalar_triad": _TRIAD,
    "triad": _TRIAD,
    "scalar_polynomial": Kernel(lambda b, *_: _polynomial(b, 7), _arrays(1), 16, 16, 14),
    "polynomial": Kernel(lambda b, *_: _polynomial(b, 31), _arrays(1), 16, 16, 62),
    "chase": Kernel(_chase, _ring, 8, 0, tolerance=None),  # one access per pass
    "quotients": Kernel(lambda b, c, *_: b / (1.0 + c) + c / (1.0 + b), _arrays(2), 24, 24, 5),
    "rounds": _ROUNDS,
    "scalar_rounds": _ROUNDS,
    "checksum": Kernel(_checksum, _integers(np.uint8), 1, 5, 4, tolerance=None),
    "continued_fraction": Kernel(_continued_fraction, _arrays(1), 8, 8, 2),
    "histogram": Kernel(
        lambda bins, b, *_: np.array([b.sum()]),
        lambda rng, length: (np.zeros(length, np.int64), *_arrays(1)(rng, length)),
        *(16, 32, 1),
    ),
    "fill": Kernel(
        lambda value, length, _: np.full(length, value),
        lambda rng, length: (float(rng.random()),),
        *(8, 8),
    ),
}


@dataclass(frozen=True)
class Truth:
    """A kernel with the size of its problem, and the limiter that its construction implies."""

    name: str
    kernel: str
    kind: Kind
    unit: str
    #: Bytes of the operands and the result, from which their length follows.
    bytes: float
    passes: int
    cache: str = "warm"
    all_processors: bool = False

    @property
    def length(self) -> int:
        """Elements of the operands."""
        return max(int(self.bytes / KERNELS[self.kernel].bytes), 1)

    def agrees(self, found: Any) -> bool:
        """Whether a limiter is the one of the construction."""
        return found.kind is self.kind and found.unit.startswith(self.unit)


def truths() -> list[Truth]:
    """The kernels, sized for the caches of this machine."""
    from adokernels import _core

    size = {f"L{number}": bytes for number, bytes, _ in _core.caches()}
    small, half_l2 = size["L1"] // 2, size["L2"] // 2
    half_l3 = min(8 * size["L2"], size.get("L3", 0) // 2)
    latency, compute, work = Kind.LATENCY, Kind.COMPUTE, Kind.PARALLELISM
    chain, scalar, vector = rules.CHAIN, rules.SCALAR, rules.VECTOR
    rows = (
        ("recurrence", "recurrence", latency, chain, small, 200),
        ("ordered sum", "ordered_sum", latency, chain, small, 200),
        ("scalar triad", "scalar_triad", compute, scalar, small, 400),
        ("scalar polynomial", "scalar_polynomial", compute, scalar, small, 200),
        ("polynomial", "polynomial", compute, vector, small, 400),
        ("stream of L1", "triad", Kind.L1, "", small, 4000),
        ("stream of L2", "triad", Kind.L2, "", half_l2, 100),
        ("stream of L3", "triad", Kind.L3, "", half_l3, 5),
        ("stream of DRAM", "triad", Kind.DRAM, "", 96 << 20, 1, "cold"),
        ("pointer chase", "chase", latency, "accesses to", 64 << 20, 200_000, "cold"),
        ("one thread, arithmetic", "polynomial", work, rules.ONE_THREAD, 4 << 20, 4, "warm", True),
        ("one thread, L2", "triad", work, rules.ONE_THREAD, half_l2, 100, "warm", True),
        ("tiny calls", "triad", work, rules.CALL, 24 * 16, 1),
        # The author of these kernels had not read the rules.
        ("divisions", "quotients", compute, vector, small, 400),
        ("integer rounds", "rounds", compute, vector, small, 1000),
        ("scalar integer rounds", "scalar_rounds", compute, scalar, small, 200),
        ("checksum", "checksum", latency, chain, small, 50),
        ("continued fraction", "continued_fraction", latency, chain, small, 100),
        ("histogram of one bin", "histogram", latency, chain, small, 200),
        ("list in L2", "chase", latency, "accesses to L2", half_l2, 1_000_000),
        ("loads from L3", "total", Kind.L3, "", half_l3, 5),
        ("stores to DRAM", "fill", Kind.DRAM, "", 96 << 20, 1, "cold"),
        ("one thread, integers", "rounds", work, rules.ONE_THREAD, half_l2, 100, "warm", True),
    )
    return [Truth(*row) for row in rows]


def compiled(folder: str) -> ctypes.CDLL:
    """Compile the kernels for this machine."""
    library = Path(folder) / "limiter_truth.so"
    subprocess.run(["g++", *FLAGS, str(SOURCE), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def ladder_of(truth: Truth, library: ctypes.CDLL) -> Any:
    """An own ladder with the kernel as its variant."""
    kernel, function = KERNELS[truth.kernel], getattr(library, truth.kernel)

    def run(*arguments: Any, out: Any) -> None:
        *operands, length, passes = arguments
        given = [
            ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_double(a)
            for a in (out, *operands)
        ]
        function(*given, ctypes.c_int64(length), ctypes.c_int64(passes))

    def requested(*arguments: Any) -> float:
        return (kernel.requested * arguments[-2] or 8.0) * arguments[-1]

    def flops(*arguments: Any) -> float:
        return kernel.flops * arguments[-2] * arguments[-1]

    def problems(rng: np.random.Generator) -> Iterator[Sequence[Any]]:
        for length in (1, 5, 67, 1500, 1 << 16):
            yield *kernel.operands(rng, length), length, truth.passes

    ladder = ado.ladder(
        truth.name, reference=kernel.reference, flops=flops, tolerance=kernel.tolerance,
        problems=problems,
    )  # fmt: skip
    ladder.add(ado.variant(run, name=truth.name, bytes=requested, changes="Known by construction."))
    return ladder


def operands_of(truth: Truth) -> tuple[Any, ...]:
    """The operands of the measurement."""
    operands = KERNELS[truth.kernel].operands(np.random.default_rng(1), truth.length)
    return *operands, truth.length, truth.passes


def measure(out: Path, repeat: int, seconds: float) -> None:
    """Measure every kernel and store one sweep each."""
    threads = ado.settings.threads
    with tempfile.TemporaryDirectory() as folder:
        kernels = compiled(folder)
        for number, truth in itertools.product(range(repeat), truths()):
            ado.settings.threads = threads if truth.all_processors else 1
            try:
                sweep = ado.sweep(
                    ladder_of(truth, kernels), *operands_of(truth), device="cpu",
                    cache=truth.cache, seconds=seconds, progress=False,
                )  # fmt: skip
            finally:
                ado.settings.threads = threads
            if sweep.skipped:
                raise SystemExit(f"{truth.name}: {sweep.skipped}")
            sweep.save(out / f"{truth.name.replace(' ', '_').replace(',', '')}-{number}.json")


def score(folder: Path) -> list[dict[str, Any]]:
    """Compare the limiters of the stored sweeps with the construction."""
    known = {truth.name: truth for truth in truths()}
    measured = [ado.load(path).variants[0] for path in sorted(folder.glob("*-*.json"))]
    return [
        {
            "kernel": m.variant,
            "known": f"{truth.kind} ({truth.unit})" if truth.unit else str(truth.kind),
            "found": m.limiter.name,
            "right": truth.agrees(m.limiter),
            "evidence": [str(e) for e in m.limiter.evidence],
        }
        for m, truth in ((m, known[m.variant]) for m in measured)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the sweeps")
    parser.add_argument("--repeat", type=int, default=1, help="sweeps per kernel; 0: only score")
    parser.add_argument("--seconds", type=float, default=1.0, help="per kernel")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    measure(options.folder, options.repeat, options.seconds)
    rows = score(options.folder)
    for row in rows:
        mark = "right" if row["right"] else "WRONG"
        print(f"{mark}  {row['kernel']}: known {row['known']}, found {row['found']}")
        if not row["right"]:
            print("       " + "; ".join(row["evidence"]))
    print(f"{sum(row['right'] for row in rows)} of {len(rows)} right")


if __name__ == "__main__":
    main()
