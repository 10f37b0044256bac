"""Records the data of notebooks/06_access_patterns.ipynb on a GPU with readable counters.

* strided_copy-strides, strided_copy-offsets: the naive kernel for several strides and
  offsets, with the counters of sectors and DRAM.
* gather-patterns: the naive kernel with the index of each access pattern, for elements of 4, 8
  and 16 bytes. The context of a measurement names its pattern.
* strided_copy-3, strided_copy-32, gather-random, gather-neighbours,
  component-structures, component-arrays, branch, instruction_parallelism: the
  ladders with all counters.

    python benchmarks/course/access_patterns.py FOLDER [--only NAME ...]
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from recording import run

import adokernels as ado

ELEMENTS = 64 << 20
OFFSET_ELEMENTS = POINTS = 16 << 20
#: Values near the ends of sectors (8 elements) and of 64-byte pieces of DRAM (16 elements).
STRIDES, OFFSETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (0, 1, 4, 7, 8, 9, 16, 24, 32, 33)
#: Warps of the kernels with a named pattern.
WARPS = 1 << 17
#: Patterns: the index of each lane, relative to the first element of its warp.
LANE = np.arange(32)
PATTERNS: dict[str, Any] = {
    "aligned": LANE,
    "shifted 1": LANE + 1,
    "stride 2": 2 * LANE,
    "stride 3": 3 * LANE,
    "stride 32": 32 * LANE,
    "random": None,
    "same word": 0 * LANE,
    "two lanes per word": LANE // 2,
    "16 words twice": LANE % 16,
}
#: The counters of the scans. Few passes collect them.
METRICS = (
    "gpu__time_duration.sum",
    *(
        f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
        for op in ("ld", "st")
        for what in ("requests", "sectors")
    ),
    *("l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"),
    *("lts__t_sectors_srcunit_tex.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"),
)


def counted(variant: ado.Variant, *args: Any, **options: Any) -> ado.records.Measurement:
    """Time a variant, and read the counters of the scans."""
    m = ado.measure(variant, *args, seconds=0.1, **options)
    return dataclasses.replace(m, profile=ado.profile(variant, *args, metrics=METRICS, **options))


def together(found: Iterable[ado.records.Measurement]) -> ado.records.Sweep:
    """Store measurements of different problems as one record."""
    measured = tuple(found)
    machine = ado.machine("cuda")
    return ado.records.Sweep(routine=measured[0].routine, measurements=measured, machine=machine)


def numbers(count: int, dtype: str = "float32") -> Any:
    """Random numbers. A small block is repeated to make large arrays quickly."""
    block = np.random.default_rng(7).uniform(-1, 1, min(count, 1 << 20)).astype(dtype)
    return np.resize(block, count)


def strided(elements: int, strides: Iterable[int], offsets: Iterable[int]) -> ado.records.Sweep:
    """Measure the naive kernel for all strides and offsets."""
    x, naive = numbers(elements), ado.strided_copy["naive"]
    pairs = itertools.product(strides, offsets)
    return together(counted(naive, x, stride=stride, offset=offset) for stride, offset in pairs)


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


def patterns() -> Iterator[ado.records.Measurement]:
    for dtype in ("float32", "float64", "complex128"):
        for name, lanes in PATTERNS.items():
            if dtype == "float32" or not name.startswith("stride"):
                index, extent = pattern_index(lanes)
                m = counted(ado.gather["naive"], numbers(extent, dtype), index)
                yield dataclasses.replace(m, context={**m.context, "pattern": name})


def points() -> Any:
    """An array of structures with three numbers each."""
    return numbers(POINTS * 3).reshape(POINTS, 3)


def index(width: int) -> Any:
    """An index that is random within blocks of `width` elements."""
    lane = np.random.default_rng(7).integers(0, width, ELEMENTS, dtype=np.int32)
    return lane + (np.arange(ELEMENTS, dtype=np.int32) // width) * width


def ladder(
    routine: ado.Routine, operands: Callable[[], list[Any]], **options: Any
) -> ado.records.Sweep:
    """The variants of a ladder on the GPU with all counters."""
    settings = {"device": "cuda", "counters": True, "seconds": 1, "progress": False}
    return ado.sweep(routine, *operands(), **settings, **options)


RECORDS: dict[str, Callable[[], Any]] = {
    "strided_copy-strides": partial(strided, ELEMENTS, STRIDES, [0]),
    "strided_copy-offsets": partial(strided, OFFSET_ELEMENTS, [1], OFFSETS),
    "gather-patterns": lambda: together(patterns()),
    **{
        f"strided_copy-{n}": partial(
            ladder, ado.strided_copy, lambda: [numbers(ELEMENTS)], stride=n, offset=0
        )
        for n in (3, 32)
    },
    "gather-random": partial(ladder, ado.gather, lambda: [numbers(ELEMENTS), index(ELEMENTS)]),
    "gather-neighbours": partial(ladder, ado.gather, lambda: [numbers(ELEMENTS), index(32)]),
    "component-structures": partial(ladder, ado.component, lambda: [points()], c=1),
    "component-arrays": partial(
        ladder, ado.component, lambda: [np.ascontiguousarray(points().T).T], c=1
    ),
    **{
        routine.name: partial(ladder, routine, lambda: [numbers(ELEMENTS)])
        for routine in (ado.branch, ado.instruction_parallelism)
    },
}

if __name__ == "__main__":
    run(__doc__, RECORDS.items)
