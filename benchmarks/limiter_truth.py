"""Scores the limiters that experiments find on kernels whose limiter is known by construction.

    python benchmarks/limiter_truth.py --out FOLDER --repeat 3
    python benchmarks/limiter_truth.py --score FOLDER

The kernels are in tests/data/limiter_truth.cpp, which g++ compiles for this machine. All of them
run on one thread. The process may use one processor, except for the kernels whose limiter is the
single thread. Each kernel is checked against NumPy first, like any own variant.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import subprocess
import sys
import tempfile
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
#: The number of multiplications and additions per element of each polynomial.
_DEGREES = {"scalar_polynomial": 7, "polynomial": 31}


@dataclass(frozen=True)
class Truth:
    """A kernel with its operands, and the limiter that its construction implies."""

    name: str
    kernel: str
    kind: Kind
    unit: str
    #: Bytes of the operands and the result, from which their length follows.
    bytes: int
    passes: int
    cache: str = "warm"
    all_processors: bool = False
    flops: float = 0.0  # per element and pass
    operands: int = 1

    @property
    def length(self) -> int:
        """Elements of each operand and of a result of the same length."""
        return max(self.bytes // (8 * (self.operands + 1)), 1)

    def agrees(self, found: Any) -> bool:
        """Whether a limiter is the one of the construction."""
        return found.kind is self.kind and found.unit.startswith(self.unit)


def truths() -> list[Truth]:
    """The kernels, sized for the caches of this machine."""
    from adokernels import _core

    size = {f"L{number}": bytes for number, bytes, _ in _core.caches()}
    stream: dict[str, Any] = {"kernel": "triad", "unit": "", "flops": 2, "operands": 2}
    small = size["L1"] // 2
    return [
        Truth(
            "recurrence", "recurrence", Kind.LATENCY, rules.CHAIN, small, 200, flops=2, operands=2
        ),
        Truth("ordered sum", "ordered_sum", Kind.LATENCY, rules.CHAIN, small, 200, flops=1),
        Truth(
            *("scalar triad", "scalar_triad", Kind.COMPUTE, rules.SCALAR, small, 400),
            **{"flops": 2, "operands": 2},
        ),
        Truth(
            *("scalar polynomial", "scalar_polynomial", Kind.COMPUTE, rules.SCALAR, small, 200),
            flops=14,
        ),
        Truth("polynomial", "polynomial", Kind.COMPUTE, rules.VECTOR, small, 400, flops=62),
        Truth("stream of L1", kind=Kind.L1, bytes=small, passes=4000, **stream),
        Truth("stream of L2", kind=Kind.L2, bytes=size["L2"] // 2, passes=100, **stream),
        Truth(
            "stream of L3",
            kind=Kind.L3,
            bytes=min(8 * size["L2"], size.get("L3", 0) // 2),
            passes=5,
            **stream,
        ),
        Truth("stream of DRAM", kind=Kind.DRAM, bytes=96 << 20, passes=1, cache="cold", **stream),
        Truth("pointer chase", "chase", Kind.LATENCY, "accesses to", 64 << 20, 200_000, "cold"),
        Truth(
            *("one thread, arithmetic", "polynomial", Kind.PARALLELISM, rules.ONE_THREAD),
            **{"bytes": 4 << 20, "passes": 4, "all_processors": True, "flops": 62},
        ),
        Truth(
            *("one thread, L2", "triad", Kind.PARALLELISM, rules.ONE_THREAD),
            **{"bytes": size["L2"] // 2, "passes": 100, "all_processors": True},
            **{"flops": 2, "operands": 2},
        ),
        Truth("tiny calls", "triad", Kind.PARALLELISM, rules.CALL, 24 * 16, 1, flops=2, operands=2),
    ]


def compiled(folder: str) -> ctypes.CDLL:
    """Compile the kernels for this machine."""
    library = Path(folder) / "limiter_truth.so"
    subprocess.run(["g++", *FLAGS, str(SOURCE), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def _reference(kernel: str) -> Callable[..., Any]:
    """What a kernel computes, in NumPy."""

    def recurrence(b: Any, c: Any, passes: int) -> Any:
        pairs = zip(b.tolist(), c.tolist(), strict=True)
        steps = itertools.accumulate(
            pairs, lambda value, pair: value * pair[0] + pair[1], initial=0.0
        )
        return np.array(list(steps)[1:])

    def horner(b: Any, degree: int) -> Any:
        value = np.full_like(b, 0.5)
        for k in range(1, degree + 1):
            value = value * b + 1.0 / k
        return value

    def chase(following: Any, passes: int) -> Any:
        place, cycle = 0, []
        for _ in range(min(passes, len(following))):
            place = int(following[place])
            cycle.append(place)
        return np.array([cycle[(passes - 1) % len(following)]])

    return {
        "recurrence": recurrence,
        "ordered_sum": lambda b, passes: np.array([b.sum()]),
        "scalar_triad": lambda b, c, passes: b + 3.0 * c,
        "triad": lambda b, c, passes: b + 3.0 * c,
        "scalar_polynomial": lambda b, passes: horner(b, _DEGREES["scalar_polynomial"]),
        "polynomial": lambda b, passes: horner(b, _DEGREES["polynomial"]),
        "chase": chase,
    }[kernel]


def _ring(length: int, rng: np.random.Generator) -> Any:
    """A random cycle of all elements: the index of each successor."""
    order = np.concatenate([[0], 1 + rng.permutation(length - 1)])
    following = np.empty(length, np.int64)
    following[order] = np.roll(order, -1)
    return following


def ladder_of(truth: Truth, library: ctypes.CDLL) -> Any:
    """An own ladder with the kernel as its variant."""
    function = getattr(library, truth.kernel)

    def run(*arguments: Any, out: Any) -> None:
        *arrays, passes = arguments
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (out, *arrays)]
        counts = [passes] if truth.kernel == "chase" else [len(arrays[0]), passes]
        function(*pointers, *map(ctypes.c_int64, counts))

    def work(per_element: float) -> Callable[..., float]:
        return lambda *arguments: per_element * len(arguments[0]) * arguments[-1]

    chase = truth.kernel == "chase"
    per_element = 8.0 * (truth.operands + (truth.kernel != "ordered_sum"))
    requested = (lambda following, passes: 8.0 * passes) if chase else work(per_element)

    def rings(rng: np.random.Generator) -> Iterator[Sequence[Any]]:
        for length in (5, 67, 1500, 1 << 16, 1 << 20):
            yield _ring(length, rng), truth.passes

    ladder = ado.ladder(
        truth.name,
        reference=_reference(truth.kernel),
        flops=work(truth.flops),
        tolerance=None if chase else 1e-9,
        problems=rings if chase else None,
    )
    ladder.add(ado.variant(run, name=truth.name, bytes=requested, changes="Known by construction."))
    return ladder


def operands_of(truth: Truth) -> tuple[Any, ...]:
    """The operands of the measurement."""
    rng = np.random.default_rng(1)
    if truth.kernel == "chase":
        return _ring(truth.length * 2, rng), truth.passes
    return *(rng.random(truth.length) / 2 for _ in range(truth.operands)), truth.passes


def measure(out: Path, repeat: int, seconds: float, library: Path | None) -> None:
    """Measure every kernel and store one sweep each."""
    out.mkdir(parents=True, exist_ok=True)
    everything = ado.settings.threads
    with tempfile.TemporaryDirectory() as folder:
        kernels = ctypes.CDLL(str(library)) if library else compiled(folder)
        for number in range(repeat):
            for truth in truths():
                ado.settings.threads = everything if truth.all_processors else 1
                try:
                    sweep = ado.sweep(
                        ladder_of(truth, kernels),
                        *operands_of(truth),
                        device="cpu",
                        cache=truth.cache,
                        seconds=seconds,
                        progress=False,
                    )
                finally:
                    ado.settings.threads = everything
                if sweep.skipped:
                    raise SystemExit(f"{truth.name}: {sweep.skipped}")
                sweep.save(out / f"{truth.name.replace(' ', '_').replace(',', '')}-{number}.json")


def score(folder: Path, rules_of: str, note: str) -> dict[str, Any]:
    """Compare the limiters of the stored sweeps with the construction."""
    known = {truth.name: truth for truth in truths()}
    rows, machine = [], ""
    for path in sorted(folder.glob("*-*.json")):
        (m,) = ado.load(path).variants
        found, truth = m.limiter, known[m.variant]
        machine = (
            machine or f"{m.context['device_name']}, {len(os.sched_getaffinity(0))} processors"
        )
        rows.append(
            {
                "kernel": truth.name,
                "known": f"{truth.kind} ({truth.unit})" if truth.unit else str(truth.kind),
                "found": found.name,
                "certainty": found.certainty,
                "right": truth.agrees(found),
                "evidence": [str(e) for e in found.evidence],
            }
        )
    return {"rules": rules_of, "machine": machine, "note": note, "rows": rows}


def main() -> int:
    """Measure, or score stored sweeps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="measure, and store the sweeps in this folder")
    parser.add_argument("--score", type=Path, help="score the sweeps of a folder")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="per kernel")
    parser.add_argument("--library", type=Path, help="compiled kernels, if there is no g++ here")
    parser.add_argument("--append", type=Path, help="append the score to this JSON file")
    parser.add_argument("--rules", default="", help="the commit of the rules")
    parser.add_argument("--note", default="", help="the circumstances of the measurement")
    arguments = parser.parse_args()
    if arguments.out:
        measure(arguments.out, arguments.repeat, arguments.seconds, arguments.library)
    found = score(arguments.score or arguments.out, arguments.rules, arguments.note)
    for row in found["rows"]:
        mark = "right" if row["right"] else "WRONG"
        print(f"{mark}  {row['kernel']}: known {row['known']}, found {row['found']}")
        if not row["right"]:
            print("       " + "; ".join(row["evidence"]))
    print(f"{sum(row['right'] for row in found['rows'])} of {len(found['rows'])} right")
    if arguments.append:
        path = arguments.append
        scores = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        path.write_text(json.dumps([*scores, found], indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
