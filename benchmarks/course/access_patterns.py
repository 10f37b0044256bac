"""Records the data of notebooks/06_access_patterns.ipynb on a GPU with readable counters.

* strided_copy-strides.json, strided_copy-offsets.json: the naive kernel for several strides and
  offsets, with the counters of sectors and DRAM. The stored records have all strides from 1 to 32
  and all offsets from 0 to 33; the chart draws the strides and offsets of its record.
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
#: Values near the ends of sectors (8 elements) and of 64-byte pieces of DRAM (16 elements).
STRIDES, OFFSETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (0, 1, 4, 7, 8, 9, 16, 24, 32, 33)
#: Warps of the kernels with a named pattern.
WARPS = 1 << 17
#: Patterns by element type: the index of each lane, relative to the first element of its warp.
LANE = np.arange(32)
OF_4_BYTES: dict[str, Any] = {
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
OTHERS = {name: lanes for name, lanes in OF_4_BYTES.items() if not name.startswith("stride")}
PATTERNS = {"float32": OF_4_BYTES, "float64": OTHERS, "complex128": OTHERS}
#: The counters of the scans. Few passes collect them.
METRICS = (
    "gpu__time_duration.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sector_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
    "lts__t_sectors_srcunit_tex.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
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
    """Random numbers. A small block is repeated to make large arrays quickly."""
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


def points() -> Any:
    """An array of structures with three numbers each."""
    return numbers(POINTS * 3).reshape(POINTS, 3)


def index(width: int) -> Any:
    """An index that is random within blocks of `width` elements."""
    lane = np.random.default_rng(7).integers(0, width, ELEMENTS, dtype=np.int32)
    return lane + (np.arange(ELEMENTS, dtype=np.int32) // width) * width


SCANS = {
    "strided_copy-strides": strides,
    "strided_copy-offsets": offsets,
    "gather-patterns": patterns,
}
#: The routine, a function that makes its operands, and the options of each ladder.
LADDERS: dict[str, tuple[ado.Routine, Callable[[], list[Any]], dict[str, Any]]] = {
    "strided_copy-3": (ado.strided_copy, lambda: [numbers(ELEMENTS)], {"stride": 3, "offset": 0}),
    "strided_copy-32": (ado.strided_copy, lambda: [numbers(ELEMENTS)], {"stride": 32, "offset": 0}),
    "gather-random": (ado.gather, lambda: [numbers(ELEMENTS), index(ELEMENTS)], {}),
    "gather-neighbours": (ado.gather, lambda: [numbers(ELEMENTS), index(32)], {}),
    "component-structures": (ado.component, lambda: [points()], {"c": 1}),
    "component-arrays": (ado.component, lambda: [np.ascontiguousarray(points().T).T], {"c": 1}),
    "branch": (ado.branch, lambda: [numbers(ELEMENTS)], {}),
    "instruction_parallelism": (ado.instruction_parallelism, lambda: [numbers(ELEMENTS)], {}),
}


def ladder(name: str, seconds: float) -> ado.records.Sweep:
    """The variants of a ladder on the GPU with all counters."""
    routine, operands, options = LADDERS[name]
    return ado.sweep(
        routine, *operands(), device="cuda", counters=True, seconds=10 * seconds, progress=False,
        **options,
    )  # fmt: skip


def record(recorder: Recorder) -> None:
    """Make the chosen records."""
    for name in recorder.names:
        recorder.attempt(name, partial(SCANS.get(name, partial(ladder, name)), recorder.seconds))


if __name__ == "__main__":
    run(record, __doc__, seconds=0.1, names=[*SCANS, *LADDERS])
