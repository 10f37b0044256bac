"""Figures of the series Analysis-Driven Optimization (R. Crovella, NVIDIA, 2021), part 2."""

from __future__ import annotations

from adokernels.course.published.figure import Published

_DOCUMENT = "ADO series, part 2"
_ADDRESS = (
    "https://developer.nvidia.com/blog/analysis-driven-optimization-analyzing-and-improving-"
    "performance-with-nvidia-nsight-compute-part-2/"
)
_WHITE_PAPER = "NVIDIA Tesla V100 GPU Architecture, white paper WP-08608-001, table 1"

#: The GPU of the document, and the computer around it.
GPU = "V100"


def _figure(
    item: str, variant: str, quantity: str, value: float | str, unit: str = "", *, where: str,
    title: str = "", device: str = GPU,
) -> Published:  # fmt: skip
    return Published(
        document=_DOCUMENT, item=item, quantity=quantity, value=value, unit=unit, device=device,
        variant=variant, source=f"{_DOCUMENT}, {where}, {_ADDRESS}", title=title,
    )  # fmt: skip


def _device(quantity: str, value: float, unit: str = "", *, title: str) -> Published:
    return Published(
        document="white paper", item="A34", quantity=quantity, value=value, unit=unit, device=GPU,
        variant="", source=_WHITE_PAPER, title=title,
    )  # fmt: skip


_ISSUE_SLOTS, _STALL = "rule Issue Slot Utilization", "rule CPI Stall LG Throttle"

FIGURES = (
    # Times
    _figure("A2", "one_block", "seconds", 2.92, "s", where="table 1"),
    _figure("A3", "block_per_set", "seconds", 0.07894, "s", where="output before table 1"),
    _figure("A26", "warp_average", "seconds", 0.021637, "s", where="output before table 2"),
    *(
        _figure(
            "A6", "", "cpu_seconds", seconds, "s", where=f"output before {table}",
            title="the same problem on the CPU, OpenMP", device="Xeon Gold 6130",
        )
        for seconds, table in ((0.554662, "table 1"), (0.539879, "table 2"))
    ),
    # The profile of gpu_version2
    _figure(
        "A11", "block_per_set", "latency_threshold", 0.6, "%", where="bottleneck rule",
        title="share of both peaks below which latency issues are likely",
    ),
    _figure(
        "A12", "block_per_set", "cycles_per_issue", 6.8, "cycles", where=_ISSUE_SLOTS,
        title="cycles between two instructions of a scheduler",
    ),
    _figure("A12", "block_per_set", "active_warps", 16.0, where=_ISSUE_SLOTS),
    _figure("A12", "block_per_set", "eligible_warps", 0.69, where=_ISSUE_SLOTS),
    _figure(
        "A12", "block_per_set", "cycles_without_eligible_warp", "about 30 %", where="figure 2",
        title="cycles in which no warp is eligible",
    ),
    _figure("A14", "block_per_set", "stall_lg_throttle", 82.8, "cycles", where=_STALL),
    _figure("A14", "block_per_set", "warp_latency", 109.1, "cycles", where=_STALL),
    _figure("A18", "block_per_set", "memory_sol", "about 50 %", where="text after figure 4"),
    _figure("A17", "block_per_set", "local_bytes", 0, "B", where="figure 4, memory chart"),
    _figure(
        "A20", "block_per_set", "vector_sectors", 1_073_741_824, where="figure 5",
        title="sectors of the loads of the vectors",
    ),
    _figure(
        "A20", "block_per_set", "ideal_vector_sectors", 134_217_728, where="figure 5",
        title="sectors of the loads of the vectors, ideal",
    ),
    # The profile of gpu_version3
    _figure(
        "A29", "warp_average", "shared_memory_sol", 0.49, "%", where="figure 9, memory chart",
        title="shared memory, of peak",
    ),
    # The machine
    _figure(
        "A34", "", "machine",
        "V100-SXM2-32GB, Intel Xeon Gold 6130 at 2.10 GHz, Ubuntu 18.04.3, CUDA 11.1, driver "
        "455.23.05, GCC 7.5.0",
        where="Summary",
    ),
    _device("multiprocessors", 80, title="multiprocessors"),
    _device("clock", 1.53e9, "Hz", title="boost clock"),
    _device("dram_bandwidth", 900e9, "B/s", title="DRAM bandwidth"),
    _device("l1_capacity", 128 * 1024, "B", title="L1 cache and shared memory per multiprocessor"),
)  # fmt: skip

#: The names of the document for the variants.
NAMES = {
    "one_block": "gpu_version1",
    "block_per_set": "gpu_version2",
    "warp_average": "gpu_version3",
    "warp_shuffle": "gpu_version4",
    "average_then_gemm": "gpu_version5 and cublasSgemm",
}
