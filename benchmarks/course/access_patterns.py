"""Records the data of notebooks/06_access_patterns.ipynb on a GPU with readable counters.

* strided_copy-strides.json, strided_copy-offsets.json: the naive kernel for several strides and
  offsets, with the counters of sectors and DRAM. The stored records have all strides from 1 to 32
  and all offsets from 0 to 33; the chart draws those that a record has.
* gather-patterns.json: the naive kernel with the index of each access pattern, for elements of 4, 8
  and 16 bytes. The context of a measurement names its pattern.
* strided_copy-3.json, strided_copy-32.json, gather-random.json, gather-neighbours.json,
  component-structures.json, component-arrays.json, branch.json, instruction_parallelism.json: the
  ladders with all counters.

    python benchmarks/course/access_patterns.py FOLDER [--only NAME ...]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from recording import Recorder, run

import adokernels as ado

ELEMENTS = 64 << 20
OFFSET_ELEMENTS = 16 << 20
POINTS = 16 << 20
#: Around the ends of sectors (8 elements) and of 64-byte pieces of DRAM (16 elements).
STRIDES, OFFSETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (0, 1, 4, 7, 8, 9, 16, 24, 32, 33)
#: Warps of the kernels with a named pattern.
WARPS = 1 << 17
#: Patterns by element type: the index of each lane, relative to the first element of its warp.
LANE = np.arange(32)
SHARED = {"same word": 0 * LANE, "two lanes per word": LANE // 2, "16 words twice": LANE % 16}
PATTERNS: dict[str, dict[str, Any]] = {
    "float32": {
        "aligned": LANE,
        "shifted 1": LANE + 1,
        "stride 2": 2 * LANE,
        "stride 3": 3 * LANE,
        "stride 32": 32 * LANE,
        "random": None,
        **SHARED,
    },
    "float64": {"aligned": LANE, "shifted 1": LANE + 1, "random": None, **SHARED},
    "complex128": {"aligned": LANE, "shifted 1": LANE + 1, "random": None, **SHARED},
}
#: The counters of the scans. Few passes collect them.
METRICS = (
    "gpu__time_duration.sum",
    *(
        f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
        for what, op in (
            ("requests", "ld"),
            ("sectors", "ld"),
            ("requests", "st"),
            ("sectors", "st"),
        )
    ),
    *("l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"),
    *("lts__t_sectors_srcunit_tex.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"),
)


def counted(
    variant: ado.Variant, *args: Any, seconds: float, **options: Any
) -> ado.records.Measurement:
    """Time a variant, and read the counters of the scans."""
    m = ado.measure(variant, *args, seconds=seconds, **options)
    profile = ado.profile(variant, *args, metrics=METRICS, **options)
    return dataclasses.replace(m, profile=profile)


def together(measurements: Iterator[ado.records.Measurement]) -> ado.records.Sweep:
    """Store measurements of different problems as one record."""
    found = tuple(measurements)
    return ado.records.Sweep(
        routine=found[0].routine, measurements=found, machine=ado.machine("cuda")
    )


def numbers(count: int, dtype: str = "float32") -> Any:
    """Random numbers. A small block is repeated, so that large arrays are made quickly."""
    block = np.random.default_rng(7).uniform(-1, 1, min(count, 1 << 20)).astype(dtype)
    return np.resize(block, count)


def strides(seconds: float) -> ado.records.Sweep:
    x, naive = numbers(ELEMENTS), ado.strided_copy["naive"]
    return together(counted(naive, x, stride=n, offset=0, seconds=seconds) for n in STRIDES)


def offsets(seconds: float) -> ado.records.Sweep:
    x, naive = numbers(OFFSET_ELEMENTS), ado.strided_copy["naive"]
    return together(counted(naive, x, stride=1, offset=n, seconds=seconds) for n in OFFSETS)


def pattern_index(lanes: Any) -> tuple[Any, int]:
    """The index of all warps, and the length of x. With None, the index is random.

    Each warp accesses its own elements, which begin at a multiple of 32 elements.
    """
    if lanes is None:
        extent = 512 * WARPS
        return np.random.default_rng(7).integers(0, extent, 32 * WARPS, dtype=np.int32), extent
    each = -(-(int(lanes.max()) + 1) // 32) * 32
    index = each * np.arange(WARPS)[:, None] + lanes
    return index.reshape(-1).astype(np.int32), each * WARPS


def patterns(seconds: float) -> ado.records.Sweep:
    def measured() -> Iterator[ado.records.Measurement]:
        for dtype, lanes_of in PATTERNS.items():
            for name, lanes in lanes_of.items():
                index, extent = pattern_index(lanes)
                m = counted(ado.gather["naive"], numbers(extent, dtype), index, seconds=seconds)
                yield dataclasses.replace(m, context={**m.context, "pattern": name})

    return together(measured())


def ladder(routine: ado.Routine, *args: Any, seconds: float, **options: Any) -> ado.records.Sweep:
    """The variants of a ladder on the GPU with all counters."""
    return ado.sweep(
        routine, *args, device="cuda", counters=True, seconds=seconds, progress=False, **options
    )


def points() -> Any:
    """An array of structures with three numbers each."""
    return numbers(POINTS * 3).reshape(POINTS, 3)


def gathered(width: int, seconds: float) -> ado.records.Sweep:
    """The ladder of gather, with an index that is random within blocks of `width` elements."""
    lane = np.random.default_rng(7).integers(0, width, ELEMENTS, dtype=np.int32)
    index = lane + (np.arange(ELEMENTS, dtype=np.int32) // width) * width
    return ladder(ado.gather, numbers(ELEMENTS), index, seconds=seconds)


RECORDS: dict[str, Callable[[float], ado.records.Sweep]] = {
    "strided_copy-strides": strides,
    "strided_copy-offsets": offsets,
    "gather-patterns": patterns,
    "strided_copy-3": lambda s: ladder(
        ado.strided_copy, numbers(ELEMENTS), stride=3, offset=0, seconds=s
    ),
    "strided_copy-32": lambda s: ladder(
        ado.strided_copy, numbers(ELEMENTS), stride=32, offset=0, seconds=s
    ),
    "gather-random": lambda s: gathered(ELEMENTS, s),
    "gather-neighbours": lambda s: gathered(32, s),
    "component-structures": lambda s: ladder(ado.component, points(), c=1, seconds=s),
    "component-arrays": lambda s: ladder(
        ado.component, np.ascontiguousarray(points().T).T, c=1, seconds=s
    ),
    "branch": lambda s: ladder(ado.branch, numbers(ELEMENTS), seconds=s),
    "instruction_parallelism": lambda s: ladder(
        ado.instruction_parallelism, numbers(ELEMENTS), seconds=s
    ),
}


def record(recorder: Recorder) -> None:
    """Make the chosen records."""
    for name in recorder.names:
        recorder.attempt(name, partial(RECORDS[name], recorder.seconds))


if __name__ == "__main__":
    run(record, __doc__, seconds=0.1, names=list(RECORDS))
