"""Compares default calls with their peers on random shapes and types, in interleaved rounds.

    python benchmarks/shapes.py                           # NumPy and OpenCV, on the CPU
    python benchmarks/shapes.py --device cuda --count 100 # torch, CuPy, cuBLAS, NPP and CV-CUDA
    python benchmarks/shapes.py --seed 3 transpose sobel
    python benchmarks/shapes.py --shapes 399x481 7x30000 --dtypes u1 f8 transpose

A ratio is the time of the fastest peer divided by the time of adokernels. The script prints the
geometric mean and the minimum of the ratios, and the ten shapes with the smallest ratios. Sizes and
aspect ratios are log-uniform (random_shapes.py). The results of adokernels and of the peers are
compared with the result of another variant before they are timed: on the CPU of the naive one, on a
GPU of the default on the CPU. The contract tests compare both with NumPy. If a result is wrong, the
exit code is 1. The peers of gpp are its own variants.

CPU: samples include the overhead of Python calls. The operands are in the caches if they fit.
Results are preallocated (out=). OpenCV is a peer for images of at least 64x64 pixels.

GPU: device times with cold caches, hidden launch overhead and preallocated results. The copy reads
and writes the same number of bytes as the problem; it does not count as a peer.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from arguments import parser, shape
from array_peers import COMPILER
from peers import PEERS, correct, first_line
from random_shapes import (
    DRAW,
    FILTERS,
    LIMITS,
    Case,
    Limits,
    cases,
    filtered,
    is_colour,
    random_array,
    worst_error,
)

import adokernels as ado
from adokernels import _core
from adokernels.measuring.context import context
from adokernels.model.checker import Checker
from adokernels.model.libraries import on_host
from adokernels.model.routine import batch_option
from adokernels.storage import replace_file

OURS, COPY = "adokernels", "copy"
SECONDS = {"cpu": 0.3, "cuda": 0.25}  # sampling time per shape
MEMORY_PER_OPERAND = 16  # bytes of free GPU memory per byte of the first operand
SMALLEST_FOR_OPENCV = 64
LARGEST_FOR_NUMPY = 1 << 18  # pixels; maximum for the filters in NumPy
SMALLEST_FOR_NPP = 16  # also for CV-CUDA
LARGEST_FOR_PEERS = 1 << 28  # pixels; peers on the GPU need many times the memory of the image
MOST_IMAGES = 32  # maximum images per batch; peers launch kernels per image
EQUAL = 0.97  # minimum ratio at which two times count as equal
PACKAGES = ("opencv-python-headless", "torch", "cupy-cuda13x", "cupy-cuda12x", "nvidia-npp")
PACKAGES += ("cvcuda-cu13",)

Record = dict[str, Any]  # one problem, with the times of all functions


def rounding_unit(case: Case) -> float:
    """A bound of the error of average_matvec for numbers below 0.5; 0 if results are exact."""
    if case.routine != "average_matvec":
        return 0.0
    length = case.shape[1]
    return (32 + length) * length / 4 * float(np.finfo(case.dtype).eps)


class WrongResult(Exception):
    """The result of adokernels is wrong; nothing is timed."""


# --- The functions --------------------------------------------------------------------------------


class Bench:
    """Makes operands on a device, and the functions to compare on them."""

    def __init__(self, device: str, seed: int) -> None:
        self.device, self.xp = device, np
        if device == "cuda":
            import cupy

            self.xp = cupy
        self.rng = np.random.default_rng(seed)

    def operands(self, case: Case, seed: int) -> tuple[np.ndarray, ...]:
        """The operands in host memory."""
        if case.routine == "gpp":
            return tuple(ado.gpp_operands(case.shape, seed=seed))
        return tuple(random_array(shape, case.dtype, self.rng) for shape in case.operand_shapes)

    def functions(self, case: Case, seed: int) -> tuple[Any, dict[str, Any], dict[str, str]]:
        """A prepared call of the default variant, the functions to time, and those left out.

        Each function has been called once, and its result checked. WrongResult: ours is wrong.
        """
        host, routine = self.operands(case, seed), ado.routines[case.routine]
        on_gpu = self.device == "cuda"
        args = tuple(map(ado.to_device, host)) if on_gpu else host
        options = batch_option(routine, args[0])
        problem = routine.problem(*args, device=self.device, **options)
        call = problem.prepare(problem.best())
        if case.routine == "gpp":
            functions, left_out = self._own_variants(routine, problem, call)
        else:
            names = (v.name for v in routine if v.device == "cpu" and not v.ceiling)
            naive = None if on_gpu else next(names)
            expected = routine(*host, device="cpu", variant=naive, **options)
            unit = rounding_unit(case)
            ours: Any = partial(routine, *args, **options)
            result = ours()
            if (error := worst_error(on_host(result), expected, unit)) > bool(unit):
                raise WrongResult(f"the error is {error:.3g}")
            functions = {OURS: call.run if on_gpu else partial(ours, out=result)}
            if case.routine in FILTERS:
                peers, left_out = self._filters(case, args[0])
            else:  # a peer may sum M numbers one after another
                allowed = 1 + case.shape[2] / case.shape[1] if unit else 0
                makers = PEERS[case.routine, self.device]
                peers, left_out = correct(
                    makers, args, lambda out: worst_error(on_host(out), expected, unit), allowed
                )
            functions |= peers
        return call, functions | {COPY: self._copy(call.cost.bytes)}, left_out

    def _filters(self, case: Case, image: Any) -> tuple[dict[str, Any], dict[str, str]]:
        """The peers of a filter, without libraries that do not support the shape."""
        sides = case.shape[:-1] if is_colour(case.routine) else case.shape
        pixels, smallest, unsupported = math.prod(sides), min(sides[-2:]), set()
        makers = PEERS[case.routine, self.device]
        if self.device == "cpu" and smallest < SMALLEST_FOR_OPENCV:
            unsupported = {"cv2"}
        elif self.device == "cuda" and smallest < SMALLEST_FOR_NPP:
            unsupported = {"npp", "cvcuda"}
        many = len(sides) == 3 and sides[0] > MOST_IMAGES and case.routine != "grayscale"
        if self.device == "cuda" and (pixels > LARGEST_FOR_PEERS or many):
            unsupported = {*makers}
        supported = {name: make for name, make in makers.items() if name not in unsupported}
        peers, left_out = correct(supported, [image])
        if self.device == "cpu" and pixels <= LARGEST_FOR_NUMPY:
            peers["numpy"] = partial(filtered, case.routine, image)
        return peers, left_out

    def _copy(self, nbytes: float) -> Callable[[], None]:
        """A copy function whose reads and writes total `nbytes`."""
        half = max(1, int(nbytes) // 2)
        source, target = self.xp.ones(half, "u1"), self.xp.empty(half, "u1")
        return partial(self.xp.copyto, target, source)

    def _own_variants(
        self, routine: Any, problem: Any, best: Any
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """The default variant, and all other variants as its peers."""
        checker, functions, left_out = Checker(problem), {}, {}
        for name in (v.name for v in routine if v.device == self.device and not v.ceiling):
            if reason := routine[name].why_unavailable or problem.why_not(name):
                left_out[name] = reason
                continue
            call = problem.prepare(name)
            try:
                checker.before(call)
            except ValueError as error:
                if name == best.variant:
                    raise WrongResult(f"[{name}] {error}") from error
                left_out[name] = f"WRONG: {error}"
                continue
            functions[OURS if name == best.variant else name] = call.run
        problem.load(problem.values)  # checks have stored other values
        return functions, left_out

    def release(self) -> None:
        """Free the unused GPU memory that CuPy and torch cache separately."""
        gc.collect()
        if self.device == "cuda":
            self.xp.get_default_memory_pool().free_all_blocks()
            if torch := sys.modules.get("torch"):
                torch.cuda.empty_cache()


# --- Times ----------------------------------------------------------------------------------------


def timed(bench: Bench, case: Case, seed: int, seconds: float) -> Record:
    """Time all functions on a problem."""
    call, functions, left_out = bench.functions(case, seed)
    cache = "cold" if bench.device == "cuda" else "warm"
    changes = ado.compare(
        functions, check=False, device=bench.device, cache=cache, seconds=seconds, progress=False
    )
    measured = {m.variant: m for m in (changes[0].before, *(change.after for change in changes))}
    times = {name: m.seconds for name, m in measured.items()}
    peers = {name: taken for name, taken in times.items() if name not in (OURS, COPY)}
    best = min(peers, key=peers.__getitem__, default="")
    return {
        "shape": case.shape,
        "dtype": case.dtype,
        "variant": call.variant,
        "bytes": call.cost.bytes,
        "times": {n: {"median": t, "samples": len(measured[n].samples)} for n, t in times.items()},
        "ratio": peers[best] / times[OURS] if best else None,
        "best_peer": best,
        "share_of_copy": times[COPY] / times[OURS],
        "left_out": left_out,
    }


# --- Report ---------------------------------------------------------------------------------------


def report(routine: str, records: Sequence[Record]) -> Iterator[str]:
    """Lines: our speed relative to the fastest peer, each peer and the copy; the ten worst."""
    ratios: dict[str, list[float]] = {"best peer": [r["ratio"] for r in records if r["best_peer"]]}
    for times in (record["times"] for record in records):
        for name in times.keys() - {OURS}:
            ratio = times[name]["median"] / times[OURS]["median"]
            ratios.setdefault(name, []).append(ratio)
    yield f"{routine}: time of each peer / our time, {len(records)} shapes"
    for name, found in ratios.items():
        if found:
            below = sum(ratio < EQUAL for ratio in found) / len(found)
            yield (
                f"{name:>22}: {len(found)} shapes, mean {geometric_mean(found):.2f}, "
                f"worst {min(found):.3f}, {below:.0%} below {EQUAL}"
            )
    for record in sorted(records, key=lambda r: r["ratio"] or r["share_of_copy"])[:10]:
        yield line_of(record)
    for name in {name: 0 for record in records for name in record["left_out"]}:
        reasons = [r["left_out"][name] for r in records if name in r["left_out"]]
        yield f"left out {name} of {len(reasons)} shapes: {', '.join(sorted({*reasons})[:3])}"


def line_of(record: Record) -> str:
    lengths, seconds = "x".join(map(str, record["shape"])), record["times"][OURS]["median"]
    line = f"{lengths} {record['dtype']} {record['variant']}: {1e6 * seconds:.4g} us, "
    if record["best_peer"]:
        line += f"ratio {record['ratio']:.3f} to {record['best_peer']}, "
    return f"{line}{record['share_of_copy']:.0%} of the copy"


def store(routine: str, records: list[Record], options: argparse.Namespace) -> None:
    installed = {d.name: d.version for d in distributions()}
    document = {
        "routine": routine,
        "device": options.device,
        "seed": options.seed,
        "context": context(options.device),
        "roof": ado.machine(options.device).roof,  # bytes per second
        "versions": {name: installed[name] for name in PACKAGES if name in installed},
        "shapes": records,
    }
    options.json.mkdir(parents=True, exist_ok=True)
    device = f"cpu-{_core.isa()}" if options.device == "cpu" else "cuda"
    path = options.json / f"shapes-{device}-{routine}-{options.seed}.json.xz"
    replace_file(path, f"{json.dumps(document, indent=1)}\n".encode())


def chosen(routine: str, limits: Limits, options: argparse.Namespace) -> list[Case]:
    """The requested shapes, or random ones."""
    if not options.shapes:
        return [*cases(routine, options.seed, options.count, limits)]
    dtypes = {"gpp": ["c16"]}.get(routine, ["u1"] if routine in FILTERS else options.dtypes)
    return [Case(routine, given, dtype) for given in options.shapes for dtype in dtypes]


def main() -> int:
    parsed = parser(__doc__, DRAW)
    parsed.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parsed.add_argument("--seed", type=int, default=0)
    parsed.add_argument("--count", type=int, default=50, help="shapes per routine")
    parsed.add_argument("--seconds", type=float, help="sampling time per shape")
    words = "seconds for torch.compile, per routine"
    parsed.add_argument("--compile-seconds", type=float, default=30, help=words)
    parsed.add_argument("--isa", help="CPU: the instruction set; default: the best one")
    parsed.add_argument("--json", type=Path, help="folder for the measurements")
    parsed.add_argument("--verbose", action="store_true", help="print every shape")
    words = "shapes of the first operand instead of random ones, for example 1080x1920x3;\n"
    words += "for gpp: bands x ngpown x ncouls x frequencies"
    parsed.add_argument("--shapes", type=shape, nargs="+", action="extend", help=words)
    words = "types for --shapes, if the routine has several"
    parsed.add_argument("--dtypes", nargs="+", default=["f4"], help=words)
    options = parsed.parse_args()
    ado.settings.device, COMPILER.dynamic = options.device, True
    if options.isa:
        ado.settings.isa = options.isa
    bench = Bench(options.device, options.seed)
    limits, failed = LIMITS[options.device], False
    if options.device == "cuda":
        free, _ = bench.xp.cuda.runtime.memGetInfo()
        limits = replace(limits, bytes=min(limits.bytes, free / MEMORY_PER_OPERAND))
    seconds = options.seconds or SECONDS[options.device]
    for routine in options.routines:
        records, COMPILER.budget = [], options.compile_seconds
        for index, case in enumerate(chosen(routine, limits, options)):
            try:
                records.append(timed(bench, case, index, seconds))
                if options.verbose:
                    print(line_of(records[-1]), flush=True)
            except WrongResult as error:
                print(f"WRONG: {case}: {error}", flush=True)
                failed = True
            except MemoryError as error:
                print(f"left out {case}: {first_line(error)}", flush=True)
            finally:
                bench.release()
        print(*report(routine, records), sep="\n", end="\n\n", flush=True)
        failed |= any("WRONG" in reason for r in records for reason in r["left_out"].values())
        if options.json:
            store(routine, records, options)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
