"""Figures of two posts on memory access, for a kernel of a financial application on an A100.

The posts are "Boosting Application Performance with GPU Memory Access Tuning" and, before it,
"Boosting Application Performance with GPU Memory Prefetching" (NVIDIA Technical Blog, 2022). The
source and the sizes of the kernel are not public, so only ratios to its baseline are known. The
variants of this package follow the examples that the posts print.
"""

from __future__ import annotations

from adokernels.course.published.figure import Published

TUNING, PREFETCHING = "tuning post", "prefetching post"
DEVICE = "A100"
_ADDRESSES = {
    TUNING: "https://developer.nvidia.com/blog/"
    "boosting-application-performance-with-gpu-memory-access-tuning/",
    PREFETCHING: "https://developer.nvidia.com/blog/"
    "boosting-application-performance-with-gpu-memory-prefetching/",
}


def _figure(
    item: str,
    quantity: str,
    value: float | str,
    place: str,
    variant: str = "",
    title: str = "",
    document: str = TUNING,
) -> Published:
    return Published(
        document=document,
        item=item,
        quantity=quantity,
        value=value,
        unit="",
        device=DEVICE,
        variant=variant,
        source=f"{place}, {_ADDRESSES[document]}",
        title=title,
    )


_FIRST, _SECOND, _THIRD = "first step", "second step", "third step"

#: Speed-ups relative to `one_block`. Wide loads of the small array alone are not given.
SPEEDUPS = (
    _figure("D10", "speedup", 1.63, "figure 1", "vector_load_both"),
    _figure("D10", "speedup", 1.64, _THIRD, "vector_load_both", "speed-up, given again"),
    _figure("D22", "speedup", 1.77, _THIRD, "one_block_bounded"),
    _figure("D22", "speedup", 1.76, _THIRD, "vector_load_both_bounded"),
    _figure("D23", "speedup", 1.79, _THIRD, "two_blocks"),
)

#: Registers per thread.
REGISTERS = (
    _figure("D18", "registers", 40, _THIRD, "one_block"),
    _figure("D18", "registers", 36, _THIRD, "vector_load_small"),
    _figure("D18", "registers", 44, _THIRD, "vector_load_both"),
    _figure("D20", "unused_registers", 24, _THIRD, "one_block", "registers left unused"),
    _figure("D20", "unused_registers", 28, _THIRD, "vector_load_small", "registers left unused"),
    _figure("D20", "unused_registers", 20, _THIRD, "vector_load_both", "registers left unused"),
    _figure("D21", "registers", 63, _THIRD, "one_block_bounded"),
    _figure("D21", "registers", 56, _THIRD, "vector_load_small_bounded"),
    _figure("D21", "registers", 64, _THIRD, "vector_load_both_bounded"),
)

#: Latencies of memory that one iteration of the inner loop exposes.
LATENCIES = (
    _figure("D16", "exposed_latencies", 8, _SECOND, "one_block"),
    _figure("D16", "exposed_latencies", 6, _SECOND, "vector_load_small"),
    _figure("D16", "exposed_latencies", 3, _SECOND, "vector_load_both"),
)

#: Other figures.
FACTS = (
    _figure("D1", "max_warps", 64, "context", title="warps that fit on a multiprocessor"),
    _figure("D1", "multiprocessors", 108, "context"),
    _figure("D11", "sectors_per_wide_load", 16, _SECOND, title="sectors of a load of 16 bytes"),
    _figure("D11", "sectors_per_load", 8, _SECOND, title="sectors of a load of 8 bytes"),
    _figure("D12", "registers_at_full_occupancy", 32, _SECOND),
    _figure(
        "D26",
        "dominant_stall",
        "long scoreboard",
        "first section",
        "whole_device",
        document=PREFETCHING,
    ),
    _figure(
        "D25",
        "gain_of_prefetching",
        "nearly 60 %",
        "text before the conclusion",
        title="gain of the best way to prefetch",
        document=PREFETCHING,
    ),
)

FIGURES = (*SPEEDUPS, *REGISTERS, *LATENCIES, *FACTS)
