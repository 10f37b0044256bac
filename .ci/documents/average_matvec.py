"""Items of "Analysis-Driven Optimization", part 2."""

from __future__ import annotations

from documents.row import Document, Row

ROWS = (
    Row(
        "A1",
        "The loop: profile, find the limiter, change the code, repeat.",
        (
            "03: The loop and its tools",
            "ado.diagnose",
            "docs/diagnosis.md",
        ),
    ),
    Row(
        "A2",
        "Version 1: one block computes all sets.",
        (
            "03: Baseline: one block (gpu_version1)",
            "average_matvec[one_block]",
        ),
        ("one_block.seconds",),
    ),
    Row(
        "A3",
        "Version 2: one block per set.",
        ("03: The change: one block per set (gpu_version2)", "average_matvec[block_per_set]"),
        (
            "block_per_set.seconds",
            "one_block > block_per_set",
            "course/average_matvec-plain: plain_block_per_set.seconds",
        ),
    ),
    Row(
        "A4",
        "Listings of the kernels.",
        (
            "03: The change: one block per set (gpu_version2)",
            "03: The change: one warp per element (gpu_version3)",
            "ado.Variant.source",
            "ado.Variant.diff",
        ),
        note="The kernels here are newly written. The differences between two variants are shown.",
    ),
    Row(
        "A5",
        "Fewer sets for profiling, because the profiler slows the kernel down.",
        (
            "03: Profile a smaller problem",
            "ado.profile",
            "adokernels profile --shape",
        ),
        note="The notebook checks which counters depend on the number of sets.",
    ),
    Row(
        "A6",
        "Time of the CPU version.",
        ("03: The CPU of the series",),
        note="The CPU ladder is measured live, on the machine of the reader.",
    ),
    Row(
        "A7",
        "Table of the times after step 1.",
        ("03: The change: one block per set (gpu_version2)",),
        ("one_block > block_per_set",),
        with_items=("A2", "A3"),
    ),
    Row(
        "A8",
        "How to start the profiler and collect a report.",
        (
            "adokernels profile --ncu",
            "03: The loop and its tools",
            "ado.profile",
            "adokernels profile",
        ),
        note="One call replaces the steps in the user interface.",
    ),
    Row(
        "A9",
        "Comparison of a profile with a baseline.",
        (
            "03: Baseline comparison",
            "ado.Profile.compare",
            "course.figures",
        ),
    ),
    Row(
        "A10",
        "The speed-of-light section.",
        (
            "03: Speed of light and the 60 % rule",
            "ado.speed_of_light",
            "course.speed_of_light_table",
        ),
        (
            "block_per_set.compute_sol",
            "block_per_set.memory_sol",
            "course/average_matvec-plain_block_per_set: compute_sol",
            "course/average_matvec-plain_block_per_set: memory_sol",
        ),
    ),
    Row(
        "A11",
        "The rule: throughput below 60 % indicates a latency-bound kernel.",
        (
            "03: Speed of light and the 60 % rule",
            "ado.limiter",
            "docs/diagnosis.md",
            "card coalescing_latency",
        ),
        ("block_per_set.limiter",),
        note="On an H200, version 2 is not latency-bound.",
    ),
    Row(
        "A12",
        "Scheduler statistics: cycles per issued instruction, active and eligible warps.",
        (
            "03: Scheduler statistics: issue slots and eligible warps",
            "course.figures",
            "ado.warp_states",
        ),
        (
            "course/average_matvec-plain_block_per_set: cycles_per_issue",
            "course/average_matvec-plain_block_per_set: active_warps",
            "course/average_matvec-plain_block_per_set: eligible_warps",
        ),
    ),
    Row(
        "A13",
        "The rule about unused issue slots.",
        (
            "03: Scheduler statistics: issue slots and eligible warps",
            "ado.limiter",
            "docs/diagnosis.md",
        ),
        ("course/average_matvec-plain_block_per_set: issue_active",),
        with_items=("A12",),
    ),
    Row(
        "A14",
        "Stall reasons: the queue of the load/store unit is full (LG throttle).",
        ("03: Warp states: the stall LG throttle", "ado.warp_states", "course.figures"),
        (
            "course/average_matvec-plain_block_per_set: stall_lg_throttle",
            "course/average_matvec-plain_block_per_set: warp_latency",
            "course/average_matvec-plain_block_per_set: dominant_stall",
            "block_per_set.dominant_stall",
        ),
        note="On an H200, another reason dominates.",
    ),
    Row(
        "A15",
        "What this stall means, and which code causes it.",
        ("03: Warp states: the stall LG throttle", "ado.hotspots"),
        ("course/average_matvec-plain_block_per_set-hotspots: hottest",),
    ),
    Row(
        "A16",
        "Advice: combine narrow accesses into wide ones.",
        (
            "03: Step 5: wide loads",
            "average_matvec[wide_average]",
            "card coalescing_bandwidth",
        ),
        ("average_then_gemm > wide_average", "wide_average.load_sectors_per_request"),
    ),
    Row(
        "A17",
        "The memory chart: all accesses are global, none are local.",
        ("03: The memory chart", "ado.memory_chart"),
        ("course/average_matvec-plain_block_per_set: local_bytes",),
    ),
    Row(
        "A18",
        "The load/store unit is full, memory is half used: too many transactions per request.",
        ("03: The memory chart", "ado.memory_chart", "card coalescing_bandwidth"),
        (
            "course/average_matvec-plain_block_per_set: load_sectors_per_request",
            "course/average_matvec-plain_block_per_set: memory_sol",
        ),
        note="Loads of the matrix are included, so the mean is below that of the averages.",
    ),
    Row(
        "A19",
        "The source page, which needs -lineinfo.",
        (
            "adokernels profile --ncu",
            "03: The source page: which line is it?",
            "ado.hotspots",
            "ado.Variant.source",
        ),
        ("course/average_matvec-plain_block_per_set-hotspots: hottest",),
        note="The line with LG throttle adds the values of the vectors.",
    ),
    Row(
        "A20",
        "Ideal and actual number of sectors of the line that loads the vectors.",
        ("03: Sectors per request: 8 to 1, and 1 to 1", "ado.memory_chart", "ado.hotspots"),
        (
            "block_per_set.load_sectors",
            "block_per_set.ideal_load_sectors",
            "course/average_matvec-plain_block_per_set: load_sectors",
        ),
        note="Our counters are those of the kernel, including its loads of the matrix.",
    ),
    Row(
        "A21",
        "The rule about uncoalesced accesses.",
        (
            "03: Sectors per request: 8 to 1, and 1 to 1",
            "ado.diagnose",
            "card coalescing_bandwidth",
        ),
        ("block_per_set.next_step",),
    ),
    Row(
        "A22",
        "The line that loads the matrix is coalesced.",
        (
            "03: Sectors per request: 8 to 1, and 1 to 1",
            "average_matvec[warp_average]",
            "ado.memory_chart",
        ),
        (
            "warp_average.load_sectors",
            "warp_average.ideal_load_sectors",
            "course/average_matvec-plain_warp_average: load_sectors",
        ),
    ),
    Row(
        "A23",
        "Version 3: one warp averages an element, so that its lanes read neighbours.",
        (
            "03: The change: one warp per element (gpu_version3)",
            "03: Why this gain differs, too",
            "average_matvec[warp_average]",
        ),
        (
            "course/average_matvec-plain: plain_warp_average.seconds",
            "course/average_matvec-plain: plain_block_per_set > plain_warp_average",
            "block_per_set > warp_average",
        ),
        note="The notebook explains why the gain is smaller.",
        with_items=("A26",),
    ),
    Row(
        "A24",
        "Loops with the stride of a warp, of a block and of the grid.",
        (
            "03: The change: one warp per element (gpu_version3)",
            "average_matvec[warp_average]",
        ),
    ),
    Row(
        "A25",
        "Reduction by warp shuffles.",
        (
            "03: The change: one warp per element (gpu_version3)",
            "average_matvec[warp_average]",
            "average_matvec[warp_shuffle]",
        ),
    ),
    Row(
        "A26",
        "Table of the times after step 2.",
        ("03: Published and measured",),
        (
            "one_block > block_per_set",
            "block_per_set > warp_average",
            "course/average_matvec-plain: plain_block_per_set.seconds",
            "course/average_matvec-plain: plain_warp_average.seconds",
            "course/average_matvec-plain: plain_block_per_set > plain_warp_average",
        ),
        with_items=("A2", "A3", "A23"),
    ),
    Row(
        "A27",
        "The rule: compute is more heavily utilised than memory.",
        ("03: Which pipe is the busiest?", "ado.limiter", "ado.speed_of_light"),
        (
            "warp_average.compute_sol",
            "warp_average.memory_sol",
            "warp_average.limiter",
            "course/average_matvec-plain_warp_average: compute_sol",
            "course/average_matvec-plain_warp_average: memory_sol",
        ),
    ),
    Row(
        "A28",
        "The LSU pipe is the busiest pipe.",
        ("03: Which pipe is the busiest?", "ado.speed_of_light", "ado.profile"),
        ("warp_average.pipe_lsu", "course/average_matvec-plain_warp_average: pipe_lsu"),
    ),
    Row(
        "A29",
        "Shared memory has the highest utilisation of the memory chart.",
        ("03: Shared memory and idle warps", "ado.memory_chart"),
        ("warp_average.l1_sol", "course/average_matvec-plain_warp_average: l1_sol"),
        note="On an H200, L1 and shared memory are one unit; the figure is that of the unit.",
    ),
    Row(
        "A30",
        "The reduction in shared memory leaves whole warps idle.",
        ("03: Shared memory and idle warps", "average_matvec[warp_shuffle]"),
        (
            "warp_average > warp_shuffle",
            "warp_average.stall_barrier",
            "course/average_matvec-plain: plain_warp_average > plain_warp_shuffle",
            "course/average_matvec-plain_warp_average: stall_barrier",
        ),
    ),
    Row(
        "A31",
        "Sampling of warp states finds the line of the reduction.",
        ("03: The hot line", "ado.hotspots"),
        ("course/average_matvec-plain_warp_average-hotspots: hottest",),
    ),
    Row(
        "A32",
        "Part 3: shuffles in the product, then a separate matrix product by cuBLAS.",
        (
            "03: The change: shuffles in two stages (gpu_version4)",
            "03: The change: averages and GEMM (gpu_version5)",
            "average_matvec[warp_shuffle]",
            "average_matvec[average_then_gemm]",
        ),
        (
            "warp_average > warp_shuffle",
            "warp_shuffle > average_then_gemm",
            "course/average_matvec-plain: plain_warp_average > plain_warp_shuffle",
        ),
    ),
    Row(
        "A33",
        "When to stop: compare with an independent measurement of the limit.",
        (
            "03: When to stop",
            "average_matvec[read]",
        ),
        ("read.seconds", "overlapped.seconds"),
    ),
    Row(
        "A34",
        "Description of the machine.",
        (
            "03: The machines",
            "ado.machine",
            "adokernels info",
        ),
        note="Every stored measurement contains the device, driver, compiler and settings.",
    ),
    Row(
        "A35",
        "Verification of the results.",
        (
            "03: Verification",
            "03: Accuracy: sums of many values",
            "ado.check",
        ),
    ),
)

DOCUMENT = Document(
    letter="A",
    count=35,
    title="Analysis-Driven Optimization, part 2",
    address=(
        "https://developer.nvidia.com/blog/analysis-driven-optimization-analyzing-and-improving-"
        "performance-with-nvidia-nsight-compute-part-2/"
    ),
    stored="average_matvec-1024",
    rows=ROWS,
    remark=(
        "Its variants compensate the rounding of sums. Records named `plain` are"
        " those of the same kernels with plain sums, as in the series (03: Controls: plain sums)."
    ),
)
