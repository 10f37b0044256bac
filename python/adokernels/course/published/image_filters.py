"""Figures of the GTC 2015 talk on image filters, measured on a Tesla K40m.

The talk is "CUDA Optimization with NVIDIA Nsight Eclipse Edition". Times are of one kernel on an
image of 2560x1600 pixels; the companion code contains the launch-bounds step, without a time.
"""

from __future__ import annotations

from adokernels.course.published.figure import Published

DOCUMENT = "GTC 2015 talk"
DEVICE = "Tesla K40m"
ADDRESS = "https://github.com/chmaruni/nsight-gtc2015"

#: The names of the talk's table for the variants.
NAMES = {
    "naive": "Original version",
    "coalesced": "Better memory accesses",
    "occupancy": "Higher occupancy",
    "shared": "Shared memory",
    "read_only": "Read-only path",
    "separable": "Separable filter",
    "two_pixels": "Process two pixels per thread (memory efficiency + ILP)",
    "wide_shared": "Use 64-bit shared memory (remove bank conflicts)",
    "float_taps": "Use float instead of int (increase instruction throughput)",
    "sliding_window": "Your next idea!!!",
}
#: References on the talk's last slide.
REFERENCES = (
    "Performance Optimization: Programming Guidelines and GPU Architecture Details Behind Them, "
    "GTC 2013, session S3466",
    "CUDA C++ Programming Guide, Best Practices Guide and tuning guides, docs.nvidia.com/cuda",
    "Parallel Forall, today NVIDIA Technical Blog, developer.nvidia.com/blog",
    "Vasily Volkov: Better Performance at Lower Occupancy, GTC 2010, session 2238",
)
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
_LIMITER = "Identify performance limiter"
_INDICATORS = "Looking for indicators"
_LATENCY = "instruction and memory latency"
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
    _figure("C10", "shared memory per block", "0 B", "", "Perform kernel analysis", "naive"),
    _figure("C11", "limiter", _LATENCY, "", _LIMITER, "naive"),
    _figure("C13", "indicator", "memory operations stall the LSU", "", _INDICATORS, "naive"),
    _figure(
        "C14",
        "transactions per request",
        "4 to 5",
        "",
        "Looking for more indicators",
        "naive",
    ),
    _figure("C21", "limiter", _LATENCY, "", _LIMITER, "coalesced"),
    _figure("C22", "indicator", "execution dependency", "", _INDICATORS, "coalesced"),
    _figure("C24", "grid", "80 x 800 blocks", "", _L2, "coalesced"),
    _figure("C24", "block", "32 x 2 threads", "", _L2, "coalesced"),
    _figure("C24", "registers", 51, "", _L2, "coalesced"),
    _figure("C24", "occupancy", 0.476, "%", _L2, "coalesced"),
    _figure("C24", "theoretical_occupancy", 0.5, "%", _L2, "coalesced", "theoretical occupancy"),
    _figure("C24", "occupancy limiter", "block size", "", _L2, "coalesced"),
    _figure("C26", "occupancy", 0.524, "%", "Improved occupancy", "occupancy"),
    _figure("C26", "block", "32 x 4 threads", "", "Improved occupancy", "occupancy"),
    _figure("C21", "limiter", _LATENCY, "", _LIMITER, "occupancy"),
    _figure("C22", "indicator", "execution dependency", "", _INDICATORS, "occupancy"),
    # Without an L1 cache for global loads, L2 serves all of their sectors.
    _figure("C30", "load_sectors", 11_568_392, "", _L2, "occupancy"),
    _figure("C30", "store_sectors", 128_000, "", _L2, "occupancy"),
    _figure("C30", "DRAM read transactions", 128_545, "", _L2, "occupancy"),
    _figure("C30", "DRAM write transactions", 128_002, "", _L2, "occupancy"),
    _figure("C30", "L2 reads of L1", 236.713e9, "B/s", _L2, "occupancy"),
    _figure("C30", "DRAM reads", 2.63e9, "B/s", _L2, "occupancy"),
    _figure("C31", "l2_hit_rate", 0.989, "%", "Checking L2 hit rate", "occupancy"),
    _figure("C36", "indicator", "the load/store unit is busy", "", _L2, "shared"),
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
    _figure("C37", "instructions per cycle of a scheduler", 2, "", "Instruction throughput"),
    _figure("C37", "schedulers per multiprocessor", 4, "", "Instruction throughput"),
    _figure("C37", "instructions per cycle of a multiprocessor", 7, "", "Instruction throughput"),
    _figure("C40", "total speed-up", "6.5x", "", "The result: 6.5x"),
)


def _limit(item: str, quantity: str, value: int, device: str, title: str = "") -> Published:
    return Published(
        document="CUDA C++ Programming Guide",
        item=item,
        quantity=quantity,
        value=value,
        unit="",
        device=f"compute capability {device}",
        variant="",
        source="CUDA C++ Programming Guide, technical specifications and arithmetic throughput per "
        "compute capability",
        title=title,
    )


#: Limits per multiprocessor: of the talk's GPU (3.5), and of an H200 (9.0).
LIMITS = (
    *(
        _limit("C24", "resident_blocks", count, device, "resident blocks per multiprocessor")
        for device, count in (("3.5", 16), ("9.0", 32))
    ),
    *(
        _limit("C24", "resident_warps", 64, device, "resident warps per multiprocessor")
        for device in ("3.5", "9.0")
    ),
    *(
        _limit("C24", "register_file", 65536, device, "registers per multiprocessor")
        for device in ("3.5", "9.0")
    ),
    *(
        _limit("C24", "register_unit", 256, device, "registers that are allocated at a time")
        for device in ("3.5", "9.0")
    ),
    *(
        _limit("C45", "float_results", count, device, "float32 results per cycle")
        for device, count in (("3.5", 192), ("9.0", 128))
    ),
    *(
        _limit("C45", "multiply_results", count, device, "int32 products per cycle")
        for device, count in (("3.5", 32), ("9.0", 64))
    ),
    *(
        _limit("C44", "bank_bytes", count, device, "largest width of a bank in bytes")
        for device, count in (("3.5", 8), ("9.0", 4))
    ),
)

FIGURES = (*TIMES, *RANKS, *COUNTERS, *FACTS, *LIMITS)
