"""Compares default calls with their peers on random shapes and types, in interleaved rounds.

    python benchmarks/shapes.py                           # NumPy and OpenCV, on the CPU
    python benchmarks/shapes.py --device cuda --count 100 # torch, CuPy, cuBLAS, NPP and CV-CUDA
    python benchmarks/shapes.py --seed 3 transpose sobel
    python benchmarks/shapes.py --shapes 399x481 7x30000 --dtypes u1 f8 transpose

A ratio is the time of the fastest peer divided by the time of adokernels. The script prints the
geometric mean and the minimum of the ratios, and the ten shapes with the smallest ratios. Sizes and
aspect ratios are log-uniform (random_shapes.py). The results of adokernels and of the peers are
compared with a reference before they are timed. If a result is wrong, the exit code is 1.

CPU: samples include the overhead of Python calls. The operands are in the caches if they fit.
Results are preallocated (out=) for adokernels and the peers. With --new-results, both allocate
their results, as in ado.transpose(a) and a.T.copy(). OpenCV is a peer for images of at least 64x64
pixels. Its transpose is listed but does not count as a peer.

GPU: device times with cold caches, hidden launch overhead and preallocated results. The copy reads
and writes the same number of bytes as the problem; it does not count as a peer. The peers of gpp
are its own variants; with --own, the peers of every routine are. --multiprocessors makes a green
context with this number of multiprocessors current.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from beside_peers import COMPILER, first_line, parser, shape
from image_peers import FILTERS, libraries
from random_shapes import DRAW, LIMITS, Case, Limits, cases
from rich.console import Console
from rich.markup import escape
from rounds import interleaved
from shape_peers import COPY, OURS, Bench, Clock, WrongResult
from shape_report import Record, phases_line, show, summary

import adokernels as ado
from adokernels import _core
from adokernels.measuring.context import context

SECONDS = {"cpu": 0.3, "cuda": 0.25}
MEMORY_PER_OPERAND = 16  # bytes of free GPU memory per byte of the first operand
EXTRA = {("transpose", "cpu"): frozenset(("cv2",))}  # listed, but not counted as peers
PACKAGES = (
    *("adokernels", "numpy", "opencv-python-headless", "torch", "cupy-cuda13x", "cupy-cuda12x"),
    *("nvidia-npp", "cvcuda-cu13"),
)


def parsed() -> argparse.Namespace:
    options = parser(__doc__, DRAW)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--count", type=int, default=50, help="shapes per routine")
    options.add_argument("--seconds", type=float, help="sampling time per shape")
    options.add_argument(
        "--compile-seconds", type=float, default=30, help="for torch.compile, per routine"
    )
    options.add_argument(
        "--new-results",
        action="store_true",
        help="CPU: do not preallocate results, except for OpenCV's filters",
    )
    options.add_argument("--own", action="store_true", help="compare with the own variants")
    options.add_argument(
        "--multiprocessors", type=int, help="GPU: in a green context with this many of them"
    )
    options.add_argument("--json", type=Path, help="folder for the measurements")
    options.add_argument("--verbose", action="store_true", help="print every shape")
    options.add_argument(
        "--shapes",
        type=shape,
        nargs="+",
        action="extend",
        help="shapes of the first operand instead of random ones, for example 1080x1920x3;\n"
        "for gpp: bands x ngpown x ncouls x frequencies",
    )
    options.add_argument(
        "--dtypes", nargs="+", default=["f4"], help="types for --shapes, if the routine has several"
    )
    found = options.parse_args()
    if found.new_results and found.device == "cuda":
        options.error("--new-results requires --device cpu")
    found.seconds = SECONDS[found.device] if found.seconds is None else found.seconds
    return found


def chosen(routine: str, limits: Limits, options: argparse.Namespace) -> Iterator[Case]:
    """The requested shapes, or random ones."""
    if not options.shapes:
        yield from cases(routine, options.seed, options.count, limits)
        return
    dtypes = {"gpp": ["c16"]}.get(routine, ["u1"] if routine in FILTERS else options.dtypes)
    for given in options.shapes:
        for dtype in dtypes:
            yield Case(routine, given, dtype)


def timed(bench: Bench, case: Case, seed: int, options: argparse.Namespace) -> Record:
    compiling = COMPILER.spent
    compared = bench.compared(case, seed)
    clock = Clock()
    times = interleaved(compared.functions, OURS, COPY, options.device, options.seconds)
    clock.lap("sampling")
    compiling = COMPILER.spent - compiling
    return Record(
        case,
        compared.variant,
        compared.bytes,
        times,
        compared.wrong,
        compared.left_out,
        {**compared.phases, "of this, compilation": compiling, **clock.laps},
        EXTRA.get((case.routine, options.device), frozenset()),
    )


def enter_green_context(multiprocessors: int) -> None:
    """Make a green context current that owns a part of the first GPU, rounded up to 8."""
    from cuda.bindings import driver

    def checked(result: tuple[Any, ...]) -> Any:
        status, *values = result
        if status:
            raise RuntimeError(f"the CUDA driver returned {status!r}")
        return values[0] if values else None

    checked(driver.cuInit(0))
    device = checked(driver.cuDeviceGet(0))
    kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    every = checked(driver.cuDeviceGetDevResource(device, kind))
    part = checked(driver.cuDevSmResourceSplitByCount(1, every, 0, multiprocessors))
    description = checked(driver.cuDevResourceGenerateDesc(part[:1], 1))
    flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    green = checked(driver.cuGreenCtxCreate(description, device, flags))
    checked(driver.cuCtxSetCurrent(checked(driver.cuCtxFromGreenCtx(green))))


def versions() -> dict[str, str]:
    installed = {d.name: d.version for d in distributions()}
    found = {name: installed[name] for name in PACKAGES if name in installed}
    return {"python": platform.python_version(), **found}


def store(
    routine: str, records: Sequence[Record], wrong: Sequence[str], options: argparse.Namespace
) -> None:
    options.json.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "routine": routine,
        "device": options.device,
        "seed": options.seed,
        "count": options.count,
        "quantile": 0.5,
        "new_results": options.new_results,
        "own": options.own,
        "context": context(options.device),
        "versions": versions(),
        "wrong": list(wrong),
        "against": summary(records),
        "shapes": [record.to_dict() for record in records],
    }
    device = f"cpu-{_core.isa()}" if options.device == "cpu" else "cuda"
    path = options.json / f"shapes-{device}-{routine}-{options.seed}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    options = parsed()
    console = Console(width=150)
    ado.settings.device = options.device
    if options.multiprocessors:
        enter_green_context(options.multiprocessors)
        console.print(f"{_core.hardware()['multiprocessors']} multiprocessors")
    filters = {}
    if set(options.routines) & set(FILTERS) and not options.own:
        filters = libraries(options.device, search=False)
    bench = Bench(options.device, options.seed, filters, options.new_results, own=options.own)
    limits = LIMITS[options.device]
    if options.device == "cuda":
        limits = replace(limits, bytes=min(limits.bytes, bench.free_memory / MEMORY_PER_OPERAND))
    failed = False
    for routine in options.routines:
        start, records, wrong = time.perf_counter(), [], []
        COMPILER.dynamic, COMPILER.budget = True, options.compile_seconds
        for index, case in enumerate(chosen(routine, limits, options)):
            try:
                records.append(timed(bench, case, index, options))
            except WrongResult as error:
                wrong.append(f"{case}: {error}")
                continue
            except MemoryError as error:
                console.print(escape(f"left out {case}: {first_line(error)}"))
                continue
            finally:
                bench.release()
            if options.verbose:
                r = records[-1]
                console.print(f"{case} {r.variant}: ratio {r.ratio:.3g}", highlight=False)
        show(routine, records, console)
        console.print(f"({time.perf_counter() - start:.0f} s: {phases_line(records)})\n")
        for problem in wrong:
            console.print(escape(f"WRONG: {problem}"), style="bold red")
        failed |= bool(wrong) or any(record.wrong for record in records)
        if options.json:
            store(routine, records, wrong, options)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
