"""Figures of the series Analysis-Driven Optimization (R. Crovella, NVIDIA, 2021), part 2 (A).

https://developer.nvidia.com/blog/analysis-driven-optimization-analyzing-and-improving-performance-with-nvidia-nsight-compute-part-2/
"""

from __future__ import annotations

from adokernels.course.published.figure import Published

DOCUMENT = "ADO series, part 2"
DEVICE = "V100"
_CPU = "Xeon Gold 6130"
_WHITE_PAPER = "NVIDIA Tesla V100 GPU Architecture, white paper WP-08608-001"
_CLOCK = "https://cvw.cac.cornell.edu/gpu-architecture/gpu-example-tesla-v100/tesla"
_ISSUE_SLOTS, _STALL = "rule Issue Slot Utilization", "rule CPI Stall LG Throttle"

#: The names of the document for the variants.
NAMES = {
    "one_block": "gpu_version1",
    "block_per_set": "gpu_version2",
    "warp_average": "gpu_version3",
    "warp_shuffle": "gpu_version4",
    "average_then_gemm": "gpu_version5 and cublasSgemm",
}


def _figure(
    item: str,
    variant: str,
    quantity: str,
    value: float | str,
    unit: str = "",
    *,
    where: str,
    title: str = "",
    device: str = DEVICE,
) -> Published:
    return Published(
        document=DOCUMENT,
        item=item,
        quantity=quantity,
        value=value,
        unit=unit,
        device=device,
        variant=variant,
        source=f"{DOCUMENT}, {where}",
        title=title,
    )


def _of_gpu(
    quantity: str, value: float, unit: str, title: str, source: str = _WHITE_PAPER
) -> Published:
    return Published(
        document="description of the GPU",
        item="A34",
        quantity=quantity,
        value=value,
        unit=unit,
        device=DEVICE,
        variant="",
        source=source,
        title=title,
    )


def _of_machine(quantity: str, value: str, title: str) -> Published:
    return _figure("A34", "", quantity, value, where="summary", title=title)


_TIMES = (
    _figure("A2", "one_block", "seconds", 2.92, "s", where="table 1"),
    _figure("A3", "block_per_set", "seconds", 0.07894, "s", where="output above table 1"),
    _figure("A26", "warp_average", "seconds", 0.021637, "s", where="output above table 2"),
    *(
        _figure(
            "A6",
            "",
            "cpu_seconds",
            seconds,
            "s",
            where=f"output above {table}",
            title="the same problem on the CPU, OpenMP",
            device=_CPU,
        )
        for seconds, table in ((0.554662, "table 1"), (0.539879, "table 2"))
    ),
)

_PROFILE_OF_VERSION_2 = (
    _figure(
        "A11",
        "block_per_set",
        "bottleneck_rule",
        "low compute throughput and memory bandwidth utilization: latency issues",
        where="bottleneck rule",
        title="rule of the section speed of light",
    ),
    _figure(
        "A11",
        "",
        "latency_threshold",
        0.6,
        "%",
        where="bottleneck rule",
        title="share of both peaks below which latency issues are likely",
    ),
    _figure(
        "A12",
        "block_per_set",
        "cycles_per_issue",
        6.8,
        "cycles",
        where=_ISSUE_SLOTS,
        title="cycles between two instructions of a scheduler",
    ),
    _figure("A12", "block_per_set", "active_warps", 16.0, where=_ISSUE_SLOTS),
    _figure("A12", "block_per_set", "eligible_warps", 0.69, where=_ISSUE_SLOTS),
    _figure(
        "A12",
        "block_per_set",
        "cycles_without_eligible_warp",
        "about 30 %",
        where="text below the rule Issue Slot Utilization",
        title="cycles in which no warp is eligible",
    ),
    _figure("A14", "block_per_set", "stall_lg_throttle", 82.8, "cycles", where=_STALL),
    _figure("A14", "block_per_set", "warp_latency", 109.1, "cycles", where=_STALL),
    _figure("A17", "block_per_set", "local_bytes", 0, "B", where="figure 4"),
    _figure("A18", "block_per_set", "memory_sol", "about 50 %", where="text below figure 4"),
    _figure("A19", "block_per_set", "hot_line", "line 81", where="figure 5", title="line"),
    _figure(
        "A20",
        "block_per_set",
        "vector_sectors",
        1_073_741_824,
        where="figure 5",
        title="sectors of the loads of the vectors",
    ),
    _figure(
        "A20",
        "block_per_set",
        "ideal_vector_sectors",
        134_217_728,
        where="figure 5",
        title="sectors of the loads of the vectors, ideal",
    ),
)

_PROFILE_OF_VERSION_3 = (
    _figure(
        "A27",
        "warp_average",
        "bottleneck_rule",
        "compute is more heavily utilized than memory",
        where="bottleneck rule",
        title="rule of the section speed of light",
    ),
    _figure("A28", "warp_average", "busiest_pipe", "LSU", where="figure 8", title="busiest pipe"),
    _figure(
        "A29",
        "warp_average",
        "shared_memory_sol",
        0.49,
        "%",
        where="figure 9",
        title="shared memory, of peak",
    ),
    _figure("A31", "warp_average", "hot_line", "line 114", where="figure 10", title="line"),
)

_MACHINE = (
    _of_machine("gpu", "V100-SXM2-32GB", "GPU"),
    _of_machine("cpu", "Intel Xeon Gold 6130 at 2.10 GHz", "CPU"),
    _of_machine("system", "Ubuntu 18.04.3", "operating system"),
    _of_machine("cuda", "11.1", "CUDA"),
    _of_machine("driver", "455.23.05", "driver"),
    _of_machine("compiler", "GCC 7.5.0", "host compiler"),
    _of_gpu("multiprocessors", 80, "", "multiprocessors"),
    _of_gpu("clock", 1.53e9, "Hz", "boost clock", _CLOCK),
    _of_gpu("dram_bandwidth", 900e9, "B/s", "DRAM bandwidth"),
    _of_gpu("l1_capacity", 128 * 1024, "B", "L1 cache and shared memory per multiprocessor"),
)

FIGURES: tuple[Published, ...] = (
    *_TIMES,
    *_PROFILE_OF_VERSION_2,
    *_PROFILE_OF_VERSION_3,
    *_MACHINE,
)
