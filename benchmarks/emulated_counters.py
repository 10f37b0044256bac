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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.measuring.context import context
from adokernels.model.tasks import as_tuple

#: Lengths of the problems; SHAPE for other routines.
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "grayscale": ((61, 67, 4), (256, 320, 3)),
    "edge_detect": ((61, 13, 4), (256, 320, 3)),
    **dict.fromkeys(("gaussian_blur", "sobel"), ((61, 23), (256, 320))),
    "average_matvec": ((9, 16, 33), (64, 32, 16)),
    "max_plus": ((33, 700), (8, 8192)),
    "gpp": ((8, 9, 33, 2), (20, 16, 128, 2)),
    "gather": ((5000, 3000), (1 << 15, 1 << 15)),
    "component": ((5001, 3), (1 << 15, 4)),
    **dict.fromkeys(("branch", "strided_copy", "instruction_parallelism"), ((5001,), (1 << 16,))),
}
SHAPE = ((61, 67), (256, 320))
#: Routines whose counts depend on values.
VARYING = ("gpp", "gather", "branch")
KEYS = (
    *("load_requests", "load_sectors", "store_requests", "store_sectors", "flops", "atomics"),
    *("lanes", "shared_load_wavefronts", "shared_store_wavefronts"),
)


def operands_of(routine: ado.Ladder, lengths: tuple[int, ...]) -> tuple[Any, ...]:
    """Operands with random integers that do not change from call to call."""
    if routine.name == "gpp":
        return tuple(ado.gpp_operands(lengths, seed=1))
    rng, operands = np.random.default_rng(1), routine.task.random_operands(lengths)
    most = lengths[0] if routine.name == "gather" else 256
    return tuple(
        rng.integers(0, most, a.shape, a.dtype) if a.dtype.kind in "ui" else a for a in operands
    )


def difference(results: Any, expected: Any) -> tuple[bool, float]:
    """Whether all bytes are equal, and the largest difference relative to the largest value."""
    equal, worst = True, 0.0
    for a, b in zip(as_tuple(results), as_tuple(expected), strict=True):
        equal = equal and a.tobytes() == b.tobytes()
        largest = float(np.abs(b).max(initial=0)) or 1.0
        apart = np.abs(a.astype(np.result_type(a, np.float64)) - b)
        worst = max(worst, float(apart.max(initial=0)) / largest)
    return equal, worst


def counters(*call: Any, **options: Any) -> dict[str, float]:
    profile = ado.profile(*call, **options)
    known = {key: float(value) for key in KEYS if (value := profile.get(key)) is not None}
    return {key: int(value) if value.is_integer() else value for key, value in known.items()}


def compared(routine: ado.Ladder, lengths: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    operands = operands_of(routine, lengths)
    on_gpu = [ado.to_device(a) for a in operands]
    for variant in (v for v in routine if v.device == "cuda"):
        row: dict[str, Any] = {"routine": routine.name, "lengths": lengths, "variant": variant.name}
        try:
            emulated = variant(*operands, device="emulator")
            row["emulator"] = counters(variant, *operands, device="emulator")
            measured = variant(*on_gpu)
            results = measured if isinstance(measured, tuple) else (measured,)
            host = tuple(a.numpy() for a in results)
            row["equal"], row["difference"] = difference(emulated, host)
            row["gpu"] = counters(variant, *on_gpu)
        except (ValueError, ado.Unavailable) as error:
            print(f"skipped {routine.name}[{variant.name}]: {error}")
            continue
        yield row


def count_again(row: dict[str, Any]) -> None:
    """Replace the counts of the emulator."""
    routine = ado.routines[row["routine"]]
    operands = operands_of(routine, tuple(row["lengths"]))
    counts = counters(routine[row["variant"]], *operands, device="emulator")
    varies = row["variant"] == "overlapped" or row["routine"] in VARYING
    again = ("shared", "flops") if row["routine"] == "gpp" else "shared"
    keys = [key for key in KEYS if not varies or key.startswith(again)]
    row["emulator"] |= {key: counts[key] for key in keys if key in row["emulator"]}


def store(path: Path, facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write JSON with one row per line."""
    dump = functools.partial(json.dumps, default=str, separators=(",", ":"))
    lines = ",\n".join(map(dump, rows))
    path.write_text(f'{{"context":{dump(facts)},"rows":[{lines}]}}\n', encoding="utf-8")


def main(path: Path, names: list[str]) -> None:
    rows: list[dict[str, Any]] = []
    if names == ["--again"]:
        document = json.loads(path.read_text(encoding="utf-8"))
        for row in document["rows"]:
            count_again(row)
        store(path, document["context"], document["rows"])
        return
    for routine in (ado.routines[name] for name in names or ado.routines):
        for lengths in SHAPES.get(routine.name, SHAPE):
            rows += compared(routine, lengths)
            print(routine.name, lengths, flush=True)
            store(path, context("cuda:0"), rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
