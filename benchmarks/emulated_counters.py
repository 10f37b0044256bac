"""Compares every CUDA variant on the emulator with the GPU: results and hardware counters.

    python benchmarks/emulated_counters.py tests/data/emulator/counters.json [ROUTINE ...]
    python benchmarks/emulated_counters.py tests/data/emulator/counters.json --again

A variant runs on two small problems with the same operands on both devices. The JSON contains the
largest difference of the results and the counters of both. tests/test_emulated_gpu.py compares the
emulator with these counters, and the tables of docs/guide/emulator.md are generated from them.
`--again` does not need a GPU: it replaces the counts of the emulator, unless they depend on
values or time. It also replaces the FLOPs of gpp, which depend on values by up to 0.3 %.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.measuring.context import context
from adokernels.model.tasks import as_tuple

#: Lengths of the problems. The counts of other routines do not depend on values.
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "grayscale": ((61, 67, 4), (256, 320, 3)),
    "edge_detect": ((61, 13, 4), (256, 320, 3)),
    "gaussian_blur": ((61, 13), (256, 320)),
    "sobel": ((61, 13), (256, 320)),
    "average_matvec": ((9, 16, 33), (64, 32, 16)),
    "max_plus": ((33, 700), (8, 8192)),
    "gpp": ((8, 9, 33, 2), (20, 16, 128, 2)),
    "gather": ((5000, 3000), (1 << 15, 1 << 15)),
    "component": ((5001, 3), (1 << 15, 4)),
    "branch": ((5001,), (1 << 16,)),
    "strided_copy": ((5001,), (1 << 16,)),
    "instruction_parallelism": ((5001,), (1 << 16,)),
}
SHAPE = ((61, 67), (256, 320))
#: Routines whose counts depend on values.
VARYING = ("gpp", "gather", "branch")
KEYS = (
    *("load_requests", "load_sectors", "store_requests", "store_sectors", "flops", "atomics"),
    *("lanes", "shared_load_wavefronts", "shared_store_wavefronts"),
)


def operands_of(routine: ado.Ladder, lengths: tuple[int, ...], seed: int) -> tuple[Any, ...]:
    """Operands with random data that depends on the seed only."""
    if routine.name == "gpp":
        return tuple(ado.gpp_operands(lengths, seed=seed))
    rng = np.random.default_rng(seed)
    found = []
    for array in routine.task.random_operands(lengths):
        if routine.name == "gather" and array.dtype.kind == "i":
            found.append(rng.integers(0, lengths[0], array.shape))
        elif array.dtype.kind in "ui":
            found.append(rng.integers(0, 256, array.shape, array.dtype))
        else:
            found.append(array)
    return tuple(found)


def difference(results: Any, expected: Any) -> tuple[bool, float]:
    """Whether all bytes are equal, and the largest difference relative to the largest value."""
    equal, worst = True, 0.0
    for a, b in zip(as_tuple(results), as_tuple(expected), strict=True):
        equal = equal and a.tobytes() == b.tobytes()
        largest = float(np.abs(b).max(initial=0)) or 1.0
        apart = np.abs(a.astype(np.result_type(a, np.float64)) - b)
        worst = max(worst, float(apart.max(initial=0)) / largest)
    return equal, worst


def counters(profile: ado.records.Profile) -> dict[str, float]:
    values = {key: profile.get(key) for key in KEYS}
    known = {key: float(value) for key, value in values.items() if value is not None}
    return {key: int(value) if value.is_integer() else value for key, value in known.items()}


def compared(routine: ado.Ladder, lengths: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    operands = operands_of(routine, lengths, seed=1)
    on_gpu = [ado.to_device(a) for a in operands]
    for variant in (v for v in routine if v.device == "cuda"):
        row: dict[str, Any] = {"routine": routine.name, "lengths": lengths, "variant": variant.name}
        try:
            emulated = variant(*operands, device="emulator")
            row["emulator"] = counters(ado.profile(variant, *operands, device="emulator"))
            measured = variant(*on_gpu)
            results = measured if isinstance(measured, tuple) else (measured,)
            host = tuple(a.numpy() for a in results)
            row["equal"], row["difference"] = difference(emulated, host)
            row["gpu"] = counters(ado.profile(variant, *on_gpu))
        except (ValueError, ado.Unavailable) as error:
            print(f"skipped {routine.name}[{variant.name}]: {error}")
            continue
        yield row


def text_of(document: dict[str, Any]) -> str:
    """JSON with one row per line."""
    dump = functools.partial(json.dumps, default=str, separators=(",", ":"))
    rows = ",\n".join(map(dump, document["rows"]))
    return f'{{"context":{dump(document["context"])},"rows":[{rows}]}}\n'


def count_again(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    for row in document["rows"]:
        routine = ado.routines[row["routine"]]
        operands = operands_of(routine, tuple(row["lengths"]), seed=1)
        counts = counters(ado.profile(routine[row["variant"]], *operands, device="emulator"))
        varies = row["variant"] == "overlapped" or row["routine"] in VARYING
        again = ("shared", "flops") if row["routine"] == "gpp" else "shared"
        keys = KEYS if not varies else [key for key in KEYS if key.startswith(again)]
        row["emulator"] |= {key: counts[key] for key in keys if key in row["emulator"]}
    path.write_text(text_of(document), encoding="utf-8")


def main(path: Path, names: list[str]) -> None:
    if names == ["--again"]:
        return count_again(path)
    rows: list[dict[str, Any]] = []
    start = time.perf_counter()
    for routine in (ado.routines[name] for name in names or ado.routines):
        for lengths in SHAPES.get(routine.name, SHAPE):
            rows += compared(routine, lengths)
            print(routine.name, lengths, f"{time.perf_counter() - start:.0f} s", flush=True)
            document = {"context": context("cuda:0"), "rows": rows}
            path.write_text(text_of(document), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
