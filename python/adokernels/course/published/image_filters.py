"""Figures of the GTC 2015 talk on image filters, measured on a Tesla K40m.

The talk is "CUDA Optimization with NVIDIA Nsight Eclipse Edition". Times are of one kernel on an
image of 2560x1600 pixels; the companion code contains the launch-bounds step, without a time.
"""

from __future__ import annotations

from adokernels.course.published.figure import Published

DOCUMENT = "GTC 2015 talk"
DEVICE = "Tesla K40m"
_TALK = 'GTC 2015, "CUDA Optimization with NVIDIA Nsight Eclipse Edition", slide "{}"'


def _figure(
    item: str,
    quantity: str,
    value: float | str,
    unit: str,
    slide: str,
    variant: str = "",
    title: str = "",
) -> Published:
    return Published(
        document=DOCUMENT,
        item=item,
        quantity=quantity,
        value=value,
        unit=unit,
        device=DEVICE,
        variant=variant,
        source=_TALK.format(slide),
        title=title,
    )


def _ranks(item: str, variant: str, slide: str, **ranks: int) -> tuple[Published, ...]:
    return tuple(
        _figure(item, f"rank_{routine}", rank, "", slide, variant, f"rank of {routine}")
        for routine, rank in ranks.items()
    )


_PRIORITIES = "Identify hotspot"
_TABLE = "More in our companion code"
_L2 = "Looking for more indicators"

#: Time of the Gaussian by variant.
TIMES = (
    _figure("C9", "seconds", 5.233e-3, "s", "7x7 filter kernel", "naive"),
    _figure("C17", "seconds", 1.589e-3, "s", "7x7 filter kernel, flatten the warp", "coalesced"),
    _figure("C26", "seconds", 1.562e-3, "s", "Improved occupancy", "occupancy"),
    _figure("C32", "seconds", 0.911e-3, "s", "Shared memory", "shared"),
    _figure("C38", "seconds", 0.808e-3, "s", "Read-only path", "read_only"),
    _figure("C42", "seconds", 0.481e-3, "s", _TABLE, "separable"),
    _figure("C43", "seconds", 0.415e-3, "s", _TABLE, "two_pixels"),
    _figure("C44", "seconds", 0.403e-3, "s", _TABLE, "wide_shared"),
    _figure("C45", "seconds", 0.363e-3, "s", _TABLE, "float_taps"),
)

#: Ranks of the three kernels in the profiler's priorities, with this variant of the Gaussian.
RANKS = (
    *_ranks("C20", "coalesced", _PRIORITIES, gaussian_blur=100, sobel=28, grayscale=11),
    *_ranks("C29", "occupancy", _PRIORITIES, gaussian_blur=100, sobel=30, grayscale=12),
    *_ranks("C35", "shared", _PRIORITIES, gaussian_blur=100, sobel=52, grayscale=20),
    *_ranks("C41", "read_only", "The result: 6.5x", gaussian_blur=88, sobel=100, grayscale=39),
)

#: What the profiler reported about variants of the Gaussian.
COUNTERS = (
    _figure("C10", "registers", 51, "", "Perform kernel analysis", "naive"),
    _figure("C10", "grid", "320 x 200 blocks", "", "Perform kernel analysis", "naive"),
    _figure("C10", "block", "8 x 8 threads", "", "Perform kernel analysis", "naive"),
    _figure(
        "C14",
        "transactions per request",
        "4 to 5",
        "",
        "Looking for more indicators",
        "naive",
    ),
    _figure("C24", "occupancy", 0.476, "%", _L2, "coalesced"),
    _figure("C24", "theoretical_occupancy", 0.5, "%", _L2, "coalesced", "theoretical occupancy"),
    _figure("C24", "occupancy limiter", "block size", "", _L2, "coalesced"),
    _figure("C26", "occupancy", 0.524, "%", "Improved occupancy", "occupancy"),
    _figure("C30", "L2 reads of L1", 236.713e9, "B/s", _L2, "occupancy"),
    _figure("C30", "DRAM reads", 2.63e9, "B/s", _L2, "occupancy"),
    _figure("C31", "l2_hit_rate", 0.989, "%", "Checking L2 hit rate", "occupancy"),
)

#: Figures that belong to no single variant.
FACTS = (
    _figure("C5", "SM clock", 875e6, "Hz", "Environment"),
    _figure("C5", "memory clock", 3004e6, "Hz", "Environment"),
    _figure("C5", "software", "CUDA 7.0, ECC off", "", "Environment"),
    _figure("C9", "image", "2560 x 1600 pixels", "", "7x7 filter kernel"),
    _figure("C11", "latency-bound below", 0.6, "%", "Identify performance limiter"),
    _figure("C16", "bytes moved by a load of a warp", "512 to 1024 B", "", "A warp view"),
    _figure("C16", "bytes used by a load of a warp", "32 B", "", "A warp view"),
    _figure("C37", "schedulers per multiprocessor", 4, "", "Instruction throughput"),
    _figure("C37", "instructions per cycle of a multiprocessor", 7, "", "Instruction throughput"),
    _figure("C40", "total speed-up", "6.5x", "", "The result: 6.5x"),
)

FIGURES = (*TIMES, *RANKS, *COUNTERS, *FACTS)
